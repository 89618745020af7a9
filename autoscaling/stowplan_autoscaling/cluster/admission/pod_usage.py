"""What a pod counts for in quotas: amounts, scopes, and what a quota demands of it.

Pods of one template share the parts of their spec, and everything here is worked out once per template. Follows
pkg/quota/v1/evaluator/core/pods.go and pkg/apis/core/v1/helper/qos of Kubernetes v1.37.2; of in-place resizing only the
requests are followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from stowplan_autoscaling.cluster.objects.quota import (
    BEST_EFFORT,
    CROSS_NAMESPACE_POD_AFFINITY,
    NOT_BEST_EFFORT,
    NOT_TERMINATING,
    PRIORITY_CLASS,
    TERMINATING,
    ScopeRequirement,
)
from stowplan_autoscaling.cluster.pods import FAILED, SUCCEEDED, ClusterPod
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.names import is_dra_extended_resource, is_hugepage_resource, is_native_resource
from stowplan_scheduler.objects import Container, PodAffinity, PodSpec, ResourceRequirements
from stowplan_scheduler.resources import pod_requests as live_requests
from stowplan_scheduler.selectors import IN, NOT_IN

from .amounts import ONE, ZERO, Amount, Amounts, parse_amounts
from .pod_totals import is_pod_level_set, pod_limits, pod_requests

COUNT_PODS: Final = "count/pods"
PODS: Final = "pods"

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_TRACKED: Final = frozenset(
    (COUNT_PODS, PODS, *_COMPUTE, *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE))
)
_MUST_BE_STATED: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_REQUESTED_DEVICE_CLASS: Final = "requests.deviceclass.resource.kubernetes.io/"


def tracked_for_pods(names: Iterable[str]) -> list[str]:
    """Those of a quota's resources that pods use, sorted."""
    return sorted(name for name in names if name in _TRACKED or _is_huge(name) or _is_requested_extended(name))


def _is_huge(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def _is_requested_extended(name: str) -> bool:
    is_extended = not is_native_resource(name) or name.startswith(_REQUESTED_DEVICE_CLASS)
    return is_extended and name.startswith("requests.")


@dataclass(frozen=True, slots=True)
class PodUsage:
    """What the pods of one spec use, each, while they have not ended."""

    amounts: tuple[tuple[str, Amount], ...]
    missing: tuple[tuple[str, tuple[str, ...]], ...]
    """Resources that a quota may demand and that some containers do not state, with the names of these."""
    is_best_effort: bool
    has_deadline: bool
    priority_class: str
    is_cross_namespace: bool

    def matches(self, requirement: ScopeRequirement) -> bool:
        """Whether a scope of a quota includes such a pod."""
        scope = requirement.scope_name
        if scope == TERMINATING:
            return self.has_deadline
        if scope == NOT_TERMINATING:
            return not self.has_deadline
        if scope == BEST_EFFORT:
            return self.is_best_effort
        if scope == NOT_BEST_EFFORT:
            return not self.is_best_effort
        if scope == PRIORITY_CLASS:
            return self._matches_class(requirement)
        return scope == CROSS_NAMESPACE_POD_AFFINITY and self.is_cross_namespace

    def _matches_class(self, requirement: ScopeRequirement) -> bool:
        name = self.priority_class
        if requirement.operator == IN:
            return bool(name) and name in requirement.values
        if requirement.operator == NOT_IN:
            return not name or name not in requirement.values
        return bool(name) == (requirement.operator == "Exists")

    def complaint(self, required: Collection[str]) -> str:
        """What a quota on these resources finds missing in such a pod; "" if nothing."""
        found = [f"{name} for: {','.join(containers)}" for name, containers in self.missing if name in required]
        return f"must specify {'; '.join(found)}" if found else ""


ENDED: Final = ((COUNT_PODS, ONE),)
"""What a pod that has ended counts for."""


class PodUsages:
    """The usages of all templates seen, each worked out once. `most`: how many templates are remembered."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._of_parts: dict[tuple[object, ...], tuple[PodSpec, PodUsage]] = {}
        self._known: dict[PodUsage, PodUsage] = {}

    def of(self, pod: ClusterPod) -> PodUsage:
        """The usage of a pod; equal usages are one object. Raises QuantityError."""
        status = pod.status
        if status.container_statuses or status.resources is not None:
            return self._shared(_resized(pod))
        parts = _parts(pod.spec)
        found = self._of_parts.get(parts)
        if found is None:
            # The spec is kept, so that no other parts take their identities.
            found = (pod.spec, self._shared(_usage(pod.spec, pod_requests(pod.spec))))
            if len(self._of_parts) >= self._most:
                del self._of_parts[next(iter(self._of_parts))]
            self._of_parts[parts] = found
        return found[1]

    def _shared(self, usage: PodUsage) -> PodUsage:
        return self._known.setdefault(usage, usage)


def _parts(spec: PodSpec) -> tuple[object, ...]:
    """All that `_usage` reads of a spec, most of it by identity: binding makes a new spec of the same parts."""
    return (
        id(spec.containers),
        id(spec.init_containers),
        id(spec.overhead),
        id(spec.resources),
        id(spec.affinity),
        spec.priority_class_name,
        _has_deadline(spec),
    )


def _has_deadline(spec: PodSpec) -> bool:
    """The deadline is a field of jobs and pods that scheduling does not read; specs without it have none."""
    return getattr(spec, "active_deadline_seconds", None) is not None


def has_ended(pod: ClusterPod, now: int) -> bool:
    """Whether a pod no longer uses anything but its place in count/pods (QuotaV1Pod, negated)."""
    if pod.status.phase in {SUCCEEDED, FAILED}:
        return True
    expiry = expires(pod)
    return expiry is not None and now > expiry


def expires(pod: ClusterPod) -> int | None:
    """When a pod that is being deleted stops counting: a whole grace period after the end of its grace period."""
    grace = pod.metadata.deletion_grace_period_seconds
    return None if pod.deleted is None or grace is None else pod.deleted + grace * SECOND


def _usage(spec: PodSpec, requests: Amounts) -> PodUsage:
    amounts: Amounts = {COUNT_PODS: ONE, PODS: ONE, **_charged(requests, pod_limits(spec))}
    return PodUsage(
        amounts=tuple(amounts.items()),
        missing=_missing(spec),
        is_best_effort=_is_best_effort(spec),
        has_deadline=_has_deadline(spec),
        priority_class=spec.priority_class_name,
        is_cross_namespace=_is_cross_namespace(spec),
    )


def _resized(pod: ClusterPod) -> PodUsage:
    """With what the kubelet has allocated and actuated, where that is more."""
    spec = pod_requests(pod.spec)
    live = live_requests(pod, use_status=True, pod_level=True)
    return _usage(pod.spec, {name: Amount(nanos, spec.get(name, ZERO).form) for name, nanos in live.items()})


def _charged(requests: Amounts, limits: Amounts) -> Amounts:
    """The names under which quotas count requests and limits."""
    amounts: Amounts = {}
    for name in _COMPUTE:
        if name in requests:
            amounts[name] = amounts[f"requests.{name}"] = requests[name]
        if name in limits:
            amounts[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if is_hugepage_resource(name):
            amounts[name] = amounts[f"requests.{name}"] = amount
        if is_dra_extended_resource(name):
            amounts[f"requests.{name}"] = amount
    return amounts


def _missing(spec: PodSpec) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if is_pod_level_set(spec):
        return ()
    found: dict[str, set[str]] = {}
    for container in (*spec.containers, *spec.init_containers):
        for name in _MUST_BE_STATED - _stated(container):
            found.setdefault(name, set()).add(container.name)
    return tuple((name, tuple(sorted(found[name]))) for name in sorted(found))


def _stated(container: Container) -> set[str]:
    resources = container.resources
    return set(_charged(parse_amounts(resources.requests), parse_amounts(resources.limits)))


def _is_best_effort(spec: PodSpec) -> bool:
    if is_pod_level_set(spec) and spec.resources is not None:
        return _asks_nothing(spec.resources)
    return all(_asks_nothing(container.resources) for container in (*spec.containers, *spec.init_containers))


def _asks_nothing(resources: ResourceRequirements) -> bool:
    amounts = (*_cpu_and_memory(resources.requests), *_cpu_and_memory(resources.limits))
    return not any(amount.nanos for amount in amounts)


def _cpu_and_memory(quantities: dict[str, str | int | float] | None) -> list[Amount]:
    return [amount for name, amount in parse_amounts(quantities).items() if name in {"cpu", "memory"}]


def _is_cross_namespace(spec: PodSpec) -> bool:
    affinity = spec.affinity
    return affinity is not None and any(map(_reaches_out, (affinity.pod_affinity, affinity.pod_anti_affinity)))


def _reaches_out(affinity: PodAffinity | None) -> bool:
    if affinity is None:
        return False
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    terms = (
        *affinity.required_during_scheduling_ignored_during_execution,
        *(weighted.pod_affinity_term for weighted in preferred),
    )
    return any(term.namespaces or term.namespace_selector is not None for term in terms)
