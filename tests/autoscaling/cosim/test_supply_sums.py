"""What must add up in any run with pools: random small ones, with interruptions, failures, faults and stock-outs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoscaling.cosim.scenes import Played, deployment, hpa, play, steps, visits
from autoscaling.cosim.test_supply import pooled
from stowplan_autoscaling.results import NodeRecord, PodRecord, PoolSample

SEEDS = range(10)


class Draws:
    """Choices of a scene."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def one(self, *choices: Any) -> Any:
        """One of them."""
        return choices[int(self._rng.integers(len(choices)))]

    def often(self) -> bool:
        """In half of the scenes."""
        return bool(self.one(True, False))


def random_scene(seed: int) -> dict[str, Any]:
    """A quarter of an hour of one pool."""
    draw = Draws(seed)
    engine = ("karpenter", "clusterAutoscaler")[seed % 2]
    objects, demand = [deployment(replicas=draw.one(1, 3, 6))], []
    if draw.often():
        objects.append(hpa(most=12))
        demand.append(visits(steps(("0s", 50), ("3m", draw.one(200, 900)), ("9m", 20))))
    if draw.often():
        agent = deployment("agent", resources={"requests": {"cpu": "100m", "memory": "64Mi"}})
        agent["kind"] = "DaemonSet"
        del agent["spec"]["replicas"]
        objects.append(agent)
    zones = draw.one([], ["a"], ["a", "b"])
    pool = {"initial": draw.one(0, 1, 3), "capacityTypes": [draw.one("spot", "on-demand")], "zones": zones}
    settings = {}
    if engine == "karpenter":
        pool["disruption"] = {
            "expireAfter": draw.one("720h", "3m"),
            "consolidateAfter": draw.one("0s", "1m"),
            "budgets": [{"nodes": draw.one("10%", "100%")}],
        }
    else:
        settings = {"scaleDownUnneededTime": "1m", "scaleDownDelayAfterAdd": "30s", "maxNodeProvisionTime": "4m"}
    fault = {"at": draw.one("25s", "4m"), "duration": draw.one("20s", "3m"), "nodeLost": {"nodePool": "general"}}
    provider = {
        "request": draw.one("0s", "2s", "10s"),
        "shutdown": draw.one("0s", "30s"),
        "failures": draw.one(0, "0.3"),
        "spot": {"interruptionsPerHour": draw.one(0, 30), "notice": draw.one("10s", "2m")},
        "stockOuts": draw.one([], [{"at": "2m", "duration": "3m"}]),
    }
    return pooled(
        *objects, engine=engine, settings=settings, pool=pool, duration="14m", demand=demand, provider=provider,
        faults=[fault] if draw.often() else [], settle=draw.one("0s", "2m"),
    )  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_what_results_say_of_pools_adds_up(seed: int, tmp_path: Path) -> None:
    played = play(tmp_path, random_scene(seed))
    assert played.rows(NodeRecord)
    waits_add_up(played)
    machines_add_up(played)
    samples_add_up(played)


def waits_add_up(played: Played) -> None:
    """The parts of a wait follow each other from the change of demand to readiness, or to the end without it."""
    for pod in played.rows(PodRecord):
        end = pod.ready if pod.ready is not None else played.report.reached if pod.ended is None else pod.ended
        before = pod.waiting.metric + pod.waiting.autoscaler + pod.waiting.controller
        assert min(pod.waiting) >= 0
        assert sum(pod.waiting) == pytest.approx(before + max(end - pod.created, 0), abs=1e-6)


def machines_add_up(played: Played) -> None:
    """A machine's times are in order, and the cost is that of the time from its launch on, at least a minute's."""
    until, cost = played.report.reached, 0.0
    rows = played.rows(NodeRecord)
    assert len({row.node for row in rows}) == len(rows)
    for row in rows:
        times = [row.requested, row.launched, row.registered, row.ready, row.ended]
        come = [time for time in times if time is not None]
        assert come == sorted(come)
        if row.launched is not None:
            end = until if row.ended is None else row.ended
            minimum = 0.0 if row.began == "Initial" else 60 + min(row.launched, 0.0)
            cost += row.price / 3600 * max(end - max(row.launched, 0.0), minimum)
    total = 0.0 if played.report.cost is None else played.report.cost.total
    assert total == pytest.approx(cost, abs=1e-5)


def samples_add_up(played: Played) -> None:
    """No machine is counted twice, and each that is there is paid for."""
    rows, compared = played.rows(NodeRecord), 0
    for sample in played.rows(PoolSample):
        if sample.pool != "general":
            continue
        assert min(sample[2:]) >= 0
        at = sample.seconds
        known = [row for row in rows if row.requested <= at and (row.ended is None or row.ended >= at)]
        assert sample.ready + sample.starting + sample.leaving <= len(known)
        if not any(at in {row.launched, row.ended} for row in rows):
            paid = sum(row.price for row in known if row.launched is not None and row.launched < at)
            assert sample.cost == pytest.approx(paid)
            compared += 1
    assert compared > 0
