"""What the report says about node pools, what they cost, and the loops that decide about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from stowplan_autoscaling.prices import Offering, PriceBook

from .levels import Curve, Held, rounded
from .records import AutoscalerSample, NodeRecord, PoolSample, SupplyRecord
from .report import CostReport, LoopReport, PoolReport

_HOUR: Final = 3600.0

CHURN_WITHIN: Final = 600.0
"""A node that is asked for within ten minutes after its pool gave one up need not have gone."""
CHURN_CYCLES: Final = 6
"""So many times make a pool's coming and going a finding, if it goes on to the end."""
VOLUNTARY: Final = frozenset({"Unneeded", "Empty", "Underutilized"})
"""Reasons for which an engine gives up a node that it need not."""


class PoolTally:
    """One pool."""

    def __init__(self, name: str, duration: float) -> None:
        self._name = name
        self._nodes, self._starting = Held(), Held()
        self._shares = {
            name: Held()
            for name in (
                "cpu_requested",
                "cpu_used",
                "cpu_stranded",
                "memory_requested",
                "memory_used",
                "memory_stranded",
            )
        }
        self._curve = Curve(duration)
        self._counts: Counter[str] = Counter()
        self._gone: list[float] = []
        self._asked: list[float] = []

    def take(self, row: PoolSample) -> None:
        """A sample."""
        self._nodes.set(row.seconds, row.ready)
        self._starting.set(row.seconds, row.starting)
        self._curve.set(row.seconds, row.ready + row.leaving)
        for resource in ("cpu", "memory"):
            whole = getattr(row, f"{resource}_allocatable")
            for what in ("requested", "used", "stranded"):
                part = getattr(row, f"{resource}_{what}")
                self._shares[f"{resource}_{what}"].set(row.seconds, part / whole if whole else 0.0)

    def take_node(self, row: NodeRecord) -> None:
        """A node that is gone, or one that is there at the end."""
        self._counts["started"] += row.registered is not None and row.began != "Initial"
        self._counts["ended"] += row.registered is not None and row.ended is not None
        self._counts["failed"] += row.registered is None and row.ended is not None
        self._counts["interrupted"] += row.end == "Interrupted"
        if row.began not in {"Initial", "Replacement"}:
            self._asked.append(row.requested)
        if row.end in VOLUNTARY and row.ended is not None and row.registered is not None:
            self._gone.append(row.ended if row.disrupted is None else row.disrupted)

    def churn(self, until: float) -> str:
        """The finding that its nodes come and go for ever; "" if they do not."""
        asked = sorted(self._asked)
        cycles: list[float] = []
        for gone in sorted(self._gone):
            after = next((time for time in asked if gone <= time <= gone + CHURN_WITHIN), None)
            if after is not None:
                asked.remove(after)
                cycles.append(after)
        if len(cycles) < CHURN_CYCLES or max(cycles) < 0.75 * until or min(cycles) > 0.5 * until:
            return ""
        return (
            f"pool {self._name}: nodes come and go: {len(cycles)} times one was given up and another asked for within "
            f"{CHURN_WITHIN / 60:.0f} minutes, until the end of the run; a longer time before nodes are given up "
            "(consolidateAfter, scaleDownUnneededTime) or other requests would stop it"
        )

    def report(self, until: float, *, node_hours: float, cost: float) -> PoolReport:
        """What it comes to."""
        return PoolReport(
            pool=self._name,
            nodes=self._nodes.level(until),
            starting=self._starting.level(until),
            node_hours=rounded(node_hours),
            cost=rounded(cost),
            started=self._counts["started"],
            ended=self._counts["ended"],
            failed=self._counts["failed"],
            interrupted=self._counts["interrupted"],
            curve=self._curve.means(until),
            **{name: held.level(until) for name, held in self._shares.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """A node that is paid for: per hour, from its launch on, at least `minimum` seconds."""

    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float
    launched: float
    minimum: float = 0.0

    @property
    def offering(self) -> Offering:
        """What it is bought as."""
        return Offering(self.instance_type, self.zone, self.capacity_type)

    def seconds(self, until: float) -> float:
        """The time that is paid for, if it ends at `until`; nothing before the run counts."""
        return max(until - self.launched, self.minimum)


class CostTally:
    """What nodes cost, each at its own price, and what the book's commitments make of that."""

    def __init__(self, book: PriceBook, duration: float) -> None:
        self._book = book
        self._running: Counter[Offering] = Counter()
        self._prices: dict[Offering, float] = {}
        self._saved = Held()
        """By which commitments change the rate per hour."""
        self._open: dict[str, Paid] = {}
        self._priced: Counter[float] = Counter()
        """Open nodes by price."""
        self._closed: Counter[tuple[str, str, str, float]] = Counter()
        """Seconds by pool, type, capacity type and price."""
        self._rate = Held()
        self._curve = Curve(duration)
        self._set(0.0)

    def begin(self, node: str, paid: Paid) -> None:
        """A node is paid for from now on. Does nothing for one that is so already."""
        if node in self._open:
            return
        self._open[node] = paid
        self._running[paid.offering] += 1
        self._prices[paid.offering] = paid.price
        self._priced[paid.price] += 1
        self._set(paid.launched)

    def end(self, node: str, seconds: float) -> None:
        """No longer. Does nothing for one that never was."""
        paid = self._open.pop(node, None)
        if paid is not None:
            self._add(self._closed, paid, seconds)
            self._running[paid.offering] -= 1
            self._priced[paid.price] -= 1
            self._set(seconds)

    def _set(self, seconds: float) -> None:
        own = sum(price * count for price, count in self._priced.items())
        rate = self._book.rate(self._running, self._prices) if self._book.commitments else own
        self._saved.set(seconds, rate - own)
        rate = rounded(rate)
        self._rate.set(seconds, rate)
        self._curve.set(seconds, rate)

    @staticmethod
    def _add(sums: Counter[tuple[str, str, str, float]], paid: Paid, until: float) -> None:
        key = (paid.pool, paid.instance_type, paid.capacity_type, paid.price)
        sums[key] += paid.seconds(until)  # type: ignore[assignment]  # Counter holds any number

    def hours(self, until: float) -> dict[str, tuple[float, float]]:
        """By pool: hours of nodes, and what they cost."""
        found: dict[str, tuple[float, float]] = {}
        for (pool, _, _, price), seconds in self._all(until).items():
            hours, cost = found.get(pool, (0.0, 0.0))
            found[pool] = (hours + seconds / _HOUR, cost + price * seconds / _HOUR)
        return found

    def _all(self, until: float) -> dict[tuple[str, str, str, float], float]:
        sums = Counter(self._closed)
        for paid in self._open.values():
            self._add(sums, paid, until)
        return {key: sums[key] for key in sorted(sums)}

    def report(self, until: float) -> CostReport | None:
        """What it comes to; None if nothing has a price."""
        sums = self._all(until)
        if not any(price for _, _, _, price in sums) and not self._book.commitments:
            return None
        commitments = self._saved.level(until).mean * until / _HOUR
        parts: tuple[dict[str, float], ...] = ({}, {}, {})
        for (*names, price), seconds in sums.items():
            for part, name in zip(parts, names, strict=True):
                part[str(name)] = part.get(str(name), 0.0) + price * seconds / _HOUR
        by_pool, by_type, by_capacity = ({name: rounded(cost) for name, cost in sorted(part.items())} for part in parts)
        return CostReport(
            currency=self._book.currency,
            total=rounded(commitments + sum(price * seconds / _HOUR for (*_, price), seconds in sums.items())),
            hourly=self._rate.level(until),
            node_hours=rounded(sum(sums.values()) / _HOUR),
            by_pool=by_pool,
            by_instance_type=by_type,
            by_capacity_type=by_capacity,
            commitments=rounded(commitments),
            curve=self._curve.means(until),
        )


class LoopTally:
    """One control loop; `about` says what is known before the run."""

    def __init__(self, about: LoopReport) -> None:
        self._about = about
        self.runs = 0
        self._decisions = 0
        self._stopped: Counter[str] = Counter()

    def take(self, row: SupplyRecord) -> None:
        """A decision, or what stopped one."""
        if row.is_stopped:
            self._stopped[row.reason] += 1
        else:
            self._decisions += 1

    def take_sync(self, row: AutoscalerSample) -> None:
        """A sync of an autoscaler: it acts, is stopped for a reason, or there is nothing to do."""
        self.runs += 1
        if row.desired != row.current:
            self._decisions += 1
        elif row.reason and (row.proposed is None or row.proposed != row.current):
            self._stopped[row.reason] += 1

    def report(self) -> LoopReport:
        """What it comes to."""
        return replace(
            self._about, runs=self.runs, decisions=self._decisions, stopped_by=dict(sorted(self._stopped.items()))
        )
