"""The scalar reference against the real kube-scheduler on random clusters.

Property tests hold the shipped scheduler equal to the reference on such clusters, so there it must be right.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from reference.oracle_lines import answer
from support.recorded import comparer
from support.strategies import Scenario, scenarios

EXAMPLES = 100


def random_lines() -> list[dict[str, Any]]:
    """The same random scenarios every time."""
    lines: list[dict[str, Any]] = []

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(scenarios())
    def collect(scenario: Scenario) -> None:
        lines.append(scenario.line(f"random-{len(lines)}"))

    collect()
    return lines


@pytest.mark.oracle
def test_the_reference_decides_random_clusters_like_the_real_scheduler(oracle: Path) -> None:
    """Every status, score, message and victim. The repetition finds ties that upstream breaks by chance."""
    lines = random_lines()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(
        [str(oracle), "evaluate", "-repeat", "12"], input=text, capture_output=True, text=True, check=True
    )
    expected = [json.loads(line) for line in done.stdout.splitlines()]
    found = {
        line["id"]: comparer().differences("evaluate", real, answer(line))
        for line, real in zip(lines, expected, strict=True)
    }
    assert {name: differences for name, differences in found.items() if differences} == {}
