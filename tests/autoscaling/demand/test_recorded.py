"""Demand files: every dialect by small files of our own, the totals by the recorded ones where they are at hand."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stowplan_autoscaling.demand.csv_rows import parse_time
from stowplan_autoscaling.demand.recorded import ReadOptions, Recording, read_recording
from stowplan_autoscaling.inputs.errors import FieldError, InputError

SAMPLES = "timestamp,value\n2026-01-01 00:00:00,10\n2026-01-01 00:01:00,20\n2026-01-01 00:02:00,40\n"
VALUES = "value, CPU_USAGE_ACTUAL, or ContextTokens and GeneratedTokens"
TIMES = 'must be a time such as 2026-01-31T08:00:00Z, "2026-01-31 08:00:00", or a number of seconds'
REQUESTS = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,100,10\n"
    "2023-11-16 18:15:46.9000000,200,20\n"
    "2023-11-16 18:15:49.6805900,50,5"
)


def read(folder: Path, text: str, **options: Any) -> Recording:
    path = folder / "load.csv"
    path.write_text(text, encoding="utf-8")
    return read_recording(str(path), ReadOptions(**options))


def test_samples_hold_until_the_next_row(tmp_path: Path) -> None:
    """The default; the recording lasts one usual step beyond its last row."""
    recording = read(tmp_path, SAMPLES)
    assert [recording.series.at(t) for t in (0, 59.9, 60, 120, 1e6)] == [10, 10, 20, 40, 40]
    assert recording.duration == 180
    assert recording.rows == 3
    assert recording.began == 1_767_225_600 * 10**9


def test_samples_may_be_joined_by_straight_lines(tmp_path: Path) -> None:
    """15 half-way between 10 and 20."""
    recording = read(tmp_path, SAMPLES, interpolation="linear")
    assert [recording.series.at(t) for t in (30, 90, 120)] == [15, 30, 40]


def test_a_part_can_be_scaled_stretched_and_repeated(tmp_path: Path) -> None:
    """From the second row on for 90 s, half as fast, 20 requests per minute as 1/3 per second, over and over."""
    recording = read(tmp_path, SAMPLES, start=60, length=90, stretch=2, repeat=True, per=60)
    assert recording.duration == 180
    expected = [1 / 3, 1 / 3, 2 / 3, 1 / 3, 2 / 3]
    assert [recording.series.at(t) for t in (0, 119, 120, 180, 300)] == pytest.approx(expected)


def test_percent_of_a_base(tmp_path: Path) -> None:
    """40 % of 200 per second."""
    assert read(tmp_path, SAMPLES, percent_of=200).series.at(120) == 80


def test_a_recording_that_is_too_short_says_so(tmp_path: Path) -> None:
    """Holding the last value for hours is no error, but nobody should overlook it."""
    recording = read(tmp_path, SAMPLES, length=1000)
    assert recording.notes == (
        f"{tmp_path}/load.csv: the recording ends 820 s before start + length: its last value is held",
    )


@pytest.mark.parametrize(
    "header", ["timestamp,value", "VALUE,other,Time", "t,value", "value,ts", "TIMESTAMP,CPU_USAGE_ACTUAL"]
)
def test_columns_are_found_in_any_order_and_case(tmp_path: Path, header: str) -> None:
    """And what is not needed is named in a note."""
    names = header.lower().split(",")
    cells = ["7" if name in {"value", "cpu_usage_actual"} else "x" if name == "other" else "0" for name in names]
    recording = read(tmp_path, f"{header}\n{','.join(cells)}\n")
    assert recording.series.at(5) == 7
    noted = (f"{tmp_path}/load.csv: columns that are not needed were ignored: other",) if "other" in names else ()
    assert recording.notes == noted


def test_the_value_may_stand_in_a_named_column(tmp_path: Path) -> None:
    """Exports call it what they like."""
    assert read(tmp_path, "time,rps,value\n0,3,9\n", value="RPS").series.at(0) == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2014-04-10 00:04:00", 1_397_088_240),
        ("2014-04-10T00:04:00Z", 1_397_088_240),
        ("2014-04-10T02:04:00+02:00", 1_397_088_240),
        ("2014-04-10", 1_397_088_000),
        ("1397088240", 1_397_088_240),
        ("1397088240500", 1_397_088_240.5),
        ("90.25", 90.25),
        ("2014.04.10-00:04:00:000000", 1_397_088_240),
    ],
)
def test_time_stamps_in_all_their_forms(text: str, seconds: float) -> None:
    """ISO 8601, seconds, milliseconds, VASIM."""
    assert parse_time(text) == seconds * 10**9


def test_a_stamp_keeps_a_tenth_of_a_microsecond() -> None:
    """The Azure traces have seven decimals; floating seconds since 1970 would lose the last."""
    assert parse_time("2023-11-16 18:15:46.6805907") % 10**9 == 680_590_700


def test_request_rows_become_rates_and_keep_the_arrivals(tmp_path: Path) -> None:
    """Two requests in the first second, one in the fourth; afterwards none."""
    recording = read(tmp_path, REQUESTS)
    assert recording.arrivals is not None
    assert recording.arrivals.times.tolist() == pytest.approx([0, 0.21941, 3.0])
    assert [recording.series.at(t) for t in (0, 1, 2, 3, 4)] == [2, 0, 0, 1, 0]
    assert recording.duration == 4


def test_tokens_can_be_what_counts(tmp_path: Path) -> None:
    """100 and 200 context tokens at 0.01, 10 and 20 generated ones at 0.1, in bins of two seconds."""
    recording = read(tmp_path, REQUESTS, context_cost=0.01, generated_cost=0.1, bin=2)
    assert recording.series.at(0) == pytest.approx((1 + 2 + 1 + 2) / 2)
    assert recording.series.integral(0, 10) == pytest.approx(6 + 1)


def test_equal_stamps_are_added_up_or_the_last_one_counts(tmp_path: Path) -> None:
    """Counts by instance are added, a corrected sample replaces."""
    text = "t,value\n0,1\n0,2\n10,5\n"
    assert read(tmp_path, text).series.at(0) == 2
    assert read(tmp_path, text, equal="add").series.at(0) == 3


def test_gzip_is_read_like_the_plain_file(tmp_path: Path) -> None:
    """Recognised by its first bytes, whatever the name."""
    path = tmp_path / "load"
    path.write_bytes(gzip.compress(SAMPLES.encode()))
    assert read_recording(str(path)).series.at(60) == 20


def test_a_gap_is_refused_or_bridged_with_a_note(tmp_path: Path) -> None:
    """Nobody knows what happened in the hole: one hour where a minute is usual."""
    text = SAMPLES + "2026-01-01 01:02:00,1\n2026-01-01 01:03:00,2\n"
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == (
        f"{tmp_path}/load.csv: line 5: timestamp: a gap before 2026-01-01 01:02:00: no rows for 3600 s where the usual "
        "step is 60 s; `gaps: Hold` bridges it"
    )
    recording = read(tmp_path, text, gaps="hold")
    assert recording.series.at(3000) == 40
    assert recording.notes[0].startswith(f"{tmp_path}/load.csv: 1 gaps were bridged")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": the file is empty: a header such as timestamp,value and rows are expected"),
        ("timestamp,value\n", ": there are no rows after the header"),
        (
            "when,value\n0,1\n",
            ": line 1: no column for the time: the header must have one of timestamp, time, t, ts",
        ),
        (
            "time,load\n0,1\n",
            f": line 1: no column for the value: the header must have {VALUES}, or name the column",
        ),
        ("t,value,Value\n0,1,2\n", ': line 1: two columns are called "value"'),
        ("t,value\n0,1\n1,-3\n", ': line 3: value: "-3": must be a number of at least 0'),
        ("t,value\n0,nan\n", ': line 2: value: "nan": must be a number of at least 0'),
        ("t,value\n0,1e999\n", ': line 2: value: "1e999": must be a number of at least 0'),
        ("t,value\n0,1_000\n", ': line 2: value: "1_000": must be a number of at least 0'),
        ("t,value\n0,\n", ": line 2: value: is empty: must be a number of at least 0"),
        ("t,value\n0\n", ": line 2: has 1 columns, the header has 2"),
        (
            "t,value\nnoon,1\n",
            f': line 2: t: "noon": {TIMES}',
        ),
        ("t,value\n2026-02-30,1\n", ': line 2: t: "2026-02-30": day is out of range for month'),
        (
            "t,value\n0,1\n60,1\n30,1\n",
            ": line 4: t: 30 is 30 s before line 3: the clock jumped back; rows must ascend",
        ),
        (
            "timestamp,value\n2026-03-29 03:00:00,1\n2026-03-29 02:00:00,1\n",
            ": line 3: timestamp: 2026-03-29 02:00:00 is 3600 s before line 2: the clock jumped back; rows must ascend",
        ),
        ('t,value\n"0,1\n', ": line 2: not valid CSV: unexpected end of data"),
    ],
)
def test_a_bad_file_gives_one_error_with_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    """What is wrong, where, and what is allowed."""
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/load.csv{message}"


def test_a_file_that_is_no_text_or_not_there(tmp_path: Path) -> None:
    """The reader's own errors come through."""
    path = tmp_path / "load.csv"
    path.write_bytes(b"t,value\n0,\xff\n")
    with pytest.raises(InputError, match="line 2: not UTF-8 text"):
        read_recording(str(path))
    with pytest.raises(InputError, match="no such file"):
        read_recording(str(tmp_path / "absent.csv"))


def test_a_start_after_the_end_is_refused(tmp_path: Path) -> None:
    """Both for samples and for requests."""
    for text in (SAMPLES, REQUESTS):
        with pytest.raises(InputError, match=r"start: 5000: nothing is recorded from there on"):
            read(tmp_path, text, start=5000)


def test_a_single_row_cannot_be_repeated_without_a_length(tmp_path: Path) -> None:
    """Nothing says how long it lasts."""
    with pytest.raises(InputError, match="a single row cannot be repeated: give a length"):
        read(tmp_path, "t,value\n0,1\n", repeat=True)
    assert read(tmp_path, "t,value\n0,1\n", repeat=True, length=60).series.at(1e6) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": -1}, "scale: -1: must be a number of at least 0"),
        ({"per": 0}, "per: 0: must be a number greater than 0"),
        ({"length": 0}, "length: 0: must be a number greater than 0"),
        ({"gaps": "fill"}, 'gaps: "fill": must be refuse or hold'),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    """By field, like all input."""
    with pytest.raises(FieldError) as caught:
        ReadOptions(**options)
    assert str(caught.value) == message


# ---- recorded files ------------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "rows", "low", "high", "days"),
    [
        ("nab_elb_request_count_8c0756", 4032, 1, 656, 14),
        ("nab_grok_asg_anomaly", 4621, 0, 45.623, 16),
        ("nab_cpu_utilization_asg_misconfiguration", 18_050, 11.529, 100, 62),
        ("nab_nyc_taxi", 10_320, 8, 39_197, 215),
    ],
)
def test_recorded_series_have_their_published_range(
    shared_data: Callable[[str], Path], name: str, rows: int, low: float, high: float, days: int
) -> None:
    """numenta/NAB (MIT). The eight gaps of ten minutes in the load balancer's counts are no more than twice a step."""
    recording = read_recording(str(shared_data(f"demand/{name}.csv.gz")))
    assert recording.rows == rows
    levels = recording.series.values(np.arange(0, recording.duration, 300))
    assert float(levels.min()) == pytest.approx(low, abs=1e-3)
    assert float(levels.max()) == pytest.approx(high, abs=1e-3)
    assert recording.duration / 86_400 == pytest.approx(days, abs=1)


@pytest.mark.shared
def test_recorded_requests_add_up(shared_data: Callable[[str], Path]) -> None:
    """Azure LLM inference trace 2023, conversation (CC-BY 4.0): at most 507 requests in a minute."""
    recording = read_recording(str(shared_data("demand/azure_llm_2023_conv.csv.gz")))
    assert recording.arrivals is not None
    assert len(recording.arrivals) == recording.rows == 19_366
    assert float(recording.arrivals.times[-1]) == pytest.approx(3501.7, abs=0.1)
    assert recording.series.integral(0, 4000) == pytest.approx(19_366)
    minutes = recording.arrivals.rates(60)
    assert float(minutes.levels.max()) * 60 == pytest.approx(507)
