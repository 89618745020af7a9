"""Which pods a ReplicaSet gives up first: the ranking row by row, the age classes, and the two ways of computing it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.small_world import START, make_pod
from stowplan_autoscaling.cluster import deletion_order
from stowplan_autoscaling.cluster.deletion_order import DELETION_COST, choose_victims, deletion_cost
from stowplan_autoscaling.cluster.pods import FALSE, PENDING, RUNNING, TRUE, ClusterPod
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_scheduler.objects import PodStatus

NOW = START + 10_000 * SECOND


def one(name: str, *, node: str = "n1", phase: str = RUNNING, cost: str | None = None, **fields: Any) -> ClusterPod:
    """A pod that has been ready for 1000 s, unless `fields` say otherwise; its uid is its name."""
    pod = make_pod(name, node=node)
    annotations = {} if cost is None else {DELETION_COST: cost}
    values = {"ready": TRUE, "ready_since": NOW - 1_000 * SECOND, "created": NOW - 1_010 * SECOND, **fields}
    return replace(
        pod,
        metadata=replace(pod.metadata, uid=name, annotations=annotations),
        status=PodStatus(phase=phase),
        **values,
    )


def order(*pods: ClusterPod) -> list[str]:
    """All but the last, in the order of their deletion."""
    return [pod.metadata.name for pod in choose_victims(pods, len(pods) - 1, pods, NOW)]


def aged(name: str, seconds: float) -> ClusterPod:
    """Ready for so long."""
    return one(name, ready_since=NOW - round(seconds * SECOND))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (one("z", node=""), one("a", phase=PENDING, ready=FALSE)),  # without a node before one that is not running
        (one("z", phase=PENDING), one("a", phase="Unknown", ready=FALSE)),
        (one("z", phase="Unknown"), one("a", ready=FALSE)),
        (one("z", phase=""), one("a", phase="Unknown")),  # no phase counts as Pending
        (one("z", ready=FALSE, cost="100"), one("a", cost="-100")),
        (one("z", ready="Unknown"), one("a")),
        (one("z", cost="-1"), one("a")),
        (one("z"), one("a", cost="1")),
        (one("z", restarts=1), one("a")),
        (aged("z", 17), aged("a", 18)),
        (aged("z", 34), aged("a", 68)),
        (
            one("z", ready=FALSE, restarts=1, created=NOW - 900 * SECOND),
            one("a", ready=FALSE, created=NOW - 5 * SECOND),
        ),
        (aged("a", 68), aged("z", 35)),  # of one class: by uid
    ],
)
def test_the_first_is_deleted_before_the_second(first: ClusterPod, second: ClusterPod) -> None:
    """Row by row of the ranking; but for the last row uids would decide the other way round."""
    assert order(first, second) == [first.metadata.name]
    assert order(second, first) == [first.metadata.name]


@pytest.mark.parametrize(
    "limit", [17.179869184, 34.359738368, 68.719476736, 137.438953472, 274.877906944, 549.755813888]
)
def test_ages_are_compared_as_powers_of_two_of_nanoseconds(limit: float) -> None:
    """Classes end at 2^34 ns = 17.2 s, 34.4 s and so on: at the limit begins the next class. Of one class the smaller
    uid goes first, though it may be the older pod.
    """
    assert order(aged("z", limit - 0.001), aged("a", limit)) == ["z"]
    assert order(aged("a", limit * 1.99), aged("z", limit)) == ["a"]
    assert order(aged("z", limit * 1.99), aged("a", limit)) == ["a"]


def test_pods_that_are_not_ready_go_by_their_creation() -> None:
    """Ready ones by their readiness: here a pod that was created earlier has become ready later."""
    young, old = (one(name, ready=FALSE, created=NOW - age * SECOND) for name, age in (("z", 20), ("a", 200)))
    assert order(old, young) == ["z"]
    late = one("z", created=NOW - 9_000 * SECOND, ready_since=NOW - 20 * SECOND)
    early = one("a", created=NOW - 900 * SECOND, ready_since=NOW - 200 * SECOND)
    assert order(early, late) == ["z"]


def test_a_pod_ready_in_the_future_or_this_moment_is_the_youngest() -> None:
    """An age of zero or less has no logarithm: it is below every class."""
    assert order(aged("z", 0), aged("a", 1e-9)) == ["z"]
    assert order(aged("z", -5), aged("a", 1e-9)) == ["z"]
    assert order(aged("z", -5), aged("a", 0)) == ["a"]


def test_crowded_nodes_give_up_first() -> None:
    """Related pods count, too: n1 has two of this ReplicaSet, n2 one and two of its sibling."""
    pods = [one("a", node="n1"), one("b", node="n1"), one("c", node="n2")]
    sibling = [one("x", node="n2"), one("y", node="n2")]
    assert [pod.metadata.name for pod in choose_victims(pods, 1, pods, NOW)] == ["a"]
    assert [pod.metadata.name for pod in choose_victims(pods, 1, [*pods, *sibling], NOW)] == ["c"]
    # Without relations (a ReplicaSet of its own) no crowd is seen.
    apart = [one("a", node="n2"), one("b", node="n1"), one("c", node="n1")]
    assert [pod.metadata.name for pod in choose_victims(apart, 1, [], NOW)] == ["a"]


def test_a_deletion_cost_outweighs_a_crowd_and_an_age() -> None:
    """Cost stands before both in the ranking."""
    pods = [one("a", node="n1"), one("b", node="n1"), one("c", node="n2", cost="-5"), one("d", node="n3", cost="5")]
    assert order(*pods) == ["c", "a", "b"]


def test_the_smallest_cost_outweighs_the_largest_crowd() -> None:
    """Seven on one node, one alone whose cost is one less."""
    pods = [one(name, node="n1") for name in "abcdefg"]
    alone = one("z", node="n2", cost="-1")
    assert [pod.metadata.name for pod in choose_victims([*pods, alone], 1, [*pods, alone], NOW)] == ["z"]
    assert order(one("a", cost="2147483647"), one("z", cost="-2147483648")) == ["z"]
    assert order(one("a", ready=FALSE, cost="2147483647"), one("z", cost="-2147483648")) == ["a"]


def test_without_a_choice_nothing_is_ranked() -> None:
    """All pods, in the order given."""
    pods = [one("b"), one("a", node="")]
    assert choose_victims(pods, 2, pods, NOW) is pods
    assert choose_victims(pods, 5, pods, NOW) is pods
    assert choose_victims(pods, 0, pods, NOW) == []


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("10", 10),
        ("-10", -10),
        ("x", 0),
        ("", 0),
        ("1.5", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("-2147483648", -2147483648),
        ("-2147483649", 0),
    ],
)
def test_a_cost_is_a_32_bit_number(text: str, cost: int) -> None:
    """Anything else counts as 0; the API server refuses it, but old objects may have it."""
    assert deletion_cost(one("a", cost=text)) == cost
    assert deletion_cost(one("a")) == 0


AGES = st.sampled_from([0, 1, 10, 17, 18, 34, 35, 68, 69, 140, 5_000])


@st.composite
def crowds(draw: st.DrawFn, *, distinct: bool) -> list[ClusterPod]:
    """Pods in any state; with `distinct` no two moments are equal."""
    pods = []
    for number in range(draw(st.integers(2, 8))):
        shift = number * 7 * MILLISECOND if distinct else 0
        pods.append(
            one(
                draw(st.sampled_from("abcxyz")) + str(number),
                node=draw(st.sampled_from(["", "n1", "n2"])),
                phase=draw(st.sampled_from([PENDING, RUNNING, RUNNING, "Unknown"])),
                cost=draw(st.sampled_from([None, None, "1", "-1"])),
                ready=draw(st.sampled_from([TRUE, TRUE, FALSE, ""])),
                ready_since=NOW - draw(AGES) * SECOND - shift,
                created=NOW - draw(AGES) * SECOND - 6_000 * SECOND - shift,
                restarts=draw(st.sampled_from([0] * 9 + [1])) if distinct else draw(st.integers(0, 1)),
            )
        )
    return pods


@given(crowds(distinct=True), st.integers(1, 7))
def test_the_quick_way_is_the_way_of_comparing(pods: list[ClusterPod], count: int) -> None:
    """Where all moments differ keys are sorted; the comparison of upstream, pair by pair, gives the same."""
    with pytest.MonkeyPatch.context() as patch:
        quick = choose_victims(pods, count, pods, NOW)
        patch.setattr(deletion_order, "_are_all_different", lambda pods: False)
        slow = choose_victims(pods, count, pods, NOW)
    assert list(quick) == list(slow)


@given(crowds(distinct=False))
def test_of_two_pods_the_order_in_the_list_does_not_matter(pods: list[ClusterPod]) -> None:
    """Unless nothing tells them apart: equal moments, equal restarts."""
    for first in pods:
        for second in pods:
            if first is second or (first.created, first.restarts) == (second.created, second.restarts):
                continue
            there = choose_victims([first, second], 1, [], NOW)
            back = choose_victims([second, first], 1, [], NOW)
            assert list(there) == list(back)
