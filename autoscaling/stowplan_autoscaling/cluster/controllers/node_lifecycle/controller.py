"""The node lifecycle controller.

A pass every 5 s turns nodes that were not heard of for 50 s to Ready=Unknown and their pods to not ready, and puts
nodes that are not ready in line for their NoExecute taint, which a loop of its own hands out zone by zone. NoSchedule
taints follow the conditions at once. Only nodes with something to do are looked at: those that changed since the last
pass, and those that are about to be found silent.

Follows pkg/controller/nodelifecycle/node_lifecycle_controller.go of Kubernetes v1.37.2, with two choices. A node found
at the very end of its grace period counts as late: upstream's passes drift by the time that they take, so that the pass
50 s after the last heartbeat was noticed does come later than that. A node without any condition Ready whose kubelet is
heard counts as ready: its kubelet would have said so. Left out are the reconciliation of beta labels and the question
for its lease that upstream repeats, at each pass, for a node that stays silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stowplan_autoscaling.cluster.pods import FALSE, TRUE, UNKNOWN, ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.kernel import MILLISECOND, SECOND, Timer

from .conditions import as_unknown, ready_status
from .passes import PassTimes
from .pods import mark_not_ready
from .taints import NOT_READY, UNREACHABLE, Outcome, has_taint, no_schedule_changes, swap, take_off
from .zones import EvictionRates, ZoneQueue, ZoneState, zone_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.node_faults import NodeFaults
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.kernel import Kernel

MONITOR_PERIOD: Final = 5 * SECOND
GRACE: Final = 50 * SECOND
STARTUP_GRACE: Final = 60 * SECOND
TAINTING_PERIOD: Final = 100 * MILLISECOND
RETRY: Final = 50 * MILLISECOND
EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"

_DEFAULT_RATES: Final = EvictionRates()


class NodeLifecycleController:
    """The one of a cluster. Needs informers of Node and Pod; `start` begins the passes. Times in nanoseconds."""

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        faults: NodeFaults,
        *,
        workers: int = 8,
        grace: int = GRACE,
        startup_grace: int = STARTUP_GRACE,
        period: int = MONITOR_PERIOD,
        rates: EvictionRates = _DEFAULT_RATES,
    ) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._faults = faults
        self._grace = grace
        self._startup_grace = startup_grace
        self._rates = rates
        self._period = period
        self._passes: PassTimes | None = None
        self._timer: Timer | None = None
        self._is_running = False
        self._dirty: set[str] = set()
        self._silent: set[str] = set()
        self._retry: set[str] = set()
        self._known: dict[str, Node] = {}
        self._statuses: dict[str, str] = {}
        self._floor = 0
        self._queues: dict[str, ZoneQueue] = {}
        """By zone; they outlive their zones, as upstream."""
        self._zones: dict[str, ZoneState] = {}
        self._tainting: dict[str, Timer] = {}
        self._start = 0
        self.no_schedule = WorkQueue(kernel, self._sync_no_schedule, workers=workers)
        self.pods = WorkQueue(kernel, self._sync_pod, workers=4)
        informers.handle("Node", self._node_changed)
        informers.handle("Pod", self._pod_changed)
        faults.listen(self._heard)

    def start(self) -> None:
        """Look at all nodes now, and every 5 s."""
        self._start = self._kernel.now
        self._passes = PassTimes(self._start, self._period)
        self._dirty.update(self._informers.all("Node"))
        self._plan()

    @property
    def zone_states(self) -> dict[str, ZoneState]:
        """The states of all zones as of the last pass."""
        return dict(self._zones)

    # ---- what wakes it -----------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        name = node.metadata.name
        if new is None:
            self._retry.discard(name)
        else:
            self.no_schedule.add(name)
            if old is None and not self._faults.is_alive(name):
                self._silent.add(name)
        if old is None or new is None or _matters(old, new):
            self._dirty.add(name)
            self._plan_at(self._kernel.now)
        if name in self._silent and new is not None:
            self._plan_at(self._late_at(new))

    def _heard(self, name: str, alive: bool) -> None:
        # One that is alive again stays here until its first heartbeat, which may come too late.
        if alive:
            return
        self._silent.add(name)
        node: Node | None = self._informers.get("Node", name)
        if node is not None:
            self._plan_at(self._late_at(node))

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if new is None or not new.spec.node_name or (old is not None and old.spec.node_name == new.spec.node_name):
            return
        if self._statuses.get(new.spec.node_name, TRUE) != TRUE:
            self.pods.add(new.key)

    # ---- when there is a pass ----------------------------------------------------------------

    def _plan(self) -> None:
        """Plan the next pass at which there is something to do."""
        self._silent = {name for name in self._silent if not self._faults.is_heard(name)}
        nodes: dict[str, Node] = self._informers.all("Node")
        due = [self._late_at(nodes[name]) for name in sorted(self._silent) if name in nodes]
        if self._dirty or self._retry:
            due.append(self._kernel.now)
        if due:
            self._plan_at(min(due))

    def _plan_at(self, due: int) -> None:
        """Have a pass at `due` or as soon as possible after it."""
        passes = self._passes
        if passes is None or self._is_running:
            return
        when = passes.next(max(self._kernel.now, due))
        if self._timer is not None:
            if self._timer.action is not None and self._timer.when <= when:
                return
            self._timer.cancel()
        self._timer = self._kernel.at(when, self._begin)

    def _late_at(self, node: Node) -> int:
        """When a silent node will not have been heard of for too long."""
        name = node.metadata.name
        probe = self._faults.last_heartbeat(name, node.created)
        if self._passes is not None and probe > node.created:
            probe = self._passes.seen_at(probe)
        grace = self._startup_grace if ready_status(node) is None else self._grace
        return max(probe, self._floor) + grace

    def _begin(self) -> None:
        self._timer = None
        self._is_running = True
        self._go_on(self._pass(), self._kernel.now)

    def _go_on(self, steps: Steps, begin: int) -> None:
        for when in steps:
            if when > self._kernel.now:
                self._kernel.at(when, lambda: self._go_on(steps, begin))
                return
        self._is_running = False
        if self._passes is not None:
            self._passes.record(begin, self._kernel.now)
        self._plan()

    # ---- one pass ----------------------------------------------------------------------------

    def _pass(self) -> Steps:
        """monitorNodeHealth."""
        nodes: dict[str, Node] = self._informers.all("Node")
        now = self._kernel.now
        late = {name for name in self._silent if name in nodes and self._late_at(nodes[name]) <= now}
        names = sorted(self._dirty | self._retry | late)
        self._dirty.clear()
        self._silent -= late
        yield from self._classify(names, nodes)
        for name in names:
            node = self._informers.get("Node", name)
            if node is not None:
                yield from self._check(node, is_late=name in late)
        yield from self._handle_disruption()

    def _classify(self, names: list[str], nodes: dict[str, Node]) -> Steps:
        """Nodes that are new, and those that are gone."""
        for name in names:
            node = nodes.get(name)
            if node is not None:
                self._add_zone(zone_of(node))
                if name not in self._known:
                    self._event(node, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")
                    self._known[name] = node
                    yield from self._mark_reachable(node)
            elif name in self._known:
                gone = self._known.pop(name)
                self._statuses.pop(name, None)
                self._event(gone, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")

    def _add_zone(self, zone: str) -> None:
        if zone not in self._zones:
            self._zones[zone] = ZoneState.INITIAL
            self._queues[zone] = ZoneQueue(self._rates.normal)

    def _queue(self, zone: str) -> ZoneQueue:
        """The queue of a zone, which may be one that a node has come to since the pass began."""
        return self._queues.setdefault(zone, ZoneQueue(self._rates.normal))

    def _check(self, node: Node, *, is_late: bool) -> Steps:
        name = node.metadata.name
        observed = ready_status(node)
        current = observed
        if is_late and observed != UNKNOWN:
            # It asks for the lease once more (NodeControllerLeaseCircuitBreaker) before it writes.
            yield from self._client.turn()
            yield from self._client.turn()
            current = self._mark_unknown(name)
            # Upstream takes a node that never had the condition for one whose condition is unknown.
            observed = observed or UNKNOWN
        if current is None:
            self._statuses.pop(name, None)
            self._retry.discard(name)
            return
        self._statuses[name] = current
        yield from self._taint_or_clear(node, current)
        failed = False
        if current != TRUE and observed == TRUE:
            self._event(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            failed = yield from mark_not_ready(self._client, list(self._informers.pods_on(name).values()))
        elif name in self._retry and observed != TRUE:
            failed = yield from mark_not_ready(self._client, list(self._informers.pods_on(name).values()))
        (self._retry.add if failed else self._retry.discard)(name)

    def _mark_unknown(self, name: str) -> str | None:
        """Write that nothing is known of the node any more; returns its status Ready after that."""
        node: Node | None = self._client.server.find("Node", name)
        if node is None:
            return None
        self._client.server.update_status("Node", as_unknown(node))
        return UNKNOWN

    def _taint_or_clear(self, node: Node, status: str) -> Steps:
        """processTaintBaseEviction."""
        if status == TRUE:
            yield from self._mark_reachable(node)
            return
        wanted, opposite = (NOT_READY, UNREACHABLE) if status == FALSE else (UNREACHABLE, NOT_READY)
        if has_taint(node.spec.taints, opposite):
            yield from swap(self._client, node, (wanted,), (opposite,))
            return
        zone, name = zone_of(node), node.metadata.name
        queue = self._queue(zone)
        if not has_taint(node.spec.taints, wanted):
            queue.remove(name)
        if queue.add(name, self._kernel.now):
            self._plan_tainting(zone)

    def _mark_reachable(self, node: Node) -> Steps:
        for taint in (UNREACHABLE, NOT_READY):
            yield from take_off(self._client, node, (taint,))
        self._queue(zone_of(node)).remove(node.metadata.name)

    # ---- pods --------------------------------------------------------------------------------

    def _sync_pod(self, key: str) -> Steps | None:
        """A pod that has come to a node which is not ready."""
        pod: ClusterPod | None = self._informers.get("Pod", key)
        if pod is None or self._statuses.get(pod.spec.node_name, TRUE) == TRUE:
            return None
        return self._mark_arrived(pod)

    def _mark_arrived(self, pod: ClusterPod) -> Steps:
        failed = yield from mark_not_ready(self._client, [pod])
        if failed:
            self.pods.add_rate_limited(pod.key)

    # ---- taints ------------------------------------------------------------------------------

    def _sync_no_schedule(self, name: str) -> Steps | None:
        node: Node | None = self._informers.get("Node", name)
        if node is None:
            return None
        missing, needless = no_schedule_changes(node)
        return self._swap(node, missing, needless) if missing or needless else None

    def _swap(self, node: Node, added: list[Any], removed: list[Any]) -> Steps:
        yield from swap(self._client, node, added, removed)

    def _plan_tainting(self, zone: str) -> None:
        """Plan the next moment, of those 100 ms apart, at which a node of the zone can be tainted.

        That is after now: a node that a pass has just found silent must be seen as such by then.
        """
        when = self._queues[zone].next_at()
        planned = self._tainting.pop(zone, None)
        if planned is not None:
            planned.cancel()
        if when is not None:
            when = max(when, self._kernel.now + 1)
            tick = self._start - (self._start - when) // TAINTING_PERIOD * TAINTING_PERIOD
            self._tainting[zone] = self._kernel.at(tick, lambda: self._taint_next(zone))

    def _taint_next(self, zone: str) -> None:
        self._tainting.pop(zone, None)
        name = self._queues[zone].take(self._kernel.now)
        if name is None:
            self._plan_tainting(zone)
        else:
            self._taint_on(zone, name, self._taint(name))

    def _taint_on(self, zone: str, name: str, steps: Outcome) -> None:
        try:
            when = next(steps)
            while when <= self._kernel.now:
                when = next(steps)
        except StopIteration as end:
            if end.value is False:
                self._queues[zone].put_back(name, self._kernel.now + RETRY)
            self._plan_tainting(zone)
            return
        self._kernel.at(when, lambda: self._taint_on(zone, name, steps))

    def _taint(self, name: str) -> Outcome:
        """Give a node its NoExecute taint; returns False to have it tried again."""
        node: Node | None = self._informers.get("Node", name)
        if node is None:
            return True
        status = ready_status(node)
        if status is None:
            return False
        if status == TRUE:
            return True
        added, removed = (NOT_READY, UNREACHABLE) if status == FALSE else (UNREACHABLE, NOT_READY)
        return (yield from swap(self._client, node, (added,), (removed,)))

    # ---- zones -------------------------------------------------------------------------------

    def _count_zones(self) -> dict[str, list[int]]:
        """[ready, not ready] nodes by zone."""
        counts: dict[str, list[int]] = {}
        for name, node in self._informers.all("Node").items():
            if EXCLUDED not in node.metadata.labels:
                status = self._statuses.get(name, TRUE)
                counts.setdefault(zone_of(node), [0, 0])[status != TRUE] += 1
        return counts

    def _handle_disruption(self) -> Steps:
        counts = self._count_zones()
        states = {zone: self._rates.state(*count) for zone, count in counts.items()}
        all_are_full = all(state is ZoneState.FULL for state in states.values())
        for zone in states:
            self._add_zone(zone)
        for zone in [zone for zone in self._zones if zone not in states]:
            del self._zones[zone]
        all_were_full = all(state is ZoneState.FULL for state in self._zones.values())
        if all_are_full and all_were_full:
            return
        if all_are_full:
            yield from self._stop_evictions()
            return
        if all_were_full:
            # The controller was cut off: every node gets its whole grace period again.
            self._floor = self._kernel.now
        for zone, state in states.items():
            if all_were_full or self._zones[zone] is not state:
                self._zones[zone] = state
                self._set_rate(zone, self._rates.of(state, sum(counts[zone])))

    def _stop_evictions(self) -> Steps:
        for name in sorted(self._informers.all("Node")):
            node = self._informers.get("Node", name)
            if node is not None:
                yield from self._mark_reachable(node)
            if self._statuses.get(name, TRUE) != TRUE:
                # The next pass puts it in line again, for when evictions go on.
                self._dirty.add(name)
        for zone in self._zones:
            self._zones[zone] = ZoneState.FULL
            self._set_rate(zone, 0.0)

    def _set_rate(self, zone: str, rate: float) -> None:
        self._queues[zone].set_rate(rate, self._kernel.now)
        self._plan_tainting(zone)

    def _event(self, node: Node, reason: str, message: str) -> None:
        self._client.event("Node", node, reason, message)


def _matters(old: Node, new: Node) -> bool:
    """Whether the change is one that a pass would act on."""
    return (
        ready_status(old) != ready_status(new)
        or old.spec.taints != new.spec.taints
        or zone_of(old) != zone_of(new)
        or (EXCLUDED in old.metadata.labels) != (EXCLUDED in new.metadata.labels)
    )
