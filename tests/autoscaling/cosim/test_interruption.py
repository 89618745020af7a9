"""Spot machines that the provider takes back: the notice, who answers it, what is left behind, who replaces it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoscaling.cosim.scenes import Played, deployment, play, steps, visits
from autoscaling.cosim.test_supply import BUDGET, ENGINES, WEB, pooled, supply
from stowplan_autoscaling.results import NodeRecord, NodeSample, PodRecord, SupplyRecord

TAKEN = {"spot": {"interruptionsPerHour": 12}}
SPOT = {"capacityTypes": ["spot"], "initial": 1}
ALONE = {"terminationHandler": False}
EACH_SECOND = {"period": "1s"}


def taken(played: Played) -> list[NodeRecord]:
    """Those that were not given back before the provider took them."""
    rows = [row for row in played.rows(NodeRecord) if row.end == "Interrupted" and row.ended is not None]
    return sorted(rows, key=lambda row: row.ended or 0)


def left_behind(played: Played, machine: NodeRecord) -> tuple[float, float]:
    """How many seconds after the machine was taken its Node was known to be silent, and gone."""
    rows = [row for row in played.rows(NodeSample) if row.node == machine.node and row.seconds > (machine.ended or 0)]
    known, gone = (next(row.seconds for row in rows if row.state == state) for state in ("NotReady", "Gone"))
    assert machine.ended is not None
    return known - machine.ended, gone - machine.ended


def first(played: Played) -> PodRecord:
    """The first pod."""
    return played.pods(WEB)[0]


def test_the_cluster_autoscaler_alone_does_nothing_about_a_notice(tmp_path: Path) -> None:
    """The pod runs until the machine goes; the results say that nobody answered."""
    simulation = pooled(
        deployment(), engine="clusterAutoscaler", settings=ALONE, pool=SPOT, duration="30m", provider=TAKEN
    )
    played = play(tmp_path, simulation)
    machine, pod = taken(played)[0], first(played)
    assert machine.disrupted is None
    assert (pod.node, pod.end) == (machine.node, "NodeLost")
    loop = next(each for each in played.report.loops if each.loop == "Interruption")
    assert loop.stopped_by["NoTerminationHandler"] == loop.runs >= 1
    assert loop.stopped_by["PodsLost"] == len(taken(played))
    assert loop.delay == "the machine goes 2m after the notice"
    assert "SpotInterruption" not in {reason for _, _, reason in supply(played)}


def test_a_machine_that_is_taken_leaves_a_silent_node_behind(tmp_path: Path) -> None:
    """Known as silent after 50 s without a beat of its heart, removed by the next pass; its pod is made again by then.

    Until the node is known to be silent requests go to the pod, and fail.
    """
    simulation = pooled(
        deployment(), engine="clusterAutoscaler", settings=ALONE, pool=SPOT, duration="30m", provider=TAKEN,
        demand=[visits(steps(("0s", 10)))], sampling=EACH_SECOND,
    )  # fmt: skip
    played = play(tmp_path, simulation)
    machine = taken(played)[0]
    known, gone = left_behind(played, machine)
    assert 40 <= known <= 56, "10 s between beats, 5 s between looks"
    assert known < gone <= known + 6
    assert machine.ended is not None
    wait = played.pods(WEB)[1].created - machine.ended
    assert gone + 38 <= wait <= gone + 61, "the garbage collector waits 40 s, and looks every 20 s"
    assert played.report.services[0].failed >= 10 * (known - 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_machine_that_was_emptied_in_time_loses_no_pod(engine: str, tmp_path: Path) -> None:
    """Its pods were evicted at the notice. Karpenter gives it back at once; a handler lets it be taken."""
    played = play(tmp_path, pooled(deployment(), engine=engine, pool=SPOT, duration="30m", provider=TAKEN))
    machine = taken(played)[0]
    assert first(played).end == "Evicted"
    assert machine.disrupted is not None
    assert machine.ended is not None
    spent = machine.ended - machine.disrupted
    assert (spent == 120) == (engine == "clusterAutoscaler")
    assert spent <= 120
    assert "NodeLost" not in {pod.end for pod in played.pods(WEB)}
    assert "PodsLost" not in {reason for _, _, reason in supply(played, stopped=True)}


def test_karpenter_drains_what_is_left_of_a_machine_that_is_taken(tmp_path: Path) -> None:
    """A budget keeps the pod beyond the notice. In the end nothing is left of the claim, and the pod runs elsewhere."""
    simulation = pooled(
        deployment(), BUDGET, pool={"capacityTypes": ["spot"]}, duration="40m",
        provider={"spot": {"interruptionsPerHour": 12, "notice": "20s"}}, sampling=EACH_SECOND,
    )  # fmt: skip
    played = play(tmp_path, simulation)
    machine = taken(played)[0]
    assert machine.ended is not None
    assert machine.disrupted == pytest.approx(machine.ended - 20)
    assert first(played).end == "NodeLost"
    assert ("Interruption", 0, "PodsLost") in supply(played, stopped=True)
    assert 40 <= left_behind(played, machine)[0] <= 56
    again = played.pods(WEB)[1]
    assert again.node not in {"", machine.node}
    loop = played.run.assembly.supply
    assert {state.name for state in loop.state.in_order()} == set(played.run.assembly.provider.machines)  # type: ignore[union-attr]


def test_a_group_replaces_what_was_taken(tmp_path: Path) -> None:
    """The autoscaler asked for three machines: three there are again, though one would do for its minimum."""
    web = deployment(replicas=3, resources={"requests": {"cpu": "3"}})
    pool: dict[str, Any] = {"capacityTypes": ["spot"], "min": 1, "initial": 3}
    provider = {"spot": {"interruptionsPerHour": 3, "notice": "30s"}}
    played = play(tmp_path, pooled(web, engine="clusterAutoscaler", pool=pool, duration="40m", provider=provider))
    lost = taken(played)
    assert lost
    replaced = [row for row in played.rows(SupplyRecord) if row.reason == "Replaced"]
    assert [(row.nodes, row.message) for row in replaced] == [(1, row.node) for row in lost]
    asked = sorted(row.requested for row in played.rows(NodeRecord) if row.began == "ScaleUp")
    for row in replaced:
        assert row.seconds in asked


def test_a_group_does_not_replace_what_the_autoscaler_gave_back_meanwhile(tmp_path: Path) -> None:
    """Empty machines are deleted by name after ten minutes, which makes the group smaller."""
    pool = {"capacityTypes": ["spot"], "initial": 4}
    provider = {"spot": {"interruptionsPerHour": 2, "notice": "15m"}}
    played = play(
        tmp_path,
        pooled(deployment(replicas=0), engine="clusterAutoscaler", pool=pool, duration="50m", provider=provider),
    )
    given_back = [row for row in played.rows(NodeRecord) if row.end == "Interrupted" and row.ended is not None]
    notices = [row.seconds for row in played.rows(SupplyRecord) if row.reason == "SpotInterruption"]
    early = [row for row in given_back if all(abs(row.ended - at - 900) > 1 for at in notices)]  # type: ignore[operator]
    assert early
    replaced = {row.message for row in played.rows(SupplyRecord) if row.reason == "Replaced"}
    assert replaced.isdisjoint(row.node for row in early)


def test_a_fault_that_ends_does_not_bring_a_machine_back_that_was_taken(tmp_path: Path) -> None:
    """Its node falls silent before it is taken and would be heard again while it is still known."""
    simulation = pooled(
        deployment(), engine="clusterAutoscaler", settings=ALONE, pool=SPOT, duration="30m", provider=TAKEN,
        sampling=EACH_SECOND,
    )  # fmt: skip
    machine = taken(play(tmp_path / "calm", simulation))[0]
    assert machine.ended is not None
    end = round(machine.ended)
    simulation["spec"]["faults"] = [
        {"at": f"{end - 5}s", "duration": "25s", "nodeLost": {"nodePool": "general", "count": 1}}
    ]
    played = play(tmp_path / "fault", simulation)
    assert played.times("FaultSkipped") == [end + 20]
    known, _ = left_behind(played, taken(played)[0])
    assert 35 <= known <= 51, "it was silent 5 s before"
