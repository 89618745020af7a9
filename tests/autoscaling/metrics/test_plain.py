"""The metrics server of the comparison with the real controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.hpa.metrics import MetricsError, PodMetric
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_autoscaling.metrics import ContainerShare, PlainConfig, PlainMetricsServer, PodIndex
from stowplan_autoscaling.metrics.plain import share_of
from stowplan_scheduler.objects import Container, ObjectMeta, PodSpec
from stowplan_scheduler.selectors import EVERYTHING


class Clock:
    """Every pod uses as many millicores as seconds have passed."""

    def measure(self, pod_uids: Sequence[str], now: int) -> tuple[Sequence[int], Sequence[int]]:
        return [now // SECOND] * len(pod_uids), [5000] * len(pod_uids)


class World:
    def __init__(self, **config: Any) -> None:
        self.index = PodIndex()
        self.server = PlainMetricsServer(PlainConfig(**config), usage=Clock(), index=self.index, start=0)

    def start(self, name: str, seconds: int, node: str = "n1") -> None:
        spec = PodSpec(node_name=node, containers=(Container(name="app", image="app"),))
        pod = ClusterPod(metadata=ObjectMeta(name=name, namespace="default", uid=name), spec=spec)
        self.index.add(pod)
        self.server.pod_started(pod, seconds * SECOND)

    def at(self, seconds: float) -> dict[str, PodMetric]:
        self.server.advance(int(seconds * SECOND))
        try:
            return dict(self.server.resource("cpu", "default", EVERYTHING, None, int(seconds * SECOND))[0])
        except MetricsError:
            return {}


def test_measured_at_phase_and_interval_and_published_after_the_delay() -> None:
    """Every 15 s from 5 s on, 2 s late: at 21.9 s there is the measurement of 5 s, at 22 s that of 20 s."""
    world = World(interval=15 * SECOND, phase=5 * SECOND, delay=2 * SECOND, window=30 * SECOND)
    world.start("a", 0)
    assert world.at(6.9) == {}
    assert world.at(7) == {"a": PodMetric(5 * SECOND, 30 * SECOND, 5)}
    assert world.at(21.9)["a"].value == 5
    assert world.at(22) == {"a": PodMetric(20 * SECOND, 30 * SECOND, 20)}


def test_a_measurement_can_be_taken_just_before_its_time() -> None:
    """Half a millisecond early, stamped with the nominal time."""
    world = World(interval=15 * SECOND, early=MILLISECOND // 2)
    world.start("a", 0)
    assert world.server.next_event() == -MILLISECOND // 2
    assert world.at(14.9996)["a"] == PodMetric(15 * SECOND, 15 * SECOND, 14)


def test_young_pods_and_pods_on_absent_nodes_are_left_out() -> None:
    """Warm-up 10 s: at 15 s the pod of 6 s is too young. A lost node's pods vanish with the next measurement."""
    world = World(interval=15 * SECOND, warmup=10 * SECOND)
    world.start("a", 0)
    world.start("b", 6)
    world.start("c", 0, "n2")
    assert set(world.at(15)) == {"a", "c"}
    world.server.node_lost("n2")
    assert set(world.at(29)) == {"a", "c"}
    assert set(world.at(30)) == {"a", "b"}
    world.server.node_added("n2")
    assert set(world.at(45)) == {"a", "b", "c"}


def test_interval_zero_measures_whenever_somebody_asks() -> None:
    """The values are those of the moment."""
    world = World(interval=0)
    world.start("a", 0)
    assert world.server.next_event() is None
    assert [world.at(t)["a"].value for t in (1, 7)] == [1, 7]


def test_pods_that_are_gone_are_not_answered() -> None:
    """The sample is still there, the pod is not."""
    world = World(interval=15 * SECOND)
    world.start("a", 0)
    assert set(world.at(16)) == {"a"}
    world.index.remove("a")
    with pytest.raises(MetricsError, match="no metrics returned from resource metrics API"):
        world.server.resource("cpu", "default", EVERYTHING, None, 16 * SECOND)


def test_a_division_among_containers_loses_nothing() -> None:
    """7 units in thirds: 2, 2, and the last gets the rest."""
    shares = [ContainerShare(name, 1 / 3, 1 / 3) for name in "abc"]
    assert [share_of(7, name, shares, 0) for name in "abc"] == [2, 2, 3]
    assert share_of(7, "d", shares, 0) is None
