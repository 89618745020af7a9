"""The HPA controller on the virtual cluster: when it syncs, how it writes, and that columns change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.small_world import START, make_pod
from autoscaling.hpa.builders import cpu, hpa, queue
from stowplan_autoscaling.cluster.api_server import ApiServer
from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.controllers.horizontal import HorizontalPodAutoscalers
from stowplan_autoscaling.cluster.errors import ConflictError, ForbiddenError
from stowplan_autoscaling.cluster.feed import ChangeFeed
from stowplan_autoscaling.cluster.informers import Informers
from stowplan_autoscaling.cluster.objects.apps import Deployment, DeploymentSpec
from stowplan_autoscaling.cluster.objects.autoscaling import HorizontalPodAutoscaler
from stowplan_autoscaling.cluster.pods import FALSE, PENDING, RUNNING, TRUE, ClusterPod
from stowplan_autoscaling.cluster.selector_index import SelectorIndex
from stowplan_autoscaling.cluster.work_queue import TokenBucket
from stowplan_autoscaling.cluster.workload_columns import WorkloadColumns
from stowplan_autoscaling.hpa import MetricsError, PodMetric
from stowplan_autoscaling.hpa.controller import Outcome
from stowplan_autoscaling.hpa.objects import (
    CrossVersionObjectReference,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
    Scale,
)
from stowplan_autoscaling.kernel import SECOND, Kernel
from stowplan_scheduler.objects import LabelSelector, PodStatus
from stowplan_scheduler.selectors import LabelQuery

KIND = "HorizontalPodAutoscaler"
WINDOW = 15 * SECOND


class HpaWorld:
    """Deployments that nobody acts on, pods and samples by hand; `log` has (seconds, name, proposal, scale)."""

    def __init__(self, *, with_columns: bool = True, workers: int = 5, limit: TokenBucket | None = None) -> None:
        self.kernel = Kernel(START)
        feed = ChangeFeed(self.kernel)
        self.server = ApiServer(self.kernel, feed)
        self.informers = Informers(("Pod", KIND))
        self.index = SelectorIndex(self.informers)
        self.columns = WorkloadColumns(self.informers, self.index) if with_columns else None
        self.samples: dict[str, dict[str, PodMetric]] = {"cpu": {}, "memory": {}}
        self.events: list[tuple[str, str]] = []
        self.log: list[tuple[float, str, int | None, int | None]] = []
        self.outcomes: list[tuple[int, str, Outcome]] = []
        client = Client(
            self.kernel,
            self.server,
            limit=limit,
            record=lambda kind, key, level, reason, text: self.events.append((reason, text)),
        )
        self.controller = HorizontalPodAutoscalers(
            self.kernel,
            self.informers,
            client,
            self.index.pods,
            self,
            workers=workers,
            observe=self._observe,
            columns=self.columns,
        )
        self.informers.start(self.server, feed)

    def _observe(self, one: HorizontalPodAutoscaler, scale: Scale | None, outcome: Outcome) -> None:
        self.log.append((round(self.kernel.elapsed, 3), one.metadata.name, outcome.proposal, outcome.scale_to))
        self.outcomes.append((self.kernel.now, one.metadata.name, outcome))

    # ---- the world -----------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.kernel.run(START + round(seconds * SECOND))

    def deploy(self, name: str = "web", replicas: int = 3, labels: dict[str, str] | None = None) -> None:
        selector = LabelSelector(match_labels=labels or {"app": name})
        made = Deployment(
            metadata=replace(make_pod(name).metadata), spec=DeploymentSpec(replicas=replicas, selector=selector)
        )
        self.server.create("Deployment", made)

    def autoscale(self, *metrics: MetricSpec, target: str = "web", kind: str = "Deployment", **options: Any) -> None:
        made = hpa(*metrics, **options)
        reference = CrossVersionObjectReference(api_version="apps/v1", kind=kind, name=target)
        spec = replace(made.spec, scale_target_ref=reference)
        self.server.create(KIND, HorizontalPodAutoscaler(metadata=made.metadata, spec=spec))

    def pods_ready(self, count: int, app: str = "web") -> None:
        for number in range(count):
            self.server.create("Pod", ready_pod(f"{app}-{number}", app))

    def publish(self, resource: str, values: Mapping[str, int], timestamp: int) -> None:
        self.samples[resource] = {name: PodMetric(timestamp, WINDOW, value) for name, value in values.items()}
        if resource == "cpu" and self.columns is not None:
            keys = [f"default/{name}" for name in values]
            self.columns.publish(keys, timestamp, WINDOW, np.array(list(values.values()), np.int64))

    def replicas(self, name: str = "web") -> int:
        found: int = self.server.get("Deployment", f"default/{name}").spec.replicas
        return found

    def stored(self, name: str = "web") -> HorizontalPodAutoscaler:
        found: HorizontalPodAutoscaler = self.server.get(KIND, f"default/{name}")
        return found

    def reason(self, type: str, name: str = "web") -> str:
        return next(one.reason for one in self.stored(name).status.conditions if one.type == type)

    def moments(self) -> list[float]:
        return [entry[0] for entry in self.log]

    # ---- metrics APIs --------------------------------------------------------------------------

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        found = {
            name: sample
            for name, sample in self.samples[resource].items()
            if (pod := self.server.find("Pod", f"{namespace}/{name}")) is not None
            and selector.matches(pod.metadata.labels)
        }
        if not found:
            raise MetricsError.nothing("resource")
        return found, now

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        raise MetricsError.unavailable("custom", "no answer")

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        raise MetricsError.unavailable("custom", "no answer")

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        return [12_000], now


def ready_pod(name: str, app: str) -> ClusterPod:
    """Running for an hour, one core."""
    return replace(
        make_pod(name, labels={"app": app}, requests={"cpu": "1", "memory": "1"}),
        status=PodStatus(phase=RUNNING),
        started=START - 3600 * SECOND,
        ready=TRUE,
        ready_since=START - 3600 * SECOND,
    )


def busy(used: int = 900, **options: Any) -> HpaWorld:
    """Three pods that use so many millicores each, with a target of 50 %."""
    world = HpaWorld(**options)
    world.deploy()
    world.pods_ready(3)
    world.publish("cpu", {f"web-{number}": used for number in range(3)}, START)
    return world


# ---- when --------------------------------------------------------------------------------------------------------


def test_it_syncs_when_an_autoscaler_appears_and_every_15_seconds() -> None:
    """90 % of a target of 50 %: ceil(1.8 x 3) = 6 at once. Then 3 pods with samples at 90 % still ask for 6."""
    world = busy()
    world.run(7)
    world.autoscale(cpu(50))
    world.run(60)
    assert world.log == [(7, "web", 6, 6), (22, "web", 6, None), (37, "web", 6, None), (52, "web", 6, None)]
    assert world.replicas() == 6
    assert world.events[0] == (
        "SuccessfulRescale",
        "New size: 6; reason: cpu resource utilization (percentage of request) above target",
    )


def test_a_new_spec_is_synced_at_once_and_does_not_shift_the_phase() -> None:
    """As seen with the real controller: 45, 52, 60, 75 s."""
    world = busy()
    world.autoscale(cpu(50), most=5)
    world.run(52)
    stored = world.stored()
    world.server.update(KIND, replace(stored, spec=replace(stored.spec, max_replicas=9)))
    world.run(80)
    assert world.moments() == [0, 15, 30, 45, 52, 60, 75]
    assert world.replicas() == 6


def test_an_autoscaler_that_is_gone_is_not_synced_any_more() -> None:
    """One of the same name later begins at once, with no memory of the first."""
    world = busy()
    world.autoscale(cpu(50))
    world.run(20)
    world.server.remove(KIND, "default/web")
    world.run(60)
    assert world.moments() == [0, 15]
    world.autoscale(cpu(50), most=4)
    world.run(61)
    assert world.log[2:] == [(60, "web", None, 4)]


@pytest.mark.parametrize("with_columns", [True, False])
def test_a_new_target_is_looked_up(*, with_columns: bool) -> None:
    """Both for its scale and for its pods."""
    world = busy(with_columns=with_columns)
    world.deploy("db", replicas=2)
    world.pods_ready(2, "db")
    world.publish("cpu", {**{f"web-{number}": 500 for number in range(3)}, "db-0": 900, "db-1": 900}, START)
    world.autoscale(cpu(50))
    world.run(20)
    stored = world.stored()
    reference = replace(stored.spec.scale_target_ref, name="db")
    world.server.update(KIND, replace(stored, spec=replace(stored.spec, scale_target_ref=reference)))
    world.run(25)
    assert world.log == [(0, "web", 3, None), (15, "web", 3, None), (20, "web", 4, 4)]
    assert (world.replicas(), world.replicas("db")) == (3, 4)


@pytest.mark.parametrize("with_columns", [True, False])
def test_a_target_that_is_made_anew_has_other_pods(*, with_columns: bool) -> None:
    """A selector cannot change; but a Deployment of the same name may come with another one."""
    world = busy(used=500, with_columns=with_columns)
    world.autoscale(cpu(50))
    world.run(20)
    world.server.remove("Deployment", "default/web")
    world.deploy("web", labels={"app": "new"})
    world.pods_ready(3, "new")
    world.run(21)
    world.publish("cpu", {f"new-{number}": 900 for number in range(3)}, START)
    world.run(40)
    assert world.log == [(0, "web", 3, None), (15, "web", 3, None), (30, "web", 6, 6)]


def test_reads_and_writes_wait_for_their_turn() -> None:
    """One request a second. At 0 s: one reads; its status is the second request, the other's read the third.

    Later, in syncs that repeat the one before but for a number, the status waits just so.
    """
    world = busy(used=500, limit=TokenBucket(1.0, 1))
    world.deploy("db")
    world.pods_ready(3, "db")
    world.publish("cpu", {f"{app}-{number}": 500 for app in ("web", "db") for number in range(3)}, START)
    world.autoscale(cpu(50))
    world.autoscale(cpu(50), name="db", target="db")
    world.run(25)
    world.publish("cpu", {f"{app}-{number}": 510 for app in ("web", "db") for number in range(3)}, START + 25 * SECOND)
    world.run(40)
    assert [entry[:2] for entry in world.log] == [
        (1, "web"),
        (3, "db"),
        (16, "web"),
        (18, "db"),
        (32, "web"),
        (34, "db"),
    ]
    written = world.stored().status.current_metrics[0].resource
    assert written is not None
    assert written.current.average_value == 510


# ---- writes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("conflicts", "moment", "written"), [(1, 0.01, True), (4, 0.04, True), (5, 0.04, False)])
def test_a_conflict_of_the_scale_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, conflicts: int, moment: float, written: bool
) -> None:
    """Five tries, 10 ms apart; then the sync fails, and the next one is 15 s later."""
    world = busy()
    scale, calls = world.server.scale, []

    def refuse(kind: str, key: str, replicas: int) -> Any:
        calls.append(world.kernel.elapsed)
        if len(calls) <= conflicts:
            raise ConflictError("modified")
        return scale(kind, key, replicas)

    monkeypatch.setattr(world.server, "scale", refuse)
    world.autoscale(cpu(50))
    world.run(1)
    assert len(calls) == min(conflicts + 1, 5)
    assert world.moments() == [moment]
    assert (world.replicas() == 6) is written
    assert world.reason("AbleToScale") == ("SucceededRescale" if written else "FailedUpdateScale")
    if not written:
        assert world.events[0][0] == "FailedRescale"
        assert world.events[0][1].endswith("error: modified")


def test_another_refusal_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An admission webhook may forbid the scale."""
    world = busy()

    def refuse(kind: str, key: str, replicas: int) -> Any:
        raise ForbiddenError("not today")

    monkeypatch.setattr(world.server, "scale", refuse)
    world.autoscale(cpu(50))
    world.run(1)
    assert world.moments() == [0]
    assert world.reason("AbleToScale") == "FailedUpdateScale"
    assert world.replicas() == 3


def test_a_status_that_cannot_be_written_is_an_event() -> None:
    """The autoscaler has been changed since it was read, here by the user while the scale was written."""
    world = busy()
    world.autoscale(cpu(50))

    def meddle(kind: str, old: Any, new: Any) -> None:
        if kind == "Deployment":
            stored = world.stored()
            world.server.update(KIND, replace(stored, spec=replace(stored.spec, max_replicas=8)))

    world.server.observers.append(meddle)
    world.run(0.5)
    reasons = [reason for reason, _ in world.events]
    assert "FailedUpdateStatus" in reasons
    assert world.stored().status.desired_replicas == 6, "the new generation is synced at once"


# ---- targets -----------------------------------------------------------------------------------------------------


def test_a_target_that_is_missing_or_of_no_scalable_kind_is_reported() -> None:
    """The texts are those of the scale client."""
    world = HpaWorld()
    world.autoscale(cpu(50), target="nobody", name="a")
    world.autoscale(cpu(50), kind="DaemonSet", name="b")
    world.run(1)
    assert world.reason("AbleToScale", "a") == world.reason("AbleToScale", "b") == "FailedGetScale"
    assert ("FailedGetScale", 'deployments.apps "nobody" not found') in world.events
    assert ("FailedGetScale", 'no matches for kind "DaemonSet"') in world.events


def test_a_target_that_is_scaled_to_zero_is_left_alone() -> None:
    """Somebody has switched it off."""
    world = busy()
    world.server.scale("Deployment", "default/web", 0)
    world.autoscale(cpu(50))
    world.run(1)
    assert world.reason("ScalingActive") == "ScalingDisabled"
    assert world.log == [(0, "web", None, None)]


def test_two_autoscalers_of_one_target_are_both_refused() -> None:
    """From the moment when both have been synced once; the first sync of the first one still acts."""
    for with_columns in (True, False):
        world = busy(with_columns=with_columns)
        world.autoscale(cpu(50), name="a")
        world.autoscale(cpu(50), name="b")
        world.run(20)
        assert [entry[2] for entry in world.log] == [6, None, None, None]
        assert world.reason("ScalingActive", "a") == world.reason("ScalingActive", "b") == "AmbiguousSelector"
        world.server.remove(KIND, "default/b")
        world.run(40)
        assert world.log[-1][:3] == (30, "a", 6)


def test_the_plain_case_looks_at_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns would be of no use if the sync listed pods all the same. Only samples that were published before the
    workload was known are asked for.
    """
    world = busy()
    world.autoscale(cpu(50))
    world.run(1)
    monkeypatch.setattr(world.controller, "_pods", None)
    monkeypatch.setattr(world.controller, "_metrics", None)
    world.publish("cpu", {f"web-{number}": 300 for number in range(3)}, START + SECOND)
    world.run(40)
    assert world.log == [(0, "web", 6, 6), (15, "web", 2, None), (30, "web", 2, None)]


# ---- with and without columns --------------------------------------------------------------------------------------

METRICS = (
    (cpu(50),),
    (cpu(50),),
    (cpu(80),),
    (
        MetricSpec(
            type="Resource",
            resource=ResourceMetricSource(name="cpu", target=MetricTarget(type="AverageValue", average_value="400m")),
        ),
    ),
    (
        MetricSpec(
            type="Resource",
            resource=ResourceMetricSource(
                name="memory", target=MetricTarget(type="Utilization", average_utilization=60)
            ),
        ),
    ),
    (cpu(50), queue("3")),
)
SELECTORS = ({"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"})


class History:
    """A random history, played by its seed; the same seed does the same in every world."""

    def __init__(self, seed: int, *, with_columns: bool) -> None:
        self.random = Random(seed)
        self.world = HpaWorld(with_columns=with_columns, workers=1)
        self.made = 0
        for name, labels in zip(("web", "db", "front"), SELECTORS, strict=True):
            self.world.deploy(name, self.random.randint(0, 5), labels)

    def play(self, steps: int) -> None:
        moment = 0.0
        for _ in range(steps):
            self.step(moment)
            moment += self.random.choice([0.5, 3, 7.5, 15])
            self.world.run(moment)

    def step(self, moment: float) -> None:
        random, world = self.random, self.world
        pods = list(world.server.all("Pod").values())
        what = random.choice(["hpa", "pod", "pod", "pod", "change", "remove", "publish", "publish", "edit", "drop"])
        if what == "hpa":
            self.made += 1
            target = random.choice(["web", "web", "db", "front"])
            world.autoscale(*random.choice(METRICS), target=target, name=f"hpa-{self.made}", least=1, most=12)
        elif what == "pod":
            for _ in range(random.randint(1, 3)):
                self.made += 1
                world.server.create("Pod", self.pod(f"p{self.made}"))
        elif what == "change" and pods:
            held = random.choice(pods)
            world.server.put("Pod", replace(self.pod(held.metadata.name), metadata=held.metadata))
        elif what == "remove" and pods:
            held = random.choice(pods)
            world.server.remove("Pod", held.key)
            if world.columns is not None:
                world.columns.forget_sample(held.key)
        elif what == "publish":
            self.publish(pods, START + round(moment) * SECOND)
        elif what == "edit":
            name = random.choice(["web", "db", "front"])
            world.server.scale("Deployment", f"default/{name}", random.randint(0, 6))
        elif what == "drop" and world.server.all(KIND):
            world.server.remove(KIND, random.choice(list(world.server.all(KIND))))

    def pod(self, name: str) -> ClusterPod:
        random = self.random
        pod = ready_pod(name, random.choice(["web", "web", "db"]))
        if random.random() < 0.15:
            pod = replace(pod, metadata=replace(pod.metadata, labels={"app": "web", "tier": "front"}))
        if random.random() < 0.3:
            age = random.choice([0, 20, 200, 400])
            pod = replace(pod, started=self.world.kernel.now - age * SECOND, ready_since=self.world.kernel.now)
        if random.random() < 0.2:
            pod = replace(pod, ready=FALSE)
        if random.random() < 0.15:
            pod = replace(pod, status=PodStatus(phase=PENDING), ready="", started=None)
        return pod

    def publish(self, pods: Sequence[ClusterPod], timestamp: int) -> None:
        for resource in ("cpu", "memory"):
            level = self.random.choice([100, 480, 520, 900])
            values = {
                pod.metadata.name: level + self.random.randint(0, 80)
                for pod in pods
                if pod.status.phase == RUNNING and self.random.random() < 0.9
            }
            self.world.publish(resource, values, timestamp)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_columns_change_nothing(seed: int) -> None:
    """Autoscalers of all kinds, alone and as rivals, over workloads that overlap: every outcome is that of a world
    without columns.
    """
    worlds = []
    for with_columns in (True, False):
        history = History(seed, with_columns=with_columns)
        history.play(25)
        worlds.append(history.world)
    assert worlds[0].outcomes == worlds[1].outcomes
    assert worlds[0].events == worlds[1].events
    assert worlds[0].server.objects == worlds[1].server.objects
