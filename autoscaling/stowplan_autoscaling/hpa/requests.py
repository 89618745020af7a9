"""What pods request of a resource, as a percentage target counts it.

Follows calculateRequests in pkg/controller/podautoscaler/replica_calculator.go of Kubernetes v1.37.2. It differs from
what the scheduler counts: ordinary init containers are left out, and a container without a request is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stowplan_scheduler.objects import Pod, PodSpec
from stowplan_scheduler.quantity import milli_value, parse_quantity
from stowplan_scheduler.resources import pod_level_requests_set, pod_requests

from .fixed_width import wrap64

_MOST_KNOWN: Final = 100_000


class MissingRequestError(Exception):
    """A pod does not say what it requests; the text names the pod."""


class RequestCache:
    """Remembers the requests of pod templates, which their pods share.

    Pods of a template have the same container objects, so identity is the key; an entry keeps them alive.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, str, str], tuple[object, object, object, int, str]] = {}

    def requests(self, pods: Iterable[Pod], resource: str, container: str) -> dict[str, int]:
        """By the name of the pod. Raises MissingRequestError for the first pod without a request."""
        found: dict[str, int] = {}
        before: PodSpec | None = None
        amount = 0
        for pod in pods:
            spec = pod.spec
            if before is None or not ask_alike(spec, before):
                amount = self.request(pod, resource, container)
                before = spec
            found[pod.metadata.name] = amount
        return found

    def request(self, pod: Pod, resource: str, container: str) -> int:
        """Milli units; `container` "" stands for the whole pod. Raises MissingRequestError."""
        spec = pod.spec
        containers, init, whole = spec.containers, spec.init_containers, spec.resources
        key = (id(containers), id(init), id(whole), resource, container)
        entry = self._known.get(key)
        if entry is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            amount, problem = _request(pod, resource, container)
            if spec.overhead:  # part of a pod-level request, and rare: not remembered
                return _answer(amount, problem, pod)
            entry = self._known[key] = (containers, init, whole, amount, problem)
        elif spec.overhead:
            return _answer(*_request(pod, resource, container), pod)
        if entry[4]:
            return _answer(0, entry[4], pod)
        return entry[3]


def ask_alike(one: PodSpec, other: PodSpec) -> bool:
    """Whether both specs certainly request the same, as pods of one template do."""
    return (
        one.containers is other.containers
        and one.init_containers is other.init_containers
        and one.resources is other.resources
        and one.overhead is other.overhead
    )


def _answer(amount: int, problem: str, pod: Pod) -> int:
    if problem:
        raise MissingRequestError(f"{problem} {pod.metadata.name}")
    return amount


def _request(pod: Pod, resource: str, container: str) -> tuple[int, str]:
    """The amount, or what is wrong, to be followed by the name of the pod."""
    if not container and pod_level_requests_set(pod):
        nanos = pod_requests(pod, use_status=False, pod_level=True).get(resource)
        if nanos is None:
            return 0, f"missing pod-level request for {resource} in Pod"
        return milli_value(nanos), ""
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    total = 0
    for one in (*pod.spec.containers, *sidecars):
        if container not in {"", one.name}:
            continue
        amount = (one.resources.requests or {}).get(resource)
        if amount is None:
            return 0, f"missing request for {resource} in container {one.name} of Pod"
        total = wrap64(total + milli_value(parse_quantity(amount)))
        if container == one.name:  # names are unique inside a pod
            return total, ""
    return (0, f"container {container} not found in Pod") if container else (total, "")
