"""Claim templates: what a pool offers to a scheduling round, with the overhead of daemon sets and the domains it spans.

Follows NodeClaimTemplate, buildDaemonOverheadGroups and buildDomainGroups of
pkg/controllers/provisioning/scheduling (nodeclaimtemplate.go, scheduler.go, topology.go, topologydomaingroup.go) of
Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.objects import Pod, PodSpec, Taint, Toleration
from stowplan_scheduler.quantity import NANOS
from stowplan_scheduler.resources import pod_requests

from .amounts import add, asked
from .host_ports import PortUse, host_ports
from .instance_types import Column, InstanceType, Mask, TypeTable
from .labels import NODE_POOL, SIMULATION_KEYS, TRUE
from .min_values import unsatisfied
from .node_pools import NodePool
from .preferences import tolerating_soft_taints, without_required_term
from .requirement import one_of
from .requirements import Requirements
from .shapes import pod_requirements
from .taints import all_tolerated
from .topology_groups import IGNORE


class Daemon:
    """A daemon set's pod while its node affinity is tried against templates. `requests`: nano units, one of "pods"."""

    __slots__ = ("key", "pod", "requests", "spec")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.key = pod.key
        self.spec: PodSpec = pod.spec
        self.requests = pod_requests(pod, use_status=True, pod_level=True)
        self.requests["pods"] = NANOS

    def runs_on(self, taints: Sequence[Taint], labels: Requirements) -> bool:
        """Whether the daemon set's pod runs on a node that exists."""
        if not all_tolerated(taints, self.spec.tolerations):
            return False
        return labels.compatible(pod_requirements(self.spec, preferences=False), frozenset())

    def runs_on_type(self, template: Requirements, taints: Sequence[Taint], item: InstanceType, undefined: frozenset[str]) -> bool:  # fmt: skip  # noqa: E501
        """Whether the daemon set's pod would run on a machine of a type.

        Upstream relaxes one and the same pod from type to type: a node affinity term that failed once is not tried for
        the types and pools that come later, nor for the nodes that exist.
        """
        self.spec = tolerating_soft_taints(self.spec) or self.spec
        if not all_tolerated(taints, self.spec.tolerations):
            return False
        while True:
            wanted = pod_requirements(self.spec, preferences=False)
            if template.compatible(wanted, undefined) and item.requirements.intersects(wanted):
                return True
            looser = without_required_term(self.spec)
            if looser is None:
                return False
            self.spec = looser


@dataclass(frozen=True, slots=True)
class OverheadGroup:
    """The types on which the same daemon sets run, and what these take. Amounts in nano units."""

    rows: Mask
    overhead: Mapping[str, int]
    ports: PortUse


class Template:
    """What a pool offers: requirements, the rows of its table, and for each resource what pods find on each type."""

    __slots__ = ("_free", "groups", "mask", "pool", "requirements", "table", "taints")

    def __init__(
        self, pool: NodePool, table: TypeTable, requirements: Requirements, mask: Mask, groups: list[OverheadGroup]
    ) -> None:
        self.pool = pool
        self.table = table
        self.requirements = requirements
        self.mask = mask
        self.groups = groups
        self.taints = pool.taints
        self._free: dict[int, Column] = {}

    def free(self, column: int) -> Column:
        """What is left of a resource on each type when the daemon sets are there."""
        known = self._free.get(column)
        if known is None:
            known = self.table.allocatable(column)
            name = self.table.axis.name(column)
            for group in self.groups:
                nanos = group.overhead.get(name, 0)
                if nanos:
                    known = known - np.where(group.rows, asked(name, nanos), 0)
            self._free[column] = known
        return known


def template_requirements(pool: NodePool) -> Requirements:
    """What every claim of the pool requires."""
    labels = {**pool.labels, NODE_POOL: pool.name, **pool.marks}
    found = Requirements.of(pool.requirements).adding(Requirements.of_labels(labels))
    return found.adding(one_of(key, TRUE) for key in sorted(SIMULATION_KEYS))


def build_templates(
    pools: Iterable[NodePool],
    tables: Mapping[str, TypeTable],
    daemons: Sequence[Daemon],
    undefined: frozenset[str],
    *,
    relax_min_values: bool,
) -> list[Template]:
    """The templates of the pools that have any type left, in the order of the pools; changes the daemons' terms."""
    templates = []
    for pool in pools:
        table = tables.get(pool.name)
        if table is None or not len(table):
            continue
        requirements = template_requirements(pool)
        mask = table.allowed(requirements)
        if requirements.has_min_values and not relax_min_values:
            if unsatisfied([table.types[row] for row in np.flatnonzero(mask)], requirements):
                continue
        if mask.any():
            templates.append(Template(pool, table, requirements, mask, []))
    for template in templates:
        template.groups.extend(_overhead_groups(template, daemons, undefined))
    return templates


def _overhead_groups(
    template: Template, daemons: Sequence[Daemon], undefined: frozenset[str]
) -> Iterator[OverheadGroup]:
    rows_of: dict[frozenset[str], list[int]] = {}
    running: dict[frozenset[str], list[Daemon]] = {}
    for row in np.flatnonzero(template.mask):
        item = template.table.types[row]
        here = [d for d in daemons if d.runs_on_type(template.requirements, template.taints, item, undefined)]
        key = frozenset(daemon.key for daemon in here)
        rows_of.setdefault(key, []).append(int(row))
        running.setdefault(key, here)
    for key, rows in rows_of.items():
        mask: Mask = np.zeros(len(template.table), dtype=np.bool_)
        mask[rows] = True
        overhead: dict[str, int] = {}
        ports = PortUse()
        for daemon in running[key]:
            add(overhead, daemon.requests)
            ports.add(daemon.key, host_ports(daemon.spec))
        yield OverheadGroup(mask, overhead, ports)


class DomainUniverse:
    """The domains that pools and types span, by topology key, each with the taints under which it can be had."""

    def __init__(self, pools: Iterable[NodePool], tables: Mapping[str, TypeTable]) -> None:
        self._taints: dict[str, dict[str, set[tuple[Taint, ...]]]] = {}
        for pool in pools:
            table = tables.get(pool.name)
            if table is None or not len(table):
                continue
            own = Requirements.of(pool.requirements).adding(Requirements.of_labels(pool.labels))
            for item in table.types:
                for requirement in own.adding(item.requirements):
                    self._insert(requirement.key, requirement.values, pool.taints)
            for requirement in own:
                if not requirement.complement:
                    self._insert(requirement.key, requirement.values, pool.taints)

    def _insert(self, key: str, values: Iterable[str], taints: tuple[Taint, ...]) -> None:
        domains = self._taints.setdefault(key, {})
        for value in values:
            domains.setdefault(value, set()).add(taints)

    def of(self, key: str, taint_policy: str, tolerations: Sequence[Toleration]) -> list[str]:
        """The domains of a key that a pod can reach; unless its policy is Ignore, it must tolerate their taints."""
        domains = self._taints.get(key, {})
        if taint_policy == IGNORE:
            return list(domains)
        return [
            domain for domain, sets in domains.items() if any(all_tolerated(taints, tolerations) for taints in sets)
        ]
