"""All services of a run at once: one row per pod, one entry per service, and every rule once, on arrays.

    fleet = Fleet()
    web = Service(model, load, fleet=fleet)                   # the view of one of them
    part = fleet.part([web.number, ...])                      # or fleet.all()
    fleet.advance(part, now); fleet.want(part); fleet.grant(part, available); fleet.memory(part)

What a service does with its load, and what the calls mean, is told in `service.py`. With hundreds of services a look at
all of them is some eighty operations on columns, instead of as many for each.

Where the rows of a service are, and what the columns hold, is told in `fleet_rows.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from .ceilings import Ceiling, bound, level
from .fleet_rows import UNUSED, FleetRows, Ints, Part
from .fluid import flow
from .latency import Response, service_time, waiting_time
from .pods import Booleans, PodColumns, fixed_cpu, fixed_cpu_seconds, fixed_memory, startup_ends, warm_factor
from .series import Floats, Series

if TYPE_CHECKING:
    from .service import ServiceModel

CATCH_UP: Final = 1.0
"""A pod with a backlog asks for the cores that would work it off in so many seconds."""


class Measured(NamedTuple):
    """What rows do at one moment: requests per second, response times, cores and bytes in use."""

    arriving: Floats
    response: Response
    cpu: Floats
    memory: Floats


class Traffic(NamedTuple):
    """What a service does at one moment: requests served per second, and their mean response time, NaN without any."""

    rate: float
    mean: float


class Fleet(FleetRows):
    """What all services do with their loads. Times are seconds since the start of the run."""

    def __init__(self) -> None:
        super().__init__()
        self._measured: Measured | None = None
        """Of all rows, as long as nothing has changed since."""
        self._traffic: tuple[Measured, list[Traffic]] | None = None
        """Of all services, with what they were made of."""

    def add(self, model: ServiceModel, load: Series, ceilings: Sequence[Ceiling], start: float) -> int:
        """One more service, without pods; returns its number."""
        self._measured = None
        return super().add(model, load, ceilings, start)

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

    # ---- what happens ----------------------------------------------------------------------------------------------

    def advance(self, part: Part, now: float) -> None:
        """Settle what happened up to `now` with the pods and cores in force. Raises ValueError for a time gone by."""
        start = self.now[part.numbers]
        if not start.size:
            return
        if float(start.max()) > now:
            raise ValueError(f"cannot go back from {start.max():g} to {now}")
        left = part.numbers[start < now]
        if not left.size:
            return
        self._measured = None
        self.refresh(left)
        while left.size:
            start = self.now[left]
            end = np.minimum(self._lines.next_change(left, start), now)
            self._piece(left, start, end - start)
            self.now[left] = end
            left = left[end < now]

    def _piece(self, numbers: Ints, start: Floats, seconds: Floats) -> None:
        """Work on a straight piece of load."""
        value, slope = self._lines.at(numbers, start), self._lines.slope(numbers, start)
        arrived = seconds * (value + slope * seconds / 2)
        self.arrived[numbers] += arrived
        taken = self.takers[numbers] > 0
        lost = numbers[~taken]
        self.dropped[lost] += arrived[~taken]
        # No pod waits and none gets more than it can serve: all goes through.
        easy = taken & self.calm[numbers] & (np.maximum(value, value + slope * seconds) <= self.easy[numbers])
        self.served[numbers[easy]] += arrived[easy]
        self.through[numbers[easy]] += arrived[easy]
        busy = taken & ~easy
        if busy.any():
            self._busy_piece(self.part(numbers[busy]), value[busy], slope[busy], seconds[busy])

    def _busy_piece(self, part: Part, value: Floats, slope: Floats, seconds: Floats) -> None:
        rows, share = part.rows, self.share[part.rows]
        flown = flow(
            self.backlog[rows],
            share * value[part.of],
            share * slope[part.of],
            self.rate[rows],
            self.limit[rows],
            seconds[part.of],
        )
        self.backlog[rows] = flown.backlog
        self.calm[part.numbers] = ~np.logical_or.reduceat(flown.backlog > 0, part.starts)
        self.done[rows] += flown.served
        self.served[part.numbers] += np.add.reduceat(flown.served, part.starts)
        self.dropped[part.numbers] += np.add.reduceat(flown.dropped, part.starts)

    def settle(self, part: Part) -> None:
        """Book what pods did since pods, cores or costs last changed."""
        since = self.settled[part.numbers]
        if (since == self.now[part.numbers]).all():
            return
        rows = part.rows
        fixed = self._fixed_cpu_seconds(part, since)
        done = self.done[rows] + self.through[part.numbers][part.of] * self.share[rows]
        self.used[rows] = self.used[rows] + fixed + done * self.work[rows] / self.speed[rows]
        self.done[rows] = 0.0
        self.through[part.numbers] = 0.0
        self.settled[part.numbers] = self.now[part.numbers]

    def set_pods(self, number: int, pods: PodColumns, lost: Collection[str]) -> None:
        """See Service.set_pods."""
        self.settle(self.part([number]))
        before, stretch, model = self.pods[number], self.own(number), self.models[number]
        backlog, gone = self.backlog[stretch].copy(), 0.0
        if backlog.any():
            for key, row in before.rows.items():
                if key in lost:
                    self.dropped[number] += backlog[row]
                    backlog[row] = 0.0
                elif key not in pods.rows or not pods.ready[pods.rows[key]]:
                    gone += float(backlog[row])
                    backlog[row] = 0.0
        cores, used = self.cores[stretch].copy(), self.used[stretch].copy()
        if len(pods) > self._size[number]:
            size = self._size.copy()
            size[number] = 2 * len(pods)
            self._lay_out(size)
        self.pods[number], self.count[number] = pods, len(pods)
        part, stretch = self.part([number]), self.own(number)
        for name, empty in UNUSED.items():
            getattr(self, name)[part.rows] = empty
        self.backlog[stretch] = pods.carried(before, backlog)
        self.used[stretch] = pods.carried(before, used)
        # New pods may use all the cores there are until `grant` says otherwise.
        self.cores[stretch] = pods.carried(before, cores, new=np.inf)
        self.started[stretch], self.ready_since[stretch] = pods.started, pods.ready_since
        self.startup_ends[stretch], self.speed[stretch] = startup_ends(model, pods), pods.speed
        self.place[stretch] = pods.place
        runs = ~np.isnan(pods.started)
        self.idle[stretch], self.held[stretch] = model.idle_cpu * runs, model.memory * runs
        ends = self.startup_ends[stretch][runs]
        self.quiet_from[number] = max(ends.max(initial=-np.inf), pods.started[runs].max(initial=-np.inf))
        self._divide(number)
        self.calm[number], self._fresh[number] = True, False
        self._measured = None
        self._hand_over(part, number, gone)

    def _divide(self, number: int) -> None:
        """Who gets work, and how much of it."""
        ready = np.flatnonzero(self.pods[number].ready)
        found = self.bounds[number] = bound(self.ceilings[number], len(ready))
        takers = ready[: found.useful]
        self.takers[number], self.ceiling[number] = len(takers), found.rate
        if takers.size:
            self.share[self.first[number] + takers] = 1 / len(takers)

    def _hand_over(self, part: Part, number: int, requests: float) -> None:
        """The backlog of pods that are gone goes to the others (connections are tried again)."""
        backlog = self.backlog[part.rows]
        if requests and self.takers[number]:
            self.backlog[part.rows] = backlog = backlog + requests * self.share[part.rows]
        else:
            self.dropped[number] += requests
        if backlog.any():
            self._capacity(part)
            self._shed(part)

    def grant(self, part: Part, cores: Floats) -> None:
        """Cores that each pod may use from now on: `CpuShares.available` of the contention on its node; by row."""
        self.settle(part)
        self._measured = None
        self.cores[part.rows] = cores
        self._capacity(part)
        self._shed(part)

    def _shed(self, part: Part) -> None:
        """Requests that will not be answered in time with what the pods can do now."""
        backlog = self.backlog[part.rows]
        waits = backlog > 0
        if not waits.any():
            self.calm[part.numbers] = True
            return
        over = np.maximum(backlog - self.limit[part.rows], 0.0)
        self.dropped[part.numbers] += np.add.reduceat(over, part.starts)
        self.backlog[part.rows] = backlog - over
        self.calm[part.numbers] = ~np.logical_or.reduceat(waits, part.starts)

    # ---- what pods can do ------------------------------------------------------------------------------------------

    def refresh(self, numbers: Ints) -> None:
        """Have `rate` and what belongs to it known."""
        stale = numbers[~self._fresh[numbers]]
        if stale.size:
            self._capacity(self.part(stale))

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
        by_threads = self._thread_rate(part, alone)
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

    def _thread_rate(self, part: Part, alone: Floats) -> Floats:
        threads = self.threads[part.rows]
        result = np.full_like(alone, np.inf)
        cost = alone + self.wait[part.rows]
        may_serve = cost > 0
        if self._has_threads_without_end:
            may_serve &= np.isfinite(threads)
        np.divide(threads, cost, out=result, where=may_serve)
        return result

    def want(self, part: Part) -> Floats:
        """Cores that each pod would use now if nobody else were on its node, and it had no limit; by row."""
        rows = part.rows
        share, speed = self.share[rows], self.speed[rows]
        fixed = self._fixed_cpu(part)
        work = self._work(part)
        wanted = share * self.load(part)[part.of] + self.backlog[rows] / CATCH_UP
        wanted = np.minimum(wanted, self._thread_rate(part, work / speed))
        result: Floats = fixed + self._bounded(part, wanted, share > 0) * work / speed
        self.wanted[rows] = result
        return result

    def load(self, part: Part) -> Floats:
        """Requests per second that arrive now, by service."""
        return self._lines.at(part.numbers, self.now[part.numbers])

    def next_change(self, now: float) -> float:
        """When the first of the loads changes next by itself, after `now`. Times must not go back."""
        for number in np.flatnonzero(self._following <= now).tolist():
            self._following[number] = self.loads[number].next_change(now)
        return float(self._following.min(initial=np.inf))

    # ---- how it is -------------------------------------------------------------------------------------------------

    def measure(self, part: Part) -> Measured:
        """Rates, response times, cores and memory at this moment, by row."""
        if self._measured is not None:
            every = self._measured
            if part is self._all:
                return every
            rows, response = part.rows, every.response
            return Measured(
                every.arriving[rows],
                Response(response.fixed[rows], response.waiting[rows], response.rate[rows]),
                every.cpu[rows],
                every.memory[rows],
            )
        self.refresh(part.numbers)
        rows = part.rows
        arriving, serving, response = self._response(part)
        cpu = np.minimum(self._fixed_cpu(part), self.cores[rows])
        found = Measured(
            arriving,
            response,
            cpu + serving * self.work[rows] / self.speed[rows],
            self._fixed_memory(part) + self._request_memory(part, response),
        )
        if part is self._all:
            self._measured = found
        return found

    def traffic(self, number: int) -> Traffic:
        """What a service does at this moment: of its `Response` the sum of the rates, and the mean."""
        found = self.measure(self.all())
        if self._traffic is None or self._traffic[0] is not found:
            self._traffic = found, self._traffic_of(found.response)
        return self._traffic[1][number]

    def _traffic_of(self, response: Response) -> list[Traffic]:
        rate, busy = response.rate, response.rate > 0
        spent = np.zeros_like(rate)
        # Pods that serve nothing may have no finite response time.
        np.multiply(response.per_pod, rate, out=spent, where=busy)
        found = []
        for first, pods in zip(self.first.tolist(), self.pods, strict=True):
            own = slice(first, first + len(pods))
            served = float(rate[own].sum())
            together = spent[own] if busy[own].all() else spent[own][busy[own]]
            found.append(Traffic(served, float(together.sum()) / served if served else math.nan))
        return found

    def memory(self, part: Part) -> Floats:
        """Bytes in use, by row: of `measure` no more than that."""
        fixed = self._fixed_memory(part)
        if not self._holds_memory:
            return fixed
        self.refresh(part.numbers)
        return fixed + self._request_memory(part, self._response(part)[2])

    def _response(self, part: Part) -> tuple[Floats, Floats, Response]:
        rows = part.rows
        backlog, rate, alone = self.backlog[rows], self.rate[rows], self.alone[rows]
        arriving = self.share[rows] * self.load(part)[part.of]
        serving = np.minimum(arriving + backlog / CATCH_UP, rate)
        waiting = waiting_time(alone, self.free[rows], _share(serving, self.by_cpu[rows]))
        fixed = alone + self.wait[rows]
        in_line = waiting_time(fixed, self.threads[rows], _share(serving, self.by_threads[rows]))
        return arriving, serving, Response(fixed + _share(backlog, rate), waiting + in_line, serving)

    def _request_memory(self, part: Part, response: Response) -> Floats:
        """Bytes of the requests that are in each pod: rate times response time (Little), at most one per thread."""
        inside = np.zeros_like(response.rate)
        np.multiply(response.rate, response.per_pod, out=inside, where=response.rate > 0)
        result: Floats = np.minimum(inside, self.threads[part.rows]) * self.request_memory[part.rows]
        return result


def _share(amount: Floats, capacity: Floats) -> Floats:
    """amount / capacity; 0 where there is no capacity, or endless."""
    result = np.zeros_like(amount)
    np.divide(amount, capacity, out=result, where=(capacity > 0) & np.isfinite(capacity))
    return result


def _quotient(amount: Floats, cost: Floats) -> Floats:
    """amount / cost; infinite where the cost is 0."""
    result = np.full_like(amount, np.inf)
    np.divide(amount, cost, out=result, where=cost > 0)
    return result
