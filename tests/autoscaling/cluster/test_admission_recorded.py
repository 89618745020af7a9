"""Answers of the real plugins LimitRanger and ResourceQuota (Kubernetes v1.37.2) to random pods, and ours.

`admission_recorded.jsonl` holds about twelve cases for each kind of answer: {"given": pod, limit ranges and quotas with
their status; "expected": the error, or the annotation and what the quotas count then}.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from autoscaling.cluster.small_world import World
from stowplan_autoscaling.cluster.admission import Admission
from stowplan_autoscaling.cluster.admission.amounts import parse_amounts, texts
from stowplan_autoscaling.cluster.admission.limit_range import ANNOTATION
from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.objects.quota import LimitRange, ResourceQuota
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_scheduler.objects import ObjectMeta, PriorityClass

RECORDED = Path(__file__).with_name("admission_recorded.jsonl")
CASES = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def answer(given: dict[str, Any]) -> dict[str, Any]:
    admission = Admission(default_tolerations=False)
    world = World(admit=admission.admit)
    admission.connect(world.server)
    for name in ("gold", "silver"):
        world.server.create("PriorityClass", PriorityClass(metadata=ObjectMeta(name=name), value=1))
    for raw in given["limitRanges"]:
        world.server.create("LimitRange", msgspec.convert(raw, LimitRange))
    for raw in given["quotas"]:
        quota = msgspec.convert(raw, ResourceQuota)
        stored = world.server.create("ResourceQuota", quota)
        world.server.update_status("ResourceQuota", replace(stored, status=quota.status))
    try:
        pod = world.server.create("Pod", msgspec.convert(given["pod"], ClusterPod))
    except ForbiddenError as refusal:
        return {"error": in_order(str(refusal))}
    # A status that nothing was added to is the one that the test wrote, in the test's way of writing.
    used = {
        quota.metadata.name: texts(parse_amounts(quota.status.used))
        for quota in world.server.all("ResourceQuota").values()
    }
    return {"annotation": pod.metadata.annotations.get(ANNOTATION, ""), "used": used}


def in_order(error: str) -> str:
    """Upstream lists several complaints in the order of a map."""
    head, bracket, tail = error.partition("[")
    return head + bracket + ", ".join(sorted(tail.removesuffix("]").split(", "))) if bracket else error


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_the_real_plugins_answer_alike(case: dict[str, Any]) -> None:
    """Word for word, but for the order of several complaints."""
    expected = case["expected"]
    if "error" in expected:
        assert answer(case["given"]) == {"error": in_order(expected["error"])}
    else:
        assert answer(case["given"]) == {"annotation": expected["annotation"], "used": expected["used"] or {}}


def test_every_kind_of_answer_was_recorded() -> None:
    """Accepted, too little, too much, a ratio, a missing amount, a used-up quota, an unknown status."""
    reasons = {case["expected"].get("error", "ok").rpartition("forbidden: ")[2].split(" ")[0] for case in CASES}
    assert {"ok", "minimum", "maximum", "cpu", "failed", "exceeded", "status"} <= reasons
    assert len(CASES) >= 90
