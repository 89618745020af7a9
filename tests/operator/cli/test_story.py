"""`stowplan story`: one pod's moments out of a worker's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowplan_operator.cli import cli


def line(second: int, moment: str, pod: str = "shop/cart", uid: str = "u1", **fields: Any) -> str:
    return json.dumps(
        {
            "ts": f"2026-11-30T10:00:{second:02d}.000000Z",
            "level": "info",
            "logger": "stowplan.story",
            "msg": moment,
            "moment": moment,
            "pod": pod,
            "uid": uid,
            **fields,
        }
    )


LOG = [
    '{"ts":"2026-11-30T09:59:00.000000Z","level":"info","logger":"stowplan.worker","msg":"serving","port":1}',
    line(1, "seen", place="active"),
    line(1, "seen", pod="shop/other", uid="u9"),
    line(2, "attempt", attempt=1, place="unschedulable", message="0/1 nodes are available: 1 Insufficient cpu."),
    "a line of something else",
    line(3, "assumed", node="n1"),
    line(4, "asked", request=7, message="bind to n1"),
    line(5, "answered", request=7, status=201, message="bind to n1"),
    line(6, "bound", node="n1"),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "worker.log"
    path.write_text("\n".join(LOG) + "\n")
    return path


def story(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["story", *map(str, arguments)], input=stdin)


def test_a_story_is_a_table_in_order(log: Path) -> None:
    result = story("cart", "-n", "shop", "--log", log)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "pod shop/cart, UID u1",
        "TIME             MOMENT    ATTEMPT  NODE  PLACE          WHAT",
        "10:00:01.000000  seen                     active",
        "10:00:02.000000  attempt   1              unschedulable  0/1 nodes are available: 1 Insufficient cpu.",
        "10:00:03.000000  assumed            n1",
        "10:00:04.000000  asked                                   bind to n1",
        "10:00:05.000000  answered                                201: bind to n1",
        "10:00:06.000000  bound              n1",
    ]


def test_a_story_in_json_is_what_the_log_says(log: Path) -> None:
    result = story("shop/cart", "--log", log, "-o", "json")
    assert [each["moment"] for each in json.loads(result.output)] == [
        "seen", "attempt", "assumed", "asked", "answered", "bound",
    ]  # fmt: skip


def test_logs_of_several_workers_are_one_story_and_namesakes_are_apart(tmp_path: Path) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    first.write_text(line(1, "seen") + "\n" + line(4, "gone") + "\n")
    second.write_text(line(2, "asked", status=0) + "\n" + line(9, "seen", uid="u2") + "\n")
    result = story("shop/cart", "--log", first, "--log", second)
    assert [row.split()[1] for row in result.output.splitlines() if row.startswith("10:")] == [
        "seen", "asked", "gone", "seen",
    ]  # fmt: skip
    assert "no answer" in result.output
    assert [row for row in result.output.splitlines() if row.startswith("pod")] == [
        "pod shop/cart, UID u1",
        "pod shop/cart, UID u2",
    ]


def test_a_pod_that_the_log_does_not_know_is_an_error_with_a_hint(log: Path) -> None:
    result = story("cart", "--log", log)
    assert result.exit_code == 1
    assert "the log says nothing about pod default/cart; there is shop/cart" in result.output


def test_a_log_that_is_no_json_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_text("2026-11-30T10:00:00Z info pod bound pod=shop/cart\n")
    result = story("cart", "--log", path)
    assert result.exit_code == 2
    assert f"{path}: holds no JSON lines: the worker must log with --log-format json" in result.output


def test_a_log_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    result = story("cart", "--log", tmp_path / "absent.log")
    assert result.exit_code == 2
    assert "no such file" in result.output


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_text(line(1, "seen") + '\n{"ts":"2026')
    assert story("shop/cart", "--log", path).exit_code == 0
