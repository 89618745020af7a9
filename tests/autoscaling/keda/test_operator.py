"""KEDA over time: polls, cool-down, pauses, and the HPA's questions."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_autoscaling.hpa.metrics import MetricsError
from stowplan_autoscaling.hpa.objects import ScaleError
from stowplan_autoscaling.inputs.errors import FieldError
from stowplan_autoscaling.keda import Event, ExternalTrigger, Keda, ScaledObject, TriggerReading, decode_scaled_object
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_scheduler.objects import LabelSelector

METRIC = "s0-redis-jobs"
SELECTOR = LabelSelector(match_labels={"scaledobject.keda.sh/name": "worker"})


def make(annotations: dict[str, str] | None = None, cached: bool = False, **spec: Any) -> ScaledObject:
    trigger = {"type": "redis", "metadata": {"listName": "jobs", "listLength": "10"}, "useCachedMetrics": cached}
    return decode_scaled_object(
        {
            "metadata": {"name": "worker", "namespace": "default", "annotations": annotations or {}},
            "spec": {"scaleTargetRef": {"name": "worker"}, "triggers": [trigger], **spec},
        }
    )


class World:
    """A target with so many replicas, a queue that is `queue` long, or fails where that is None."""

    def __init__(self, replicas: int = 0, queue: float | None = 0) -> None:
        self.count = replicas
        self.queue = queue
        self.readable = self.writable = True
        self.log: list[tuple[float, str]] = []
        self.events: list[Event] = []
        self.reads = 0
        self.keda = Keda(self, self.read, record=self.record)

    def read(self, scaled_object: ScaledObject, trigger: ExternalTrigger, now: int) -> TriggerReading:
        self.reads += 1
        return TriggerReading(error="refused") if self.queue is None else TriggerReading(self.queue)

    def record(self, scaled_object: ScaledObject, event: Event, now: int) -> None:
        self.events.append(event)

    def replicas(self, scaled_object: ScaledObject) -> int:
        if not self.readable:
            raise ScaleError("not found")
        return self.count

    def ready_replicas(self, scaled_object: ScaledObject) -> int:
        return self.count

    def scale(self, scaled_object: ScaledObject, replicas: int, now: int) -> None:
        if not self.writable:
            raise ScaleError("conflict")
        self.log.append((now // MILLISECOND / 1000, f"{self.count} -> {replicas}"))
        self.count = replicas

    def to(self, seconds: float) -> None:
        self.keda.advance(int(seconds * SECOND))

    def asked(self, seconds: float) -> list[int]:
        return list(self.keda.external(METRIC, "default", SELECTOR, int(seconds * SECOND))[0])

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]


def test_polls_are_as_far_apart_as_the_polling_interval() -> None:
    """The first a millisecond after the object; 30 s, or what it says."""
    world = World()
    world.keda.add(make(), 5 * SECOND)
    assert world.keda.next_event() == 5 * SECOND + MILLISECOND
    world.to(100)
    assert world.keda.polls == 4
    assert world.keda.next_event() == 125 * SECOND + MILLISECOND
    fast = World()
    fast.keda.add(make(pollingInterval=7), 0)
    fast.to(15)
    assert fast.keda.polls == 3


def test_a_day_of_a_worker() -> None:
    """Work from 40 s to 100 s: woken at 60 s, last active at 90 s, cooled down at the poll of 390 s."""
    world = World()
    world.keda.add(make(), 0)
    world.to(40)
    world.queue = 25
    world.to(70)
    world.count = 3  # the HPA
    world.to(100)
    world.queue = 0
    world.to(600)
    assert world.log == [(60.001, "0 -> 1"), (390.001, "3 -> 0")]
    assert world.reasons() == [
        "ScaledObjectReady",
        "KEDAScalersStarted",
        "KEDAScaleTargetActivated",
        "KEDAScaleTargetDeactivated",
    ]


def test_the_hpa_reads_the_source_anew() -> None:
    """Between polls, in milli units; the answer is of now."""
    world = World(queue=5)
    world.keda.add(make(), 0)
    world.to(1)
    world.queue = 7.5
    assert world.keda.external(METRIC, "default", SELECTOR, 12 * SECOND + 5) == ([7500], 12 * SECOND)


def test_cached_metrics_are_those_of_the_last_poll() -> None:
    """The source is read by polls only."""
    world = World(replicas=1, queue=5)
    world.keda.add(make(cached=True), 0)
    world.to(1)
    world.queue = 9
    assert world.asked(12) == [5000]
    assert world.reads == 1
    world.to(31)
    assert world.asked(32) == [9000]


def test_the_hpas_questions_count_as_failures_too() -> None:
    """Threshold 3: polls at 0 and 30 s and questions at 15 and 30 s are four; the fallback is on after 30 s."""
    world = World(replicas=2, queue=None)
    world.keda.add(make(fallback={"failureThreshold": 3, "replicas": 6}), 0)
    world.to(1)
    with pytest.raises(MetricsError) as caught:
        world.asked(15)
    assert str(caught.value) == (
        "unable to fetch metrics from external metrics API: rpc error: code = Unknown desc = "
        "error when getting metric values metric:s0-redis-jobs encountered error"
    )
    world.to(30.5)
    assert world.asked(30.6) == [60_000]
    assert world.keda.status("default", "worker").conditions["Fallback"].status == "True"
    world.queue = 4
    assert world.asked(45) == [4000]
    assert world.keda.status("default", "worker").conditions["Fallback"].status == "False"


def test_questions_that_keda_cannot_answer() -> None:
    """No label, no such object, no such trigger."""
    world = World()
    world.keda.add(make(), 0)
    with pytest.raises(MetricsError, match=r"scaledObject name is not specified$"):
        world.keda.external(METRIC, "default", None, 0)
    with pytest.raises(MetricsError, match=r'error getting scalers ScaledObject\.keda\.sh "worker" not found$'):
        world.keda.external(METRIC, "other", SELECTOR, 0)
    with pytest.raises(MetricsError, match=r"no matching metrics found for s1-redis-jobs$"):
        world.keda.external("s1-redis-jobs", "default", SELECTOR, 0)


def test_a_write_that_fails_is_tried_again_at_the_next_poll() -> None:
    """With an event each time."""
    world = World(queue=3)
    world.writable = False
    world.keda.add(make(), 0)
    world.to(40)
    world.writable = True
    world.to(70)
    assert world.log == [(60.001, "0 -> 1")]
    assert world.reasons().count("KEDAScaleTargetActivationFailed") == 2


def test_a_target_that_cannot_be_read_makes_the_object_not_ready() -> None:
    """Nothing else happens in that poll."""
    world = World(queue=3)
    world.readable = False
    world.keda.add(make(), 0)
    world.to(1)
    assert world.keda.status("default", "worker").conditions["Ready"].reason == "ErrorGettingCurrentReplicas"
    assert world.reads == 0
    world.readable = True
    world.to(31)
    assert world.keda.status("default", "worker").conditions["Ready"].status == "True"
    assert world.log == [(30.001, "0 -> 1")]


def test_a_paused_object_has_no_hpa_and_no_loop() -> None:
    """With a number of replicas the target is scaled to it once; without the annotation the loop begins again."""
    world = World(replicas=1, queue=3)
    assert world.keda.add(make(), 0) is not None
    assert world.keda.add(make({"autoscaling.keda.sh/paused-replicas": "4"}), 10 * SECOND) is None
    assert world.keda.next_event() is None
    assert world.log == [(10.0, "1 -> 4")]
    assert world.keda.add(make(), 50 * SECOND) is not None
    assert world.keda.next_event() == 50 * SECOND + MILLISECOND
    assert [r for r in world.reasons() if "Paused" in r or "Unpaused" in r] == [
        "ScaledObjectPaused",
        "ScaledObjectUnpaused",
    ]
    assert world.keda.status("default", "worker").created == 0


def test_a_deleted_object_can_give_the_first_replicas_back() -> None:
    """restoreToOriginalReplicaCount: those when KEDA came."""
    world = World(replicas=3)
    world.keda.add(make(advanced={"restoreToOriginalReplicaCount": True}), 0)
    world.to(1)
    world.keda.remove("default", "worker", 2 * SECOND)
    assert world.log == [(0.001, "3 -> 0"), (2.0, "0 -> 3")]
    assert world.keda.next_event() is None


def test_an_object_that_is_not_allowed_is_refused_before_anything_happens() -> None:
    """The check is part of adding."""
    world = World()
    with pytest.raises(FieldError, match=r"spec\.minReplicaCount"):
        world.keda.add(make(minReplicaCount=5, maxReplicaCount=4), 0)
    assert world.keda.next_event() is None
