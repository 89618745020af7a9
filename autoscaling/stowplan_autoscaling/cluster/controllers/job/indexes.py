"""Sets of completion indexes as ordered intervals, and their text such as "0,2-5,9".

Follows pkg/controller/job/indexed_job_utils.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from stowplan_autoscaling.cluster.objects.batch import COMPLETION_INDEX
from stowplan_autoscaling.cluster.pods import ClusterPod

UNKNOWN: Final = -1
"""The index of a pod that has none."""

Intervals = tuple[tuple[int, int], ...]
"""(first, last) each; ascending, neither overlapping nor adjacent."""


def index_of(pod: ClusterPod) -> int:
    """The pod's completion index, UNKNOWN if its annotation is absent or no number."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else UNKNOWN


def merged(mine: Intervals, other: Intervals) -> Intervals:
    """The union."""
    if not other:
        return mine
    if not mine:
        return other
    result: list[tuple[int, int]] = []
    for first, last in sorted((*mine, *other)):
        if not result or first > result[-1][1] + 1:
            result.append((first, last))
        elif last > result[-1][1]:
            result[-1] = (result[-1][0], last)
    return tuple(result)


def with_indexes(intervals: Intervals, indexes: Iterable[int]) -> Intervals:
    """The union with single indexes, given in any order."""
    result: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if result and index <= result[-1][1] + 1:
            result[-1] = (result[-1][0], index)
        else:
            result.append((index, index))
    return merged(intervals, tuple(result))


def total(intervals: Intervals) -> int:
    """How many indexes there are."""
    return sum(last - first + 1 for first, last in intervals)


def contains(intervals: Intervals, index: int) -> bool:
    """Whether the index is in."""
    position = bisect_left(intervals, index, key=lambda interval: interval[1])
    return position < len(intervals) and intervals[position][0] <= index


def overlap(mine: Intervals, other: Intervals) -> int:
    """How many indexes are in both."""
    i = j = count = 0
    while i < len(mine) and j < len(other):
        low, high = max(mine[i][0], other[j][0]), min(mine[i][1], other[j][1])
        count += max(0, high - low + 1)
        if mine[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return count


def to_text(intervals: Intervals) -> str:
    """The text in a Job's status: two neighbours are joined by a comma, more by a hyphen."""
    parts = []
    for first, last in intervals:
        if first == last:
            parts.append(str(first))
        else:
            parts.append(f"{first}{',' if last == first + 1 else '-'}{last}")
    return ",".join(parts)


def parse(text: str, completions: int) -> Intervals:
    """The indexes below `completions` that a text lists in order; parts that are no numbers are passed over."""
    result: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        start, hyphen, end = part.partition("-")
        if not start.isdigit() or (hyphen and not end.isdigit()):
            continue
        first = int(start)
        if first >= completions:
            break
        last = min(int(end), completions - 1) if hyphen else first
        if result and result[-1][1] == first - 1:
            result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return tuple(result)


def first_missing(taken: Intervals, count: int, completions: int) -> Sequence[int]:
    """The lowest `count` indexes below `completions` that are not taken."""
    result: list[int] = []
    candidate = 0
    for first, last in (*taken, (completions, completions)):
        stop = min(first, completions)
        while candidate < stop and len(result) < count:
            result.append(candidate)
            candidate += 1
        candidate = max(candidate, last + 1)
    return result
