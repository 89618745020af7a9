"""When nothing of any pool can be had."""

from __future__ import annotations

from typing import Any

from stowplan_autoscaling.kernel import MINUTE
from stowplan_autoscaling.resources.node_pools import NodePool, StockOut
from stowplan_autoscaling.supply.pools import MachineType, Offer, Pool
from stowplan_autoscaling.supply.stock_outs import times_without_machines


def pool(*zones: str, name: str = "a", changes: tuple[tuple[int, Pool], ...] = ()) -> Pool:
    """Machines of one type in some zones."""
    offers = tuple(Offer(zone, "on-demand", 1.0) for zone in zones)
    machine = MachineType(name="m", capacity={}, allocatable={}, offers=offers)
    return Pool(
        spec=NodePool.model_validate({"name": name, "instance_types": ["m"]}), types=(machine,), changes=changes
    )


def out(**about: Any) -> StockOut:
    """From a minute on, for ten."""
    return StockOut.model_validate({"at": "1m", "duration": "10m", **about})


def minutes(*pools: Pool, outs: list[StockOut], until: int = 60) -> list[tuple[float, float]]:
    """As minutes."""
    found = times_without_machines(pools, outs, until * MINUTE)
    return [(begin / MINUTE, end / MINUTE) for begin, end in found]


def test_only_when_every_offer_of_every_pool_is_out_nothing_can_be_had() -> None:
    """Zone b is out five minutes later."""
    assert minutes(pool("a"), outs=[out()]) == [(1, 11)]
    assert minutes(pool("a", "b"), outs=[out(zone="a")]) == []
    assert minutes(pool("a", "b"), outs=[out(zone="a"), out(zone="b", at="6m")]) == [(6, 11)]
    assert minutes(pool("a"), pool("a", name="b"), outs=[out(pool="a")]) == []
    assert minutes(outs=[out()]) == []


def test_times_that_touch_are_one_and_end_with_the_run() -> None:
    """Ten minutes of one and for ever of another."""
    assert minutes(pool("a"), outs=[out(), out(at="11m", duration=None)]) == [(1, 60)]
    assert minutes(pool("a"), outs=[out(at="90m")]) == []
    assert minutes(pool("a"), outs=[out()], until=5) == [(1, 5)]


def test_a_pool_is_what_it_is_by_then() -> None:
    """At five minutes it turns to a zone that has machines."""
    assert minutes(pool("a", changes=((5 * MINUTE, pool("b")),)), outs=[out(zone="a")]) == [(1, 5)]
