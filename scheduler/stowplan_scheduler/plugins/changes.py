"""What queueing hints are handed: the objects of an event before and after, checked and typed.

Follows util.As of pkg/scheduler/util/utils.go of Kubernetes v1.37.2. A hint that raises counts as "try the pod again",
so an object of an unexpected kind is an error here, as it is upstream.
"""

from __future__ import annotations

from typing import TypeVar

from stowplan_scheduler.framework.cluster_event import Hint
from stowplan_scheduler.framework.pod_info import PodShape, PodTemplate
from stowplan_scheduler.objects import DeviceClass, Node, Pod

T = TypeVar("T", Pod, Node, DeviceClass)


def pods(old: object, new: object) -> tuple[Pod | None, Pod | None]:
    """The pod before and after. Raises TypeError."""
    return _typed(Pod, old), _typed(Pod, new)


def nodes(old: object, new: object) -> tuple[Node | None, Node | None]:
    """The node before and after. Raises TypeError."""
    return _typed(Node, old), _typed(Node, new)


def device_classes(old: object, new: object) -> tuple[DeviceClass | None, DeviceClass | None]:
    """The device class before and after. Raises TypeError."""
    return _typed(DeviceClass, old), _typed(DeviceClass, new)


def _typed(kind: type[T], found: object) -> T | None:
    if found is None or isinstance(found, kind):
        return found
    raise TypeError(f"expected {kind.__name__}, but got {type(found).__name__}")


def present(found: T | None) -> T:
    """The object of an event that must have one. Raises TypeError."""
    if found is None:
        raise TypeError("the event lacks its object")
    return found


def queue_if(may_help: bool) -> Hint:
    """QUEUE or SKIP."""
    return Hint.QUEUE if may_help else Hint.SKIP


def has_place(pod: Pod) -> bool:
    """Whether the pod is on a node or nominated to one: only then it takes anything from others."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


class RecentShapes:
    """Shapes of the pods in an event. One event is put to many waiting pods, so the last two are remembered."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        """Nothing remembered."""
        self._held: list[tuple[Pod, PodShape]] = []

    def of(self, pod: Pod) -> PodShape:
        """The shape of a pod. It is not interned: use what it says, not which object it is."""
        for held, shape in self._held:
            if held is pod:
                return shape
        shape = PodShape(pod, 0, PodTemplate(0))
        self._held = [(pod, shape), *self._held[:1]]
        return shape
