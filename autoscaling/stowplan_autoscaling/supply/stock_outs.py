"""What cannot be had, and when: spec.provider.stockOuts against the offers of pools.

Times in nanoseconds since the start of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan_autoscaling.resources.node_pools import StockOut

    from .pools import Pool


def is_sold_out(
    stock_outs: Iterable[StockOut], since: int, pool: str, type: str, zone: str, capacity_type: str
) -> bool:
    """Whether such a machine cannot be had at that moment."""
    return any(
        _is_about(each, pool, type, zone, capacity_type)
        and each.at <= since
        and (each.duration is None or since < each.at + each.duration)
        for each in stock_outs
    )


def times_without_machines(
    pools: Sequence[Pool], stock_outs: Sequence[StockOut], until: int
) -> tuple[tuple[int, int], ...]:
    """The times (begin, end) before `until` in which nothing of any pool can be had, as the pools are by then."""
    edges = {0, until}
    for each in stock_outs:
        edges |= {each.at, until if each.duration is None else each.at + each.duration}
    edges |= {at for pool in pools for at, _ in pool.changes}
    moments = sorted(edge for edge in edges if 0 <= edge <= until)
    found: list[tuple[int, int]] = []
    for begin, end in pairwise(moments):
        if pools and all(_has_nothing(_as_of(pool, begin), stock_outs, begin) for pool in pools):
            if found and found[-1][1] == begin:
                begin = found.pop()[0]
            found.append((begin, end))
    return tuple(found)


def _as_of(pool: Pool, moment: int) -> Pool:
    """The pool after its changes up to that moment."""
    return next((after for at, after in reversed(pool.changes) if at <= moment), pool)


def _has_nothing(pool: Pool, stock_outs: Sequence[StockOut], moment: int) -> bool:
    return all(
        is_sold_out(stock_outs, moment, pool.name, machine.name, offer.zone, offer.capacity_type)
        for machine in pool.types
        for offer in machine.offers
    )


def _is_about(stock_out: StockOut, pool: str, type: str, zone: str, capacity_type: str) -> bool:
    return (
        stock_out.pool in {"", pool}
        and stock_out.instance_type in {"", type}
        and stock_out.zone in {"", zone}
        and stock_out.capacity_type in {None, capacity_type}
    )
