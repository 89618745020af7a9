"""Builders for the tests of the scheduling queue: pods, a queue whose gate and pod lister the test holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan_scheduler.framework.cluster_event import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    EventRegistration,
    Resource,
)
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.framework.status import SUCCESS, Status, unresolvable
from stowplan_scheduler.objects import Container, ObjectMeta, Pod, PodSpec, PodStatus, ResourceRequirements, Toleration
from stowplan_scheduler.queue import SECOND, HintMap, QueuedPodInfo, SchedulingQueue

PROFILE = "default-scheduler"

GATE_EVENT = NODE_DELETE
TARGET_TOLERATION = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)

# Who listens to what in these tests. "Fit" and "Taint" reject, "Claims" says Pending, "Gate" is a PreEnqueue plugin.
REGISTRATIONS: dict[str, tuple[EventRegistration, ...]] = {
    "Fit": (EventRegistration(NODE_ADD), EventRegistration(ASSIGNED_POD_DELETE)),
    "Taint": (EventRegistration(TARGET_TOLERATION),),
    "Claims": (EventRegistration(NODE_ADD),),
    "Gate": (EventRegistration(GATE_EVENT),),
    "Deaf": (),
}

_INTERNER = PodInterner()


def seconds(amount: float) -> int:
    return round(amount * SECOND)


def make_pod(
    name: str = "p",
    *,
    uid: str = "",
    priority: int = 0,
    scheduler_name: str = PROFILE,
    nominated: str = "",
    node: str = "",
    cpu: str = "1",
    labels: Mapping[str, str] | None = None,
    tolerations: int = 0,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}", labels=dict(labels or {})),
        spec=PodSpec(
            priority=priority,
            scheduler_name=scheduler_name,
            node_name=node,
            containers=(Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu})),),
            tolerations=tuple(Toleration(key=f"k{i}") for i in range(tolerations)),
        ),
        status=PodStatus(nominated_node_name=nominated),
    )


def info_of(pod: Pod) -> PodInfo:
    return _INTERNER.info(pod)


def make_info(name: str = "p", *, uid: str = "", priority: int = 0, nominated: str = "") -> PodInfo:
    return info_of(make_pod(name, uid=uid, priority=priority, nominated=nominated))


def queued(name: str = "p", timestamp: int = 0, *, priority: int = 0, rejectors: Sequence[str] = ()) -> QueuedPodInfo:
    pod = QueuedPodInfo(make_info(name, priority=priority), timestamp)
    pod.unschedulable_plugins = frozenset(rejectors)
    return pod


def priority_sort(pod: QueuedPodInfo) -> tuple[int, ...]:
    return -pod.info.priority, pod.timestamp


class Harness:
    """A queue with a gate and a lister that the test controls."""

    def __init__(
        self,
        registrations: Mapping[str, Sequence[EventRegistration] | None] = REGISTRATIONS,
        *,
        initial: float = 1,
        maximum: float = 10,
        longest: float = 300,
        start: float = 0,
    ) -> None:
        self.gated: set[str] = set()
        self.objects: dict[str, Pod] = {}
        self.pre_enqueue_calls: list[str] = []
        self.hint_errors: list[str] = []
        self.queue = SchedulingQueue(
            {PROFILE: HintMap(registrations)},
            self._pre_enqueue,
            priority_sort,
            initial_backoff_ns=seconds(initial),
            max_backoff_ns=seconds(maximum),
            max_in_unschedulable_ns=seconds(longest),
            lister=self.objects.get,
            start_ns=seconds(start),
            on_hint_error=lambda plugin, event, info, error: self.hint_errors.append(
                f"{plugin} {event.label} {info.key} {error}"
            ),
        )

    def _pre_enqueue(self, pod: QueuedPodInfo) -> Status:
        self.pre_enqueue_calls.append(pod.key)
        return unresolvable("closed").of("Gate") if pod.info.pod.metadata.name in self.gated else SUCCESS

    def add(self, info: PodInfo, at: float = 0) -> PodInfo:
        self.objects[info.uid] = info.pod
        self.queue.add(info, seconds(at))
        return info

    def pop(self, at: float = 0) -> QueuedPodInfo:
        pod = self.queue.pop(seconds(at))
        assert pod is not None
        return pod

    def fail(self, pod: QueuedPodInfo, at: float, rejectors: Sequence[str] = (), pending: Sequence[str] = ()) -> str:
        """Do what the failure handler does; say where the pod went."""
        pod.clear_rejectors()
        pod.unschedulable_plugins = frozenset(rejectors)
        pod.pending_plugins = frozenset(pending)
        place = self.queue.add_unschedulable_if_not_present(pod, seconds(at))
        self.queue.check_invariants()
        return place.value

    def rejected(self, name: str = "p", *rejectors: str, at: float = 0, priority: int = 0) -> PodInfo:
        """A pod that was added, popped and rejected."""
        info = self.add(make_info(name, priority=priority), at)
        pod = self.pop(at)
        assert pod.key == info.key
        self.fail(pod, at, rejectors or ("Fit",))
        return info

    def event(self, event: ClusterEvent, at: float = 0, old: object = None, new: object = None) -> None:
        self.queue.move_all_to_active_or_backoff(event, old, new, seconds(at))
        self.queue.check_invariants()

    def place(self, info: PodInfo) -> str | None:
        place = self.queue.place_of(info)
        return None if place is None else place.value

    def pop_names(self, at: float = 0) -> list[str]:
        """Pop until nothing is poppable, as attempts that succeed."""
        names = []
        while self.queue.has_poppable():
            pod = self.pop(at)
            self.queue.done(pod.uid)
            names.append(pod.info.pod.metadata.name)
        return names
