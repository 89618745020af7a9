"""The results folder: the same bytes for the same seed, readable at any moment, never somebody else's."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.results import FolderSink, MemorySink, SinkGroup, read_summary
from stowplan_autoscaling.results.records import TABLES, header
from support.run_engine import run
from support.simulations import small, write


def results(folder: Path, *, seed: int = 1, stop_after: int | None = None) -> dict[str, bytes]:
    """A run into `folder`/out: the contents of all files."""
    loaded = load_simulation(write(folder, small()), seed=seed)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return stop_after is not None and asked > stop_after

    with FolderSink(str(folder / "out")) as sink:
        run(loaded, progress=None, stop=stop, sink=sink)
    return contents(folder / "out")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def table_of(path: Path) -> list[list[str]]:
    return list(csv.reader(path.read_text().splitlines()))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """In whatever folder; another seed gives others."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first = results(tmp_path / "a")
    assert results(tmp_path / "b") == first
    assert results(tmp_path / "b", seed=2) != first


def test_every_table_has_its_header_and_rows(tmp_path: Path) -> None:
    """One row per sample, attempt and pod: 40 in ten minutes of 15 s."""
    results(tmp_path)
    for table, name in TABLES.items():
        rows = table_of(tmp_path / "out" / name)
        assert rows[0] == header(table), name
        assert len(rows) == 41, name
        assert {len(row) for row in rows} == {len(rows[0])}, name


def test_events_are_lines_of_json(tmp_path: Path) -> None:
    """In UTF-8, as they came."""
    files = results(tmp_path)
    lines = [json.loads(line) for line in files["events.jsonl"].decode().splitlines()]
    assert len(lines) == 40
    assert lines[1] == {
        "seconds": 15.0,
        "source": "default-scheduler",
        "type": "Normal",
        "reason": "Scheduled",
        "object": "Pod shop/web-2",
        "message": "Assigned: ✓",
    }


def test_the_keys_of_the_summary_are_sorted(tmp_path: Path) -> None:
    """So that a difference between two runs is a difference of values."""

    def check(value: Any) -> None:
        if isinstance(value, dict):
            assert list(value) == sorted(value)
            for member in value.values():
                check(member)
        elif isinstance(value, list):
            for entry in value:
                check(entry)

    check(json.loads(results(tmp_path)["summary.json"]))


def test_an_interrupted_run_leaves_what_is_finished(tmp_path: Path) -> None:
    """Ten samples of 15 s: the summary says so, the files hold them, and they are those of the whole run."""
    for name in ("whole", "part"):
        (tmp_path / name).mkdir()
    whole, part = results(tmp_path / "whole"), results(tmp_path / "part", stop_after=10)
    summary = json.loads(part["summary.json"])
    assert (summary["complete"], summary["stopped"], summary["reached"]) == (False, "interrupted", 150)
    assert len(part["pods.csv"].splitlines()) == 11
    for name, data in part.items():
        if name != "summary.json":
            assert whole[name].startswith(data), name


def test_a_run_that_dies_leaves_its_last_checkpoint(tmp_path: Path) -> None:
    """As after SIGKILL: nobody says goodbye. The summary is behind the files, never before them."""
    loaded = load_simulation(write(tmp_path, small()))

    class DiedError(Exception):
        """The end of the process."""

    def stop() -> bool:
        seen = read_summary(str(tmp_path / "out"))
        if seen.reached >= 300:
            raise DiedError
        return False

    with pytest.raises(DiedError), FolderSink(str(tmp_path / "out")) as sink:
        run(loaded, progress=None, stop=stop, sink=sink)
    summary = read_summary(str(tmp_path / "out"))
    assert (summary.complete, summary.reached) == (False, 300)
    rows = table_of(tmp_path / "out" / "series" / "workloads.csv")
    assert float(rows[-1][0]) == 285


def test_an_earlier_result_is_replaced(tmp_path: Path) -> None:
    """Nothing of a longer run is left behind a shorter one."""
    results(tmp_path)
    (tmp_path / "out" / "pods.parquet").write_bytes(b"old")
    short = results(tmp_path, stop_after=2)
    assert "pods.parquet" not in short
    assert len(short["pods.csv"].splitlines()) == 3


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    """A slip of the finger must not overwrite somebody's work."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError) as failure:
        FolderSink(str(tmp_path))
    assert str(failure.value) == f"{tmp_path}: holds notes.txt and no earlier result: name an empty or a new folder"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """Said as it is."""
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError) as failure:
        FolderSink(str(tmp_path / "out"))
    assert str(failure.value) == f"{tmp_path}/out: is no folder"


def test_the_summary_can_be_read_back(tmp_path: Path) -> None:
    """As the report that was returned."""
    loaded = load_simulation(write(tmp_path, small()))
    memory = MemorySink()
    report = run(loaded, progress=None, stop=None, sink=SinkGroup([FolderSink(str(tmp_path / "out")), memory]))
    assert read_summary(str(tmp_path / "out")) == report == memory.reports[-1]


def test_tables_become_parquet_where_pyarrow_is(tmp_path: Path) -> None:
    """The same values, with types; an empty column of times is one of numbers, not of texts."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: the tables are CSV only")
    from stowplan_autoscaling.results.parquet import write_parquet

    parquet = pytest.importorskip("pyarrow.parquet")
    results(tmp_path)
    assert len(write_parquet(str(tmp_path / "out"))) == len(TABLES)
    table = parquet.read_table(tmp_path / "out" / "pods.parquet")
    assert table.num_rows == 40
    assert (str(table.schema.field("ended").type), str(table.schema.field("attempts").type)) == ("double", "int64")
