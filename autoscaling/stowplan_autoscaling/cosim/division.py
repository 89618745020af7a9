"""How the cores of all nodes are divided among the pods of a roster, from one look to the next.

    plan = division.plan(rows)       # these rows want something else; None: any may
    plan.touched                     # workloads with pods that may use something else
    division.put(plan)               # in force from now on
    division.available[row]

The rules are those of `CpuTree`. Nodes do not touch each other, so a plan is worked out anew for nodes with other pods,
with other cores, or with less than their pods ask for; where there is enough for all, what a node has left is a
difference. Amounts are whole nano cores, so sums do not depend on how they came about.

While a plan is being made, and until it is put, the division of the look before is in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.contention import NANO, CpuTree, in_nano
from stowplan_autoscaling.contention.qos import UNLIMITED

if TYPE_CHECKING:
    from .roster import Roster

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_EMPTY: Final = np.zeros(0, np.int64)


@dataclass(slots=True)
class Plan:
    """A division. By row of the roster: its node, and in nano cores what it is entitled to, its limit, what it wants,
    what its limit leaves of that, what it gets. By node: its cores, what its pods ask for, what is left.
    """

    node: Ints
    entitled: Floats
    quota: Floats
    """0 in rows without a pod."""
    wanted: Floats
    asked: Floats
    granted: Floats
    whole: Floats
    together: Floats
    idle: Floats
    top: Floats
    """By node: the most that one of its pods is entitled to."""
    works: Booleans
    has_limits: bool
    short: Ints
    """Nodes that have less than their pods ask for."""
    touched: Ints
    """Numbers of the workloads with pods that may use something else than before."""

    @property
    def is_simple(self) -> bool:
        """Whether all nodes work and no pod has a limit."""
        return not self.has_limits and bool(self.works.all())

    @property
    def least_idle(self) -> float:
        """Cores that every node has left at least."""
        return float(self.idle.min(initial=np.inf)) / NANO

    def available(self, rows: Ints | slice) -> Floats:
        """Cores that pods may use."""
        node = self.node[rows]
        found: Floats = self.granted[rows] + self.idle[node]
        np.maximum(found, self.entitled[rows], out=found)
        np.minimum(found, self.quota[rows], out=found)
        found /= NANO
        return found if self.works.all() else np.where(self.works[node], found, 0.0)


class Division:
    """The one in force, and the next one."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        size, nothing = len(roster.keys), np.zeros(0)
        node, works, none = np.zeros(size, np.int64), np.zeros(0, np.bool_), np.zeros(size)
        self.now = Plan(
            node, none, none, none, none, none, nothing, nothing, nothing, nothing, works, False, _EMPTY, _EMPTY
        )
        self._renewed: set[int] = set()
        """Rows that came or went since the last plan."""
        self._members: list[dict[int, int]] = []
        """By node: its rows, and the numbers of their workloads."""
        self._counts = np.zeros((0, 0), np.int32)
        """By node and workload: how many pods."""
        self._are_any = np.zeros((0, 0), np.bool_)
        """The same: whether there are any."""
        self._limited: set[int] = set()
        """Rows with a limit."""
        self._version = -1
        """Of the nodes, as of the last plan."""
        self._columns: dict[str, Floats] = {}
        """What was asked for of the division in force."""

    def renew(self, row: int, *, is_new: bool) -> None:
        """A row of the roster came or went; until the next look a new one has nothing."""
        self._renewed.add(row)
        if is_new:
            for column in self._columns.values():
                if row < len(column):
                    column[row] = 0.0

    # ---- the division in force ---------------------------------------------------------------

    @property
    def available(self) -> Floats:
        """Cores that each may use, by row."""
        return self._column("available")

    @property
    def granted(self) -> Floats:
        """Cores that each uses."""
        return self._column("granted")

    @property
    def throttled(self) -> Floats:
        """Cores that its limit refuses to each."""
        return self._column("throttled")

    def _column(self, name: str) -> Floats:
        found = self._columns.get(name)
        if found is None or len(found) < len(self._roster.keys):
            found = self._columns[name] = self._made(name)
        return found

    def _made(self, name: str) -> Floats:
        plan = self._grown()
        if not len(plan.whole):
            # No look yet, or no node: nobody has anything.
            return np.zeros(len(plan.node))
        if name == "available":
            found = plan.available(slice(None))
        elif name == "granted":
            found = plan.granted / NANO
        elif plan.has_limits:
            alone = np.maximum(plan.whole[plan.node], plan.asked)
            found = (np.minimum(plan.wanted, alone) - plan.asked) / NANO
        else:
            found = np.zeros(len(plan.asked))
        fresh = [row for row in self._renewed if self._roster.alive[row]]
        if fresh:
            found[fresh] = 0.0
        return found

    def put(self, plan: Plan) -> None:
        """This is in force from now on."""
        self.now = plan
        self._columns = {}

    # ---- the next one ------------------------------------------------------------------------

    def plan(self, rows: Ints | None) -> Plan:
        """The division of now. `rows`: those that may want something else than before; None: all."""
        before, nodes, is_partial = self._grown(), self._roster.nodes, rows is not None
        if rows is not None and not np.array_equal(before.works, nodes.works):
            rows = None
        whole, dirty = self._whole(before)
        plan = Plan(
            before.node,
            before.entitled,
            before.quota,
            before.wanted,
            before.asked.copy(),
            before.granted,
            whole,
            before.together.copy(),
            before.idle,
            before.top,
            nodes.works.copy(),
            before.has_limits,
            _EMPTY,
            _EMPTY,
        )
        renewed = np.array(sorted(self._renewed), np.int64)
        self._renewed.clear()
        if renewed.size or dirty.size:
            dirty = self._take_in(plan, renewed, dirty)
        if rows is None or plan.has_limits > before.has_limits:
            self._ask_all(plan)
        else:
            self._ask(plan, np.unique(np.concatenate([renewed, rows])) if renewed.size else np.unique(rows))
        self._fill(plan)
        if is_partial:
            plan.touched = self._touched(before, plan, dirty)
        self._version = nodes.version
        return plan

    def _grown(self) -> Plan:
        """The division in force, with room for all rows and nodes."""
        plan, roster = self.now, self._roster
        more = len(roster.keys) - len(plan.node)
        if more:
            for name in ("node", "entitled", "quota", "wanted", "asked", "granted"):
                setattr(plan, name, np.pad(getattr(plan, name), (0, more)))
        new = len(roster.nodes.names) - len(plan.whole)
        if new:
            for name in ("whole", "together", "idle", "top"):
                setattr(plan, name, np.pad(getattr(plan, name), (0, new)))
            plan.works = np.concatenate([plan.works, np.ones(new, np.bool_)])
            self._members.extend({} for _ in range(new))
        return plan

    def _whole(self, before: Plan) -> tuple[Floats, Ints]:
        """The nano cores of all nodes, and the nodes that have others than before."""
        nodes = self._roster.nodes
        if self._version == nodes.version:
            return before.whole, _EMPTY
        whole = np.rint(np.maximum(nodes.cpu, 0.0) * NANO)
        return whole, np.flatnonzero(whole != before.whole)

    def _take_in(self, plan: Plan, renewed: Ints, changed: Ints) -> Ints:
        """Rows that came or went, and nodes with other cores. Returns the nodes concerned."""
        roster = self._roster
        old = plan.node[renewed]
        was = plan.quota[renewed] > 0
        plan.node, plan.entitled, plan.quota = plan.node.copy(), plan.entitled.copy(), plan.quota.copy()
        plan.top = plan.top.copy()
        dirty = {*changed.tolist(), *old[was].tolist()}
        # What those who are gone asked for goes from the nodes where they were.
        plan.together -= _by_node(old, plan.asked[renewed], len(plan.together))
        plan.asked[renewed] = plan.entitled[renewed] = plan.quota[renewed] = 0.0
        for row, node, had in zip(renewed.tolist(), old.tolist(), was.tolist(), strict=True):
            if had:
                self._count(node, self._members[node].pop(row), -1)
                self._limited.discard(row)
        for row in renewed[roster.alive[renewed]].tolist():
            node, workload = int(roster.node[row]), int(roster.workload[row])
            plan.node[row] = node
            dirty.add(node)
            self._members[node][row] = workload
            self._count(node, workload, 1)
            if roster.limit[row] != UNLIMITED:
                self._limited.add(row)
        plan.has_limits = bool(self._limited)
        found = np.array(sorted(dirty), np.int64)
        self._entitle(plan, found)
        return found

    def _count(self, node: int, workload: int, more: int) -> None:
        nodes, workloads = self._counts.shape
        if node >= nodes or workload >= workloads:
            wider = (
                (0, max(node + 1, 64) if node >= nodes else 0),
                (0, max(workload + 1, 16) if workload >= workloads else 0),
            )
            self._counts, self._are_any = np.pad(self._counts, wider), np.pad(self._are_any, wider)
        self._counts[node, workload] += more
        self._are_any[node, workload] = self._counts[node, workload] > 0

    def _entitle(self, plan: Plan, nodes: Ints) -> None:
        """What the pods of these nodes are entitled to, and their limits."""
        plan.top[nodes] = 0.0
        rows = self._rows_on(nodes)
        if rows.size:
            tree = self._tree(plan, nodes, rows)
            plan.entitled[rows], plan.quota[rows] = tree.entitled, tree.quota
            np.maximum.at(plan.top, plan.node[rows], tree.entitled)

    def _rows_on(self, nodes: Ints) -> Ints:
        """The rows of some nodes, ascending."""
        return np.array(sorted(row for node in nodes.tolist() for row in self._members[node]), np.int64)

    def _tree(self, plan: Plan, nodes: Ints, rows: Ints) -> CpuTree:
        """The control groups of some nodes, with all their rows."""
        roster = self._roster
        return CpuTree(
            node=np.searchsorted(nodes, plan.node[rows]),
            capacity=roster.nodes.cpu[nodes],
            request=roster.request[rows],
            limit=roster.limit[rows],
            qos=roster.qos[rows],
        )

    def _ask_all(self, plan: Plan) -> None:
        plan.wanted = self._wants(plan, slice(None))
        plan.asked = np.minimum(plan.wanted, plan.quota)
        plan.together = _by_node(plan.node, plan.asked, len(plan.whole))

    def _ask(self, plan: Plan, rows: Ints) -> None:
        """What these rows ask for, and what it makes of their nodes."""
        node, count = plan.node[rows], len(plan.whole)
        wanted = self._wants(plan, rows)
        if plan.has_limits:
            plan.wanted = plan.wanted.copy()
            plan.wanted[rows] = wanted
        asked = np.minimum(wanted, plan.quota[rows])
        plan.together += _by_node(node, asked - plan.asked[rows], count)
        plan.asked[rows] = asked

    def _wants(self, plan: Plan, rows: Ints | slice) -> Floats:
        wanted = in_nano(self._roster.demand[rows])
        return wanted if plan.works.all() else np.where(plan.works[plan.node[rows]], wanted, 0.0)

    def _fill(self, plan: Plan) -> None:
        """What pods get, and what is left."""
        plan.idle = np.maximum(plan.whole - plan.together, 0.0)
        plan.granted = plan.asked
        plan.short = short = np.flatnonzero(plan.together > plan.whole)
        if not short.size:
            return
        rows = self._rows_on(short)
        granted, idle = self._tree(plan, short, rows).fill(plan.asked[rows])
        plan.granted = plan.asked.copy()
        plan.granted[rows], plan.idle[short] = granted, idle

    def _touched(self, before: Plan, plan: Plan, dirty: Ints) -> Ints:
        """The workloads of pods that may use something else."""
        if not (before.is_simple and plan.is_simple):
            every = slice(None)
            changed = np.flatnonzero(before.available(every) != plan.available(every))
            return np.unique(self._roster.workload[changed[self._roster.alive[changed]]])
        close = np.zeros(len(plan.whole), np.bool_)
        close[dirty] = close[before.short] = close[plan.short] = True
        differs = before.idle != plan.idle
        # Where what is left is more than anybody is entitled to, whoever asks for as much as before may use what is
        # left on top of that: the difference shows in all of them.
        close |= differs & (np.minimum(before.idle, plan.idle) < plan.top)
        wide = np.flatnonzero((differs & ~close)[: len(self._are_any)])
        found = set(np.flatnonzero(self._are_any[wide].any(axis=0)).tolist())
        rows = self._rows_on(np.flatnonzero(close))
        changed = rows[before.available(rows) != plan.available(rows)]
        found.update(self._roster.workload[changed].tolist())
        return np.array(sorted(found), np.int64)


def _by_node(node: Ints, amounts: Floats, count: int) -> Floats:
    """Sums for so many nodes. Rows without a pod are on node 0, even where there is no node at all."""
    return np.bincount(node, weights=amounts, minlength=count).astype(np.float64)[:count]
