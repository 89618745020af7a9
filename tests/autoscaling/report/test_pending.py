"""The share of pods that were through by a time, with those that never were."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from stowplan_autoscaling.report.embedding import Documents
from stowplan_autoscaling.report.pending import POINTS, build, distributions, share_done
from stowplan_autoscaling.report.pods import PARTS, Pods, Waits, joined, read_pods
from stowplan_autoscaling.report.runs import load_runs

from .conftest import Written

NAN = float("nan")


def waits(*pairs: tuple[float, bool]) -> Waits:
    return Waits(np.array([one for one, _ in pairs]), np.array([over for _, over in pairs], dtype=np.bool_))


def test_a_censored_pod_counts_until_it_is_lost_from_sight() -> None:
    """Kaplan-Meier by hand: of four pods one at 1 s, one lost at 2 s, one at 3 s, one still waiting at 4 s.

    After 1 s: 1 - 1/4 = 0.25 done. After 3 s two are at risk: 1 - 0.75 * 1/2 = 0.625 done.
    """
    found = share_done(waits((1, True), (2, False), (3, True), (4, False)), np.array([0.5, 1.0, 2.5, 3.0, 9.0]))
    assert found == pytest.approx([0, 0.25, 0.25, 0.625, 0.625])


def test_without_censoring_it_is_the_plain_share() -> None:
    """Two of three by 2 s."""
    found = share_done(waits((1, True), (2, True), (5, True)), np.array([1.9, 2.0, 5.0]))
    assert found == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_band_goes_from_the_smallest_to_the_largest_of_few_seeds() -> None:
    """Three seeds with one pod each, at 1, 10 and 100 s."""
    found, times = distributions({"a": [waits((1, True)), waits((10, True)), waits((100, True))], "none": []})
    assert list(found) == ["a"]
    at = {second: int(np.searchsorted(times, second)) for second in (5, 50)}
    one = found["a"]
    assert (one.low[at[5]], one.median[at[5]], one.high[at[5]]) == (0, 0, 1)
    assert (one.low[at[50]], one.median[at[50]], one.high[at[50]]) == (0, 1, 1)
    assert (one.count, one.never) == (3, 0)


def test_a_band_of_twenty_seeds_leaves_out_the_tails() -> None:
    """One of 20 is through at 1 s, the others at 100 s: at 5 s the 95 % quantile of 19 zeros and a one is 0.05."""
    found, times = distributions({"a": [waits((1, True)), *[waits((100, True))] * 19]})
    at = int(np.searchsorted(times, 5))
    assert (found["a"].low[at], found["a"].median[at]) == (0, 0)
    assert found["a"].high[at] == pytest.approx(0.05)
    few, times = distributions({"a": [waits((1, True)), *[waits((100, True))] * 18]})
    assert few["a"].high[int(np.searchsorted(times, 5))] == 1


@pytest.mark.parametrize(("seeds", "band"), [(19, "smallest to largest"), (20, "5 % to 95 % quantile")])
def test_the_note_says_which_band_it_is(shop: Written, seeds: int, band: str) -> None:
    """From twenty seeds on another one."""
    comparison = replace(shop.comparison, seeds=tuple(range(seeds)))
    runs = load_runs(shop.comparison, shop.folder)[:1]
    pods = {one.name: [read_pods(run.folder) for run in one.runs] for one in runs}
    assert f"bands the {band}." in build(comparison, runs, pods, Documents())


def test_the_axis_spans_what_there_is() -> None:
    """From the power of ten below the shortest wait to beyond the longest."""
    _, times = distributions({"a": [waits((3, True), (40, False))]})
    assert len(times) == POINTS
    assert times[0] == pytest.approx(1)
    assert times[-1] == pytest.approx(42)
    assert distributions({"a": [waits((0, True))]})[1][0] == pytest.approx(0.001)


def pods(**columns: list[float]) -> Pods:
    count = len(columns["created"])
    nothing = [NAN] * count
    waiting = np.zeros((count, len(PARTS)))
    for part in PARTS:
        waiting[:, PARTS.index(part)] = columns.get(part, [0.0] * count)
    return Pods(
        np.array(columns["created"]),
        np.array(columns.get("scheduled", nothing)),
        np.array(columns.get("ready", nothing)),
        np.array(columns.get("ended", nothing)),
        waiting,
    )


def test_a_pod_that_never_had_a_node_waited_until_it_was_gone() -> None:
    """Or until the run was over."""
    these = pods(created=[0, 10, 20], scheduled=[4, NAN, NAN], ended=[50, 70, NAN])
    found = these.until_placed(100.0)
    assert found.seconds.tolist() == [4, 60, 80]
    assert found.is_over.tolist() == [True, False, False]


def test_readiness_counts_from_the_change_of_demand() -> None:
    """Which was before the pod, by what metric, autoscaler and controller took."""
    these = pods(created=[100], ready=[112], metric=[20], autoscaler=[5], controller=[1], queue=[2])
    assert these.until_ready(200.0).seconds.tolist() == [38]


def test_the_split_is_a_mean_over_ready_pods_or_over_the_slowest() -> None:
    """A pod that was never ready is in neither."""
    these = pods(created=[0, 0, 0], ready=[2, 10, NAN], queue=[2, 4, 50], image=[0, 6, 0])
    mean, count = these.split()
    assert count == 2
    assert mean[PARTS.index("queue")] == 3
    assert mean[PARTS.index("image")] == 3
    slowest, count = these.split(0.05)
    assert count == 1
    assert slowest[PARTS.index("queue")] == 4
    assert slowest.sum() == 10


def test_nothing_splits_into_nothing() -> None:
    """A run without pods."""
    mean, count = joined([pods(created=[]), pods(created=[5])]).split()
    assert count == 0
    assert not mean.any()
