"""Which pools no pod of a simulation can use: they stay empty whatever happens, which is rarely what is meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stowplan_autoscaling.supply.pools import HOSTNAME_LABEL, MachineType, Offer, Pool
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.quantity import parse_quantity
from stowplan_scheduler.resources import pod_requests
from stowplan_scheduler.selectors import required_node_affinity_matches
from stowplan_scheduler.tolerations import find_untolerated_taint

from .demand import Demand
from .manifests import Manifest


def unusable_pools(pools: Sequence[Pool], objects: Sequence[Manifest], demands: Sequence[Demand]) -> Iterator[str]:
    """A warning for each such pool, with what keeps the first workload off it."""
    if not pools:
        return
    pods = list(_pods(objects, demands))
    if not pods:
        return
    for index, pool in enumerate(pools):
        reasons = [problem_of(pod, pool) for _, pod in pods]
        if all(reasons):
            yield (
                f"spec.nodePools[{index}]: no pod can use {pool.name}: {pods[0][0]} "
                f"{reasons[0]}{f', and {len(pods) - 1} others neither' if len(pods) > 1 else ''}"
            )


def _pods(objects: Sequence[Manifest], demands: Sequence[Demand]) -> Iterator[tuple[str, Pod]]:
    """A pod of each workload. Those of DaemonSets are no reason for a node; what cannot be read is reported before."""
    for manifest in objects:
        if manifest.kind == "Pod":
            yield manifest.described, _pod(manifest.value.get("metadata") or {}, manifest.value.get("spec") or {})
        elif manifest.kind != "DaemonSet":
            spec = manifest.value.get("spec") or {}
            spec = (spec.get("jobTemplate") or {}).get("spec") or spec
            template = spec.get("template") if isinstance(spec, dict) else None
            if isinstance(template, dict) and isinstance(template.get("spec"), dict):
                yield manifest.described, _pod(template.get("metadata") or {}, template["spec"])
    for demand in demands:
        if demand.jobs is not None:
            template = (demand.jobs.template.get("spec") or {}).get("template") or {}
            yield f"a Job of {demand.name}", _pod(template.get("metadata") or {}, template.get("spec") or {})


def _pod(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Pod:
    names = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    return msgspec.convert({"metadata": names, "spec": spec}, Pod)


def problem_of(pod: Pod, pool: Pool) -> str:
    """What keeps the pod off every machine of the pool, after its last change; "" if one takes it, after any change."""
    problem = ""
    for each in (pool, *(after for _, after in pool.changes)):
        problem = _problem(pod, each)
        if not problem:
            return ""
    return problem


def _problem(pod: Pod, pool: Pool) -> str:
    taint = find_untolerated_taint(pool.taints, pod.spec.tolerations)
    if taint is not None:
        return f"does not tolerate {taint.key}={taint.value}:{taint.effect}"
    problem = ""
    for machine in pool.types:
        for offer in machine.offers:
            problem = _misfit(pod, pool, machine, offer)
            if not problem:
                return ""
    return problem


def _misfit(pod: Pod, pool: Pool, machine: MachineType, offer: Offer) -> str:
    labels = {**pool.labels(machine, offer), HOSTNAME_LABEL: pool.name}
    affinity = None if pod.spec.affinity is None else pod.spec.affinity.node_affinity
    if not required_node_affinity_matches(pod.spec.node_selector, affinity, labels, pool.name):
        return "asks for other labels of nodes"
    for name, amount in pod_requests(pod, use_status=False, pod_level=True).items():
        if amount > parse_quantity(machine.allocatable.get(name, 0)):
            return f"requests more {name} than {machine.name} has"
    return ""
