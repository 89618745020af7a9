"""One scheduling requirement: which values a node label may have.

A requirement is a set of values, or the complement of one with integer bounds: In and DoesNotExist are sets, NotIn,
Exists, Gt, Gte, Lt and Lte complements. Intersections stay in that form, which is what makes the algebra closed.

Follows pkg/scheduling/requirement.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stowplan_scheduler.selectors import DOES_NOT_EXIST, EXISTS, GREATER_THAN, IN, LESS_THAN, NOT_IN, parse_int64

from .labels import normalized

GREATER_OR_EQUAL: Final = "Gte"
LESS_OR_EQUAL: Final = "Lte"

_MAX_INT: Final = 2**63 - 1
_NONE: Final[frozenset[str]] = frozenset()


class Requirement(NamedTuple):
    """Values of one label. `gte` and `lte` are inclusive and only stand on complements.

    `min_values`: how many different values the possible instance types must offer together.
    """

    key: str
    complement: bool
    values: frozenset[str] = _NONE
    gte: int | None = None
    lte: int | None = None
    min_values: int | None = None

    @classmethod
    def of(cls, key: str, operator: str, values: Iterable[str] = (), min_values: int | None = None) -> Requirement:
        """From an expression; Gt and Lt become their inclusive neighbours. A number that is none counts as 0."""
        key = normalized(key)
        if operator == IN:
            return cls(key, False, frozenset(values), min_values=min_values)
        if operator == NOT_IN:
            return cls(key, True, frozenset(values), min_values=min_values)
        if operator == DOES_NOT_EXIST:
            return cls(key, False, min_values=min_values)
        if operator not in {GREATER_THAN, GREATER_OR_EQUAL, LESS_THAN, LESS_OR_EQUAL}:
            return cls(key, True, min_values=min_values)
        bound = parse_int64(next(iter(values), "")) or 0
        if operator == GREATER_THAN:
            if bound == _MAX_INT:
                return cls(key, False)
            bound += 1
        elif operator == LESS_THAN:
            bound -= 1
        if operator in {GREATER_THAN, GREATER_OR_EQUAL}:
            return cls(key, True, gte=bound, min_values=min_values)
        return cls(key, True, lte=bound, min_values=min_values)

    @property
    def operator(self) -> str:
        """In, NotIn, Exists or DoesNotExist; a requirement with bounds alone counts as Exists."""
        if self.complement:
            return NOT_IN if self.values else EXISTS
        return IN if self.values else DOES_NOT_EXIST

    @property
    def tolerates_absence(self) -> bool:
        """Whether a node without the label satisfies it: NotIn and DoesNotExist."""
        return self.complement == bool(self.values)

    @property
    def single(self) -> str | None:
        """The one value that is left, if it is just one."""
        return next(iter(self.values)) if not self.complement and len(self.values) == 1 else None

    def has(self, value: str) -> bool:
        """Whether the label may have the value."""
        return (value in self.values) != self.complement and _within(value, self.gte, self.lte)

    def intersection(self, other: Requirement) -> Requirement:
        """What satisfies both. Bounds vanish from a plain set, whose values were checked against them."""
        gte, lte = _greatest(self.gte, other.gte), _least(self.lte, other.lte)
        min_values = _greatest(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, False, min_values=min_values)
        if self.complement:
            values = self.values | other.values if other.complement else other.values - self.values
        else:
            values = self.values - other.values if other.complement else self.values & other.values
        if gte is not None or lte is not None:
            values = frozenset(value for value in values if _within(value, gte, lte))
        if self.complement and other.complement:
            return Requirement(self.key, True, values, gte, lte, min_values)
        return Requirement(self.key, False, values, min_values=min_values)

    def overlaps(self, other: Requirement) -> bool:
        """Whether some value satisfies both (upstream's HasIntersection)."""
        gte, lte = _greatest(self.gte, other.gte), _least(self.lte, other.lte)
        if gte is not None and lte is not None and gte > lte:
            return False
        if self.complement and other.complement:
            return True
        if self.complement:
            left = other.values - self.values
        elif other.complement:
            left = self.values - other.values
        else:
            left = self.values & other.values
        if gte is None and lte is None:
            return bool(left)
        return any(_within(value, gte, lte) for value in left)

    def agrees(self, other: Requirement) -> bool:
        """Whether the two can hold on one node: some value satisfies both, or both do without the label."""
        return self.overlaps(other) or (self.tolerates_absence and other.tolerates_absence)


def exists(key: str) -> Requirement:
    """Any value."""
    return Requirement(key, True)


def one_of(key: str, *values: str) -> Requirement:
    """One of these values."""
    return Requirement(normalized(key), False, frozenset(values))


def _within(value: str, gte: int | None, lte: int | None) -> bool:
    if gte is None and lte is None:
        return True
    number = parse_int64(value)
    return number is not None and (gte is None or number >= gte) and (lte is None or number <= lte)


def _greatest(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)


def _least(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a, b)
