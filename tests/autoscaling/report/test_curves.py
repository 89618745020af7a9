"""Series for figures: what rows say, on few enough points."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stowplan_autoscaling.report.curves import Series, largest, read_series, spent, thinned
from stowplan_autoscaling.results import PoolSample, ServiceSample
from stowplan_autoscaling.results.records import header


def series(values: list[float], times: list[float] | None = None) -> Series:
    """One thing with three columns of the same values."""
    column = np.array(values, dtype=np.float64).reshape(-1, 1)
    moments = np.array(times if times is not None else range(len(values)), dtype=np.float64)
    return Series(moments, ("a",), {"high": column, "low": column, "mean": column})


def test_a_part_keeps_what_its_column_is_kept_for() -> None:
    """Six points in two parts of three seconds."""
    found = thinned(series([1, 5, 3, 2, 0, 7]), {"high": "highest", "low": "lowest", "mean": "mean"}, 6.0, limit=2)
    assert found.times.tolist() == [0, 3]
    assert found.of("a", "high").tolist() == [5, 7]
    assert found.of("a", "low").tolist() == [1, 0]
    assert found.of("a", "mean").tolist() == [3, 3]


def test_a_short_series_is_as_it_was() -> None:
    """Nothing is lost that a screen can show."""
    found = thinned(series([1, 5, 3]), {"high": "highest", "low": "lowest", "mean": "mean"}, 3.0, limit=3)
    assert found.of("a", "mean").tolist() == [1, 5, 3]


def test_missing_values_do_not_count() -> None:
    """Unless there is nothing else in the part."""
    nan = float("nan")
    found = thinned(series([nan, 4, nan, nan]), {"high": "highest", "low": "lowest", "mean": "mean"}, 4.0, limit=2)
    assert found.of("a", "mean")[0] == 4
    assert found.of("a", "low")[0] == 4
    assert np.isnan(found.of("a", "mean")[1])


def test_the_end_of_the_run_belongs_to_its_last_part() -> None:
    """A sample at the very end makes no part of its own."""
    found = thinned(series([1, 2, 9]), {"high": "highest", "low": "lowest", "mean": "mean"}, 2.0, limit=2)
    assert found.times.tolist() == [0, 1]
    assert found.of("a", "high").tolist() == [1, 9]


def test_rows_of_several_things_share_their_moments(tmp_path: Path) -> None:
    """A thing without a row at a moment has no number there; one that is not there at all is zero."""
    rows = ["0,a,1,,,2,,,,,,,,,", "0,b,3,,,0.5,,,,,,,,,", "60,b,4,,,0.5,,,,,,,,,"]
    write(tmp_path / "series/pools.csv", header(PoolSample), rows)
    found = read_series(tmp_path, PoolSample, "pool", {"ready": "highest", "cost": "mean"}, 60.0)
    assert found.names == ("a", "b")
    assert found.total("ready").tolist() == [4, 4]
    assert found.total("cost", ["a"]).tolist() == [2, 0]
    assert np.isnan(found.of("a", "ready")[1])
    assert found.of("c", "ready").tolist() == [0, 0]


def test_means_since_the_row_before_begin_there(tmp_path: Path) -> None:
    """Rates of services are those of the time that has passed."""
    rows = ["0,visits,0,0,0,,,,,", "30,visits,10,9,1,,,,,", "60,visits,20,20,0,,,,,"]
    write(tmp_path / "series/services.csv", header(ServiceSample), rows)
    found = read_series(tmp_path, ServiceSample, "demand", {"offered": "mean"}, 60.0, since_before=True)
    assert found.times.tolist() == [0, 30]
    assert found.of("visits", "offered").tolist() == [10, 20]


def test_a_table_that_is_not_there_has_no_points(tmp_path: Path) -> None:
    """An old folder, or a cluster without pools."""
    found = read_series(tmp_path, PoolSample, "pool", {"ready": "highest"}, 60.0)
    assert len(found.times) == 0
    assert found.names == ()
    assert found.total("ready").tolist() == []


def test_the_largest_come_first_and_equals_by_name() -> None:
    """So that a page is the same each time."""
    assert largest({"b": 1, "a": 1, "c": 2, "d": 0}, 3) == ("c", "a", "b")


def test_a_rate_per_hour_adds_up_until_the_next_sample() -> None:
    """Half an hour at 2, then half an hour at 4."""
    found = spent(np.array([0.0, 1800.0, 3600.0]), np.array([2.0, 4.0, 100.0]))
    assert found.tolist() == [0, 1, 3]


def write(path: Path, names: list[str], rows: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([",".join(names), *rows]) + "\n")
