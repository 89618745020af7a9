"""Who has to leave one node, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.preemption.world import World, message, victims
from stowplan_scheduler.objects import Node, Pod, PodDisruptionBudget
from stowplan_scheduler.preemption.budgets import Budgets
from stowplan_scheduler.preemption.victims import dry_runs
from support.builders import PodBuilder, budget, node, pod, selector

EARLY, MIDDLE, LATE = (f"1999-12-0{day}T00:00:00Z" for day in (1, 2, 3))


def bound(name: str, cpu: str, priority: int = 0, started: str | None = MIDDLE) -> PodBuilder:
    """A pod on node n1."""
    return pod(name).req(cpu=cpu).priority(priority).on("n1", started)


def on_one_node(incoming: PodBuilder, *objects: PodBuilder | PodDisruptionBudget, cpu: str = "4") -> list[str]:
    """The victims on a node with so many cores."""
    built = [item.build() if isinstance(item, PodBuilder) else item for item in objects]
    world = World(node("n1").capacity(cpu=cpu).build(), *built)
    result = world.preempt(incoming)
    assert result.nominated_node == "n1", message(result)
    return victims(result)


def test_only_as_many_pods_leave_as_must() -> None:
    """1 of 4 cores is wanted and none is free: one of four equal pods goes, the one that started last."""
    pods = [bound(f"p{day}", "1", started=f"1999-12-0{day}T00:00:00Z") for day in (3, 1, 4, 2)]
    assert on_one_node(pod("in").req(cpu="1").priority(10), *pods) == ["p4"]


def test_a_pod_without_start_time_counts_as_started_now() -> None:
    """Upstream takes the present time for it, so it is the least important of its priority."""
    pods = [bound("new", "2", started=None), bound("old", "2", started=LATE)]
    assert on_one_node(pod("in").req(cpu="2").priority(10), *pods) == ["new"]


def test_lower_priority_leaves_before_later_start() -> None:
    """Priority outweighs the time that a pod has been running."""
    pods = [bound("low-old", "2", 1, EARLY), bound("high-new", "2", 2, LATE)]
    assert on_one_node(pod("in").req(cpu="2").priority(10), *pods) == ["low-old"]


def test_pods_of_equal_or_higher_priority_never_leave() -> None:
    """There is no preemption among equals."""
    pods = [bound("equal", "2", 10), bound("higher", "1", 11), bound("lower", "1", 9)]
    assert on_one_node(pod("in").req(cpu="1").priority(10), *pods) == ["lower"]


def test_a_large_important_pod_leaves_if_it_cannot_come_back() -> None:
    """The important pod is tried first and does not fit beside the incoming one; the small pod then does."""
    pods = [bound("large", "3", 5), bound("small", "1", 1)]
    assert on_one_node(pod("in").req(cpu="2").priority(10), *pods) == ["large"]


def test_victims_stand_in_order_of_importance() -> None:
    """The first victim speaks for the node in the choice, whichever group it was tried in."""
    pods = [bound("a", "2", 1).labels(app="a"), bound("b", "2", 5).labels(app="b")]
    found = on_one_node(pod("in").req(cpu="4").priority(10), *pods, budget("guard", selector(app="a"), 0))
    assert found == ["b", "a"]


def test_a_budget_makes_its_pods_come_back_first() -> None:
    """Without the budget the pod of priority 1 would leave, with it the one of priority 5 does."""
    pods = [bound("guarded", "2", 1).labels(app="a"), bound("free", "2", 5)]
    incoming = pod("in").req(cpu="2").priority(10)
    assert on_one_node(incoming, *pods) == ["guarded"]
    assert on_one_node(incoming, *pods, budget("guard", selector(app="a"), 0)) == ["free"]


def test_terminating_pods_can_be_victims() -> None:
    """They still hold their room; upstream skips only their deletion."""
    gone = bound("leaving", "4").deleting()
    assert on_one_node(pod("in").req(cpu="4").priority(10), gone) == ["leaving"]


def test_a_free_host_port_is_room_too() -> None:
    """cpu is plentiful: only the pod that has the port is in the way."""
    pods = [bound("other", "1"), bound("holder", "1").port(8080)]
    assert on_one_node(pod("in").req(cpu="1").port(8080).priority(10), *pods) == ["holder"]


def test_the_first_pod_that_leaves_frees_a_port_that_two_have() -> None:
    """Ports are a set (HostPortInfo): with the victim gone the port counts as free, though a second pod has it too."""
    pods = [bound("stays", "1", 20).port(8080), bound("leaves", "1", 1).port(8080), bound("other", "1", 1)]
    assert on_one_node(pod("in").req(cpu="1").port(8080).priority(10), *pods) == ["leaves"]


def test_anti_affinity_of_a_running_pod_makes_it_the_victim() -> None:
    """A rule about the whole cluster sees the dry run as well: without `picky` nobody repels the incoming pod."""
    picky = bound("picky", "1").anti_affinity("hostname", selector(app="in"))
    found = on_one_node(pod("in").labels(app="in").req(cpu="1").priority(10), bound("other", "1"), picky)
    assert found == ["picky"]


def test_own_anti_affinity_drives_out_the_pods_it_matches() -> None:
    """Both pods with app=web must go, the third may stay."""
    web = [bound(f"web{i}", "1").labels(app="web") for i in range(2)]
    incoming = pod("in").req(cpu="1").priority(10).anti_affinity("hostname", selector(app="web"))
    assert sorted(on_one_node(incoming, *web, bound("other", "1"))) == ["web0", "web1"]


def test_a_spread_constraint_is_judged_with_the_victims_gone() -> None:
    """Skew 1 over hosts: n1 has two matching pods, n2 has none and is full of a more important one. With one of the two
    left the skew would still be 1 + 1 - 0 = 2, so both leave.
    """
    spread = pod("in").labels(app="web").req(cpu="1").priority(10).spread("hostname", selector(app="web"))
    full = pod("full").req(cpu="4").priority(50).on("n2").build()
    web = [bound(f"web{i}", "1").labels(app="web").build() for i in range(2)]
    world = World(node("n1").build(), node("n2").build(), full, *web)
    result = world.preempt(spread)
    assert result.nominated_node == "n1"
    assert sorted(victims(result)) == ["web0", "web1"]


def test_those_who_came_back_count_for_those_after_them() -> None:
    """Skew 2 over hosts, three matching pods on n1, none on n2: one may come back (1 + 1 - 0), the next may not."""
    spread = pod("in").labels(app="web").req(cpu="1").priority(10).spread("hostname", selector(app="web"), max_skew=2)
    full = pod("full").req(cpu="4").priority(50).on("n2").build()
    web = [bound(f"web{day}", "1", started=f"1999-12-0{day}T00:00:00Z").labels(app="web").build() for day in (1, 2, 3)]
    result = World(node("n1").build(), node("n2").build(), full, *web).preempt(spread)
    assert victims(result) == ["web2", "web3"]


def test_pods_promised_room_are_not_driven_out_by_equals() -> None:
    """`waiting` (same priority) is nominated to n1 and needs 2 cores: with it and the incoming pod everybody must go,
    and without it the verdict stays the same.
    """
    waiting = pod("waiting").req(cpu="2").priority(10).nominated("n1")
    pods = [bound("a", "2", 1, EARLY), bound("b", "2", 1, LATE), waiting]
    assert on_one_node(pod("in").req(cpu="2").priority(10), *pods) == ["a", "b"]


def test_pods_promised_room_of_lower_priority_do_not_count() -> None:
    """Their nomination will be taken away."""
    waiting = pod("waiting").req(cpu="2").priority(9).nominated("n1")
    pods = [bound("a", "2", 1, EARLY), bound("b", "2", 1, LATE), waiting]
    assert on_one_node(pod("in").req(cpu="2").priority(10), *pods) == ["b"]


@pytest.mark.parametrize(
    ("allowed", "violations"),
    [(0, 2), (1, 1), (2, 0)],
)
def test_violations_count_the_victims_beyond_what_the_budget_allows(allowed: int, violations: int) -> None:
    """Both pods must leave; the budget allows so many of them to."""
    pods = [bound(f"p{i}", "2").labels(app="a").build() for i in range(2)]
    world = World(node("n1").build(), *pods)
    search = world.search(pod("in").req(cpu="4").priority(10).build())
    (run,) = dry_runs(search, np.array([0]), Budgets([budget("guard", selector(app="a"), allowed)]))
    assert (run.verdict, len(run.victims), run.violations) == (0, 2, violations)


def test_a_dry_run_leaves_the_snapshot_as_it_is() -> None:
    """Hypotheses work on copies: ports, pods and sums are what they were."""
    pods = [bound("a", "2").port(80).build(), bound("b", "2").port(81).build()]
    world = World(node("n1").build(), *pods)
    search = world.search(pod("in").req(cpu="3").port(80).priority(10).build())
    before = world.snapshot_state()
    dry_runs(search, np.array([0]), Budgets([]))
    assert world.snapshot_state() == before


SMALL_PODS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(0, 12), st.integers(1, 28), st.booleans()), min_size=1, max_size=8
)


def _world(nodes: list[list[tuple[int, int, int, bool]]]) -> World:
    made: list[Node | Pod] = []
    for at, pods in enumerate(nodes):
        made.append(node(f"n{at}").capacity(cpu="4").build())
        for number, (cpu, priority, day, port) in enumerate(pods):
            built = pod(f"p{at}-{number}").req(cpu=f"{cpu}00m").priority(priority)
            built = built.on(f"n{at}", f"1999-12-{day:02d}T00:00:00Z")
            made.append((built.port(8080) if port else built).build())
    return World(*made)


@given(nodes=st.lists(SMALL_PODS, min_size=1, max_size=5), cpu=st.integers(1, 40), port=st.booleans())
def test_many_nodes_at_once_give_what_one_by_one_gives(
    nodes: list[list[tuple[int, int, int, bool]]], cpu: int, port: bool
) -> None:
    """Batches are a matter of speed only."""
    world = _world(nodes)
    incoming = pod("in").req(cpu=f"{cpu}00m").priority(6)
    search = world.search((incoming.port(8080) if port else incoming).build())
    rows = np.array([i for i, info in enumerate(world.cluster.table.infos) if any(p.priority < 6 for p in info.pods)])
    if not len(rows):
        return
    together = dry_runs(search, rows, Budgets([]))
    apart = [run for row in rows for run in dry_runs(search, np.array([row]), Budgets([]))]
    assert together == apart


@given(pods=SMALL_PODS, cpu=st.integers(1, 40))
def test_the_pod_fits_without_its_victims_and_not_with_any_one_of_them(
    pods: list[tuple[int, int, int, bool]], cpu: int
) -> None:
    """What a set of victims is for, checked by arithmetic: requests against 4000m."""
    pods = [(size, priority, day, False) for size, priority, day, _ in pods]
    free = 4000 - 100 * sum(size for size, *_ in pods)
    if free >= 100 * cpu:
        return
    world = _world([pods])
    result = world.preempt(pod("in").req(cpu=f"{cpu}00m").priority(6))
    sizes = [100 * int(p.shape.fit.milli_cpu // 100) for p in result.victims]
    going = [100 * size for size, priority, _, _ in pods if priority < 6]
    if not going or free + sum(going) < 100 * cpu:
        assert not result.victims
        return
    assert free + sum(sizes) >= 100 * cpu
    assert all(free + sum(sizes) - size < 100 * cpu for size in sizes)
