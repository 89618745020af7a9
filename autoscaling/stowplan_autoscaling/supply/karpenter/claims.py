"""The claims that a scheduling round has opened: machines that are still to be made.

A claim keeps every type that would still do. Pods are offered to the claims with the fewest pods first; as upstream
sorts them anew before each pod with an algorithm that does not keep equals in order, so does `claim_order`.

Follows pkg/controllers/provisioning/scheduling/nodeclaim.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stowplan_scheduler.objects import Pod

from .amounts import Demand, add
from .claim_order import ClaimOrder
from .host_ports import PortUse
from .instance_types import Column, InstanceType, Mask
from .min_values import unsatisfied
from .requirement import Requirement
from .requirements import Algebra, Requirements
from .shapes import Shape
from .taints import TaintMemo
from .templates import Template
from .topology import ShapeRules, Topology

_IMPOSSIBLE = -(2**62)


class Claim:
    """A machine to be made. `requests` in nano units, without daemon sets until `finish`.

    `mask`: the rows of the template's table that would still do. `priced_by`: the requirements whose prices order the
    types, where later ones must not change the order.
    """

    __slots__ = (
        "host", "mask", "pods", "port_uses", "priced_by", "requests", "requirements", "row",
        "slot", "template", "totals",
    )  # fmt: skip

    def __init__(self, template: Template, mask: Mask, host: str) -> None:
        self.template = template
        self.host = host
        self.slot = -1
        self.row = -1
        self.mask = mask
        self.requirements = template.requirements
        self.pods: list[Pod] = []
        self.requests: dict[str, int] = {}
        self.totals: dict[int, int] = {}
        self.port_uses: list[PortUse] | None = None
        self.priced_by: Requirements | None = None

    @property
    def pool(self) -> str:
        """The name of its pool."""
        return self.template.pool.name

    @property
    def types(self) -> list[InstanceType]:
        """The types that would do, the cheapest first."""
        return self.template.table.in_order(self.mask, self.priced_by or self.requirements)

    def fitting(self, requirements: Requirements, demand: Demand) -> Mask:
        """The types that would do with these requirements and so much more."""
        mask: Mask = self.mask & self.template.table.allowed(requirements)
        for column, amount in demand:
            mask &= self.template.free(column) >= self.totals.get(column, 0) + amount
        if not self.totals:
            # The first pod: what the daemon sets take counts even where the pod asks for nothing.
            mask &= self._daemons_fit()
        return mask

    def _daemons_fit(self) -> Mask:
        mask: Mask = np.ones(len(self.mask), dtype=np.bool_)
        for group in self.template.groups:
            for name in group.overhead:
                mask &= self.template.free(self.template.table.axis.column(name)) >= 0
        return mask

    def without_taken_ports(self, pod: str, shape: Shape) -> Mask | None:
        """The types on which the host ports are free: daemon sets differ from type to type. None: all."""
        if not shape.ports:
            return None
        mask: Mask = np.zeros(len(self.mask), dtype=np.bool_)
        for group, use in zip(self.template.groups, self._ports(), strict=True):
            if not use.conflicts(pod, shape.ports):
                mask |= group.rows
        return mask

    def _ports(self) -> list[PortUse]:
        if self.port_uses is None:
            self.port_uses = [group.ports.copy() for group in self.template.groups]
        return self.port_uses

    def take(self, pod: Pod, shape: Shape, requirements: Requirements, mask: Mask) -> None:
        """The pod goes here."""
        self.pods.append(pod)
        self.mask = mask
        self.requirements = requirements
        add(self.requests, shape.requests)
        for column, amount in shape.demand:
            self.totals[column] = self.totals.get(column, 0) + amount
        if shape.ports:
            for use in self._ports():
                use.add(pod.key, shape.ports)

    def finish(self) -> None:
        """Add what the daemon sets take at the least, over the types that are left."""
        least: dict[str, int] = {}
        for group in self.template.groups:
            if not (group.rows & self.mask).any():
                continue
            if not least:
                least = dict(group.overhead)
            else:
                least = {n: min(nanos, group.overhead[n]) for n, nanos in least.items() if n in group.overhead}
        add(self.requests, least)

    def pin(self, requirement: Requirement) -> None:
        """Require something more, without another look at the types."""
        self.requirements = self.requirements.adding([requirement])

    def narrow(self, mask: Mask) -> bool:
        """Leave only the types of the mask; False where minValues no longer hold then."""
        self.mask = self.mask & mask
        return not self.requirements.has_min_values or not unsatisfied(self.types, self.requirements)


class Verdict:
    """What came of trying a pod on a claim: the requirements and types then, or why not."""

    __slots__ = ("mask", "reason", "requirements")

    def __init__(self, requirements: Requirements | None, mask: Mask | None, reason: str = "") -> None:
        self.requirements = requirements
        self.mask = mask
        self.reason = reason


TAINTS = Verdict(None, None, "did not tolerate taint")
REQUIREMENTS = Verdict(None, None, "incompatible requirements")
UNKNOWN_LABEL = Verdict(None, None, "incompatible requirements, label does not have known values")
"""It may still get known: another pod on the claim may mention it, and do without it."""

TOPOLOGY = Verdict(None, None, "unsatisfiable topology constraint")
NO_TYPE = Verdict(None, None, "no instance type has enough resources and the required offering")
MIN_VALUES = Verdict(None, None, "minValues requirement is not met")


class OpenClaims:
    """The claims of a round, in the order in which they are tried."""

    def __init__(self, algebra: Algebra, taints: TaintMemo, first_row: int) -> None:
        self.claims: list[Claim] = []
        self._algebra = algebra
        self._taint_memo = taints
        self._first_row = first_row
        self._order = ClaimOrder()
        self._room: dict[int, Column] = {}
        self._dead: dict[Shape, Mask] = {}

    def in_order(self) -> list[Claim]:
        """The claims as they stand now."""
        return [self.claims[slot] for slot in self._order.slots.tolist()]

    # ---- trying ----------------------------------------------------------------------------------------------------

    def place(self, pod: Pod, shape: Shape, topology: Topology, rules: ShapeRules) -> bool:
        """Put the pod on the first claim that takes it."""
        count = len(self.claims)
        if not count:
            return False
        self._order.sort()
        mask: Mask = np.ones(count, dtype=np.bool_)
        for column, amount in shape.demand:
            mask &= self._room_of(column)[:count] >= amount
        dead = self._dead.get(shape)
        if dead is not None:
            mask[: len(dead)] &= ~dead[:count]
        if rules.hosts:
            open_ = topology.open_hosts(rules, shape, self._first_row, self._first_row + count)
            if open_ is not None:
                mask &= open_
        order = self._order.slots
        seen: dict[tuple[int, Requirements], Verdict | Requirements] = {}
        for at in np.flatnonzero(mask[order]).tolist():
            claim = self.claims[order[at]]
            verdict = self.attempt(claim, pod, shape, topology, rules, seen)
            if verdict.requirements is not None and verdict.mask is not None:
                claim.take(pod, shape, verdict.requirements, verdict.mask)
                topology.record(shape, claim.template.taints, claim.requirements, claim.host)
                self._order.grow(at)
                self._measure(claim)
                return True
            is_settled = not rules.others and not shape.ports
            if verdict is TAINTS or verdict is REQUIREMENTS or (verdict is NO_TYPE and is_settled):
                self._bury(shape, claim.slot)
        return False

    def attempt(
        self, claim: Claim, pod: Pod, shape: Shape, topology: Topology, rules: ShapeRules,
        seen: dict[tuple[int, Requirements], Verdict | Requirements], *, relax_min_values: bool = False,
    ) -> Verdict:  # fmt: skip
        """Whether the claim can take the pod; hosts were looked at before. `seen` is shared by claims of one try."""
        key = (id(claim.template), claim.requirements)
        merged = seen.get(key)
        if merged is None:
            merged = seen[key] = self._merged(claim, shape, topology, rules)
        if isinstance(merged, Verdict):
            return merged
        if shape.host is not None and not shape.host.has(claim.host):
            return REQUIREMENTS
        mask = claim.fitting(merged, shape.demand)
        ports = claim.without_taken_ports(pod.key, shape)
        if ports is not None:
            mask &= ports
        if merged.has_min_values:
            table = claim.template.table
            missing = unsatisfied([table.types[row] for row in np.flatnonzero(mask)], merged)
            if missing and not relax_min_values:
                return MIN_VALUES
            for label, found in missing.items():
                merged = merged.replacing(merged.get(label)._replace(min_values=found))
        return Verdict(merged, mask) if mask.any() else NO_TYPE

    def _merged(self, claim: Claim, shape: Shape, topology: Topology, rules: ShapeRules) -> Verdict | Requirements:
        if not self._taint_memo.tolerated(claim.template.taints, shape.tolerations):
            return TAINTS
        merged = self._algebra.on_machine(claim.requirements, shape.requirements)
        if merged is None:
            return UNKNOWN_LABEL if claim.requirements.intersects(shape.requirements) else REQUIREMENTS
        if rules.others:
            narrowed = topology.narrowed(rules, shape, merged, is_machine=True)
            if narrowed is None:
                return TOPOLOGY
            merged = self._algebra.shared(narrowed)
        return merged

    def _bury(self, shape: Shape, slot: int) -> None:
        dead = self._dead.get(shape)
        if dead is None or len(dead) < len(self.claims):
            longer: Mask = np.zeros(max(2 * len(self.claims), 16), dtype=np.bool_)
            if dead is not None:
                longer[: len(dead)] = dead
            dead = self._dead[shape] = longer
        dead[slot] = True

    # ---- keeping ---------------------------------------------------------------------------------------------------

    def open(self, claim: Claim, topology: Topology) -> None:
        """A new claim, which has taken its first pod."""
        claim.slot = len(self.claims)
        claim.row = topology.add_host(claim.host)
        self.claims.append(claim)
        self._order.append(len(claim.pods))
        self._measure(claim)

    def _room_of(self, column: int) -> Column:
        room = self._room.get(column)
        if room is None or len(room) < len(self.claims):
            longer: Column = np.full(max(2 * len(self.claims), 16), _IMPOSSIBLE, dtype=np.int64)
            known = 0
            if room is not None:
                known = len(room)
                longer[:known] = room
            self._room[column] = longer
            for claim in self.claims[known:] if room is not None else self.claims:
                self._measure_column(claim, column)
            room = longer
        return room

    def _measure(self, claim: Claim) -> None:
        for column in self._room:
            self._measure_column(claim, column)

    def _measure_column(self, claim: Claim, column: int) -> None:
        """The most of a resource that is left on one of the claim's types."""
        room = self._room[column]
        if claim.slot < len(room):
            most = int(claim.template.free(column)[claim.mask].max(initial=_IMPOSSIBLE))
            room[claim.slot] = most - claim.totals.get(column, 0)


def amounts_left(limits: Mapping[str, int], claim: Claim) -> dict[str, int]:
    """The limits less the most that the claim's machine may have; nodes are not counted, as upstream has it."""
    table = claim.template.table
    return {name: nanos - table.most(claim.mask, name) for name, nanos in limits.items()}
