"""Topology of one scheduling round: the groups that its pods belong to, and what these allow.

Groups are made when the first pod with such a term is seen and counted from the pods on nodes; pods placed in the round
are recorded as they are placed. Anti-affinity also works the other way round: the required terms of other pods keep a
pod out of their domains. Hosts are rows of nodes followed by slots of claims, so that host rules are vector operations.

Follows pkg/controllers/provisioning/scheduling/topology.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.objects import Taint

from .cluster_state import ClusterState
from .instance_types import Mask
from .labels import HOSTNAME
from .requirement import one_of
from .requirements import Requirements
from .shapes import Shape
from .snapshot import Snapshot
from .state_nodes import KnownPod, StateNode
from .templates import DomainUniverse
from .topology_counts import ByLabel, DomainCounts, GroupIndex, counted_by, domain_of, takes_part
from .topology_groups import ANTI_AFFINITY, SPREAD, Group, GroupKey, Term
from .topology_terms import TermMemo

Counts = NDArray[np.int32]


class Rule(NamedTuple):
    """A group that restricts a shape. `selected`: pods of the shape count in it."""

    group: Group
    selected: bool


class ShapeRules(NamedTuple):
    """What topology says about a shape: rules on hosts, rules on other domains, groups that count it.

    `holds`: the groups through which the shape's own required anti-affinity keeps others away.
    """

    hosts: tuple[Rule, ...]
    others: tuple[Rule, ...]
    counted_in: tuple[Group, ...]
    holds: tuple[Group, ...]

    @property
    def are_none(self) -> bool:
        """Whether topology has nothing to do with the shape."""
        return not (self.hosts or self.others or self.counted_in or self.holds)


NO_RULES: Final = ShapeRules((), (), (), ())


class Topology:
    """The groups of a round.

    `gone`: the rows of nodes that are taken away. `moving`: the pods on nodes that are to be placed anew, which do not
    count where they are now. Claims get the rows of hosts after those of the nodes, see `add_host`.
    """

    def __init__(
        self, undefined: frozenset[str], state: ClusterState, snapshot: Snapshot, universe: DomainUniverse,
        gone: Collection[int], moving: Iterable[KnownPod], terms: TermMemo,
    ) -> None:  # fmt: skip
        self._undefined = undefined
        self._state = state
        self._snapshot = snapshot
        self._universe = universe
        self._gone = gone
        self._terms = terms
        self._moving = moving
        self._moving_shapes: ByLabel[tuple[Shape, list[KnownPod]]] | None = None
        self._groups: dict[GroupKey, Group] = {}
        self._inverse: dict[GroupKey, Group] = {}
        self._group_index = GroupIndex()
        self._inverse_index = GroupIndex()
        self._claim_rows: dict[str, int] = {}
        self._size = len(snapshot.table.places.hosts)
        self._counts: dict[Group, Counts] = {}
        self._rules: dict[Shape, ShapeRules] = {}
        self._passes: dict[tuple[Group, tuple[Taint, ...], Requirements], bool] = {}
        holders = snapshot.holders()
        moved = {known.key for known in moving} if holders else frozenset()
        for node, known in holders:
            if known.key not in moved:
                self._hold(known.shape, node)

    @property
    def is_blank(self) -> bool:
        """Whether there is no group so far: shapes without terms have no rules then."""
        return not (self._groups or self._inverse)

    # ---- groups ----------------------------------------------------------------------------------------------------

    def rules(self, shape: Shape) -> ShapeRules:
        """What topology says about a shape; its groups are made if they are new."""
        if not shape.has_terms and self.is_blank:
            return NO_RULES
        known = self._rules.get(shape)
        if known is not None:
            return known
        before = len(self._groups) + len(self._inverse)
        holds = self._hold(shape, None)
        terms = self._terms.of(shape, self._state.namespaces)
        own = {id(group): group for group in (self._group(term, shape) for term in terms.own)}
        if len(self._groups) + len(self._inverse) != before:
            self._rules.clear()
        restricting = list(own.values())
        restricting += self._inverse_index.selecting(shape.namespace, shape.labels)
        found = [Rule(g, g.selects(shape.namespace, shape.labels)) for g in restricting]
        rules = self._rules[shape] = ShapeRules(
            tuple(rule for rule in found if rule.group.is_host),
            tuple(rule for rule in found if not rule.group.is_host),
            tuple(self._group_index.selecting(shape.namespace, shape.labels)),
            holds,
        )
        return rules

    def _group(self, term: Term, shape: Shape) -> Group:
        known = self._groups.get(term.identity)
        if known is None:
            known = self._groups[term.identity] = self._new(term, shape)
            self._group_index.add(known)
            self._count(known)
        return known

    def _new(self, term: Term, shape: Shape) -> Group:
        key = term.identity.key
        if key == HOSTNAME:
            return Group(term, ())
        return Group(term, self._universe.of(key, term.node_filter.taint_policy, shape.tolerations))

    def _hold(self, shape: Shape, node: StateNode | None) -> tuple[Group, ...]:
        """The groups of a shape's required anti-affinity; with a node, a pod of the shape stands there."""
        found = []
        for term in self._terms.of(shape, self._state.namespaces).held:
            group = self._inverse.get(term.identity)
            if group is None:
                group = self._inverse[term.identity] = self._new(term, shape)
                self._inverse_index.add(group)
            if node is not None and node.node is not None:
                domain = node.node.metadata.labels.get(group.key)
                if domain is not None:
                    self._record(group, domain)
            found.append(group)
        return tuple(found)

    def _count(self, group: Group) -> None:
        """Count the pods on nodes; domains of the nodes of the round are known even if they are empty."""
        counts = self._snapshot.domain_counts()
        if not group.is_host:
            for domain in self._domains(group, counts):
                group.register(domain)
        moved: Counter[str] = Counter()
        for known in self._moved(group.term):
            node = self._state.node(known.pod.spec.node_name)
            there = None if node is None or known.pod.is_terminating else domain_of(group, node)
            if there is not None:
                moved[there] += 1
        for domain, count in counts.pods(group).items():
            if count > moved[domain]:
                self._record(group, domain, count - moved[domain])

    def _domains(self, group: Group, counts: DomainCounts) -> Iterable[str]:
        """Where the nodes of the round are that a group looks at."""
        active, key = self._snapshot.active, group.key
        if not group.term.node_filter.is_open:
            return [
                node.labels[key]
                for row, node in enumerate(active)
                if row not in self._gone and node.node is not None and key in node.labels and takes_part(group, node)
            ]
        gone = Counter(
            active[row].labels[key] for row in self._gone if active[row].node is not None and key in active[row].labels
        )
        return [domain for domain, count in counts.nodes(key).items() if count > gone[domain]]

    def _moved(self, term: Term) -> Iterable[KnownPod]:
        """The moving pods that a term counts where they are."""
        if self._moving_shapes is None:
            by_shape: dict[Shape, list[KnownPod]] = {}
            for known in self._moving:
                by_shape.setdefault(known.shape, []).append(known)
            self._moving_shapes = ByLabel(by_shape.items(), _labels)
        query = counted_by(term)
        for shape, pods in self._moving_shapes.wanted_by(query):
            if shape.namespace in term.identity.namespaces and query.matches(shape.labels):
                yield from pods

    # ---- placing ---------------------------------------------------------------------------------------------------

    def narrowed(
        self, rules: ShapeRules, shape: Shape, requirements: Requirements, *, is_machine: bool
    ) -> Requirements | None:
        """The requirements with the domains that the rules choose; None where there is none. Hosts aside.

        Where a rule leaves the choice between domains, the first by name is taken that the other rules allow as well.
        `is_machine`: the node is still to be made, so it may get well-known labels that nobody mentions.
        """
        choices = []
        common: dict[str, frozenset[str]] = {}
        for group, selected in rules.others:
            key = group.key
            choice = group.choose(shape.strict.find(key), requirements.find(key), selected=selected)
            if not choice.domains:
                return None
            choices.append((key, choice))
            common[key] = common[key] & choice.domains if key in common else choice.domains
        both = requirements.adding(
            one_of(key, min(common[key] or choice.domains)) if choice.one else one_of(key, *choice.domains)
            for key, choice in choices
        )
        return both if requirements.compatible(both, self._undefined if is_machine else frozenset()) else None

    def record(self, shape: Shape, taints: tuple[Taint, ...], requirements: Requirements, host: str) -> None:
        """A pod of the shape was placed on a node with these taints and requirements."""
        rules = self.rules(shape)
        for group in rules.counted_in:
            if not self._counts_there(group, taints, requirements, host):
                continue
            if group.is_host:
                self._record(group, host)
                continue
            requirement = requirements.find(group.key)
            if requirement is None:
                continue
            if group.type == ANTI_AFFINITY:
                # The pod may land in any of these, so all of them are closed.
                for domain in requirement.values:
                    self._record(group, domain)
            elif requirement.single is not None:
                self._record(group, requirement.single)
        for group in rules.holds:
            domains = (host,) if group.is_host else requirements.get(group.key).values
            for domain in domains:
                self._record(group, domain)

    def _counts_there(self, group: Group, taints: tuple[Taint, ...], requirements: Requirements, host: str) -> bool:
        node_filter = group.term.node_filter
        if node_filter.is_open:
            return True
        if node_filter.mentions_host:
            return node_filter.passes(taints, requirements.adding([one_of(HOSTNAME, host)]))
        key = (group, taints, requirements)
        known = self._passes.get(key)
        if known is None:
            known = self._passes[key] = node_filter.passes(taints, requirements)
        return known

    def _record(self, group: Group, domain: str, count: int = 1) -> None:
        group.record(domain, count)
        if group.is_host and group in self._counts:
            counts = self._host_counts(group)
            for row in self._rows_of(domain):
                counts[row] += count

    # ---- hosts -----------------------------------------------------------------------------------------------------

    def add_host(self, host: str) -> int:
        """Give the host of a claim the next row."""
        self._claim_rows[host] = self._size
        self._size += 1
        return self._size - 1

    def _rows_of(self, host: str) -> Sequence[int]:
        row = self._claim_rows.get(host)
        return self._snapshot.table.places.rows_of_host.get(host, ()) if row is None else (row,)

    def open_hosts(self, rules: ShapeRules, shape: Shape, first: int, last: int) -> Mask | None:
        """Which of some rows of hosts the rules leave open; None: all."""
        mask: Mask | None = None
        for group, selected in rules.hosts:
            counts = self._host_counts(group)[first:last]
            if group.type == SPREAD:
                here: Mask = counts + selected <= group.max_skew
            elif group.type == ANTI_AFFINITY:
                here = counts == 0
            elif selected and not group.is_somewhere(shape.strict_host):
                continue
            else:
                here = counts > 0
            mask = here if mask is None else mask & here
        return mask

    def _host_counts(self, group: Group) -> Counts:
        counts = self._counts.get(group)
        if counts is None:
            counts = np.zeros(max(self._size, 16), dtype=np.int32)
            for domain, count in group.domains.items():
                for row in self._rows_of(domain):
                    counts[row] = count
            self._counts[group] = counts
        if len(counts) < self._size:
            longer = np.zeros(2 * self._size, dtype=np.int32)
            longer[: len(counts)] = counts
            counts = self._counts[group] = longer
        return counts

    def host_is_open(self, rules: ShapeRules, shape: Shape, host: str) -> bool:
        """Whether the rules leave a host open that has no row yet."""
        return all(group.host_allowed(host, shape.strict_host, selected=selected) for group, selected in rules.hosts)


def _labels(moving: tuple[Shape, list[KnownPod]]) -> Mapping[str, str]:
    return moving[0].labels
