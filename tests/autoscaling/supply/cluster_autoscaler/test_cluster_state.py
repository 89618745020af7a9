"""What is made of nodes that are late, missing or broken."""

from __future__ import annotations

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.backoff import ExponentialBackoff
from stowplan_autoscaling.supply.cluster_autoscaler.cluster_state import ClusterStateRegistry
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import (
    CREATING,
    OUT_OF_RESOURCES,
    GroupConfig,
    GroupState,
    GroupTable,
    Instance,
    InstanceError,
)
from stowplan_autoscaling.supply.cluster_autoscaler.observation import ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.options import HOUR, AutoscalingOptions

from .builders import T0, make_group, make_node

STOCK_OUT = InstanceError(OUT_OF_RESOURCES, "STOCKOUT", "no more of these")


class State:
    """A registry with one group."""

    def __init__(self) -> None:
        self.group = make_group(most=20)
        self.table = GroupTable.of((self.group,))
        options = AutoscalingOptions()
        self.registry = ClusterStateRegistry(options, self.table, GroupConfig(options))
        self.nodes: list[ObservedNode] = []

    def node(self, name: str, *, ready: bool = True, age: int = HOUR, has_instance: bool = True) -> None:
        created = T0 - age
        self.nodes.append(ObservedNode(make_node(name, ready=ready), "ng", created, created, ready, has_instance))

    def update(self, target: int, now: int = T0, extra: tuple[Instance, ...] = ()) -> None:
        instances = (*(Instance(seen.node.metadata.name) for seen in self.nodes if seen.has_instance), *extra)
        self.table.states["ng"] = GroupState(target, instances)
        self.registry.update(self.nodes, now)


def test_back_off_doubles_after_it_has_ended_and_is_forgotten_after_hours() -> None:
    backoff = ExponentialBackoff(AutoscalingOptions())
    assert backoff.back_off("ng", STOCK_OUT, T0) == T0 + 5 * MINUTE
    assert backoff.back_off("ng", STOCK_OUT, T0 + MINUTE) == T0 + 6 * MINUTE
    assert backoff.status("ng", T0 + 6 * MINUTE) is not None
    later = T0 + 6 * MINUTE + 1
    assert backoff.status("ng", later) is None
    assert backoff.back_off("ng", STOCK_OUT, later) == later + 10 * MINUTE
    durations = []
    for _ in range(3):
        later += HOUR
        durations.append(backoff.back_off("ng", STOCK_OUT, later) - later)
    assert durations == [20 * MINUTE, 30 * MINUTE, 30 * MINUTE]
    backoff.remove_stale(later + 3 * HOUR + 1)
    assert backoff.back_off("ng", STOCK_OUT, later + 4 * HOUR) == later + 4 * HOUR + 5 * MINUTE


def test_nodes_are_sorted_by_readiness() -> None:
    state = State()
    state.node("ready")
    state.node("broken", ready=False)
    state.node("starting", ready=False, age=14 * MINUTE)
    state.node("gone", has_instance=False)
    state.update(4, extra=(Instance("unseen"),))
    found = state.registry.per_group["ng"]
    assert found.ready == ["ready"]
    assert found.unready == ["broken"]
    assert found.not_started == ["starting"]
    assert found.deleted == ["gone"]
    assert found.unregistered == ["unseen"]
    assert len(found.registered) == 4


def test_upcoming_nodes_are_those_that_were_asked_for_and_are_not_ready() -> None:
    state = State()
    state.node("ready")
    state.node("starting", ready=False, age=MINUTE)
    state.update(4)
    assert state.registry.upcoming_nodes(T0) == ({}, [])
    state.registry.register_scale_up(state.group, 3, T0)
    state.update(4)
    assert state.registry.upcoming_nodes(T0) == ({"ng": 3}, ["starting"])


def test_a_request_ends_when_its_nodes_are_ready() -> None:
    state = State()
    state.registry.register_scale_up(state.group, 1, T0)
    state.update(1, T0 + MINUTE)
    assert state.registry.upcoming_nodes(T0 + MINUTE) == ({"ng": 1}, [])
    state.node("new", age=0)
    state.update(1, T0 + 2 * MINUTE)
    assert state.registry.requests == {}
    assert state.registry.failures == []


def test_a_request_times_out_and_what_never_came_is_given_back() -> None:
    state = State()
    state.node("old")
    state.update(1)
    state.registry.register_scale_up(state.group, 2, T0)
    state.update(3, T0 + 15 * MINUTE)
    assert state.registry.reverts == []
    state.update(3, T0 + 15 * MINUTE + 1)
    assert state.registry.reverts == [("ng", 2)]
    assert [(each.group, each.count) for each in state.registry.failures] == [("ng", 2)]
    assert not state.registry.scale_up_safety("ng", T0 + 16 * MINUTE).is_safe
    assert state.table.target("ng") == 1


def test_machines_that_are_there_are_not_given_back() -> None:
    state = State()
    state.registry.register_scale_up(state.group, 2, T0)
    machines = (Instance("m1"), Instance("m2"))
    state.update(2, T0, extra=machines)
    state.update(2, T0 + 16 * MINUTE, extra=machines)
    assert state.registry.reverts == []
    assert state.registry.old_unregistered(T0 + 16 * MINUTE) == {"ng": ["m1", "m2"]}


def test_later_requests_add_up_and_shift_the_time() -> None:
    state = State()
    state.registry.register_scale_up(state.group, 2, T0)
    state.registry.register_scale_up(state.group, 3, T0 + MINUTE)
    request = state.registry.requests["ng"]
    assert (request.increase, request.expected) == (5, T0 + 16 * MINUTE)
    state.registry.register_scale_up(state.group, -5, T0)
    assert state.registry.requests == {}


def test_a_stock_out_shrinks_the_request_once_and_backs_the_group_off() -> None:
    state = State()
    state.registry.register_scale_up(state.group, 3, T0)
    failed = (Instance("m1", CREATING, STOCK_OUT), Instance("m2", CREATING, STOCK_OUT))
    for _ in range(2):
        state.update(3, T0 + SECOND, extra=failed)
    assert state.registry.requests["ng"].increase == 1
    assert [each.instances for each in state.registry.failed_creations()] == [("m1", "m2")]
    backoff = state.registry.scale_up_safety("ng", T0 + MINUTE).backoff
    assert backoff is not None
    assert backoff.error.code == "STOCKOUT"
    assert state.registry.upcoming_nodes(T0 + MINUTE) == ({}, [])


def test_a_cluster_is_unhealthy_with_more_than_three_and_45_percent_unready_nodes() -> None:
    state = State()
    for number in range(4):
        state.node(f"broken{number}", ready=False)
    for number in range(4):
        state.node(f"ready{number}")
    state.update(8)
    assert not state.registry.is_cluster_healthy()
    state.node("ready4")
    state.update(9)
    assert state.registry.is_cluster_healthy()


def test_a_group_is_unhealthy_if_too_many_of_its_nodes_are_missing() -> None:
    state = State()
    state.node("ready")
    state.update(4)
    assert state.registry.is_group_healthy("ng")
    state.update(5)
    assert not state.registry.is_group_healthy("ng")
    state.registry.register_scale_up(state.group, 4, T0)
    state.update(5)
    assert state.registry.is_group_healthy("ng")


def test_a_wrong_size_is_dated_from_when_it_was_first_seen() -> None:
    state = State()
    state.node("ready")
    state.update(3, T0)
    state.update(3, T0 + MINUTE)
    found = state.registry.incorrect_size("ng")
    assert found is not None
    assert (found.expected, found.current, found.since) == (3, 1, T0)
    state.update(1, T0 + 2 * MINUTE)
    assert state.registry.incorrect_size("ng") is None
