"""spec.candidates, spec.goals and spec.prices: what is compared, by what, and at whose prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema, model_validator

from stowplan_autoscaling.inputs.errors import shown
from stowplan_scheduler.quantity import NANOS, QuantityError, parse_quantity

from .base import NAME_PATTERN, FreeForm, FromList, ObjectRef, Part, needed, option, parts
from .measures import SECONDS, SHARE, Measure, need_measure
from .values import Amount, parse_duration, problem

_NANO: Final = 10**9
_PERCENT: Final = "%"

BY_CANDIDATES: Final = ("candidates", "baseline", "seeds", "goals")
"""Fields of spec that say how runs are compared, not what is run."""


class PatchTarget(Part):
    """One object of spec.cluster or spec.workloads."""

    kind: str = needed("Kind of the object.", min_length=1, max_length=63)
    namespace: str = option("", "Namespace; empty: default, or none for kinds without namespace.", max_length=63)
    name: str = needed("Name of the object.", min_length=1, max_length=253)

    @property
    def key(self) -> str:
        """namespace/name, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class Patch(Part):
    """A change of one Kubernetes object."""

    target: PatchTarget = needed("The object.")
    patch: FreeForm = needed("A merge patch as in `spec` of a candidate: containers and ports merge by name.")


class Requests(Part):
    """Other requests of a workload's containers."""

    target: ObjectRef = needed("The workload.")
    container: str = option("", "Name of the container. Empty: all of them, init containers left out.", max_length=63)
    cpu: Amount | None = option(None, "Request of cpu. Absent: as it is.")
    memory: Amount | None = option(None, "Request of memory. Absent: as it is.")

    @model_validator(mode="after")
    def _check(self) -> Requests:
        if self.cpu is None and self.memory is None:
            raise problem("at least one of cpu, memory must be set")
        return self


class Candidate(Part):
    """One of the things that are compared; without any change it is the simulation as it stands."""

    name: str = needed("Name for results and folders.", pattern=NAME_PATTERN, max_length=63)
    description: str = option("", "One line for readers.", max_length=1024)
    spec: FreeForm = option(
        {},
        "What is different in spec: a JSON merge patch, in which null removes. Lists of things with names (nodePools, "
        "demand, slo, ...) merge by name, also written as a mapping from names.",
    )
    patches: Annotated[tuple[Patch, ...], FromList] = parts(
        "Changes of Kubernetes objects, such as HorizontalPodAutoscalers.", max_length=1000
    )
    requests: Annotated[tuple[Requests, ...], FromList] = parts("Other requests of workloads.", max_length=1000)

    @model_validator(mode="after")
    def _check(self) -> Candidate:
        for name in (*BY_CANDIDATES, "seed", "duration"):
            if name in self.spec:
                raise problem(f"spec.{name}: must be the same for all candidates")
        return self


# ---- goals -----------------------------------------------------------------------------------------------------------


def _tolerance(value: Any) -> str:
    """A share of the baseline as a percentage, or an amount in the metric's unit."""
    text = value if isinstance(value, str) else str(value) if type(value) is int else None
    if text is None:
        raise problem(f"must be a percentage such as 1% or an amount in the metric's unit, got {shown(value)}")
    return text


_TEXT_OR_NUMBER: Final = WithJsonSchema(
    {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
)
AmountText = Annotated[str, BeforeValidator(_tolerance), _TEXT_OR_NUMBER]


class Goal(Part):
    """What counts. The first goal is the most important one."""

    metric: str = needed(
        "What is looked at, as in cost, costPerMonth, waiting.p95, sloMisses, slo.NAME, stranded.cpu: docs/compare.md.",
        max_length=200,
    )
    limit: AmountText | None = option(
        None, "The budget: a duration (60s) for times, a share (0.99 or 99%) for shares, else a number."
    )
    tolerance: AmountText = option(
        "1%", "Up to this, a difference is none: a share of the baseline (1%), or an amount as for limit."
    )

    @model_validator(mode="after")
    def _check(self) -> Goal:
        try:
            measure = need_measure(self.metric)
        except ValueError as error:
            raise problem(f"metric: {error}") from None
        if not measure.better:
            raise problem(f"metric: {shown(self.metric)}: neither more nor less of it is better")
        try:
            _ = self.limit_value
        except ValueError as error:
            raise problem(f"limit: {error}") from None
        try:
            _ = self.tolerance_of(0.0)
        except ValueError as error:
            raise problem(f"tolerance: {error}") from None
        return self

    @property
    def measure(self) -> Measure:
        """Of the metric."""
        return need_measure(self.metric)

    @property
    def limit_value(self) -> float | None:
        """In the metric's unit. Raises ValueError."""
        if self.limit is None:
            return None
        return _amount(self.limit, self.measure.unit)

    def tolerance_of(self, baseline: float) -> float:
        """In the metric's unit, beside a value of the baseline. Raises ValueError."""
        text = self.tolerance
        if text.endswith(_PERCENT):
            return abs(baseline) * _percent(text)
        return _amount(text, self.measure.unit)


def _percent(text: str) -> float:
    return _number(text.removesuffix(_PERCENT).strip()) / 100


def _number(text: str) -> float:
    try:
        number = parse_quantity(text) / NANOS
    except QuantityError as error:
        raise ValueError(f"{shown(text)}: {error}") from None
    if number < 0:
        raise ValueError(f"{shown(text)}: must not be negative")
    return number


def _amount(text: str, unit: str) -> float:
    if unit == SECONDS:
        try:
            return parse_duration(text) / _NANO
        except ValueError:
            raise ValueError(f"{shown(text)}: must be a duration such as 500ms, 60s or 5m") from None
    value = _percent(text) if unit == SHARE and text.endswith(_PERCENT) else _number(text)
    if unit == SHARE and value > 1:
        raise ValueError(f"{shown(text)}: must be between 0 and 1, or a percentage")
    return value


class PricesSpec(Part):
    """Prices of the reader's own."""

    file: str = option(
        "",
        "A price book (CSV), relative to this file; its prices replace those of instance types: docs/compare.md.",
        max_length=4096,
    )
    currency: str = option("", "Currency of all prices. Empty: that of the price book, or else USD.", max_length=8)


Candidates = Annotated[tuple[Candidate, ...], FromList]
Goals = Annotated[tuple[Goal, ...], FromList]


# ---- which one -------------------------------------------------------------------------------------------------------


def with_candidates_as_given(value: Any, given: Any) -> Any:
    """A document without nulls, but with the nulls inside of its candidates, where they remove something."""
    candidates = given.get("spec", {}).get("candidates") if isinstance(given.get("spec"), dict) else None
    if not isinstance(candidates, list) or not isinstance(value.get("spec"), dict):
        return value
    return {**value, "spec": {**value["spec"], "candidates": [_as_given(candidate) for candidate in candidates]}}


def _as_given(candidate: Any) -> Any:
    if not isinstance(candidate, dict):
        return candidate
    return {name: entry for name, entry in candidate.items() if entry is not None}


def without_effect(candidates: Sequence[Candidate], chosen: Candidate, *, is_same: bool) -> tuple[str, ...]:
    """Warnings about a candidate that is like another one, or whose changes change nothing (`is_same`)."""
    changes = own_changes(chosen)
    for other in candidates[: candidates.index(chosen)]:
        if other.spec == chosen.spec and own_changes(other) == changes:
            return (f"candidate {chosen.name}: has the same changes as {other.name}",)
    if is_same and (chosen.spec or changes):
        return (f"candidate {chosen.name}: its changes change nothing: it is the simulation as it stands",)
    return ()


def names_of(candidates: Sequence[Candidate]) -> list[str]:
    """Of all candidates, in order."""
    return [candidate.name for candidate in candidates]


def own_changes(candidate: Candidate) -> Mapping[str, Any]:
    """What of it is about objects, as plain values; empty if nothing is."""
    dumped = candidate.model_dump(mode="json", by_alias=True, include={"patches", "requests"})
    return {name: entries for name, entries in dumped.items() if entries}
