"""What all containers of a pod ask for together, and how much they may use, as quantities with their way of writing.

The same sums as `stowplan_scheduler.resources`, which has them as plain numbers for the scheduler. Follows PodRequests
and PodLimits of staging/src/k8s.io/component-helpers/resource/helpers.go of Kubernetes v1.37.2, on the spec alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from stowplan_scheduler.names import is_pod_level_resource
from stowplan_scheduler.objects import Container, PodSpec, Quantity, ResourceMap

from .amounts import DECIMAL, Amounts, add, parse_amount, parse_amounts, raise_to

_View = Callable[[Container], "ResourceMap | None"]

_LIMIT_RANGE_POD_LEVEL: Final = frozenset({"cpu", "memory"})
"""Limit ranges know pod-level cpu and memory only."""


def is_pod_level_set(spec: PodSpec) -> bool:
    """Whether the pod as a whole states a request or limit of cpu, memory or huge pages."""
    resources = spec.resources
    if resources is None:
        return False
    return any(map(is_pod_level_resource, (*(resources.requests or ()), *(resources.limits or ()))))


def pod_requests(spec: PodSpec) -> Amounts:
    """What a quota charges as requests. Raises QuantityError."""
    total = _containers(spec, lambda container: container.resources.requests)
    if is_pod_level_set(spec) and spec.resources is not None:
        _override(total, spec.resources.requests, is_pod_level_resource)
    add(total, parse_amounts(spec.overhead))
    return total


def pod_limits(spec: PodSpec) -> Amounts:
    """What a quota charges as limits: overhead comes on top of limits that are there. Raises QuantityError."""
    total = _containers(spec, lambda container: container.resources.limits)
    if is_pod_level_set(spec) and spec.resources is not None:
        _override(total, spec.resources.limits, is_pod_level_resource)
    for name, amount in parse_amounts(spec.overhead).items():
        if name in total and total[name].nanos:
            total[name] = total[name].plus(amount)
    return total


def written_like_containers(spec: PodSpec) -> PodSpec:
    """The spec with pod-level amounts that are sums of its containers written as the containers write theirs."""
    resources = spec.resources
    if resources is None:
        return spec
    requests = _containers(spec, lambda container: container.resources.requests)
    limits = _containers(spec, lambda container: container.resources.limits)
    rewritten = replace(
        resources, requests=_rewritten(resources.requests, requests), limits=_rewritten(resources.limits, limits)
    )
    return spec if rewritten == resources else replace(spec, resources=rewritten)


def _rewritten(quantities: ResourceMap | None, sums: Amounts) -> ResourceMap | None:
    def text(name: str, quantity: Quantity) -> Quantity:
        amount = parse_amount(quantity)
        total = sums.get(name)
        # What the pod itself states has a suffix of its choice; sums come without one.
        is_bare = amount.form == DECIMAL and total is not None and total.form != DECIMAL
        return total.text if is_bare and total is not None and total.nanos == amount.nanos else quantity

    return quantities and {name: text(name, quantity) for name, quantity in quantities.items()}


def limit_range_totals(spec: PodSpec) -> tuple[Amounts, Amounts]:
    """(requests, limits) that limit ranges of the type Pod look at: without overhead. Raises QuantityError."""
    requests = _containers(spec, lambda container: container.resources.requests)
    limits = _containers(spec, lambda container: container.resources.limits)
    if spec.resources is not None:
        _override(requests, spec.resources.requests, _LIMIT_RANGE_POD_LEVEL.__contains__)
        _override(limits, spec.resources.limits, _LIMIT_RANGE_POD_LEVEL.__contains__)
    return requests, limits


def _override(total: Amounts, quantities: ResourceMap | None, counts: Callable[[str], bool]) -> None:
    total.update({name: amount for name, amount in parse_amounts(quantities).items() if counts(name)})


def _containers(spec: PodSpec, view: _View) -> Amounts:
    """The containers' sum, or the peak of the init containers with the sidecars that run by then."""
    total: Amounts = {}
    for container in spec.containers:
        add(total, parse_amounts(view(container)))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        own = parse_amounts(view(container))
        if container.restart_policy == "Always":
            add(total, own)
            add(sidecars, own)
            raise_to(peak, sidecars)
        else:
            add(own, sidecars)
            raise_to(peak, own)
    raise_to(total, peak)
    return total
