"""Label selectors and node selector terms, written out.

Follows staging/src/k8s.io/apimachinery/pkg/labels/selector.go and
staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stowplan_scheduler.objects import (
    LabelSelector,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)

from .status import PluginError

Requirement = tuple[str, str, tuple[str, ...]]
"""key, operator, values."""

Query = tuple[Requirement, ...] | None
"""Requirements that must all hold; none at all match everything, None matches nothing."""

NAME_FIELD = "metadata.name"
_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_BAD_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_INT64 = range(-(2**63), 2**63)


def query_of(selector: LabelSelector | None) -> Query:
    """The requirements of a label selector: an absent one matches nothing, an empty one everything."""
    if selector is None:
        return None
    labels = tuple((key, "In", (value,)) for key, value in sorted(selector.match_labels.items()))
    return labels + tuple((e.key, e.operator, e.values) for e in selector.match_expressions)


def query_of_labels(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """The query that asks for exactly these labels."""
    return tuple((key, "In", (value,)) for key, value in sorted(labels.items()))


def parse_int64(text: str) -> int | None:
    """A decimal int64 as Go's ParseInt takes it; None if it is none."""
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        return None
    number = int(text)
    return number if number in _INT64 else None


def requirement_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether one requirement holds for a set of labels."""
    key, operator, values = requirement
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if key not in labels or len(values) != 1:
        return False
    have, bound = parse_int64(labels[key]), parse_int64(values[0])
    if have is None or bound is None:
        return False
    return have > bound if operator == "Gt" else have < bound


def query_matches(query: Query, labels: Mapping[str, str]) -> bool:
    """Whether a query matches a set of labels."""
    return query is not None and all(requirement_holds(requirement, labels) for requirement in query)


# ---- node selector terms ---------------------------------------------------------------------------------------------


def _invalid(path: str, value: str, why: str) -> str:
    return f"{path}: Invalid value: {value}: {why}"


def _quoted_list(values: Sequence[str]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]" if values else "null"


def expression_errors(expression: NodeSelectorRequirement, path: str) -> list[str]:
    """Why an expression on node labels cannot be parsed: empty if it can. `path` is its field path."""
    values, where = expression.values, f"{path}.values"
    errors = []
    if expression.operator in {"In", "NotIn"} and not values:
        errors.append(_invalid(where, _quoted_list(values), "for 'in', 'notin' operators, values set can't be empty"))
    if expression.operator in {"Exists", "DoesNotExist"} and values:
        errors.append(_invalid(where, _quoted_list(values), "values set must be empty for exists and does not exist"))
    if expression.operator in {"Gt", "Lt"}:
        if len(values) != 1:
            why = "for 'Gt', 'Lt' operators, exactly one value is required"
            errors.append(_invalid(where, _quoted_list(values), why))
        for i, value in enumerate(values):
            if parse_int64(value) is None:
                errors.append(
                    _invalid(f"{where}[{i}]", f'"{value}"', "for 'Gt', 'Lt' operators, the value must be an integer")
                )
    for i, value in enumerate(values):
        errors += [_invalid(f"{where}[{i}][{expression.key}]", f'"{value}"', why) for why in label_value_errors(value)]
    return errors


def label_value_errors(value: str) -> list[str]:
    """What is wrong with a label value."""
    errors = []
    if len(value) > 63:
        errors.append("must be no more than 63 bytes")
    if value and not _QUALIFIED_NAME.fullmatch(value):
        errors.append(_BAD_LABEL_VALUE)
    return errors


def term_errors(term: NodeSelectorTerm, path: str) -> list[str]:
    """Why a term cannot be parsed."""
    errors = []
    for i, expression in enumerate(term.match_expressions):
        errors += expression_errors(expression, f"{path}.matchExpressions[{i}]")
    for i, field in enumerate(term.match_fields):
        where = f"{path}.matchFields[{i}]"
        if field.operator not in {"In", "NotIn"}:
            errors.append(f'{where}.operator: Unsupported value: "{field.operator}": supported values: "In", "NotIn"')
        elif len(field.values) != 1:
            errors.append(_invalid(f"{where}.values", _quoted_list(field.values), "must have one element"))
    return errors


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Whether a term that can be parsed matches a node."""
    for expression in term.match_expressions:
        if not requirement_holds((expression.key, expression.operator, expression.values), node.metadata.labels):
            return False
    for field in term.match_fields:
        if not requirement_holds((field.key, field.operator, field.values), {NAME_FIELD: node.metadata.name}):
            return False
    return True


def node_selector_matches(selector: NodeSelector, node: Node) -> bool:
    """Whether one of the terms matches; an empty term, or one that cannot be parsed, matches nothing."""
    for term in selector.node_selector_terms:
        if _is_empty(term) or term_errors(term, ""):
            continue
        if term_matches(term, node):
            return True
    return False


def required_affinity(pod: Pod) -> NodeSelector | None:
    """The required node affinity of a pod."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def pod_may_run_on(pod: Pod, node: Node) -> bool:
    """nodeSelector and required node affinity together."""
    if not query_matches(query_of_labels(pod.spec.node_selector), node.metadata.labels):
        return False
    required = required_affinity(pod)
    return required is None or node_selector_matches(required, node)


def preferred_terms(terms: Sequence[PreferredSchedulingTerm]) -> list[PreferredSchedulingTerm]:
    """The preferred terms that count: with a weight and not empty. Raises PluginError if one cannot be parsed."""
    counted, errors = [], []
    for i, term in enumerate(terms):
        if term.weight == 0 or _is_empty(term.preference):
            continue
        errors += term_errors(term.preference, f"[{i}]")
        counted.append(term)
    if errors:
        distinct = list(dict.fromkeys(errors))
        raise PluginError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
    return counted
