"""The recorded loops of the real Cluster Autoscaler: ours are the same, in the declared order."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.conformance.cluster_autoscaler import run_cluster_autoscaler

FILES = {"scale-up": 144, "scale-down": 72}
NOT_TOLD: tuple[object, ...] = (None, "", [], {})


def told(value: Any) -> Any:
    """A value without what counts as absent."""
    if isinstance(value, dict):
        return {key: found for key, each in value.items() if (found := told(each)) not in NOT_TOLD}
    return [told(each) for each in value] if isinstance(value, list) else value


def is_observed(loop: dict[str, Any], seen: dict[str, Any]) -> bool:
    """Whether a loop is one that the real one shows too: it races with its own deletions."""
    deleted = [told(each) for each in seen["deleted"]]
    unneeded = set(loop.get("unneeded") or ())
    always = set(seen["unneededAlways"])
    return (
        loop["scaleUpResult"] in seen["scaleUpResult"]
        and loop["scaleDownResult"] in seen["scaleDownResult"]
        and (told(loop.get("deleted") or {}) in deleted or not (loop.get("deleted") or deleted))
        and always <= unneeded <= always | set(seen["unneededSometimes"])
        and all(
            why["reason"] in seen["unremovable"].get(node, ())
            for node, why in told(loop.get("unremovable") or {}).items()
        )
    )


@pytest.mark.shared
@pytest.mark.parametrize("name", FILES)
def test_our_loops_are_the_recorded_ones(shared_dir: Path, name: str) -> None:
    """Options, choice, plan, unneeded nodes with reasons and utilization, deletions."""
    with gzip.open(shared_dir / "conformance" / "cluster-autoscaler" / f"{name}.json.gz", "rt") as file:
        records = json.load(file)
    different = []
    for record in records:
        loops = json.loads(json.dumps(run_cluster_autoscaler(record["scenario"])["loops"]))
        if told(loops) == told(record["ordered"]):
            continue
        allowed = not record["orderedDeterministic"] and all(
            is_observed(loop, seen) for loop, seen in zip(loops, record["observed"], strict=True)
        )
        if not allowed:
            different.append(record["scenario"]["id"])
    assert different == []
    assert len(records) == FILES[name]
