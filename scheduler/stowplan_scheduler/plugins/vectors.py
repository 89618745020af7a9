"""Answers for many rows at once: a value per distinct code, gathered by row.

Nodes of one pool carry the same taints, labels and features. The node table gives each distinct value a small number,
so a question about values is asked once per number, however many nodes there are.

`node_mask` is the vector form of RequiredNodeAffinity.Match
(staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go of Kubernetes v1.37.2).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stowplan_scheduler.cache.node_table import ABSENT, Bools, Int32s, Interned, LabelColumn
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.interface import ReasonIds
from stowplan_scheduler.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    METADATA_NAME,
    NOT_IN,
    FieldRequirement,
    NodeQuery,
    NodeTermQuery,
    Requirement,
)

K = TypeVar("K", bound=Hashable)


class CodeValues(Generic[K]):
    """A number per code of one intern table, worked out when the code is first met.

    `of` must be a pure function: then a state that holds a CodeValues answers the same however often it is asked,
    although the array inside grows with the intern table.
    """

    __slots__ = ("_of", "_source", "_values")

    def __init__(self, of: Callable[[K], int], dtype: DTypeLike = np.int64) -> None:
        """Nothing worked out yet; `dtype` is that of the answers."""
        self._of = of
        self._source: Interned[K] | None = None
        self._values: NDArray[Any] = np.zeros(0, dtype)

    def at(self, interned: Interned[K], codes: Int32s) -> NDArray[Any]:
        """The numbers of the values that `codes` stand for in `interned`."""
        if interned is not self._source:
            self._source = interned
            self._values = self._values[:0]
        known, present = len(self._values), len(interned.values)
        if known < present:
            new = np.fromiter(map(self._of, interned.values[known:]), self._values.dtype, present - known)
            self._values = np.concatenate((self._values, new))
        gathered: NDArray[Any] = self._values[codes]
        return gathered


def reject(failed: Bools, reason: int) -> ReasonIds:
    """`reason` where `failed`, else 0."""
    return failed.astype(np.int16) * np.int16(reason)


# ---- labels ----------------------------------------------------------------------------------------------------------


def requirement_mask(requirement: Requirement, view: NodeView) -> Bools:
    """Which rows satisfy an expression on labels (`Requirement.matches` of each node)."""
    column = view.table.labels(requirement.key)
    codes = column.codes[view.rows]
    operator = requirement.operator
    if operator == IN:
        return _is_one_of(requirement.values, column, codes)
    if operator == NOT_IN:
        return ~_is_one_of(requirement.values, column, codes)
    if operator in {EXISTS, DOES_NOT_EXIST}:
        exists: Bools = codes != ABSENT
        return exists if operator == EXISTS else ~exists
    matching = [text is not None and requirement.matches({requirement.key: text}) for text in column.interned.values]
    compared: Bools = np.array(matching, np.bool_)[codes]
    return compared


def _is_one_of(texts: Sequence[str], column: LabelColumn, codes: Int32s) -> Bools:
    known = column.interned.codes
    wanted = [known[text] for text in texts if text in known]
    if not wanted:
        return np.zeros(len(codes), np.bool_)
    if len(wanted) == 1:
        same: Bools = codes == wanted[0]
        return same
    is_wanted = np.zeros(len(known), np.bool_)
    is_wanted[wanted] = True
    found: Bools = is_wanted[codes]
    return found


# ---- node selectors --------------------------------------------------------------------------------------------------


def node_mask(query: NodeQuery, view: NodeView) -> Bools:
    """Which rows a pod's nodeSelector and required node affinity allow (`NodeQuery.matches` of each node)."""
    allowed = _all_match(query.labels, view)
    return allowed if query.terms is None else allowed & any_term_mask(query.terms, view)


def any_term_mask(terms: Iterable[NodeTermQuery], view: NodeView) -> Bools:
    """Which rows satisfy at least one term."""
    found = np.zeros(view.size, np.bool_)
    for term in terms:
        found |= term_mask(term, view)
    return found


def term_mask(term: NodeTermQuery, view: NodeView) -> Bools:
    """Which rows satisfy a term; none if it did not parse."""
    if term.errors:
        return np.zeros(view.size, np.bool_)
    found = _all_match(term.labels, view)
    for requirement in term.fields:
        found &= _field_mask(requirement, view)
    return found


def _all_match(requirements: Iterable[Requirement], view: NodeView) -> Bools:
    found = np.ones(view.size, np.bool_)
    for requirement in requirements:
        found &= requirement_mask(requirement, view)
    return found


def _field_mask(requirement: FieldRequirement, view: NodeView) -> Bools:
    if requirement.key != METADATA_NAME:
        return np.full(view.size, requirement.matches(""), np.bool_)
    named = is_row(view, requirement.value)
    return named if requirement.equal else ~named


def is_row(view: NodeView, name: str) -> Bools:
    """Which row is the node of that name."""
    found: Bools = view.row_numbers() == view.table.row_of.get(name, -1)
    return found
