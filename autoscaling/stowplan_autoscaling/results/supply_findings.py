"""What a person should know of a run's supply of nodes, each as one sentence with its figures.

Nothing could be had at all; the machines of a pool never became nodes; no pool can take some pods whatever it buys.
Nothing in a sentence but its numbers depends on these, so that those of several seeds become one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from stowplan_autoscaling.resources.values import format_duration

from .records import ClusterSample, NodeRecord, PodRecord, SupplyRecord

NEVER_REGISTERED: Final = 900.0
"""After so many seconds both engines give up a machine that has not registered."""
WORTH_TELLING: Final = 60.0
"""Pods that no pool can take are a finding once one of them has waited for so many seconds."""
_MOST_POOLS: Final = 3
_NANO: Final = 10**9


class _Misfit(NamedTuple):
    """A pod that no pool can take, and when it was made."""

    workload: str
    reasons: str
    created: float


class _Waits(NamedTuple):
    """How many such pods, and the longest of their waits."""

    pods: int = 0
    longest: float = 0.0

    def and_one(self, seconds: float) -> _Waits:
        return _Waits(self.pods + 1, max(self.longest, seconds))


class SupplyFindings:
    """Those of one run. `sold_out`: times (begin, end), in seconds, in which nothing of any pool can be had."""

    def __init__(self, sold_out: Sequence[tuple[float, float]] = ()) -> None:
        self._sold_out = sold_out
        self._times: list[float] = []
        self._pending: list[int] = []
        """Pods without a node from each of the times on."""
        self._refused: list[float] = []
        """When a machine could not be had."""
        self._registered: set[str] = set()
        """Pools of which a machine that was asked for has become a node."""
        self._silent: dict[str, list[float]] = {}
        """By pool: when machines were launched that were given up because they never registered."""
        self._misfits: dict[str, _Misfit] = {}
        """By key of the pod."""
        self._waited: dict[tuple[str, str], _Waits] = {}
        """By workload and reasons: such pods that have a node after all, or are gone."""

    # ---- rows --------------------------------------------------------------------------------

    def take_cluster(self, row: ClusterSample) -> None:
        """A sample."""
        if not self._pending or self._pending[-1] != row.pending:
            self._times.append(row.seconds)
            self._pending.append(row.pending)

    def take_supply(self, row: SupplyRecord) -> None:
        """What stopped a loop."""
        if row.is_stopped and row.reason == "OutOfStock":
            self._refused.append(row.seconds)

    def take_node(self, row: NodeRecord) -> None:
        """A machine that is gone, or one that is there at the end; only those that were asked for say something."""
        if row.began == "Initial":
            return
        if row.registered is not None:
            self._registered.add(row.pool)
        elif row.launched is not None and row.end == "Failed":
            self._silent.setdefault(row.pool, []).append(row.launched)

    def cannot_take(self, pod: str, workload: str, created: float, reasons: Mapping[str, str]) -> None:
        """No pool can ever take that pod; `reasons` by pool."""
        texts = [f"{pool}: {reason}" for pool, reason in list(reasons.items())[:_MOST_POOLS]]
        more = len(reasons) - len(texts)
        whole = "; ".join(texts) + f"; and {more} other pool{'s' * (more > 1)}" * bool(more)
        self._misfits[pod] = _Misfit(workload, whole, created)

    def take_pod(self, row: PodRecord) -> None:
        """A pod that is gone, or is there at the end; the same key may come again."""
        misfit = self._misfits.pop(row.pod, None)
        if misfit is None:
            return
        end = row.scheduled if row.scheduled is not None else row.ended
        if end is None:
            self._misfits[row.pod] = misfit
        else:
            key = (misfit.workload, misfit.reasons)
            self._waited[key] = self._waited.get(key, _Waits()).and_one(end - misfit.created)

    # ---- sentences ---------------------------------------------------------------------------

    def texts(self, until: float) -> tuple[str, ...]:
        """All of them, as of that moment."""
        return (*self._stock_outs(until), *self._unregistered(until), *self._unfit(until))

    def _stock_outs(self, until: float) -> Iterable[str]:
        times = [(begin, min(end, until)) for begin, end in self._sold_out if begin < until]
        times = [each for each in times if self._most_pending(*each) and self._was_refused(*each)]
        if not times:
            return
        whole = sum(end - begin for begin, end in times)
        when = f"from {format_duration(round(times[0][0] * _NANO))} on" if len(times) == 1 else f"{len(times)} times"
        pods = max(self._most_pending(*each) for each in times)
        waited = sum(self._time_pending(*each) for each in times)
        yield (
            f"no machine of any pool could be had {when}, for {_minutes(whole)} in all; pods that waited for a node: "
            f"up to {pods:,} at once, {_minutes(waited)} of that time; another instance type, zone or capacity type "
            "would help"
        )

    def _unregistered(self, until: float) -> Iterable[str]:
        for pool in sorted(self._silent.keys() - self._registered):
            launched = self._silent[pool]
            begin = min(launched)
            count = len(launched)
            yield (
                f"pool {pool}: no new machine became a node, for {_minutes(until - begin)}; launched, and given up "
                f"after {_minutes(NEVER_REGISTERED)} without a sign of it: {count:,}; pods that waited for a node: up "
                f"to {self._most_pending(begin, until):,} at once"
            )

    def _unfit(self, until: float) -> Iterable[str]:
        waits = dict(self._waited)
        for misfit in self._misfits.values():
            key = (misfit.workload, misfit.reasons)
            waits[key] = waits.get(key, _Waits()).and_one(until - misfit.created)
        for (workload, reasons), found in sorted(waits.items()):
            if found.longest >= WORTH_TELLING:
                whose = f"pods of {workload}" if workload else "pods without a workload"
                yield (
                    f"no pool can take {whose}: {reasons}; pods that waited for a node: {found.pods:,} in all, the "
                    f"longest for {_minutes(found.longest)}"
                )

    # ---- pods that wait ----------------------------------------------------------------------

    def _most_pending(self, begin: float, end: float) -> int:
        """The most pods without a node at any sample of a time, and at the last one before it."""
        first = max(bisect_right(self._times, begin) - 1, 0)
        last = bisect_right(self._times, end)
        return max(self._pending[first:last], default=0)

    def _time_pending(self, begin: float, end: float) -> float:
        """Seconds of a time in which a pod had no node."""
        edges = zip(self._times, [*self._times[1:], end], self._pending, strict=True)
        return sum(max(min(after, end) - max(at, begin), 0.0) for at, after, pods in edges if pods)

    def _was_refused(self, begin: float, end: float) -> bool:
        return any(begin <= seconds <= end for seconds in self._refused)


def _minutes(seconds: float) -> str:
    return f"{round(seconds / 60):,} min"
