"""Requirements on the labels of a node, and the memo of what is known about pairs of them.

Requirements are immutable and compare by content. Merging and comparing two sets is remembered in an `Algebra`: pods of
one workload and nodes of one kind then cost one look-up instead of a walk over their labels.

Follows pkg/scheduling/requirements.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from stowplan_scheduler.objects import NodeSelectorRequirement

from .requirement import Requirement, exists, one_of

_MEMO_LIMIT: Final = 1 << 18


class Requirements:
    """One requirement per label key. Adding a key that is there intersects."""

    __slots__ = ("_by_key", "_hash", "has_min_values")

    def __init__(self, by_key: Mapping[str, Requirement] | None = None) -> None:
        self._by_key = dict(by_key or {})
        self._hash = hash(frozenset(self._by_key.values()))
        self.has_min_values = any(item.min_values is not None for item in self._by_key.values())

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> Requirements:
        """The conjunction of some requirements."""
        return EMPTY.adding(requirements)

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> Requirements:
        """That a node has just these labels."""
        return EMPTY.adding(one_of(key, value) for key, value in labels.items())

    @classmethod
    def of_expressions(cls, expressions: Iterable[NodeSelectorRequirement]) -> Requirements:
        """The conjunction of the expressions of a node selector term."""
        return EMPTY.adding(Requirement.of(e.key, e.operator, e.values) for e in expressions)

    def get(self, key: str) -> Requirement:
        """What is required of the label: any value, if nothing is."""
        return self._by_key.get(key) or exists(key)

    def find(self, key: str) -> Requirement | None:
        """What is required of the label, if anything is."""
        return self._by_key.get(key)

    def adding(self, requirements: Iterable[Requirement]) -> Requirements:
        """These and the others."""
        result: dict[str, Requirement] | None = None
        for requirement in requirements:
            if result is None:
                result = dict(self._by_key)
            known = result.get(requirement.key)
            result[requirement.key] = requirement if known is None else requirement.intersection(known)
        return self if result is None else Requirements(result)

    def replacing(self, requirement: Requirement) -> Requirements:
        """These, with what is required of one label put aside for something else."""
        return Requirements({**self._by_key, requirement.key: requirement})

    def without(self, keys: Iterable[str]) -> Requirements:
        """These, with nothing required of some labels."""
        dropped = set(keys)
        if dropped.isdisjoint(self._by_key):
            return self
        return Requirements({key: item for key, item in self._by_key.items() if key not in dropped})

    def compatible(self, incoming: Requirements, undefined: frozenset[str]) -> bool:
        """Whether a node with these may satisfy the incoming ones.

        A label that these say nothing about is refused, unless it is one of `undefined` or the incoming requirement
        does without the label.
        """
        for key, requirement in incoming._by_key.items():
            if key not in self._by_key and key not in undefined and not requirement.tolerates_absence:
                return False
        return self.intersects(incoming)

    def intersects(self, other: Requirements) -> bool:
        """Whether the two agree on every label that both mention."""
        small, large = self._by_key, other._by_key
        if len(small) > len(large):
            small, large = large, small
        for key, requirement in small.items():
            known = large.get(key)
            if known is not None and not requirement.agrees(known):
                return False
        return True

    @property
    def keys(self) -> Iterable[str]:
        """The labels that are mentioned."""
        return self._by_key.keys()

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Requirements):
            return NotImplemented
        return self._hash == other._hash and self._by_key == other._by_key

    def __repr__(self) -> str:
        return f"Requirements({sorted(self._by_key.values(), key=lambda item: item.key)})"


EMPTY: Final = Requirements()


class Algebra:
    """Remembers unions and verdicts of pairs; equal requirements come back as one object.

    `undefined`: the labels that a machine that is still to be made may get although nobody mentions them.
    """

    def __init__(self, undefined: frozenset[str]) -> None:
        self.undefined = undefined
        self._known: dict[Requirements, Requirements] = {}
        self._machine: dict[tuple[Requirements, Requirements], Requirements | None] = {}
        self._node: dict[tuple[Requirements, Requirements], Requirements | None] = {}

    def shared(self, requirements: Requirements) -> Requirements:
        """The one object for these requirements."""
        if len(self._known) > _MEMO_LIMIT:
            self._known.clear()
        return self._known.setdefault(requirements, requirements)

    def on_machine(self, machine: Requirements, pod: Requirements) -> Requirements | None:
        """Both together, for a machine that is still to be made; None where they do not agree."""
        return self._joined(self._machine, machine, pod, self.undefined)

    def on_node(self, node: Requirements, pod: Requirements) -> Requirements | None:
        """Both together, for a node that exists: it has no labels but its own; None where they do not agree."""
        return self._joined(self._node, node, pod, frozenset())

    def _joined(
        self,
        memo: dict[tuple[Requirements, Requirements], Requirements | None],
        base: Requirements,
        pod: Requirements,
        undefined: frozenset[str],
    ) -> Requirements | None:
        if not len(pod):
            return base
        try:
            return memo[base, pod]
        except KeyError:
            if len(memo) > _MEMO_LIMIT:
                memo.clear()
            result = self.shared(base.adding(pod)) if base.compatible(pod, undefined) else None
            memo[base, pod] = result
            return result
