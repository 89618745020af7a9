"""The nodes of a run as its results see them, pool by pool: what they hold, what they strand, what they cost.

A pool is a pool of spec.nodePools or a group of spec.cluster.nodeGroups; other nodes are the pool "". Sums are kept as
nodes change, so that a sample costs what has changed since the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.resources.node_groups import GROUP_LABEL
from stowplan_autoscaling.results import NodeRecord, Paid, PoolSample
from stowplan_autoscaling.supply.machines import FAILED, INITIAL, INTERRUPTED, LOST, RUNNING, Machine
from stowplan_autoscaling.supply.pools import INSTANCE_TYPE_LABEL, ON_DEMAND, POOL_LABEL, ZONE_LABEL

from .pods import DONE, PodBook

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.supply.provider import Provider

    from .load_engine import LoadEngine
    from .world import World

_UNFORESEEN: Final = frozenset({INTERRUPTED, LOST, FAILED})
_READY: Final = frozenset({"Ready", "Cordoned"})


class Room(NamedTuple):
    """What a node has and what its pods request: thousandths of a core, bytes."""

    pods: int
    cpu: int
    memory: int
    has_cpu: int
    has_memory: int


class _Pool:
    """Sums over the nodes of one pool that take pods, and its machines."""

    __slots__ = ("coming", "cost", "leaving", "name", "number", "ready", "stranded_cpu", "stranded_memory", "sums")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.sums = [0] * len(Room._fields)
        self.ready = self.coming = self.leaving = 0
        self.stranded_cpu = self.stranded_memory = 0
        self.cost = 0.0


class NodePools:
    """The one of a run. `provider` is None where no pool is."""

    def __init__(self, world: World, book: PodBook, loads: LoadEngine, provider: Provider | None) -> None:
        self._world = world
        self._book = book
        self._loads = loads
        self._provider = provider
        self._pools: dict[str, _Pool] = {}
        self._pool_of: dict[str, _Pool] = {}
        """By node."""
        self._rows = np.zeros(0, np.int64)
        """The number of the pool by row of the nodes in the loads."""
        self._rooms: dict[str, Room] = {}
        self._stranded: dict[str, tuple[int, int]] = {}
        self._shapes = 0
        self._typical = np.zeros((0, 2), np.int64)
        self._fixed_cost: dict[str, float] = {}
        self._machines_changed = True
        for group in world.spec.cluster.node_groups:
            self._pool(group.name)
        for pool in world.simulation.pools:
            self._pool(pool.name)
        if provider is not None:
            provider.listeners.append(self)

    def _pool(self, name: str) -> _Pool:
        found = self._pools.get(name)
        if found is None:
            found = self._pools[name] = _Pool(name, len(self._pools))
        return found

    # ---- nodes -------------------------------------------------------------------------------

    def start(self) -> None:
        """The run begins: nodes that are no machine of a pool are paid for from now on."""
        prices = self._world.simulation.group_prices
        machines = {} if self._provider is None else self._provider.machines
        for name, node in self._world.server.all("Node").items():
            group = node.metadata.labels.get(GROUP_LABEL, "")
            if name not in machines and group in prices:
                paid = Paid(
                    pool=group,
                    instance_type=node.metadata.labels.get(INSTANCE_TYPE_LABEL, ""),
                    zone=node.metadata.labels.get(ZONE_LABEL, ""),
                    capacity_type=ON_DEMAND,
                    price=prices[group],
                    launched=0.0,
                )
                self._world.recorder.paid(name, paid)
                self._fixed_cost[group] = self._fixed_cost.get(group, 0.0) + prices[group]
        for machine in machines.values():
            self._pay(machine)

    def node_changed(self, name: str, node: Node | None, state: str, room: Room) -> None:
        """A node has changed since it was looked at last; None: it is gone."""
        pool = self._pool_of.get(name)
        if pool is None:
            if node is None:
                return
            labels = node.metadata.labels
            pool = self._pool_of[name] = self._pool(labels.get(POOL_LABEL) or labels.get(GROUP_LABEL, ""))
        before = self._rooms.pop(name, None)
        if (before is None) == (node is not None and state in _READY):
            self._machines_changed = True
        if before is not None:
            self._add(pool, before, -1)
            self._strand(pool, name, (0, 0))
        if node is None:
            del self._pool_of[name]
        elif state in _READY:
            self._rooms[name] = room
            self._add(pool, room, 1)
            self._strand(pool, name, self._stranded_of(room))

    def _add(self, pool: _Pool, room: Room, sign: int) -> None:
        pool.ready += sign
        for index, amount in enumerate(room):
            pool.sums[index] += sign * amount

    def _strand(self, pool: _Pool, name: str, now: tuple[int, int]) -> None:
        before = self._stranded.pop(name, (0, 0))
        if any(now):
            self._stranded[name] = now
        pool.stranded_cpu += now[0] - before[0]
        pool.stranded_memory += now[1] - before[1]

    def _stranded_of(self, room: Room) -> tuple[int, int]:
        """What no typical pod can have because the other resource is short: milli cores and bytes."""
        cpu, memory = room.has_cpu - room.cpu, room.has_memory - room.memory
        has_cpu, has_memory = self._typical[:, 0] <= cpu, self._typical[:, 1] <= memory
        if not len(self._typical) or (has_cpu & has_memory).any():
            return 0, 0
        return cpu * bool(has_cpu.any()), memory * bool(has_memory.any())

    # ---- samples -----------------------------------------------------------------------------

    def sample(self, seconds: float) -> None:
        """One row per pool."""
        if len(self._book.shapes) != self._shapes:
            self._learn_shapes()
        if self._machines_changed:
            self._count_machines()
        cpu, memory = self._used()
        for pool in self._pools.values():
            pods, cpu_requested, memory_requested, has_cpu, has_memory = pool.sums
            self._world.recorder.row(
                PoolSample(
                    seconds,
                    pool.name,
                    pool.ready - pool.leaving,
                    pool.coming,
                    pool.leaving,
                    pool.cost,
                    pods,
                    cpu[pool.number],
                    cpu_requested / 1000,
                    has_cpu / 1000,
                    pool.stranded_cpu / 1000,
                    round(memory[pool.number]),
                    memory_requested,
                    has_memory,
                    pool.stranded_memory,
                )
            )

    def _learn_shapes(self) -> None:
        self._shapes = len(self._book.shapes)
        self._typical = np.array(list(self._book.shapes), np.int64).reshape(-1, 2)
        for name, room in self._rooms.items():
            self._strand(self._pool_of[name], name, self._stranded_of(room))

    def _count_machines(self) -> None:
        self._machines_changed = False
        for pool in self._pools.values():
            pool.coming = pool.leaving = 0
            pool.cost = self._fixed_cost.get(pool.name, 0.0)
        if self._provider is None:
            return
        for name in self._provider.left_behind & self._rooms.keys():
            self._pool_of[name].leaving += 1
        for machine in self._provider.machines.values():
            pool = self._pool(machine.pool.name)
            pool.coming += machine.is_coming and machine.node not in self._rooms
            pool.leaving += machine.is_leaving and machine.node in self._rooms
            pool.cost += machine.offer.price if machine.launched is not None else 0.0

    def _used(self) -> tuple[list[float], list[float]]:
        """Cores and bytes in use, by number of the pool."""
        roster, names = self._loads.roster, self._loads.nodes.names
        if len(names) > len(self._rows):
            more = [self._pool_of[name].number if name in self._pool_of else 0 for name in names[len(self._rows) :]]
            self._rows = np.concatenate([self._rows, np.array(more, np.int64)])
        rows, count = roster.rows, len(self._pools)
        numbers = self._rows[roster.node[rows]]
        cpu = np.bincount(numbers, weights=roster.division.granted[rows], minlength=count)
        memory = np.bincount(numbers, weights=roster.memory[rows], minlength=count)
        return cpu.tolist(), memory.tolist()

    # ---- machines ----------------------------------------------------------------------------

    def machine_changed(self, machine: Machine) -> None:
        """It was launched, registered, ready, or is being taken back."""
        self._machines_changed = True
        if machine.launched == self._world.kernel.now and machine.registered is None and self._world.has_begun:
            self._pay(machine)

    def machine_noticed(self, machine: Machine) -> None:
        """It will be taken back."""
        self._machines_changed = True

    def machine_failed(self, machine: Machine) -> None:
        """It could not be had."""
        self._machines_changed = True
        self._record(machine, machine.end)

    def machine_ended(self, machine: Machine) -> None:
        """It is gone."""
        self._machines_changed = True
        self._end_pods(machine)
        if self._world.has_begun:
            self._world.recorder.no_longer_paid(machine.node, self._world.seconds)
        self._record(machine, machine.end)

    def _end_pods(self, machine: Machine) -> None:
        """What is still on it goes with it: the garbage collector will only say so later.

        Until then requests go to such a pod as long as it counts as ready, and nobody answers.
        """
        end = "NodeLost" if machine.end in _UNFORESEEN else "Deleted"
        keys = () if self._provider is None else self._provider.pods_on(machine.node)
        lives = [life for life in map(self._book.lives.get, keys) if life is not None and life.state != DONE]
        for life in lives:
            life.end = life.end or end
        if not all(life.is_own for life in lives):
            self._loads.look()
            self._loads.node_works(machine.node, works=False)

    def machine_disrupted(self) -> None:
        """Somebody has begun to empty one."""
        self._machines_changed = True

    def rest(self) -> None:
        """The rows of the machines that are there at the end."""
        for machine in () if self._provider is None else self._provider.machines.values():
            self._record(machine, RUNNING)

    def _pay(self, machine: Machine) -> None:
        if machine.launched is None:
            return
        launched = self._world.since_start(machine.launched)
        minimum = 0.0 if machine.began == INITIAL else self._world.spec.provider.minimum_bill / SECOND
        paid = Paid(
            pool=machine.pool.name,
            instance_type=machine.type.name,
            zone=machine.offer.zone,
            capacity_type=machine.offer.capacity_type,
            price=machine.offer.price,
            launched=max(launched, 0.0),
            minimum=minimum + min(launched, 0.0),
        )
        self._world.recorder.paid(machine.node, paid)

    def _record(self, machine: Machine, end: str) -> None:
        if not self._world.has_begun:
            return

        def seconds(time: int | None) -> float | None:
            return None if time is None else self._world.since_start(time)

        self._world.recorder.row(
            NodeRecord(
                machine.node,
                machine.pool.name,
                machine.type.name,
                machine.offer.zone,
                machine.offer.capacity_type,
                machine.offer.price,
                self._world.since_start(machine.requested),
                seconds(machine.launched),
                seconds(machine.registered),
                seconds(machine.ready),
                seconds(machine.disrupted),
                seconds(machine.ended),
                machine.began,
                end,
            )
        )
