"""What stands in which domain before a round begins, counted once for all rounds over one snapshot.

Pods and groups are looked up by a label that a selector wants, so that a selector meets only those that have it.

Follows countDomains of pkg/controllers/provisioning/scheduling/topology.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from stowplan_scheduler.objects import LabelSelector
from stowplan_scheduler.selectors import EVERYTHING, NOTHING, LabelQuery, SelectorError

from .state_nodes import StateNode
from .topology_groups import Group, Term

if TYPE_CHECKING:
    from .snapshot import LabelClass, Snapshot

Item = TypeVar("Item")


class ByLabel(Generic[Item]):
    """Things that have labels, to be found by those that a selector wants."""

    def __init__(self, items: Iterable[Item], labels_of: Callable[[Item], Mapping[str, str]]) -> None:
        self._all = list(items)
        self._by_label: dict[tuple[str, str], list[Item]] = {}
        for item in self._all:
            for label in labels_of(item).items():
                self._by_label.setdefault(label, []).append(item)

    def wanted_by(self, query: LabelQuery) -> Sequence[Item]:
        """Those that a query may match; it is still to be asked."""
        wanted = query.wanted
        return self._by_label.get(wanted[0], ()) if wanted else self._all


class GroupIndex:
    """Groups, to be found by the labels of pods that they count."""

    def __init__(self) -> None:
        self._count = 0
        self._by_label: dict[tuple[str, str] | None, list[tuple[int, Group]]] = {}

    def add(self, group: Group) -> None:
        """One more."""
        wanted = group.term.query.wanted
        self._by_label.setdefault(wanted[0] if wanted else None, []).append((self._count, group))
        self._count += 1

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> list[Group]:
        """Those that count a pod with these labels, in the order in which they came."""
        found = list(self._by_label.get(None, ()))
        for label in labels.items():
            found += self._by_label.get(label, ())
        chosen = [pair for pair in found if pair[1].selects(namespace, labels)]
        chosen.sort(key=_number)
        return [group for _, group in chosen]


def _number(pair: tuple[int, Group]) -> int:
    return pair[0]


class DomainCounts:
    """Nodes and pods by domain, over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._nodes: dict[str, dict[str, int]] = {}
        self._pods: dict[int, tuple[Term, dict[str, int]]] = {}
        self._classes: ByLabel[LabelClass] | None = None

    def nodes(self, key: str) -> Mapping[str, int]:
        """How many active nodes have each value of a label; not to be changed."""
        known = self._nodes.get(key)
        if known is None:
            known = self._nodes[key] = {}
            for node in self._snapshot.active:
                domain = node.labels.get(key)
                if node.node is not None and domain is not None:
                    known[domain] = known.get(domain, 0) + 1
        return known

    def pods(self, group: Group) -> Mapping[str, int]:
        """How many pods on nodes a group counts in each domain; not to be changed."""
        term = group.term
        known = self._pods.get(id(term))
        if known is None:
            known = self._pods[id(term)] = term, self._count(group)
        return known[1]

    def _count(self, group: Group) -> dict[str, int]:
        if self._classes is None:
            self._classes = ByLabel(self._snapshot.classes(), _labels)
        namespaces, query = group.term.identity.namespaces, counted_by(group.term)
        found: dict[str, int] = {}
        for each in self._classes.wanted_by(query):
            if each.namespace not in namespaces or not query.matches(each.labels):
                continue
            for node, count in each.pods.values():
                domain = domain_of(group, node)
                if domain is not None:
                    found[domain] = found.get(domain, 0) + count
        return found


def _labels(each: LabelClass) -> Mapping[str, str]:
    return each.labels


def domain_of(group: Group, node: StateNode) -> str | None:
    """The domain in which a group counts the pods on a node; None: it does not."""
    if node.node is None:
        return None
    domain = node.node.metadata.labels.get(group.key)
    if domain is None and group.is_host:
        domain = node.node.metadata.name
    return domain if domain is not None and takes_part(group, node) else None


def takes_part(group: Group, node: StateNode) -> bool:
    """Whether a group looks at a node."""
    node_filter = group.term.node_filter
    if node_filter.is_open or node.node is None:
        return True
    return node_filter.passes(node.node.spec.taints, node.node_requirements())


def counted_by(term: Term) -> LabelQuery:
    """How pods on nodes are listed: without a selector, all of the namespaces."""
    return _raw_query(term.raw)


def _raw_query(selector: LabelSelector | None) -> LabelQuery:
    if selector is None:
        return EVERYTHING
    try:
        return LabelQuery.of(selector)
    except SelectorError:
        return NOTHING
