"""What was predicted beside what was observed: values that must be equal, times that must lie within a band.

A value that upstream leaves to chance, or to a race, is predicted as the set of what comes out over the seeds; a time
as what lies between its earliest and its latest. A band is stated before anything is observed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Band(NamedTuple):
    """Seconds from the start of a scenario, both ends included."""

    earliest: float
    latest: float

    def holds(self, seconds: float) -> bool:
        """Whether a time lies within."""
        return self.earliest <= seconds <= self.latest

    def widened(self, before: float, after: float) -> Band:
        """A band that begins earlier and ends later."""
        return Band(self.earliest - before, self.latest + after)

    def __str__(self) -> str:
        return f"{self.earliest:.0f} to {self.latest:.0f} s"


def band_of(times: Iterable[float]) -> Band:
    """The narrowest band with all of them; there must be one."""
    found = sorted(times)
    return Band(found[0], found[-1])


class Row(NamedTuple):
    """One line of the comparison, in words, and whether it is as predicted."""

    what: str
    predicted: str
    observed: str
    band: str
    holds: bool


class Step(NamedTuple):
    """From a moment on a number has a value: replicas, nodes."""

    seconds: float
    value: int


def steps_of(samples: Iterable[tuple[float, int]]) -> list[Step]:
    """The first value, and each that differs from the one before; of one instant the last."""
    steps: list[Step] = []
    for seconds, value in samples:
        if steps and steps[-1].seconds == seconds:
            steps.pop()
        if not steps or steps[-1].value != value:
            steps.append(Step(seconds, value))
    return steps


def value_at(steps: Sequence[Step], seconds: float) -> int:
    """The value at a moment; 0 before the first step."""
    return next((step.value for step in reversed(steps) if step.seconds <= seconds), 0)


def compare_steps(
    predictions: Sequence[Sequence[Step]], observed: Sequence[Step], *, unit: str, before: float, after: float
) -> list[Row]:
    """The values of all steps must be those of one prediction, in order; each step's time within its band.

    A band is what lies between the same step of the predictions that have these values, `before` seconds less and
    `after` seconds more. Where no prediction has these values, the first row says so, and the steps are set beside the
    first prediction.
    """
    values = [step.value for step in observed]
    equal = [steps for steps in predictions if [step.value for step in steps] == values]
    sequences = sorted(Counter(tuple(step.value for step in steps) for steps in predictions).items(), key=_rarest_last)
    rows = [
        Row(
            f"{unit}, step by step",
            "; or ".join(_shown(sequence, count, len(predictions)) for sequence, count in sequences),
            " → ".join(map(str, values)),
            "equal",
            bool(equal),
        )
    ]
    for index in range(1, max(len(values), len(predictions[0]))):
        same = [steps[index].seconds for steps in equal or predictions[:1] if index < len(steps)]
        seen = observed[index] if index < len(observed) else None
        band = band_of(same).widened(before, after) if same else None
        value = (equal or predictions)[0][index].value if same else "no more"
        rows.append(
            Row(
                f"{unit}: step {index}",
                f"{value} at {_span(same)}" if same else "no more",
                "no more" if seen is None else f"{seen.value} at {seen.seconds:.1f} s",
                "" if band is None else str(band),
                seen is not None and band is not None and band.holds(seen.seconds) and seen.value == value,
            )
        )
    return rows


def compare_value(what: str, predictions: Sequence[int | str], observed: int | str) -> Row:
    """The value must be one of those that were predicted."""
    found = sorted(Counter(predictions).items(), key=_rarest_last)
    texts = [f"{value}" if len(found) == 1 else f"{value} ({count} of {len(predictions)})" for value, count in found]
    band = "equal" if len(found) == 1 else "one of these"
    return Row(what, ", ".join(texts), str(observed), band, observed in dict(found))


def compare_time(what: str, predictions: Sequence[float], observed: float | None, band: Band) -> Row:
    """The time must lie within the band, and so must the predictions, or the band is not one that was understood."""
    inside = observed is not None and band.holds(observed) and all(map(band.holds, predictions))
    seen = "not seen" if observed is None else f"{observed:.1f} s"
    return Row(what, f"{_span(predictions)}" if predictions else "not predicted", seen, str(band), inside)


def envelope(stories: Sequence[Sequence[Step]], times: Iterable[float]) -> Mapping[float, tuple[int, int]]:
    """The least and the greatest value of the predictions at each moment."""
    found = {time: [value_at(steps, time) for steps in stories] for time in times}
    return {time: (min(values), max(values)) for time, values in found.items()}


def _span(times: Sequence[float]) -> str:
    first, last = min(times), max(times)
    return f"{first:.1f} s" if last - first < 0.05 else f"{first:.1f} to {last:.1f} s"


def _shown(sequence: Sequence[int], count: int, all: int) -> str:
    text = " → ".join(map(str, sequence))
    return text if count == all else f"{text} ({count} of {all})"


def _rarest_last(item: tuple[object, int]) -> tuple[int, str]:
    return -item[1], str(item[0])
