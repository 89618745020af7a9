"""What the report says about pools and what they cost, by hand."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.prices import Commitment, Offering, PriceBook
from stowplan_autoscaling.results import NodeRecord, PoolSample
from stowplan_autoscaling.results.supply_tallies import CostTally, Paid, PoolTally
from support.optional import some

M = Offering("m", "", "on-demand")


def given_up(seconds: float) -> NodeRecord:
    """A node of the start that was empty."""
    return NodeRecord("old", "a", "m", "", "on-demand", 1.0, 0.0, 0.0, 0.0, 0.0, seconds, seconds, "Initial", "Empty")


def asked_for(seconds: float) -> NodeRecord:
    """A node that is there at the end."""
    times = (seconds, seconds, seconds, seconds)
    return NodeRecord("new", "a", "m", "", "on-demand", 1.0, *times, None, None, "ScaleUp", "Running")


def finding(gone: list[float], asked: list[float]) -> str:
    """After 1,000 s."""
    tally = PoolTally("a", 1000.0)
    for seconds in gone:
        tally.take_node(given_up(seconds))
    for seconds in asked:
        tally.take_node(asked_for(seconds))
    return tally.churn(1000.0)


def test_the_curve_of_a_pool_has_nodes_that_are_leaving() -> None:
    """Two that take pods, one that is emptied, and one that is to come."""
    tally = PoolTally("a", 60.0)
    tally.take(PoolSample(0.0, "a", 2, 1, 1, 4.0, 0, 0.0, 0.0, 12.0, 0.0, 0, 0, 0, 0))
    found = tally.report(60.0, node_hours=0.0, cost=0.0)
    assert set(found.curve) == {3}
    assert (found.nodes.mean, found.starting.mean) == (2, 1)


def test_six_nodes_given_up_and_asked_for_again_are_a_finding() -> None:
    """From 110 s to 860 s of 1,000 s; five times are none."""
    gone = [100.0 + 150 * number for number in range(6)]
    asked = [seconds + 10 for seconds in gone]
    assert finding(gone, asked).startswith("pool a: nodes come and go: 6 times one was given up")
    assert finding(gone, asked[:1] + asked[2:]) == ""


def test_one_request_follows_one_node_that_was_given_up() -> None:
    """Five go before one is asked for at 200 s, another one before 950 s: that is twice, not six times."""
    assert finding([100, 110, 120, 130, 140, 900], [200, 950]) == ""


@pytest.mark.parametrize(("machines", "commitments", "total"), [(0, 1, 1), (1, 0, 1), (2, -1, 1)])
def test_commitments_add_what_is_not_used_and_save_what_is(machines: int, commitments: float, total: float) -> None:
    """Two machines of 1 an hour for 0.5 each: without any 1 is paid for nothing, with two 1 is saved."""
    book = PriceBook(rows={}, commitments=(Commitment(Offering("m", "", ""), 2, 0.5),))
    tally = CostTally(book, 3600.0)
    for number in range(machines):
        paid = Paid(pool="a", instance_type="m", zone="", capacity_type="on-demand", price=1.0, launched=0.0)
        assert paid.offering == M
        tally.begin(f"n{number}", paid)
    found = some(tally.report(3600.0))
    assert (found.commitments, found.total) == (commitments, total)
