"""The recorded decisions of the real Karpenter: ours are the same, or one of those that it gives itself."""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stowplan_autoscaling.conformance.karpenter import run_karpenter

COUNTS = {"provisioning": (240, 10), "disruption": (123, 7)}
"""How many answers are the one recorded, and how many one of several."""

CARRIED = 291
NOT_TOLD: tuple[Any, ...] = (None, "", [], {})


def told(value: Any) -> Any:
    """A value without what counts as absent; of errors only whose they are, requirements by label."""
    if isinstance(value, dict):
        made = {key: found for key, each in value.items() if (found := told(each)) not in NOT_TOLD}
        if "errors" in made:
            made["errors"] = sorted(made["errors"])
        if "requirements" in made:
            made["requirements"] = sorted(made["requirements"], key=lambda each: each["key"])
        return made
    return [told(each) for each in value] if isinstance(value, list) else value


def same(a: Any, b: Any) -> bool:
    """Whether two answers are equal, numbers within rounding."""
    if isinstance(a, float | int) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def answer(scenario: dict[str, Any]) -> dict[str, Any]:
    """Our answer as it is printed."""
    found: dict[str, Any] = json.loads(json.dumps(run_karpenter(scenario)))
    return found


@pytest.fixture(scope="module")
def judge(shared_dir: Path) -> ModuleType:
    """The program that compares answers; it knows the rules of the recorded ones."""
    path = shared_dir / "conformance/compare_supply.py"
    spec = importlib.util.spec_from_file_location("conformance_compare_supply", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.shared
@pytest.mark.parametrize("name", COUNTS)
def test_our_decisions_are_the_recorded_ones(shared_dir: Path, judge: ModuleType, name: str) -> None:
    """Claims with pods, requirements, types and prices; moves; candidates, budgets, commands and scores."""
    records: list[dict[str, Any]] = judge.load(str(shared_dir / f"conformance/karpenter/{name}.jsonl.gz"))
    verdicts: dict[str, list[str]] = {"identical": [], "allowed": [], "different": []}
    for record in records:
        verdicts[judge.karpenter(record, answer(record["scenario"]))[0]].append(record["scenario"]["id"])
    assert verdicts["different"] == []
    assert (len(verdicts["identical"]), len(verdicts["allowed"])) == COUNTS[name]


def test_our_decisions_in_crowded_scenarios_are_the_recorded_ones(repository: Path) -> None:
    """Many rules at once, in which the real program gave one answer in ten runs: also where it is peculiar."""
    with gzip.open(repository / "tests/conformance/golden/karpenter.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    different = [
        record["scenario"]["id"]
        for record in records
        if not same(told(answer(record["scenario"])["result"]), told(record["result"]))
    ]
    assert different == []
    assert len(records) == CARRIED
