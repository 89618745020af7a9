"""What the pods of all services can do with the cores in force, what they use besides, and which cores they want.

A part of `Fleet` (`fleet.py`): here nothing happens, and what was found out is kept until pods, cores or costs change.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .ceilings import level
from .fleet_rows import IDLE, WORKING, FleetRows, Ints, Part, thread_rate
from .fluid import CATCH_UP
from .latency import service_time
from .pods import Booleans, fixed_cpu, fixed_cpu_seconds, fixed_memory, warm_factor
from .series import Floats

ROUNDING: Final = 2e-9
"""More than what sums and cores lose by rounding; contention counts in whole nano cores."""


class FleetCapacity(FleetRows):
    """Asked by service or by row, for some services; numbers of what happens are the fleet's."""

    # ---- what containers use besides -------------------------------------------------------------------------------

    def _is_quiet(self, part: Part, times: Floats) -> bool:
        """Whether no container of these services does start-up work at its time or after."""
        return bool((times >= self.quiet_from[part.numbers]).all())

    def _fixed_cpu(self, part: Part) -> Floats:
        if self._is_quiet(part, self.now[part.numbers]):
            return self.idle[part.rows]
        return fixed_cpu(self._costs(part.rows), self._times(part.rows), self._moment(part))

    def _fixed_memory(self, part: Part) -> Floats:
        if not self._grows and self._is_quiet(part, self.now[part.numbers]):
            return self.held[part.rows]
        return fixed_memory(self._costs(part.rows), self._times(part.rows), self._moment(part))

    def _fixed_cpu_seconds(self, part: Part, since: Floats) -> Floats:
        begin = float(since[0])
        start = begin if (since == begin).all() else since[part.of]
        if self._is_quiet(part, since):
            return np.minimum(self.idle[part.rows], self.cores[part.rows]) * (self._moment(part) - start)
        return fixed_cpu_seconds(
            self._costs(part.rows), self._times(part.rows), self.cores[part.rows], start, self._moment(part)
        )

    # ---- what pods can do --------------------------------------------------------------------------------------------

    def _bring(self, numbers: Ints) -> None:
        """Have `cores` known."""
        owed = numbers[self._owed[numbers]]
        if owed.size and self.source is not None:
            part = self.part(owed)
            self.cores[part.rows] = self.source(self.place[part.rows])
            self._owed[owed] = False

    def refresh(self, numbers: Ints) -> None:
        """Have `rate` and what belongs to it known."""
        stale = numbers[~self._fresh[numbers]]
        if stale.size:
            self._bring(stale)
            self._capacity(self.part(stale))

    def _estimate(self, numbers: Ints, cores: Floats) -> None:
        """The load that is easy if each pod which gets work has at least so many cores: more cores never do less."""
        each = self.each
        idle, cost, wait = each.idle_cpu[numbers], each.cost[numbers], each.wait[numbers]
        free = np.maximum(cores - idle, 0.0)
        alone = service_time(cost, free, np.ones_like(free))
        rate = np.minimum(_quotient(free, cost), thread_rate(each.threads[numbers], alone + wait))
        takers = self.takers[numbers]
        self.easy[numbers] = np.where(takers > 0, rate, 0.0) * takers * (1 - ROUNDING)
        self._basis[numbers] = cores

    def _work(self, part: Part) -> Floats:
        """What a request costs now, by row, in core seconds."""
        if not self._warms_up:
            return self.cost[part.rows]
        return self.cost[part.rows] * warm_factor(self._costs(part.rows), self._times(part.rows), self._moment(part))

    def _capacity(self, part: Part) -> None:
        """What each pod can serve per second, with the cores in force."""
        rows, numbers = part.rows, part.numbers
        cores, speed, share = self.cores[rows], self.speed[rows], self.share[rows]
        taking = share > 0
        work = self._work(part)
        free = np.maximum(cores - np.minimum(cores, self.idle_cpu[rows]), 0.0)
        alone = service_time(work, free, speed)
        by_cpu = _quotient(free * speed, work)
        by_threads = thread_rate(self.threads[rows], alone + self.wait[rows])
        unbounded = np.where(taking, np.minimum(by_cpu, by_threads), 0.0)
        rate = self._bounded(part, unbounded, taking)
        timeout, limit = self.timeout[rows], self.waiting[rows]
        if self._waits_for_ever:
            ends = np.isfinite(timeout)
            limit = np.where(ends, np.minimum(limit, rate * np.where(ends, timeout, 0.0)), limit)
        else:
            limit = np.minimum(limit, rate * timeout)
        self.work[rows], self.free[rows], self.alone[rows] = work, free, alone
        self.by_cpu[rows], self.by_threads[rows], self.unbounded[rows] = by_cpu, by_threads, unbounded
        self.rate[rows], self.limit[rows] = rate, limit
        takers = self.takers[numbers]
        least = np.minimum.reduceat(np.where(taking, rate, np.inf), part.starts)
        self.easy[numbers] = np.where(takers > 0, least, 0.0) * takers
        self._fresh[numbers] = True
        self._basis[numbers] = np.inf

    def _bounded(self, part: Part, rates: Floats, taking: Booleans) -> Floats:
        """Rates of the pods that get work, cut so that together they keep below the ceilings; 0 for the others."""
        result = rates
        if not self._has_ceilings:
            return result
        for position in np.flatnonzero(np.isfinite(self.ceiling[part.numbers])).tolist():
            number = part.numbers[position]
            start = part.starts[position]
            stretch = slice(start, start + self._size[number])
            mask = taking[stretch]
            share = level(rates[stretch][mask].tolist(), float(self.ceiling[number]))
            result = result.copy() if result is rates else result
            result[stretch] = np.where(mask, np.minimum(rates[stretch], share), 0.0)
        return result

    # ---- what pods want --------------------------------------------------------------------------------------------

    def load(self, part: Part) -> Floats:
        """Requests per second that arrive now, by service."""
        return self._lines.at(part.numbers, self.now[part.numbers])

    def want(self, part: Part) -> Floats:
        """Cores that each pod would use now if nobody else were on its node, and it had no limit; by row."""
        numbers = part.numbers
        if not numbers.size:
            return np.zeros(0)
        even = self._alike[numbers] & self.calm[numbers] & (self.now[numbers] >= self.quiet_from[numbers])
        result = self._want_by_kind(part)
        if not even.all():
            others = self.part(numbers[~even])
            result[~even[part.of]] = wanted = self._want_by_row(others)
            works = self.share[others.rows] > 0
            self._wants[others.numbers] = np.minimum.reduceat(np.where(works, wanted, np.inf), others.starts)
        self.wanted[part.rows] = result
        self.wanted_by[numbers] = np.add.reduceat(result, part.starts)
        return result

    def _want_by_row(self, part: Part) -> Floats:
        rows = part.rows
        share, speed = self.share[rows], self.speed[rows]
        fixed = self._fixed_cpu(part)
        work = self._work(part)
        wanted = share * self.load(part)[part.of] + self.backlog[rows] / CATCH_UP
        wanted = np.minimum(wanted, thread_rate(self.threads[rows], work / speed + self.wait[rows]))
        result: Floats = fixed + self._bounded(part, wanted, share > 0) * work / speed
        return result

    def _want_by_kind(self, part: Part) -> Floats:
        """The same where nothing waits, and all pods of a kind want the same."""
        numbers, each = part.numbers, self.each
        idle = each.idle_cpu[numbers]
        rates = np.minimum(self._portion[numbers] * self.load(part), each.most[numbers])
        column, by_kind = self.by_kind()
        by_kind[numbers, IDLE] = idle
        by_kind[numbers, WORKING] = self._wants[numbers] = idle + rates * each.cost[numbers]
        result: Floats = column[self.ledger.kind[self.place[part.rows]]]
        return result


def _quotient(amount: Floats, cost: Floats) -> Floats:
    """amount / cost; infinite where the cost is 0."""
    result = np.full_like(amount, np.inf)
    np.divide(amount, cost, out=result, where=cost > 0)
    return result
