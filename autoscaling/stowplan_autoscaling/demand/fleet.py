"""All services of a run at once: one row per pod, one entry per service, and every rule once, on arrays.

    fleet = Fleet()
    web = Service(model, load, fleet=fleet)                   # the view of one of them
    part = fleet.part([web.number, ...])                      # or fleet.all()
    fleet.advance(part, now); fleet.want(part); fleet.grant(part, available); fleet.memory(part)

What a service does with its load, and what the calls mean, is told in `service.py`. With hundreds of services a look at
all of them is some eighty operations on columns, instead of as many for each.

Where the rows of a service are, and what the columns hold, is told in `fleet_rows.py`; what pods can do with their
cores, and which they want, in `fleet_capacity.py`. Pods of a service that are in the same state do the same as long as
nothing waits and all are well supplied: what such a kind of pods wants and uses is worked out once (`_by_kind`;
`_by_row` is the same for each pod).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from .ceilings import Ceiling, bound
from .fleet_capacity import ROUNDING, FleetCapacity
from .fleet_rows import IDLE, NOT_RUNNING, UNUSED, WORKING, Ints, Part
from .fluid import CATCH_UP, flow
from .latency import Response, waiting_time
from .ledger import Ledger
from .pods import Booleans, PodColumns, startup_ends
from .series import Floats, Series

if TYPE_CHECKING:
    from .service import ServiceModel

_FEW: Final = 4
"""One in so many services is few: then going to their rows alone is quicker than to all rows."""
_SLACK: Final = 0.9


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


class Fleet(FleetCapacity):
    """What all services do with their loads. Times are seconds since the start of the run."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        super().__init__(Ledger() if ledger is None else ledger)
        self._measured: Measured | None = None
        """Of all rows, as long as nothing has changed since."""
        self._traffic: tuple[Measured, list[Traffic]] | None = None
        """Of all services, with what they were made of."""
        self._change = -math.inf
        """What `next_change` found last."""

    def add(self, model: ServiceModel, load: Series, ceilings: Sequence[Ceiling], start: float) -> int:
        """One more service, without pods; returns its number."""
        self._measured, self._change = None, -math.inf
        return super().add(model, load, ceilings, start)

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
        self.refresh(left[~self._alike[left]])
        while left.size:
            start = self.now[left]
            value, slope, end = self._lines.pieces(left, start)
            end = np.minimum(end, now)
            self._piece(left, value, slope, end - start)
            self.now[left] = end
            left = left[end < now]

    def _piece(self, numbers: Ints, value: Floats, slope: Floats, seconds: Floats) -> None:
        """Work on a straight piece of load."""
        arrived = seconds * (value + slope * seconds / 2)
        self.arrived[numbers] += arrived
        taken = self.takers[numbers] > 0
        # No pod waits and none gets more than it can serve: all goes through.
        easy = self._is_easy(numbers, taken & self.calm[numbers], np.maximum(value, value + slope * seconds))
        if easy.all():
            self.served[numbers] += arrived
            self.through[numbers] += arrived
            return
        lost = numbers[~taken]
        self.dropped[lost] += arrived[~taken]
        self.served[numbers[easy]] += arrived[easy]
        self.through[numbers[easy]] += arrived[easy]
        busy = taken & ~easy
        if busy.any():
            self.refresh(numbers[busy])
            self._busy_piece(self.part(numbers[busy]), value[busy], slope[busy], seconds[busy])

    def _is_easy(self, numbers: Ints, calm: Booleans, load: Floats) -> Booleans:
        """Where no pod gets more than it can serve. What pods can do is found out no better than this needs."""
        easy: Booleans = calm & (load <= self.easy[numbers])
        for find_out in (self._assess, self.refresh):
            unsure = numbers[calm & ~easy]
            if not unsure.size:
                break
            find_out(unsure)
            easy = calm & (load <= self.easy[numbers])
        return easy

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
        self._flown[part.numbers] = True
        self.done[rows] += flown.served
        self.served[part.numbers] += np.add.reduceat(flown.served, part.starts)
        self.dropped[part.numbers] += np.add.reduceat(flown.dropped, part.starts)

    def settle(self, part: Part) -> None:
        """Book what pods did since pods, cores or costs last changed."""
        numbers = part.numbers
        since, now = self.settled[numbers], self.now[numbers]
        if (since == now).all():
            return
        even = self._alike[numbers] & self._ample[numbers] & ~self._flown[numbers] & (since >= self.quiet_from[numbers])
        if even.all():
            self._settle_by_kind(numbers, now - since)
        else:
            if even.any():
                self._settle_by_kind(numbers[even], (now - since)[even])
            self._settle_by_row(self.part(numbers[~even]))
        self.through[numbers] = 0.0
        self.settled[numbers] = now

    def _settle_by_row(self, part: Part) -> None:
        numbers, rows = part.numbers, part.rows
        self.refresh(numbers[self._alike[numbers]])
        self._bring(numbers)
        fixed = self._fixed_cpu_seconds(part, self.settled[numbers])
        done = self.done[rows] + self.through[numbers][part.of] * self.share[rows]
        place = self.place[rows]
        mine = self.owner(place) == numbers[part.of]
        place, seconds = place[mine], self.ledger.seconds
        seconds[place] = seconds[place] + fixed[mine] + (done * self.work[rows] / self.speed[rows])[mine]
        self.done[rows] = 0.0
        self._flown[numbers] = False

    def _settle_by_kind(self, numbers: Ints, seconds: Floats) -> None:
        """The same where all pods of a kind did the same, and had the cores for it."""
        each = self.each
        idle = each.idle_cpu[numbers]
        if idle.any():
            self._use(numbers, idle * seconds, IDLE, WORKING)
        self._use(numbers, self.through[numbers] * self._portion[numbers] * each.cost[numbers], WORKING)

    def _use(self, numbers: Ints, amounts: Floats, *states: int) -> None:
        """Add core seconds to what the pods in some states have used, by service."""
        column, by_kind = self.by_kind()
        for state in states:
            by_kind[numbers, state] = amounts
        ledger = self.ledger
        if _FEW * len(numbers) < len(self):
            place = self.place[self.part(numbers).rows]
            ledger.seconds[place] += column[ledger.kind[place]]
        else:
            ledger.seconds += column[ledger.kind]

    def set_pods(self, number: int, pods: PodColumns, lost: Collection[str]) -> None:
        """See Service.set_pods."""
        self.settle(self.part([number]))
        before, stretch, model = self.pods[number], self.own(number), self.models[number]
        backlog, gone = self.backlog[stretch].copy(), 0.0
        if backlog.any():
            self._bring(self.part([number]).numbers)
            for key, row in before.rows.items():
                if key in lost:
                    self.dropped[number] += backlog[row]
                    backlog[row] = 0.0
                elif key not in pods.rows or not pods.ready[pods.rows[key]]:
                    gone += float(backlog[row])
                    backlog[row] = 0.0
        cores, places = self.cores[stretch].copy(), self._places(number, pods)
        if len(pods) > self._size[number]:
            self._widen(number, 2 * len(pods))
        self.pods[number], self.count[number] = pods, len(pods)
        part, stretch = self.part([number]), self.own(number)
        for name, empty in UNUSED.items():
            getattr(self, name)[part.rows] = empty
        self.backlog[stretch] = pods.carried(before, backlog)
        # New pods may use all the cores there are until `grant` says otherwise.
        self.cores[stretch] = pods.carried(before, cores, new=np.inf)
        self.started[stretch], self.ready_since[stretch] = pods.started, pods.ready_since
        self.startup_ends[stretch], self.speed[stretch] = startup_ends(model, pods), pods.speed
        self.place[stretch] = places
        runs = ~np.isnan(pods.started)
        self.idle[stretch], self.held[stretch] = model.idle_cpu * runs, model.memory * runs
        ends = self.startup_ends[stretch][runs]
        self.quiet_from[number] = max(ends.max(initial=-np.inf), pods.started[runs].max(initial=-np.inf))
        self._divide(number)
        state = np.where(self.share[stretch] > 0, WORKING, np.where(runs, IDLE, NOT_RUNNING))
        self.ledger.kind[places] = self.kind(number, state)
        is_steady = model.warmup <= 0 or model.warmup_factor == 1
        self._alike[number] = is_steady and self.ceiling[number] == np.inf and bool((pods.speed == 1).all())
        self.calm[number], self._fresh[number], self._owed[number], self._still[number] = True, False, False, False
        self.easy[number], self._basis[number] = 0.0, np.inf
        self._measured = None
        self._hand_over(part, number, gone)

    def _places(self, number: int, pods: PodColumns) -> Ints:
        """Where the pods are in the ledger; those that are gone leave it."""
        before, stretch, ledger = self.pods[number], self.own(number), self.ledger
        known = self.place[stretch]
        gone = known[self.owner(known) == number]
        if pods.place is not None:
            if int(pods.place.max(initial=0)) >= len(ledger):
                ledger.grow(2 * int(pods.place.max()))
            stay = np.zeros(len(ledger), np.bool_)
            stay[pods.place] = True
            for place in gone[~stay[gone]].tolist():
                ledger.clear(place)
            return pods.place
        place_of = dict(zip(before.keys, known.tolist(), strict=True))
        places = [place_of.pop(key) if key in place_of else ledger.take() for key in pods.keys]
        for place in place_of.values():
            ledger.give_back(place)
        return np.array(places, np.int64)

    def _divide(self, number: int) -> None:
        """Who gets work, and how much of it."""
        ready = np.flatnonzero(self.pods[number].ready)
        found = self.bounds[number] = bound(self.ceilings[number], len(ready))
        takers = ready[: found.useful]
        self.takers[number], self.ceiling[number] = len(takers), found.rate
        self._portion[number] = portion = 1 / len(takers) if takers.size else 0.0
        self.share[self.first[number] + takers] = portion

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
        numbers = part.numbers
        self.cores[part.rows] = cores
        self._owed[numbers] = False
        self._ample[numbers] = np.logical_and.reduceat(cores >= self.idle[part.rows], part.starts)
        self._capacity(part)
        self._shed(part)

    def leave(self, part: Part, spare: float | Floats) -> None:
        """The same, told in short: each pod may use what it wants, as found last, and `spare` cores more at least.

        By service or for all; where it is 0, pods may have to do with less than they want. The exact numbers are with
        `source`, for when they are needed. All must have been settled before these came to be.
        """
        self._measured = None
        numbers = part.numbers
        self._owed[numbers], self._fresh[numbers] = True, False
        is_enough = self._alike[numbers] & self.calm[numbers] & (np.asarray(spare) > 0)
        if not is_enough.all():
            others = self.part(numbers[~is_enough])
            self._bring(others.numbers)
            self.grant(others, self.cores[others.rows])
            spare = spare if isinstance(spare, float) else spare[is_enough]
            numbers = numbers[is_enough]
        self._ample[numbers] = True
        least = self._least[numbers] = self._wants[numbers] + spare - ROUNDING
        lower = least < self._basis[numbers]
        if lower.any():
            # With something to spare, so that the next time need not look again.
            self._estimate(numbers[lower], _SLACK * least[lower])

    def _assess(self, numbers: Ints) -> None:
        """Have `easy` known as well as `leave` told it."""
        known = numbers[self._owed[numbers] & ~self._fresh[numbers]]
        if known.size:
            self._estimate(known, self._least[known])

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

    def next_change(self, now: float) -> float:
        """When the first of the loads changes next by itself, after `now`. Times must not go back."""
        if self._change > now:
            return self._change
        end = self._lines.end
        # Services that have not come so far yet still have an older piece.
        late = end <= now
        if late.any():
            for number in (late & (self._following <= now)).nonzero()[0].tolist():
                self._following[number] = self.loads[number].next_change(now)
            end = np.where(late, self._following, end)
        self._change = float(end.min(initial=np.inf))
        return self._change

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

    def moved_memory(self, part: Part) -> Part:
        """Those whose pods may hold other memory than when they were named here last."""
        moved = part.numbers[~self._still[part.numbers]]
        self._still[moved] = self._keeps[moved] & (self.now[moved] >= self.quiet_from[moved])
        return self.part(moved)

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
