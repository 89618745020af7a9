"""Nodes that fall silent: when it is noticed, when their pods go, and what zones have to do with it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World, make_node, make_pod
from stowplan_autoscaling.cluster.controllers.node_lifecycle import NodeLifecycleController
from stowplan_autoscaling.cluster.controllers.node_lifecycle.passes import PassTimes
from stowplan_autoscaling.cluster.controllers.node_lifecycle.zones import EvictionRates, ZoneQueue, ZoneState
from stowplan_autoscaling.cluster.controllers.taint_eviction import TaintEvictionController
from stowplan_autoscaling.cluster.node_faults import NodeFaults
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.streams import Streams
from stowplan_scheduler.objects import NodeCondition, Taint, Toleration

READY = (NodeCondition(type="Ready", status="True"),)
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
FIVE_MINUTES = tuple(
    Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=300)
    for key in (NOT_READY, UNREACHABLE)
)


class FixedPhases(Streams):
    """Every phase is the same share of its period."""

    def __init__(self, share: float) -> None:
        super().__init__(0)
        self.share = share

    def uniform(self, purpose: str, key: str = "") -> float:
        return self.share


class Nodes(World):
    """A world with the two controllers of this chapter. Leases are renewed at 3, 13, 23 ... s."""

    def __init__(self, zones: Iterable[str] = ("",), per_zone: int = 3, *, limited: bool = False) -> None:
        super().__init__()
        self.faults = NodeFaults(self.kernel, self.server, FixedPhases(0.3))
        self.lifecycle = NodeLifecycleController(self.kernel, self.informers, self.client(limited=limited), self.faults)
        self.eviction = TaintEvictionController(self.kernel, self.informers, self.client(limited=limited))
        for zone in zones:
            for number in range(per_zone):
                self.add_node(f"{zone or 'n'}-{number:03d}", zone)
        self.start(self.lifecycle.start)

    def add_node(self, name: str, zone: str = "") -> None:
        node = make_node(name, zone=zone)
        self.server.create("Node", replace(node, status=replace(node.status, conditions=READY), created=START))

    def of_zone(self, zone: str) -> list[str]:
        return [name for name in self.server.all("Node") if name.startswith(f"{zone}-")]

    def node(self, name: str) -> Node:
        found: Node = self.server.get("Node", name)
        return found

    def taints(self, name: str) -> list[str]:
        return [f"{taint.key.rpartition('/')[2]}:{taint.effect}" for taint in self.node(name).spec.taints]

    def tainted(self) -> list[str]:
        """The nodes with a NoExecute taint, in the order in which they got it."""
        found = [
            (taint.time_added or "", name)
            for name, node in self.server.all("Node").items()
            for taint in node.spec.taints
            if taint.effect == "NoExecute"
        ]
        return [name for _, name in sorted(found)]

    def bound_pod(self, name: str, node: str, tolerations: Iterable[Toleration] = FIVE_MINUTES) -> None:
        self.server.create("Pod", make_pod(name, node=node, tolerations=tolerations))
        self.make_ready(name)

    def when(self, reason: str) -> list[float]:
        return [round(event[0], 2) for event in self.events if event[3] == reason]


@pytest.mark.parametrize(
    ("failure", "noticed"),
    [(7.0, 55.0), (12.9, 55.0), (13.1, 65.0), (22.0, 65.0), (103.0, 155.0), (112.9, 155.0)],
)
def test_a_silent_node_becomes_unknown_50_s_after_its_last_heartbeat_was_noticed(
    failure: float, noticed: float
) -> None:
    """Leases are renewed at 3, 13, 23 s; a pass every 5 s notices that at 5, 15, 25 s; 50 s later the node is late.

    So it takes 42 to 52 s from the failure with this phase. Nothing is planned for the nodes that are heard.
    """
    world = Nodes()
    world.run(failure)
    world.faults.fail_node("n-000")
    world.run(noticed - 0.01)
    assert world.node("n-000").status.conditions == READY
    world.run(noticed + 0.11)
    statuses = {condition.type: condition.status for condition in world.node("n-000").status.conditions}
    assert statuses == dict.fromkeys(("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), "Unknown")
    assert world.node("n-000").status.conditions[0].reason == "NodeStatusUnknown"
    assert world.taints("n-000") == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    assert world.when("NodeNotReady") == [noticed]


def test_nodes_that_work_cost_nothing() -> None:
    """A quiet hour with 60 nodes: one pass at the start, and no timer after it."""
    world = Nodes(zones=("a", "b"), per_zone=30)
    world.run(3600)
    assert world.lifecycle.no_schedule.syncs == 60
    assert world.kernel.now == START + 3600 * SECOND
    assert world.when("RegisteredNode") == [0.0] * 60


def test_pods_of_a_dead_node_are_unready_at_once_and_deleted_after_their_tolerance() -> None:
    """Failure at 12.9 s, Unknown at 55 s, tainted 0.1 s later, deletion at 355.1 s: 342 s after the failure."""
    world = Nodes()
    world.bound_pod("web", "n-000")
    world.bound_pod("agent", "n-000", (Toleration(operator="Exists"),))
    world.bound_pod("hasty", "n-000", ())
    world.bound_pod("other", "n-001")
    world.run(12.9)
    world.faults.fail_node("n-000")
    world.run(55.2)
    assert [world.pod(name).ready for name in ("web", "agent", "hasty", "other")] == ["False", "False", "False", "True"]
    assert world.pod("hasty").deleted is not None
    assert world.eviction.planned == {"default/web": pytest.approx(START + 355.1 * SECOND, abs=1000)}
    world.run(355.0)
    assert world.pod("web").deleted is None
    world.run(355.2)
    assert world.pod("web").deleted == START + (355 + 30) * SECOND
    condition = world.pod("web").status.conditions[0]
    assert (condition.type, condition.reason) == ("DisruptionTarget", "DeletionByTaintManager")
    world.run(3600)
    assert world.pod("agent").deleted is None
    assert world.pod("other").deleted is None


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    """It posts its status at its next update (203 s), the taints go, and the planned deletion is called off."""
    world = Nodes()
    world.bound_pod("web", "n-000")
    world.run(12.9)
    world.faults.fail_node("n-000")
    world.run(200)
    assert world.taints("n-000") == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    world.faults.recover_node("n-000")
    world.run(202.9)
    assert world.node("n-000").status.conditions[0].status == "Unknown"
    world.run(203.1)
    assert world.taints("n-000") == ["unreachable:NoExecute"]
    world.run(205.1)
    assert world.taints("n-000") == []
    assert world.eviction.planned == {}
    assert [event[4] for event in world.events if event[3] == "TaintManagerEviction"] == [
        "Cancelling deletion of Pod default/web"
    ]
    world.run(1000)
    assert world.pod("web").deleted is None


def test_a_short_silence_is_never_noticed() -> None:
    """40 s without heartbeat are within the grace period."""
    world = Nodes()
    world.run(12.9)
    world.faults.fail_node("n-000")
    world.run(52.9)
    world.faults.recover_node("n-000")
    world.run(300)
    assert world.when("NodeNotReady") == []
    assert world.node("n-000").status.conditions == READY


def test_a_node_that_is_back_but_has_not_said_so_yet_is_late_all_the_same() -> None:
    """Back at 54 s; its lease and its status follow at 63 s, and the pass of 55 s finds it silent for 50 s."""
    world = Nodes()
    world.bound_pod("web", "n-000")
    world.run(12.9)
    world.faults.fail_node("n-000")
    world.run(54)
    world.faults.recover_node("n-000")
    world.run(55.2)
    assert world.node("n-000").status.conditions[0].status == "Unknown"
    assert world.pod("web").ready == "False"
    world.run(63.1)
    assert world.node("n-000").status.conditions == READY
    world.run(65.1)
    assert world.taints("n-000") == []


def test_nodes_that_were_in_line_when_evictions_stopped_are_in_line_when_they_go_on() -> None:
    """Two of three nodes report not ready at 12 s, the third at 22 s, and it is ready again at 42 s.

    Node 0 has its taint at 15.1 s and loses it at 25 s, when no node is ready. Evictions go on at 45 s, with a whole
    interval to wait: 55.1 s and 65.1 s.
    """
    world = Nodes()
    for moment, names, ready in ((12, ("n-000", "n-001"), False), (22, ("n-002",), False), (42, ("n-002",), True)):
        world.run(moment)
        for name in names:
            world.faults.report(name, ready=ready)
        world.run(moment + 3.2)
        assert world.tainted() == (["n-000"] if moment == 12 else [])
    world.run(55.2)
    assert len(world.tainted()) == 1
    world.run(65.2)
    assert world.tainted() == ["n-000", "n-001"]


def test_a_second_failure_starts_a_new_grace_period() -> None:
    """Silent at 12.9 to 40 s and again from 50 s: the renewal of 43 s, noticed at 45 s, counts."""
    world = Nodes()
    for moment, act in (
        (12.9, world.faults.fail_node),
        (40.0, world.faults.recover_node),
        (50.0, world.faults.fail_node),
    ):
        world.run(moment)
        act("n-000")
    world.run(300)
    assert world.when("NodeNotReady") == [95.0]


def test_nodes_of_a_zone_are_tainted_one_every_ten_seconds() -> None:
    """2 of 5 nodes are less than 55 %: the zone stays normal, 0.1 nodes/s with a burst of 1."""
    world = Nodes(zones=("a",), per_zone=5)
    world.run(12.9)
    world.faults.fail_node("a-003")
    world.faults.fail_node("a-001")
    world.run(55.11)
    assert world.tainted() == ["a-001"]
    assert world.taints("a-003") == ["unreachable:NoSchedule"]
    world.run(65.0)
    assert world.tainted() == ["a-001"]
    world.run(65.11)
    assert world.tainted() == ["a-001", "a-003"]
    assert list(world.lifecycle.zone_states.values()) == [ZoneState.NORMAL]


def test_a_small_zone_in_partial_disruption_is_not_evicted_any_further() -> None:
    """3 of 5 nodes: partial. The node that was in line first has its taint before the state of the zone is known."""
    world = Nodes(zones=("a",), per_zone=5)
    world.run(12.9)
    for name in ("a-000", "a-001", "a-002"):
        world.faults.fail_node(name)
    world.run(2000)
    assert list(world.lifecycle.zone_states.values()) == [ZoneState.PARTIAL]
    assert len(world.tainted()) <= 1


def test_a_large_zone_in_partial_disruption_is_evicted_slowly() -> None:
    """33 of 60 nodes are 55 %: one node every 100 s, or rather at the first of the ticks of 100 ms after that.

    The rate has 32 bits, and 0.01 in 32 bits is a little less: the token comes 2 µs after 100 s.
    """
    world = Nodes(zones=("a",), per_zone=60)
    world.run(12.9)
    for number in range(33):
        world.faults.fail_node(f"a-{number:03d}")
    world.run(56)
    assert list(world.lifecycle.zone_states.values()) == [ZoneState.PARTIAL]
    assert len(world.tainted()) == 1
    for number in range(1, 5):
        due = 55.1 + 100.1 * number
        world.run(due - 0.05)
        assert len(world.tainted()) == number
        world.run(due + 0.05)
        assert len(world.tainted()) == number + 1


def test_a_lost_zone_beside_a_healthy_one_is_evicted_at_the_normal_rate() -> None:
    """Full disruption of one zone of two: node k waits 10 k seconds."""
    world = Nodes(zones=("a", "b"), per_zone=4)
    world.run(12.9)
    for name in world.of_zone("a"):
        world.faults.fail_node(name)
    world.run(55.11)
    assert set(world.lifecycle.zone_states.values()) == {ZoneState.FULL, ZoneState.NORMAL}
    assert world.tainted() == ["a-000"]
    world.run(85.2)
    assert world.tainted() == ["a-000", "a-001", "a-002", "a-003"]


def test_when_every_zone_is_lost_evictions_stop_and_taints_are_taken_off() -> None:
    """The controller then takes itself for the one that is cut off. When a zone comes back, all zones go on."""
    world = Nodes(zones=("a", "b"), per_zone=2)
    world.bound_pod("web", "a-000")
    world.run(12.9)
    for name in world.of_zone("a"):
        world.faults.fail_node(name)
    for name in world.of_zone("b"):
        world.faults.fail_node(name)
    world.run(1000)
    assert set(world.lifecycle.zone_states.values()) == {ZoneState.FULL}
    assert world.tainted() == []
    assert world.pod("web").deleted is None
    for name in world.of_zone("b"):
        world.faults.recover_node(name)
    world.run(1100)
    assert world.taints("b-000") == []
    assert world.tainted() == ["a-000", "a-001"]


def test_a_node_that_reports_not_ready_is_tainted_and_its_taint_follows_its_condition() -> None:
    """False gives not-ready; when the kubelet then falls silent, the taint is swapped without waiting in line."""
    world = Nodes()
    world.run(10)
    world.faults.report("n-000", ready=False)
    world.run(10.1)
    assert world.taints("n-000") == ["not-ready:NoSchedule"]
    world.run(15.2)
    assert world.taints("n-000") == ["not-ready:NoSchedule", "not-ready:NoExecute"]
    world.faults.fail_node("n-000")
    world.run(100)
    assert world.taints("n-000") == ["unreachable:NoSchedule", "unreachable:NoExecute"] or world.taints("n-000") == [
        "unreachable:NoExecute",
        "unreachable:NoSchedule",
    ]


def test_cordoning_puts_a_taint_on_and_uncordoning_takes_it_off() -> None:
    """The taint is what keeps DaemonSet pods apart from others; it follows the field at once."""
    world = Nodes()
    world.faults.cordon("n-000")
    world.run(1)
    assert world.taints("n-000") == ["unschedulable:NoSchedule"]
    world.faults.uncordon("n-000")
    world.run(2)
    assert world.taints("n-000") == []


def test_a_node_that_never_posted_a_status_gets_60_s() -> None:
    """Created at 20 s by something other than a kubelet; nobody renews its lease."""
    world = Nodes()
    world.run(20)
    world.server.create("Node", make_node("late"))
    world.faults.fail_node("late")
    world.run(79.9)
    assert world.node("late").status.conditions == ()
    world.run(80.1)
    assert {condition.reason for condition in world.node("late").status.conditions} == {"NodeStatusNeverUpdated"}


def test_marking_many_pods_takes_the_time_of_the_requests() -> None:
    """100 pods at 20 requests/s with a burst of 30: the last one is marked 8.8 s after the first request.

    For each pod an event and a write; before them come 6 requests for the node (lease, status, two for each taint):
    (206 - 30) / 20 s = 8.8 s.
    """
    world = Nodes(limited=True)
    for number in range(100):
        world.bound_pod(f"web-{number:03d}", "n-000")
    world.run(12.9)
    world.faults.fail_node("n-000")
    world.run(63.79)
    assert world.pod("web-099").ready == "True"
    world.run(63.81)
    assert world.pod("web-099").ready == "False"


def test_a_deleted_node_is_forgotten() -> None:
    """Its name may come back as another node."""
    world = Nodes()
    world.run(12.9)
    world.faults.fail_node("n-000")
    world.run(100)
    world.server.remove("Node", "n-000")
    world.run(110)
    assert [event[4] for event in world.events if event[3] == "RemovingNode"] == [
        "Node n-000 event: Removing Node n-000 from Controller"
    ]


def test_what_a_pass_would_have_seen_is_known_without_the_pass() -> None:
    """Passes at 0, 5, 10 s; then one that took from 15 to 17 s, after which they come at 22, 27, 32 s."""
    passes = PassTimes(0, 5)
    passes.record(0, 0)
    assert [passes.seen_at(when) for when in (0, 1, 5, 6, 12)] == [0, 5, 5, 10, 15]
    passes.record(15, 17)
    assert [passes.seen_at(when) for when in (1, 6, 12, 15, 16, 17, 22, 23)] == [5, 10, 15, 15, 22, 22, 22, 27]
    assert [passes.next(when) for when in (17, 22, 23, 40)] == [22, 22, 27, 42]


def test_a_queue_whose_rate_changes_while_it_waits_waits_for_a_whole_new_token() -> None:
    """As SwapLimiter: the new bucket is emptied if the old one was empty. A rate of 0 stops it."""
    queue = ZoneQueue(0.1)
    for name in ("b", "a", "c"):
        assert queue.add(name, 0)
    assert queue.take(0) == "a"
    assert queue.take(5 * SECOND) is None
    queue.set_rate(0.01, 5 * SECOND)
    assert queue.next_at() == pytest.approx(105 * SECOND + 2235, abs=10)
    queue.set_rate(0.0, 6 * SECOND)
    assert (queue.next_at(), queue.take(10**15)) == (None, None)
    queue.set_rate(0.1, 7 * SECOND)
    assert queue.next_at() == pytest.approx(17 * SECOND, abs=200)
    assert not queue.add("a", 8 * SECOND)
    queue.remove("a")
    assert queue.add("a", 8 * SECOND)


@pytest.mark.parametrize(
    ("ready", "not_ready", "state"),
    [
        (0, 1, "FullDisruption"),
        (1, 2, "Normal"),
        (2, 3, "PartialDisruption"),
        (9, 10, "Normal"),
        (9, 11, "PartialDisruption"),
    ],
)
def test_the_state_of_a_zone(ready: int, not_ready: int, state: str) -> None:
    """Partial from 3 nodes and 55 % on: 10 of 19 are 52.6 %, 11 of 20 are 55 % sharp."""
    assert EvictionRates().state(ready, not_ready) is ZoneState(state)


def test_a_new_taint_does_not_prolong_a_running_tolerance() -> None:
    """The time runs from the first taint; a shorter tolerance only counts if it ends sooner."""
    world = Nodes()
    world.bound_pod("web", "n-000", (Toleration(operator="Exists", toleration_seconds=100),))
    for moment, key in ((10, "first"), (50, "second")):
        world.run(moment)
        node = world.node("n-000")
        taints = (*node.spec.taints, Taint(key=key, effect="NoExecute"))
        world.server.update("Node", replace(node, spec=replace(node.spec, taints=taints)))
    world.run(60)
    assert world.eviction.planned == {"default/web": pytest.approx(START + 110 * SECOND, abs=1000)}
