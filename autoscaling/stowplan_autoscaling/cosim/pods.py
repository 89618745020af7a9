"""The pods of a run as its results see them: one record per pod, and counts per workload and node, kept as they change.

The book hears every write at the API server at once. It decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stowplan_autoscaling.cluster.eviction import DISRUPTION_TARGET, EVICTION_BY_EVICTION_API
from stowplan_autoscaling.cluster.kubelet.admission import RequestCache
from stowplan_autoscaling.cluster.kubelet.kubelets import EVICTED
from stowplan_autoscaling.cluster.pods import FAILED, SUCCEEDED, ClusterPod
from stowplan_scheduler.objects import controller_of, key_of
from stowplan_scheduler.resources import Resource

from .waiting import Change, Grown

if TYPE_CHECKING:
    from .world import World

PENDING: Final = "pending"
STARTING: Final = "starting"
READY: Final = "ready"
TERMINATING: Final = "terminating"
DONE: Final = "done"

SCALED_KINDS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_CONTROLLED: Final = (*SCALED_KINDS, "DaemonSet")
_PER_NODE: Final = frozenset({"DaemonSet", "Node"})


class Workload:
    """One workload, counted. `number`: its row in columns over all workloads."""

    __slots__ = ("cpu", "grown", "memory", "name", "number", "pods", "replicas", "states")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.replicas: int | None = None
        """spec.replicas; None where that is not a number of pods that are wanted for good."""
        self.states = dict.fromkeys((PENDING, STARTING, READY, TERMINATING, DONE), 0)
        self.cpu = 0
        """Requested by its pods that are not being deleted: milli cores, bytes."""
        self.memory = 0
        self.grown: deque[Grown] = deque()
        """Increases of its replicas for which pods are still to be made."""

    @property
    def active(self) -> int:
        """Pods that exist and are not being deleted."""
        return self.states[PENDING] + self.states[STARTING] + self.states[READY]


class NodeCount:
    """What a node's pods request: those that are bound to it and have not ended."""

    __slots__ = ("cpu", "memory", "own", "pods")

    def __init__(self) -> None:
        self.pods = 0
        self.own = 0
        """Pods of DaemonSets, and those that belong to the node itself."""
        self.cpu = 0
        self.memory = 0


class PodLife:
    """One pod from its creation to its end. Times in nanoseconds, exact, unlike those in the object."""

    __slots__ = (
        "attempts", "bound", "cause", "cpu", "created", "end", "failed", "failures", "holds", "is_own", "key", "memory",
        "node", "node_asked", "node_came", "ready", "ready_since", "restarts", "state", "uid", "was_deleted",
        "workload",
    )  # fmt: skip

    def __init__(self, pod: ClusterPod, workload: Workload | None, now: int, request: Resource) -> None:
        self.key = pod.key
        self.uid = pod.metadata.uid
        self.workload = workload
        self.created = now
        self.bound: int | None = None
        self.ready: int | None = None
        """First readiness."""
        self.ready_since: int | None = None
        self.node = ""
        self.holds = False
        """Whether it takes room on its node."""
        self.state = ""
        self.end = ""
        """What ended it, if that is known before it ends: OOMKilled, Evicted, Preempted, NodeLost."""
        self.attempts = 0
        self.restarts = 0
        self.failed: int | None = None
        """When the last attempt failed."""
        self.failures: list[tuple[int, int]] = []
        """From each failed attempt to the next one."""
        self.node_asked = self.node_came = 0
        """When the node that it got was asked for, and took pods; 0 if it had been there before the pod."""
        self.was_deleted = False
        self.cause: Change | None = None
        owner = controller_of(pod.metadata)
        self.is_own = owner is not None and owner.kind in _PER_NODE
        self.cpu = request.milli_cpu
        self.memory = request.memory


class PodBook:
    """All pods that exist, and all workloads that ever had one.

    `listeners` are told (life, old, new) of each write of a pod after the counts are right; `ended` of each pod that
    is gone. `cause(workload name)` explains an increase of replicas, None if nobody in particular wanted it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._requests = RequestCache()
        self.lives: dict[str, PodLife] = {}
        self.workloads: dict[str, Workload] = {}
        self.nodes: dict[str, NodeCount] = {}
        self.changed_nodes: dict[str, None] = {}
        """Nodes to look at before the next sample, in order."""
        self.pending = 0
        self.active = 0
        self.in_use = 0
        self.created = 0
        self.shapes: dict[tuple[int, int], None] = {}
        """What pods have ever requested that do not belong to a node: milli cores and bytes."""
        self.times_of: Callable[[str], tuple[int, int] | None] = _no_times
        """When a node was asked for and took pods; None for one that has always been there."""
        self.job_groups: dict[str, str] = {}
        """By key of a Job: the name of the workload that it counts for, where that is not the Job itself."""
        self.listeners: list[Callable[[PodLife, ClusterPod | None, ClusterPod | None], None]] = []
        self.on_ended: Callable[[PodLife, ClusterPod], None] = _nobody
        self.cause: Callable[[str], Change | None] = _no_cause
        world.server.observe(self._observe, "Pod", "Node", "Job", *_CONTROLLED)

    # ---- names -------------------------------------------------------------------------------

    def workload(self, name: str) -> Workload:
        """The workload of a name as results show it ("Deployment shop/web")."""
        found = self.workloads.get(name)
        if found is None:
            found = self.workloads[name] = Workload(name, len(self.workloads))
        return found

    def name_of(self, pod: ClusterPod) -> str:
        """The workload that a pod belongs to: the outermost controller; "" for a bare pod."""
        owner = controller_of(pod.metadata)
        if owner is None:
            return ""
        kind, key = owner.kind, f"{pod.metadata.namespace}/{owner.name}"
        if kind == "Job" and key in self.job_groups:
            return self.job_groups[key]
        if kind in {"ReplicaSet", "Job"}:
            found = self._world.server.find(kind, key)
            above = None if found is None else controller_of(found.metadata)
            if above is not None:
                kind, key = above.kind, f"{pod.metadata.namespace}/{above.name}"
        return f"{kind} {key}"

    # ---- writes ------------------------------------------------------------------------------

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        if kind == "Pod":
            self._pod_changed(old, new)
        elif kind in _CONTROLLED:
            self._workload_changed(kind, old, new)
        elif kind == "Node":
            self.changed_nodes[(new or old).metadata.name] = None
        elif kind == "Job" and new is None:
            self.job_groups.pop(key_of(old.metadata), None)

    def _workload_changed(self, kind: str, old: Any, new: Any) -> None:
        obj = new if new is not None else old
        if controller_of(obj.metadata) is not None:
            return
        workload = self.workload(f"{kind} {key_of(obj.metadata)}")
        before = 0 if old is None else _replicas(kind, old)
        after = workload.replicas = 0 if new is None else _replicas(kind, new)
        if kind == "DaemonSet":
            # Its pods follow the nodes, and the number is written after they were made.
            return
        if after < before:
            workload.grown.clear()
        elif after > before:
            now = self._world.kernel.now
            cause = None if old is None else self.cause(workload.name)
            workload.grown.append(Grown(cause or Change(now, now, now), after - before))

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if old is None and new is not None:
            life = self._born(new)
        else:
            pod = new or old
            if pod is None:
                return
            life = self.lives[pod.key]
        if new is None:
            self._count(life, DONE)
            if old is not None:
                if not life.end and not life.was_deleted and _was_evicted(old):
                    self._evicted(life)
                del self.lives[life.key]
                self._leave(life)
                self.on_ended(life, old)
        else:
            self._update(life, new)
        for listener in self.listeners:
            listener(life, old, new)

    def _born(self, pod: ClusterPod) -> PodLife:
        name = self.name_of(pod)
        workload = self.workload(name) if name else None
        life = self.lives[pod.key] = PodLife(pod, workload, self._world.kernel.now, self._requests.request(pod))
        self.created += 1
        if not life.is_own:
            self.shapes[life.cpu, life.memory] = None
        if workload is not None and workload.grown:
            first = workload.grown[0]
            life.cause = first.change
            if first.left <= 1:
                workload.grown.popleft()
            else:
                workload.grown[0] = Grown(first.change, first.left - 1)
        return life

    def _update(self, life: PodLife, pod: ClusterPod) -> None:
        now = self._world.kernel.now
        node = pod.spec.node_name
        life.restarts = pod.restarts
        if pod.deleted is not None and not life.end and not life.was_deleted:
            life.was_deleted = True
            if _was_evicted(pod):
                self._evicted(life)
        if node and not life.node:
            life.node = node
            life.bound = now
            times = self.times_of(node)
            if times is not None and times[1] > life.created:
                life.node_asked, life.node_came = times
            self._join(life)
        if pod.is_ready and life.ready_since is None:
            life.ready_since = now
            if life.ready is None:
                life.ready = now
        elif not pod.is_ready:
            life.ready_since = None
        state = _state(pod)
        if state == DONE and life.state != DONE:
            self._leave(life)
        self._count(life, state)

    def _evicted(self, life: PodLife) -> None:
        """Somebody has used the eviction API."""
        life.end = EVICTED
        if self._world.has_begun:
            self._world.recorder.count("evictions", "" if life.workload is None else life.workload.name)

    # ---- counts ------------------------------------------------------------------------------

    def _count(self, life: PodLife, state: str) -> None:
        before = life.state
        if state == before:
            return
        life.state = state
        was, is_ = before in _ACTIVE, state in _ACTIVE
        self.pending += (state == PENDING) - (before == PENDING)
        self.active += is_ - was
        workload = life.workload
        if workload is not None:
            if is_ != was:
                sign = is_ - was
                workload.cpu += sign * life.cpu
                workload.memory += sign * life.memory
            if before:
                workload.states[before] -= 1
            workload.states[state] += 1

    def _join(self, life: PodLife) -> None:
        count = self.nodes.get(life.node)
        if count is None:
            count = self.nodes[life.node] = NodeCount()
        life.holds = True
        self._add(count, life, 1)

    def _leave(self, life: PodLife) -> None:
        """The pod gives its place back, once."""
        if life.holds:
            life.holds = False
            self._add(self.nodes[life.node], life, -1)

    def _add(self, count: NodeCount, life: PodLife, sign: int) -> None:
        was = count.pods > count.own
        count.pods += sign
        count.own += sign * life.is_own
        count.cpu += sign * life.cpu
        count.memory += sign * life.memory
        self.in_use += (count.pods > count.own) - was
        self.changed_nodes[life.node] = None


_ACTIVE: Final = frozenset({PENDING, STARTING, READY})


def _state(pod: ClusterPod) -> str:
    if pod.status.phase in {SUCCEEDED, FAILED}:
        return DONE
    if pod.deleted is not None:
        return TERMINATING
    if not pod.spec.node_name:
        return PENDING
    return READY if pod.is_ready else STARTING


def _was_evicted(pod: ClusterPod) -> bool:
    return any(
        each.type == DISRUPTION_TARGET and each.reason == EVICTION_BY_EVICTION_API for each in pod.status.conditions
    )


def _replicas(kind: str, obj: Any) -> int:
    if kind == "DaemonSet":
        return int(obj.status.desired_number_scheduled)
    found = obj.spec.replicas
    return 1 if found is None else int(found)


def _nobody(life: PodLife, pod: ClusterPod) -> None:
    """Nobody listens."""


def _no_times(node: str) -> tuple[int, int] | None:
    """No node comes."""
    return None


def _no_cause(workload: str) -> Change | None:
    """Nobody in particular."""
    return None
