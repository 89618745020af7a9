"""Node pools that change during a run: what has drifted is replaced, within the budgets, and the results say so."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autoscaling.cosim.scenes import Played, deployment, play
from autoscaling.cosim.test_supply import BUDGET, WEB, pooled, supply
from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.results import LoopReport, NodeRecord
from support.simulations import write


def drifting(*changes: dict[str, Any], replicas: int = 3, **pool: Any) -> dict[str, Any]:
    """Pods of three cores, each on a machine of four, whose pool changes."""
    web = deployment(replicas=replicas, resources={"requests": {"cpu": "3"}})
    given = {"initial": replicas, "changes": list(changes), **pool}
    return pooled(web, pool=given, duration="15m")


def nodes(played: Played, end: str) -> list[NodeRecord]:
    """Those that went for a reason, in order of time."""
    return sorted((row for row in played.rows(NodeRecord) if row.end == end), key=lambda row: row.disrupted or 0)


def loop(played: Played, name: str) -> LoopReport:
    """What the results say about one."""
    return next(each for each in played.report.loops if each.loop == name)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"image": "v2"}},
        {"taints": [{"key": "image", "value": "v2", "effect": "PreferNoSchedule"}]},
        {"startupTaints": [{"key": "agent", "effect": "NoSchedule"}]},
        {"zones": ["b"]},
        {"capacityTypes": ["spot"]},
        {"instanceTypes": ["m8"]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_nodes_whose_pool_has_changed_are_replaced_one_at_a_time(change: dict[str, Any], tmp_path: Path) -> None:
    """Ten percent of three nodes is one: the next goes when the one before is gone."""
    played = play(tmp_path, drifting({"at": "2m", **change}, disruption={"consolidateAfter": "Never"}))
    gone = nodes(played, "Drifted")
    assert len(gone) == 3
    assert gone[0].disrupted is not None
    assert 120 <= gone[0].disrupted < 131, "the loop looks every ten seconds"
    for before, after in pairwise(gone):
        assert before.ended is not None
        assert after.disrupted is not None
        assert after.disrupted >= before.ended - 30, "the machine of the one before is shutting down"
    assert {row.began for row in nodes(played, "Running")} == {"Replacement"}
    assert sorted(pod.end for pod in played.pods(WEB)) == ["Evicted"] * 3 + ["Running"] * 3


def test_a_replacement_is_up_before_a_drifted_node_goes(tmp_path: Path) -> None:
    """The machine takes 30 s; only then is the pod evicted."""
    played = play(tmp_path, drifting({"at": "2m", "labels": {"image": "v2"}}, replicas=1))
    (gone,), (came,) = nodes(played, "Drifted"), nodes(played, "Running")
    evicted = next(pod for pod in played.pods(WEB) if pod.end == "Evicted")
    assert gone.disrupted == came.requested
    assert came.ready is not None
    assert evicted.ended is not None
    assert evicted.ended > came.ready


def test_new_nodes_are_what_the_pool_asks_for_by_then(tmp_path: Path) -> None:
    """First other zones, then other machines; what the second change does not say stays as the first one left it."""
    changes = ({"at": "2m", "zones": ["b"]}, {"at": "8m", "instanceTypes": ["m8"]})
    played = play(tmp_path, drifting(*changes, replicas=1, zones=["a"]))
    rows = sorted(played.rows(NodeRecord), key=lambda row: row.requested)
    assert [(row.zone, row.instance_type) for row in rows] == [("a", "m4"), ("b", "m4"), ("b", "m8")]
    assert [event.message for event in played.sink.events if event.reason == "NodePoolChanged"] == [
        "other zones: one node has drifted",
        "other instance types: one node has drifted",
    ]


def test_a_change_that_is_taken_back_leaves_the_nodes_that_are_left(tmp_path: Path) -> None:
    """Of ten nodes only those go that went before; what was replaced meanwhile has drifted then."""
    changes = ({"at": "2m", "labels": {"image": "v2"}}, {"at": "2m45s", "labels": {}})
    played = play(tmp_path, drifting(*changes, replicas=10))
    again = [row for row in nodes(played, "Drifted") if row.began == "Replacement"]
    first = [row for row in nodes(played, "Drifted") if row.began == "Initial"]
    assert 1 <= len(first) < 10
    assert len(again) == len(first)
    assert len(nodes(played, "Running")) == 10


def test_a_machine_that_is_on_its_way_when_its_pool_changes_has_drifted_once_it_is_there(tmp_path: Path) -> None:
    """It is asked for at 1 s and launched at 3 s; the pool changes in between."""
    simulation = pooled(deployment(), pool={"changes": [{"at": "2s", "labels": {"image": "v2"}}]}, duration="5m")
    played = play(tmp_path, simulation)
    first, second = sorted(played.rows(NodeRecord), key=lambda row: row.requested)
    assert (first.end, second.end) == ("Drifted", "Running")


def test_a_budget_for_drifted_nodes_keeps_them_and_is_named(tmp_path: Path) -> None:
    """Budgets of other reasons do not."""
    none = {"budgets": [{"nodes": "0", "reasons": ["Drifted"]}], "consolidateAfter": "Never"}
    played = play(tmp_path / "none", drifting({"at": "2m", "labels": {"a": "b"}}, disruption=none))
    assert not nodes(played, "Drifted")
    assert supply(played, stopped=True) == [("Drift", 0, "Budget")]
    assert loop(played, "Drift").stopped_by == {"Budget": 1}
    assert loop(played, "Drift").maximum == "one node per decision, budgets of 0"
    other = {"budgets": [{"nodes": "0", "reasons": ["Empty"]}], "consolidateAfter": "Never"}
    played = play(tmp_path / "other", drifting({"at": "2m", "labels": {"a": "b"}}, disruption=other))
    assert len(nodes(played, "Drifted")) == 3
    assert loop(played, "Drift").decisions == 6, "three that go, three that come"


def test_what_keeps_a_drifted_node_is_named(tmp_path: Path) -> None:
    """A budget of pods; or that its pods do not tolerate what the pool is now."""
    web = deployment(resources={"requests": {"cpu": "3"}})
    change = {"at": "2m", "labels": {"image": "v2"}}
    kept = pooled(web, BUDGET, pool={"initial": 1, "changes": [change]}, duration="5m")
    played = play(tmp_path / "kept", kept)
    assert ("Drift", 0, "PodsStay") in supply(played, stopped=True)
    assert not nodes(played, "Drifted")
    closed = {"at": "2m", "taints": [{"key": "closed", "effect": "NoSchedule"}]}
    played = play(tmp_path / "closed", pooled(web, pool={"initial": 1, "changes": [closed]}, duration="5m"))
    assert ("Drift", 0, "NoPlace") in supply(played, stopped=True)
    assert not nodes(played, "Drifted")


def test_the_report_says_what_the_loop_of_drift_looks_at(tmp_path: Path) -> None:
    played = play(tmp_path, drifting({"at": "2m", "labels": {"image": "v2"}}, replicas=1))
    drift = loop(played, "Drift")
    assert drift.metric == "nodes that are no longer what their pool asks for"
    assert drift.target == "0"
    assert drift.runs > 60
    assert drift.decisions == 2


def test_the_digest_of_a_simulation_whose_pools_do_not_change_is_what_it_was(tmp_path: Path) -> None:
    """It does not say that there are no changes; one that changes has another digest."""
    tmp_path.mkdir(exist_ok=True)
    loaded = load_simulation(write(tmp_path, drifting()))
    (pool,) = loaded.simulation.model_dump(mode="json", by_alias=True)["spec"]["nodePools"]
    assert "changes" not in pool
    changed = load_simulation(write(tmp_path, drifting({"at": "2m", "labels": {"image": "v2"}})))
    (pool,) = changed.simulation.model_dump(mode="json", by_alias=True)["spec"]["nodePools"]
    assert pool["changes"][0]["labels"] == {"image": "v2"}
    assert changed.digest != loaded.digest
