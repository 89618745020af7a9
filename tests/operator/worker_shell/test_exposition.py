"""The text format: Go's numbers, the order of series, and what is left out."""

from __future__ import annotations

import math

import pytest

from stowplan_operator.worker.exposition import Family, Line, exposition, go_float
from stowplan_operator.worker.metric_table import Metric
from stowplan_operator.worker.series import SeriesOf, state_family

GO = {
    0.0: "0",
    1.0: "1",
    0.5: "0.5",
    99.0: "99",
    100000.0: "100000",
    123456.0: "123456",
    1000000.0: "1e+06",
    1234567.0: "1.234567e+06",
    12345678.5: "1.23456785e+07",
    67108864.0: "6.7108864e+07",
    1e20: "1e+20",
    1.5e21: "1.5e+21",
    0.1: "0.1",
    0.0001: "0.0001",
    0.000123: "0.000123",
    0.00001: "1e-05",
    1.5000000000000002e-05: "1.5000000000000002e-05",
    9 * 0.001: "0.009000000000000001",
    1796045290.23: "1.79604529023e+09",
    5242.88: "5242.88",
    -3.5: "-3.5",
    -1e-7: "-1e-07",
    math.inf: "+Inf",
    -math.inf: "-Inf",
}
"""What strconv.FormatFloat(x, 'g', -1, 64) of Go 1.26 gives."""


@pytest.mark.parametrize(("number", "text"), GO.items())
def test_numbers_are_written_as_go_writes_them(number: float, text: str) -> None:
    assert go_float(number) == text


def test_a_number_that_is_none_is_written_too() -> None:
    assert go_float(math.nan) == "NaN"


def test_families_come_by_name_and_empty_ones_not_at_all() -> None:
    families = [
        Family("b", "gauge", "Two\nlines and a \\.", [Line("", [("x", 'a "word"'), ("y", "two\nlines \\")], 2)]),
        Family("c", "counter", "Nothing yet.", []),
        Family("a", "counter", "First.", [Line("", [], 1)]),
    ]
    assert exposition(families).decode().splitlines() == [
        "# HELP a First.",
        "# TYPE a counter",
        "a 1",
        "# HELP b Two\\nlines and a \\\\.",
        "# TYPE b gauge",
        'b{x="a \\"word\\"",y="two\\nlines \\\\"} 2',
    ]


def test_a_sample_on_a_bound_belongs_below_it() -> None:
    """As in Go: le is less or equal."""
    series = SeriesOf(Metric("m_seconds", "histogram", "BETA", "How long.", ("zone", "app"), (0.5, 1.0)))
    series.child(("z", "web")).add(0.5)
    series.child(("z", "web")).add(0.75)
    series.child(("a", "web")).add(7)
    assert exposition([series.family()]).decode().splitlines() == [
        "# HELP m_seconds [BETA] How long.",
        "# TYPE m_seconds histogram",
        'm_seconds_bucket{app="web",zone="a",le="0.5"} 0',
        'm_seconds_bucket{app="web",zone="a",le="1"} 0',
        'm_seconds_bucket{app="web",zone="a",le="+Inf"} 1',
        'm_seconds_sum{app="web",zone="a"} 7',
        'm_seconds_count{app="web",zone="a"} 1',
        'm_seconds_bucket{app="web",zone="z",le="0.5"} 1',
        'm_seconds_bucket{app="web",zone="z",le="1"} 2',
        'm_seconds_bucket{app="web",zone="z",le="+Inf"} 2',
        'm_seconds_sum{app="web",zone="z"} 1.25',
        'm_seconds_count{app="web",zone="z"} 2',
    ]


def test_a_series_needs_a_value_for_each_label() -> None:
    counter = SeriesOf(Metric("m_total", "counter", "", "Things.", ("kind",)))
    with pytest.raises(ValueError, match=r"m_total has the labels \('kind',\), got \(\)"):
        counter.child(())


def test_what_has_no_labels_is_there_from_the_start() -> None:
    counter = SeriesOf(Metric("m_total", "counter", "", "Things."))
    assert exposition([counter.family()]) == b"# HELP m_total Things.\n# TYPE m_total counter\nm_total 0\n"


def test_states_are_sorted_by_the_values_of_their_labels() -> None:
    metric = Metric("m", "gauge", "ALPHA", "State.", ("queue", "event"))
    family = state_family(metric, [(("b", "x"), 1), (("a", "y"), 2), (("a", "x"), 3)])
    assert [[text for _, text in line.labels] for line in family.lines] == [["x", "a"], ["x", "b"], ["y", "a"]]
