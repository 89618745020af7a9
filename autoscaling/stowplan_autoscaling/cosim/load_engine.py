"""Brings demand and pods together: looks at loads, contention and use, when something has changed or somebody reads.

A look is made of these steps, for the groups concerned:

    advance -> pods -> what they want -> contention on all nodes -> what they get -> samples -> history of use

Partial looks concern the groups whose pods or load have changed, and those to whom contention now leaves something
else; full looks (before a scrape, a sample of the results, a check of memory) concern all. Changes of one instant make
one look. Looks for changes of pods are at least `PER_POD` times the number of running pods apart, those for
changes of a series a second: in between everything goes on with the cores of the look before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.contention import NANO
from stowplan_autoscaling.demand import Fleet, Service, WorkQueue
from stowplan_autoscaling.kernel import MICROSECOND, SECOND, Timer
from stowplan_autoscaling.resources.wiring import ceilings, service_model, start_delay, worker_model

from .groups import Entry, Group, Member, Model
from .roster import Floats, Ints, NodeColumns, Roster
from .tasks import LOAD as TASKS
from .tasks import Tasks

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.kubelet import Kubelets
    from stowplan_autoscaling.demand.fleet_rows import Part
    from stowplan_autoscaling.metrics import UsageHistory
    from stowplan_autoscaling.resources.demand import Demand

    from .applications import Applications
    from .division import Plan
    from .pods import PodBook, PodLife
    from .world import World

PER_POD: Final = 20 * MICROSECOND
"""Least time between two looks for changes of pods, per running pod: 0.6 s with 30,000. A look takes about half a
microsecond of the machine per pod, so that looks take at most a share of a run that does not grow with the cluster."""

SERIES_GAP: Final = SECOND
"""Least time between two looks for changes of a series."""

_ENOUGH: Final = 0.25
"""Cores: where every node has so much left, nobody needs to know which has how much."""


class _Due(NamedTuple):
    """What a look is about: services of the fleet, and groups that are none."""

    part: Part
    others: list[Group]


class LoadEngine:
    """All loads of a run. Use: `container_started` and so on tell what kubelets do; `look` brings all up to date."""

    def __init__(self, world: World, book: PodBook, applications: Applications) -> None:
        self._world = world
        self._book = book
        self._applications = applications
        self.kubelets: Kubelets | None = None
        self.history: UsageHistory | None = None
        self.nodes = NodeColumns()
        self.roster = Roster(self.nodes)
        self.fleet = Fleet(self.roster.ledger)
        """The services that have their pods for themselves."""
        self.fleet.source = lambda places: self.roster.division.available[places]
        self._starting: dict[str, float] = {}
        self.tasks = Tasks(world, self.roster, applications, self._note)
        self.groups: dict[str, Group] = {}
        self._by_number: dict[int, Group] = {}
        self.entries: dict[str, Entry] = {}
        """By name of the demand."""
        self.throttled: dict[int, float] = {}
        """Core seconds that limits refused since they were read last, by number of the workload."""
        self.looked_at = self.fleet.all()
        """The services of the fleet that the last look brought up to now."""
        self.after_look: list[Callable[[list[Group]], None]] = []
        """Told of the groups that a look has brought up to now."""
        self._time = 0.0
        self._full_at = -1
        self._planned: Timer | None = None
        self._series: Timer | None = None
        self._last = -SECOND
        self._changed = False
        for name, demands in _by_target(world.spec.demand).items():
            fleet = self.fleet if len(demands) == 1 else None
            entries = [self._entry(demand, applications, fleet) for demand in demands]
            group = self.groups[name] = Group(name, entries, self.roster)
            self._by_number[book.workload(name).number] = group
        self._loads: Ints = np.zeros(0, np.int64)
        groups = list(self.groups.values())
        self._of_fleet = [group for group in groups if group.service is not None]
        """By number of the service."""
        self._others = [group for group in groups if group.service is None]
        self._start_up = [group for group in groups if group.startup_cpu]
        self._counting: list[Group] = []
        """Services of which somebody wants to know who served what."""
        book.listeners.append(self._pod_changed)

    def _entry(self, demand: Demand, applications: Applications, fleet: Fleet | None) -> Entry:
        startup = applications.startup_of(str(demand.target))
        spec, curve = self._world.spec, self._world.simulation.loads[demand.name].curve
        if curve is None:
            raise ValueError(f"{demand.name}: has no series")
        model: Model
        if demand.web is not None:
            model = Service(
                service_model(demand.web, startup),
                curve,
                ceilings=ceilings(spec.downstreams, demand.web.downstreams),
                fleet=fleet,
            )
        elif demand.worker is not None:
            model = WorkQueue(
                worker_model(demand.worker, startup),
                curve,
                ceilings=ceilings(spec.downstreams, demand.worker.downstreams),
                backlog=demand.worker.initial_backlog,
            )
        else:
            raise ValueError(f"{demand.name}: is neither web nor worker")
        found = self.entries[demand.name] = Entry(demand, model)
        return found

    def start(self) -> None:
        """The run begins: demand comes from now on."""
        self._counting = [group for group in self._of_fleet if group.entries[0].counts_by_pod]
        self._plan_series()

    # ---- what happens to pods ----------------------------------------------------------------

    def pod_runs(self, pod: ClusterPod, life: PodLife, start: str) -> None:
        """All main containers of a pod run, for the first time or again. `start`: the kubelet's name for its draws."""
        if life.workload is None or pod.spec.node_name not in self.nodes.rows:
            return
        name = life.workload.name
        group = self.groups.get(name)
        if group is None:
            self.tasks.begin(pod, life, start)
            self._note()
            return
        member = group.members.get(life.key)
        if member is None:
            row = self.roster.add(pod, life.workload.number)
            member = group.members[life.key] = Member(life.key, life.uid, row, self._world.seconds)
            if self.history is not None:
                self.history.assign(row, self.history.load(name), life.uid)
            member.works = bool(self.nodes.works[self.roster.node[row]])
        member.started = self._world.seconds
        member.startup = self._startup_of(name, start)
        member.is_ready = self._is_ready(pod)
        if member.is_ready:
            member.ready_since = member.started
        self._dirty(group)

    def _startup_of(self, workload: str, start: str) -> float:
        """The start-up time that the kubelet has drawn for a start of a container."""
        startup = self._applications.startup_of(workload)
        if startup is None:
            return math.nan
        return start_delay(startup).seconds(self._world.streams.uniform("kubelet/start", start))

    def pod_stops(self, life: PodLife, *, killed: bool) -> None:
        """A main container of a pod has ended; it may start again."""
        if self.tasks.end(life.key):
            self._note()
            return
        found = self._member(life)
        if found is None:
            return
        group, member = found
        member.started = math.nan
        if killed:
            group.lost.append(life.key)
        self._dirty(group)

    def _pod_changed(self, life: PodLife, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if new is None or new.is_terminal:
            self._remove(life)
            return
        found = self._member(life)
        if found is None:
            return
        group, member = found
        is_ready = self._is_ready(new)
        if is_ready != member.is_ready:
            member.is_ready = is_ready
            member.ready_since = self._world.seconds if is_ready else math.nan
            self._dirty(group)

    def _remove(self, life: PodLife) -> None:
        if self.history is not None:
            self.history.release(life.uid)
        if self.tasks.end(life.key):
            self._note()
        self.tasks.forget(life.key)
        found = self._member(life)
        if found is not None:
            group, member = found
            del group.members[life.key]
            self.roster.remove(member.row)
            self._dirty(group)

    def _member(self, life: PodLife) -> tuple[Group, Member] | None:
        group = None if life.workload is None else self.groups.get(life.workload.name)
        member = None if group is None else group.members.get(life.key)
        return None if group is None or member is None else (group, member)

    def _is_ready(self, pod: ClusterPod) -> bool:
        """Whether it is an endpoint: ready, and not being deleted."""
        return pod.is_ready and pod.deleted is None

    def node_works(self, name: str, *, works: bool) -> None:
        """A node falls silent, or is heard again: its pods get no cpu meanwhile."""
        self.nodes.set_working(name, works=works)
        row = self.nodes.rows.get(name, -1)
        for group in self.groups.values():
            for member in group.members.values():
                if self.roster.node[member.row] == row:
                    member.works = works
                    if not works:
                        group.lost.append(member.key)
                    group.is_dirty = True
        self._note()

    def _dirty(self, group: Group) -> None:
        group.is_dirty = True
        self._note()

    def _note(self) -> None:
        """Have a look when everything of this instant has settled, or as soon as looks may follow each other."""
        self._changed = True
        if self._planned is None and self._world.has_begun:
            now = self._world.kernel.now
            when = max(now, self._last + PER_POD * len(self.roster))
            self._planned = self._world.kernel.later(when, self._planned_look)

    def _planned_look(self) -> None:
        self._planned = None
        if self._changed:
            self.look(full=False)

    def _plan_series(self) -> None:
        now = self._world.seconds
        following = min((group.next_change(now) for group in self._others), default=math.inf)
        following = min(following, self.fleet.next_change(now))
        if following >= self._world.spec.duration / SECOND:
            return
        kernel = self._world.kernel
        when = max(self._world.time_of(following), self._last + SERIES_GAP, kernel.now + 1)
        if self._series is not None:
            if self._series.when == when:
                return
            self._series.cancel()
        self._series = kernel.later(when, self._series_changed)

    def _series_changed(self) -> None:
        self._series = None
        self.look(full=True)

    # ---- looks -------------------------------------------------------------------------------

    def look(self, *, full: bool = True) -> None:
        """Bring all up to now. `full`: every group; otherwise those that have changed."""
        now = self._world.kernel.now
        if not self._world.has_begun or (self._full_at == now and not self._changed):
            return
        seconds = self._world.seconds
        self._account(seconds)
        self._changed = False
        self._last = now
        if full:
            self._full_at = now
        dirty = [group for group in self.groups.values() if group.is_dirty]
        due = self._due(None if full else dirty)
        self._advance(due, seconds)
        if dirty:
            for group in dirty:
                group.set_pods()
            due = self._due(None if full else dirty)
        self._want(due)
        plan = self.roster.division.plan(None if full else self._rows_of(due))
        if not full:
            more = self._due(self._of_workloads(plan.touched, dirty))
            self._advance(more, seconds)
            numbers = np.concatenate([due.part.numbers, more.part.numbers])
            numbers.sort()
            due = _Due(self.fleet.part(numbers), due.others + more.others)
        self.looked_at = due.part
        self._grant(due, plan)
        self._set_speeds(due)
        self._record(due, now)
        self._plan_series()
        groups = [self._of_fleet[number] for number in due.part.numbers.tolist()] + due.others
        for listener in self.after_look:
            listener(groups)

    def measure(self) -> None:
        """Somebody is about to read samples of many services: take them all at once."""
        self.fleet.measure(self.fleet.all())

    def _due(self, groups: list[Group] | None) -> _Due:
        """Some groups, None for all, as a look goes about them."""
        if groups is None:
            return _Due(self.fleet.all(), self._others)
        numbers = sorted(group.service.number for group in groups if group.service is not None)
        return _Due(self.fleet.part(numbers), [group for group in groups if group.service is None])

    def _advance(self, due: _Due, seconds: float) -> None:
        self.fleet.advance(due.part, seconds)
        if self._counting:
            chosen = set(due.part.numbers.tolist())
            for group in self._counting:
                if group.service is not None and group.service.number in chosen:
                    group.count()
        for group in due.others:
            group.advance(seconds)

    def _want(self, due: _Due) -> None:
        """Put the cores that pods want into the roster."""
        self.roster.demand[self.fleet.place[due.part.rows]] = self.fleet.want(due.part)
        for group in due.others:
            group.want()
        self.tasks.want()

    def _grant(self, due: _Due, plan: Plan) -> None:
        """Hand on what the nodes leave to the pods, and put the memory in use into the roster."""
        fleet = self.fleet
        fleet.settle(due.part)
        self.roster.division.put(plan)
        fleet.leave(due.part, self._spare(due.part, plan))
        moved = fleet.moved_memory(due.part)
        if moved.numbers.size:
            self.roster.memory[fleet.place[moved.rows]] = fleet.memory(moved)
        for group in due.others:
            group.grant()
            group.look_at()

    def _spare(self, part: Part, plan: Plan) -> float | Floats:
        """Cores that every pod of these services may use at least beyond what it wants; 0 if that is not so simple."""
        if not plan.is_simple:
            return 0.0
        least = plan.least_idle
        if least >= _ENOUGH or not part.starts.size:
            return least
        place = self.fleet.place[part.rows]
        # Rows beyond the last pod are on no node.
        idle = np.where(place > 0, plan.idle[plan.node[place]], np.inf)
        return np.minimum.reduceat(idle, part.starts) / NANO

    def _account(self, seconds: float) -> None:
        """Book what went on since the last look."""
        length = seconds - self._time
        self._time = seconds
        if length <= 0:
            return
        rows = self.roster.rows
        if not rows.size:
            return
        self.tasks.account(length)
        if not self.roster.division.now.has_limits:
            return
        throttled = self.roster.division.throttled[rows]
        if throttled.any():
            for row, amount in zip(rows[throttled > 0].tolist(), throttled[throttled > 0].tolist(), strict=True):
                number = int(self.roster.workload[row])
                self.throttled[number] = self.throttled.get(number, 0.0) + amount * length

    def _rows_of(self, due: _Due) -> Ints:
        """The rows of some groups, and of all tasks."""
        rows = [self.fleet.place[due.part.rows], self.tasks.rows, *(group.rows for group in due.others)]
        return np.concatenate(rows)

    def _of_workloads(self, workloads: Ints, but: list[Group]) -> list[Group]:
        """The groups of some workloads, but for those."""
        known = {group.name for group in but}
        found = [self._by_number[number] for number in workloads.tolist() if number in self._by_number]
        return [group for group in found if group.name not in known]

    def _set_speeds(self, due: _Due) -> None:
        """Work in containers, of tasks and of applications that start, passes as fast as the cores allow."""
        if self.kubelets is None:
            return
        self.tasks.set_speeds(self.kubelets)
        if not self._start_up:
            return
        chosen = set(due.part.numbers.tolist())
        for group in self._start_up:
            if group in due.others or (group.service is not None and group.service.number in chosen):
                self._speed_starts(group, self.kubelets)

    def _speed_starts(self, group: Group, kubelets: Kubelets) -> None:
        for member in group.members.values():
            if member.is_ready or math.isnan(member.started):
                self._starting.pop(member.key, None)
                continue
            speed = min(1.0, float(self.roster.division.available[member.row]) / group.startup_cpu)
            if self._starting.get(member.key, 1.0) != speed:
                self._starting[member.key] = speed
                kubelets.set_speed(member.key, speed)

    def _record(self, due: _Due, now: int) -> None:
        history = self.history
        if history is None:
            return
        fleet, seconds = self.fleet, self.roster.ledger.seconds
        numbers = due.part.numbers
        loads = self._history_loads(history)[numbers][fleet.count[numbers] > 0]
        others = []
        for group in due.others:
            if group.uids:
                others.append(history.load(group.name))
                seconds[group.rows] = group.cpu_seconds
        if self.tasks.rows.size:
            others.append(history.load(TASKS))
        if others:
            loads = np.concatenate([loads, np.array(others, np.int64)])
        if loads.size:
            history.note(loads, now, seconds, self.roster.memory)

    def _history_loads(self, history: UsageHistory) -> Ints:
        """The numbers of the fleet's services in the history of use."""
        if len(self._loads) < len(self.fleet):
            self._loads = np.array([history.load(group.name) for group in self._of_fleet], np.int64)
        return self._loads


def _by_target(demands: tuple[Demand, ...]) -> dict[str, list[Demand]]:
    found: dict[str, list[Demand]] = {}
    for demand in demands:
        if demand.target is not None:
            found.setdefault(str(demand.target), []).append(demand)
    return found
