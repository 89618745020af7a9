"""Medians, ratios and verdicts, with figures made up for the purpose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.report import amount_text, print_report, rate_text, target_text, times_text, write_json
from benchmarks.results import SAMPLED, Results, SpeedLine, median, ratio, verdicts
from benchmarks.table import Run


def a_run(workload: str = "plain", nodes: int = 5000, percent: int = 0, *, upstream: bool = True) -> Run:
    return Run(
        workload=workload,
        nodes=nodes,
        percent=percent,
        initial=10,
        pods=20,
        rounds=1,
        upstream=upstream,
        reference_pods=0,
        timeout_seconds=5,
    )


def a_line(run: Run, ours: list[float], upstream: list[float] | None = None, **more: Any) -> SpeedLine:
    """A line whose processes had the whole core."""
    rates = upstream or []
    whole = {"ours_share": [1.0] * len(ours), "upstream_share": [1.0] * len(rates)}
    return SpeedLine(run, ours=ours, upstream=rates, **{**whole, **more})


def words(*lines: SpeedLine) -> list[str]:
    return [verdict.word for verdict in verdicts(Results(speed=list(lines)))]


def test_a_median_ignores_one_disturbed_measurement() -> None:
    """Which is why ours runs three times; of two it is the mean, of none there is none."""
    assert median([9000, 100, 10_000]) == 9000
    assert median([900, 700]) == 800
    assert median([]) is None


def test_a_ratio_has_three_digits_and_needs_both_sides() -> None:
    """More digits would claim what a shared machine cannot give."""
    assert ratio(10_000, 900) == 11.1
    assert ratio(7000, 70.5) == 99.3
    assert ratio(None, 900) is None
    assert ratio(900, None) is None
    assert ratio(900, 0) is None


def test_a_line_compares_medians() -> None:
    """9,000 to 800 pods/s."""
    line = a_line(a_run(), ours=[9000, 100, 10_000], upstream=[900, 700], reference=45.0)
    assert (line.rate, line.upstream_rate, line.ratio, line.reference_ratio) == (9000, 800, 11.2, 200.0)


def test_a_share_of_the_core_is_made_up_for() -> None:
    """1,000 pods/s with half a core against 100 with a whole one: 20 times, where the clock says 10."""
    line = a_line(a_run(), ours=[1000], ours_share=[0.5], upstream=[100], upstream_share=[1.0])
    assert (line.ratio, line.core_ratio) == (10.0, 20.0)


@pytest.mark.parametrize(
    ("workload", "percent", "measured", "word"),
    [
        ("plain", 0, 5.9, "missed"),
        ("plain", 0, 6.0, "reached"),
        ("plain", 0, 15.0, "moonshot"),
        ("anti", 0, 4.99, "missed"),
        ("anti", 0, 5.0, "reached"),
        ("anti", 0, 10.0, "moonshot"),
        ("plain", 100, 39.9, "missed"),
        ("plain", 100, 40.0, "reached"),
        ("plain", 100, 100.0, "moonshot"),
        ("spread", 100, 24.9, "missed"),
        ("spread", 100, 25.0, "reached"),
        ("spread", 100, 60.0, "moonshot"),
    ],
)
def test_the_ratio_to_the_real_scheduler_is_judged(workload: str, percent: int, measured: float, word: str) -> None:
    """The targets differ for plain pods and for others, sampled and with all nodes scored."""
    assert words(a_line(a_run(workload, percent=percent), ours=[measured * 100], upstream=[100])) == [word]


def test_a_line_that_has_no_target_is_only_reported() -> None:
    """Other sizes, workloads of our own, and lines whose other half could not run."""
    assert words(a_line(a_run(nodes=500), ours=[1], upstream=[100])) == []
    assert words(a_line(a_run("mix", upstream=False), ours=[1])) == []
    assert words(a_line(a_run(), ours=[1])) == []
    assert words(a_line(a_run(percent=30), ours=[1], upstream=[100])) == []


@pytest.mark.parametrize(("large", "word"), [(5900, "missed"), (6000, "reached")])
def test_the_rate_may_not_fall_much_with_the_number_of_nodes(large: float, word: str) -> None:
    """Plain and sampled, 20,000 nodes against our own 10,000 pods/s at 5,000."""
    lines = [
        a_line(a_run(upstream=False), ours=[10_000]),
        a_line(a_run(nodes=20_000, upstream=False), ours=[large]),
    ]
    assert words(*lines) == [word]
    assert words(*lines[:1]) == []


def test_the_snapshot_is_judged_by_growth_and_by_the_deep_copy() -> None:
    """12 over 5 us is 2.4 times; 1.6 ms over 8 us is 200 times."""
    lines: list[Mapping[str, Any]] = [
        {"nodes": 500, "update_us": 5.0},
        {"nodes": 5000, "update_us": 8.0, "deep_copy_ms": 1.6},
        {"nodes": 20_000, "update_us": 12.0},
    ]
    growth, copy = verdicts(Results(snapshot=lines))
    assert (growth.value, growth.word) == (2.4, "missed")
    assert (copy.value, copy.word) == (200.0, "reached")
    assert verdicts(Results(snapshot=[{"nodes": 500, "update_us": 5.0}])) == []


def test_memory_is_judged_per_node_and_per_bound_pod() -> None:
    """6 KiB and 1.5 KiB are allowed, one byte more is not."""
    lines: list[Mapping[str, Any]] = [
        {"workload": "plain", "per_node": 6144, "per_bound_pod": 1536},
        {"workload": "distinct", "per_node": 6145, "per_bound_pod": 1537},
    ]
    assert [verdict.word for verdict in verdicts(Results(memory=lines))] == ["reached", "reached", "missed", "missed"]


def test_figures_read_well() -> None:
    """Three digits, thousands apart, and - for what was not measured."""
    assert [rate_text(value) for value in (12_345.6, 100, 23.456, None)] == ["12,346", "100", "23.5", "-"]
    assert [times_text(value) for value in (104.6, 6.25, None)] == ["105x", "6.25x", "-"]
    assert amount_text(1536, "bytes") == "1,536 bytes"
    assert target_text(SAMPLED[True]) == ">= 6x (15x)"
    assert target_text(None) == "-"


def full_results() -> Results:
    return Results(
        speed=[
            a_line(
                a_run(),
                ours=[9000],
                upstream=[900],
                reference=30.0,
                ours_share=[0.9],
                upstream_share=[0.75],
                different=["pod-1: node-2 instead of none"],
            )
        ],
        snapshot=[{"nodes": 500, "update_us": 5.0, "update_us_p90": 6.0}],
        memory=[
            {"workload": "plain", "per_node": 1, "per_bound_pod": 2, "per_placed_pod": 3, "memo_mb": 0.5, "placed": 4}
        ],
        failures=["memory, anti: not done after 5 s"],
    )


def test_the_report_shows_everything_that_was_measured_and_what_could_not_run() -> None:
    """What is missing must be as visible as what is there."""
    stream = StringIO()
    print_report(full_results(), Console(file=stream, width=120))
    text = stream.getvalue()
    for part in (
        "9,000", "10x", ">= 6x (15x)", "300x", "75% to 90%",
        "snapshot after two changed nodes",
        "memory beyond the parsed objects",
        "plain, 5,000 nodes, sampled: decided otherwise than the scalar reference: pod-1: node-2 instead of none",
        "could not run: memory, anti: not done after 5 s",
    ):  # fmt: skip
        assert part in text


def test_the_file_of_results_is_kept_out_of_git_and_named_by_the_time(tmp_path: Path) -> None:
    """Results of one machine do not belong into the repository."""
    folder = tmp_path / "build/bench"
    now = datetime(2026, 11, 30, 12, 5, 9, tzinfo=UTC)
    path = write_json(full_results(), {"machine": {"cores": 2}}, folder, now)
    assert path == folder / "results-20261130T120509Z.json"
    assert (folder / ".gitignore").read_text(encoding="utf-8") == "*\n"
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["machine"] == {"cores": 2}
    assert found["speed"][0]["ratio"] == 10.0
    assert [target["verdict"] for target in found["targets"]] == ["reached", "reached", "reached"]
    assert found["failures"] == ["memory, anti: not done after 5 s"]
