"""Label selectors, node selectors and node affinity on plain values.

A selector is compiled once into a hashable query, which also serves as a key for what is known about it. Parse errors
carry upstream's texts.

Follows staging/src/k8s.io/apimachinery/pkg/labels/selector.go, pkg/apis/meta/v1/helpers.go and
staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from .names import label_key_errors, label_value_errors
from .objects import (
    AbsentList,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER_THAN: Final = "Gt"
LESS_THAN: Final = "Lt"

METADATA_NAME: Final = "metadata.name"
"""The only field of a node that a matchFields expression can select on."""

_LABEL_OPERATORS: Final = frozenset({IN, NOT_IN, EXISTS, DOES_NOT_EXIST})
_NODE_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GREATER_THAN, LESS_THAN)
_FIELD_OPERATORS: Final = (IN, NOT_IN)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class SelectorError(ValueError):
    """A selector that upstream refuses to parse; the message is upstream's."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(dict.fromkeys(errors))
        super().__init__(self.errors[0] if len(self.errors) == 1 else f"[{', '.join(self.errors)}]")

    def __reduce__(self) -> tuple[type[SelectorError], tuple[tuple[str, ...]]]:
        return type(self), (self.errors,)


class Requirement(NamedTuple):
    """One expression on labels. `values` is sorted, without repetitions, and empty for Exists and DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy the expression; NotIn and DoesNotExist hold where the key is absent."""
        actual = labels.get(self.key)
        operator = self.operator
        if operator == IN:
            return actual is not None and actual in self.values
        if operator == NOT_IN:
            return actual is None or actual not in self.values
        if operator == EXISTS:
            return actual is not None
        if operator == DOES_NOT_EXIST:
            return actual is None
        return actual is not None and self._compare(actual)

    def _compare(self, actual: str) -> bool:
        left, right = parse_int64(actual), parse_int64(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == GREATER_THAN else left < right


def parse_int64(text: str) -> int | None:
    """The number, or None where it is not a decimal int64."""
    if not _INTEGER.fullmatch(text) or len(text) > 4000:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class LabelQuery:
    """A compiled label selector: requirements that must all hold, in canonical order.

    Two selectors with the same requirements compile to equal queries. `nothing` marks the query of an absent selector.
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @classmethod
    def of(cls, selector: LabelSelector | None) -> LabelQuery:
        """Compile a selector: None matches nothing, an empty one everything. Raises SelectorError."""
        if selector is None:
            return NOTHING
        if not selector.match_labels and not selector.match_expressions:
            return EVERYTHING
        found = [_requirement(key, IN, (text,)) for key, text in sorted(selector.match_labels.items())]
        for expression in selector.match_expressions:
            if expression.operator not in _LABEL_OPERATORS:
                raise SelectorError([f"{_quote(expression.operator)} is not a valid label selector operator"])
            found.append(_requirement(expression.key, expression.operator, expression.values))
        return cls(_canonical(found))

    @classmethod
    def of_map(cls, labels: Mapping[str, str]) -> LabelQuery:
        """The query that wants exactly these labels, not validated (upstream's SelectorFromSet); empty: everything."""
        return EVERYTHING.and_equals(labels)

    @property
    def is_empty(self) -> bool:
        """Whether the query restricts nothing (upstream's Selector.Empty)."""
        return not self.requirements and not self.nothing

    @property
    def wanted(self) -> tuple[tuple[str, str], ...]:
        """Labels without which nothing matches; there may be more to it."""
        return tuple((r.key, r.values[0]) for r in self.requirements if r.operator == IN and len(r.values) == 1)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy every requirement."""
        return not self.nothing and all(requirement.matches(labels) for requirement in self.requirements)

    def and_equals(self, labels: Mapping[str, str]) -> LabelQuery:
        """This query with `key = value` added for each label; a query for nothing stays one."""
        added = [Requirement(key, IN, (text,)) for key, text in labels.items()]
        return self.and_requirements(added)

    def and_requirements(self, requirements: Iterable[Requirement]) -> LabelQuery:
        """This query with requirements added; a query for nothing stays one."""
        if self.nothing:
            return self
        return LabelQuery(_canonical((*self.requirements, *requirements)))


EVERYTHING: Final = LabelQuery()
NOTHING: Final = LabelQuery(nothing=True)


def label_selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches labels: None matches nothing, an empty one everything. Raises SelectorError."""
    return LabelQuery.of(selector).matches(labels)


def _canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(requirements)))


def _requirement(key: str, operator: str, values: Sequence[str], path: str = "") -> Requirement:
    errors = _requirement_errors(key, operator, values, path)
    if errors:
        raise SelectorError(errors)
    return Requirement(key, operator, tuple(sorted(set(values))))


def _requirement_errors(key: str, operator: str, values: Sequence[str], path: str) -> list[str]:
    """What upstream's NewRequirement complains about; `path` ends in a full stop unless it is empty."""
    errors = []
    if bad := label_key_errors(key):
        errors.append(f"{path}key: Invalid value: {_quote(key)}: {'; '.join(bad)}")
    errors.extend(_count_errors(operator, values, f"{path}values"))
    for index, text in enumerate(values):
        if bad := label_value_errors(text):
            errors.append(f"{path}values[{index}][{key}]: Invalid value: {_quote(text)}: {'; '.join(bad)}")
    return errors


def _count_errors(operator: str, values: Sequence[str], path: str) -> list[str]:
    if operator in {IN, NOT_IN}:
        wrong, rule = not values, "for 'in', 'notin' operators, values set can't be empty"
    elif operator in {EXISTS, DOES_NOT_EXIST}:
        wrong, rule = bool(values), "values set must be empty for exists and does not exist"
    else:
        wrong, rule = len(values) != 1, "for 'Gt', 'Lt' operators, exactly one value is required"
    errors = [f"{path}: Invalid value: {_json(values)}: {rule}"] if wrong else []
    if operator in {GREATER_THAN, LESS_THAN}:
        errors.extend(
            f"{path}[{index}]: Invalid value: {_quote(text)}: for 'Gt', 'Lt' operators, the value must be an integer"
            for index, text in enumerate(values)
            if parse_int64(text) is None
        )
    return errors


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json(values: Sequence[str]) -> str:
    if isinstance(values, AbsentList):
        return "null"
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


# ---- node selectors ------------------------------------------------------------------------------------------------


class FieldRequirement(NamedTuple):
    """One expression on a field of a node: `equal` says whether the field must or must not have the value."""

    key: str
    equal: bool
    value: str

    def matches(self, name: str) -> bool:
        """Whether a node of this name satisfies the expression; an unknown field counts as empty."""
        actual = name if self.key == METADATA_NAME else ""
        return (actual == self.value) == self.equal


@dataclass(frozen=True, slots=True)
class NodeTermQuery:
    """A compiled node selector term. One with errors matches no node."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    errors: tuple[str, ...] = ()

    @classmethod
    def of(cls, term: NodeSelectorTerm, path: str = "") -> NodeTermQuery:
        """Compile a term that is not empty; `path` stands in front of the fields that errors name."""
        prefix = f"{path}." if path else ""
        labels, label_errors = _label_requirements(term.match_expressions, f"{prefix}matchExpressions")
        fields, field_errors = _field_requirements(term.match_fields, f"{prefix}matchFields")
        if label_errors or field_errors:
            return cls(errors=(*label_errors, *field_errors))
        return cls(labels, fields)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name satisfies all expressions."""
        if self.errors:
            return False
        if not all(requirement.matches(labels) for requirement in self.labels):
            return False
        # A node without a name has no fields, and upstream then leaves them out of the question.
        return not name or all(requirement.matches(name) for requirement in self.fields)


def _label_requirements(
    expressions: Sequence[NodeSelectorRequirement], path: str
) -> tuple[tuple[Requirement, ...], list[str]]:
    found: list[Requirement] = []
    errors: list[str] = []
    for index, expression in enumerate(expressions):
        here = f"{path}[{index}]."
        if expression.operator not in _NODE_OPERATORS:
            errors.append(_not_supported(f"{here}operator", expression.operator, _NODE_OPERATORS))
            continue
        try:
            found.append(_requirement(expression.key, expression.operator, expression.values, here))
        except SelectorError as error:
            errors.extend(error.errors)
    return _canonical(found), errors


def _field_requirements(
    expressions: Sequence[NodeSelectorRequirement], path: str
) -> tuple[tuple[FieldRequirement, ...], list[str]]:
    found: list[FieldRequirement] = []
    errors: list[str] = []
    for index, expression in enumerate(expressions):
        here = f"{path}[{index}]."
        if expression.operator not in _FIELD_OPERATORS:
            errors.append(_not_supported(f"{here}operator", expression.operator, _FIELD_OPERATORS))
        elif len(expression.values) != 1:
            errors.append(f"{here}values: Invalid value: {_json(expression.values)}: must have one element")
        else:
            found.append(FieldRequirement(expression.key, expression.operator == IN, expression.values[0]))
    return tuple(found), errors


def _not_supported(path: str, operator: str, supported: Sequence[str]) -> str:
    return f"{path}: Unsupported value: {_quote(operator)}: supported values: {', '.join(map(_quote, supported))}"


def _is_empty_term(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """A pod's nodeSelector and required node affinity, compiled: both must hold.

    `terms` is None where there is no required affinity; of several terms one must hold, so an empty tuple matches no
    node. Terms without any expression are left out, terms with errors stay and match nothing.
    """

    labels: tuple[Requirement, ...] = ()
    terms: tuple[NodeTermQuery, ...] | None = None

    @classmethod
    def of(cls, node_selector: Mapping[str, str], affinity: NodeAffinity | None) -> NodeQuery:
        """Compile the two; never raises, because a term that does not parse only fails to match."""
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        labels = LabelQuery.of_map(node_selector).requirements
        return cls(labels, None if required is None else compile_node_selector(required))

    @property
    def is_empty(self) -> bool:
        """Whether every node matches."""
        return not self.labels and self.terms is None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name satisfies both."""
        if not all(requirement.matches(labels) for requirement in self.labels):
            return False
        return self.terms is None or any(term.matches(labels, name) for term in self.terms)


def compile_node_selector(selector: NodeSelector, path: str = "") -> tuple[NodeTermQuery, ...]:
    """The terms that say anything, in order; those that do not parse carry their errors."""
    prefix = f"{path}." if path else ""
    return tuple(
        NodeTermQuery.of(term, f"{prefix}nodeSelectorTerms[{index}]")
        for index, term in enumerate(selector.node_selector_terms)
        if not _is_empty_term(term)
    )


def checked_node_selector(selector: NodeSelector, path: str = "") -> tuple[NodeTermQuery, ...]:
    """Like compile_node_selector, but raises SelectorError with the errors of all terms (NewNodeSelector)."""
    terms = compile_node_selector(selector, path)
    errors = [error for term in terms for error in term.errors]
    if errors:
        raise SelectorError(errors)
    return terms


def node_selector_term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node satisfies a term; an empty term and one that does not parse match no node."""
    return not _is_empty_term(term) and NodeTermQuery.of(term).matches(labels, name)


def node_selector_matches(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node satisfies one of the terms."""
    return any(term.matches(labels, name) for term in compile_node_selector(selector))


def required_node_affinity_matches(
    node_selector: Mapping[str, str], affinity: NodeAffinity | None, labels: Mapping[str, str], name: str
) -> bool:
    """Whether a node satisfies a pod's nodeSelector and required node affinity."""
    return NodeQuery.of(node_selector, affinity).matches(labels, name)


def compile_preferred_terms(
    terms: Sequence[PreferredSchedulingTerm], path: str = ""
) -> tuple[tuple[int, NodeTermQuery], ...]:
    """The (weight, term) pairs that can score; terms with weight 0 or without expressions are left out.

    Raises SelectorError with the errors of all terms: a preference that does not parse fails the scheduling cycle.
    """
    compiled = tuple(
        (term.weight, NodeTermQuery.of(term.preference, f"{path}[{index}]"))
        for index, term in enumerate(terms)
        if term.weight != 0 and not _is_empty_term(term.preference)
    )
    errors = [error for _, term in compiled for error in term.errors]
    if errors:
        raise SelectorError(errors)
    return compiled
