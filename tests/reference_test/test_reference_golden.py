"""The scalar reference against recorded answers of the real kube-scheduler.

It judges the shipped scheduler, so it must be right itself.
"""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from reference.oracle_lines import answer
from support.recorded import comparer

EVERY = 5


@pytest.fixture(scope="module")
def recorded(shared_dir: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every fifth recorded scenario with its answer."""
    path = shared_dir / "conformance/scheduler/evaluate.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in islice(lines, 0, None, EVERY)]
    return [(record["scenario"], record["expected"]) for record in records]


@pytest.mark.shared
def test_the_reference_decides_like_the_real_scheduler(recorded: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Every status, score, message and victim; only scenarios about volumes and devices may be left out."""
    different, decided = {}, 0
    for scenario, expected in recorded:
        got = answer(scenario)
        if "unsupported" in got:
            assert got["unsupported"].startswith(("volumes", "resource claims", "devices"))
            continue
        decided += 1
        if found := comparer().differences("evaluate", expected, got):
            different[scenario["id"]] = found
    assert different == {}
    assert decided > len(recorded) // 2
