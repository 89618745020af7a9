"""One poll: KEDA's table of decisions. Times in seconds since creation at 0."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.keda import (
    Decision,
    Event,
    Fallback,
    PollState,
    ScaledObject,
    ScaledObjectSpec,
    ScaledObjectStatus,
    ScaleTarget,
    ScaleTrigger,
    TriggerReading,
    check_scaled_object,
    poll,
)
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import ObjectMeta

BROKEN = TriggerReading(error="connection refused")
CPU = ScaleTrigger(type="cpu", metric_type="Utilization", metadata={"value": "60"})


def queue(activation: str = "0", **more: Any) -> ScaleTrigger:
    return ScaleTrigger(
        type="redis", metadata={"listName": "jobs", "listLength": "10", "activationListLength": activation}, **more
    )


def make(*triggers: ScaleTrigger, annotations: dict[str, str] | None = None, **spec: Any) -> ScaledObject:
    meta = ObjectMeta(name="worker", namespace="default", annotations=annotations or {})
    target = ScaleTarget(name="worker")
    return ScaledObject(
        metadata=meta, spec=ScaledObjectSpec(scale_target_ref=target, triggers=triggers or (queue(),), **spec)
    )


def decide(
    scaled_object: ScaledObject,
    replicas: int,
    *values: float | TriggerReading,
    now: float = 1000,
    last_active: float | None = None,
    failures: dict[str, int] | None = None,
    ready: int = 0,
) -> Decision:
    status = ScaledObjectStatus(
        created=0,
        last_active=None if last_active is None else int(last_active * SECOND),
        failures=failures or {},
    )
    state = PollState(
        scaled_object=scaled_object,
        triggers=check_scaled_object(scaled_object),
        status=status,
        replicas=replicas,
        ready_replicas=ready,
    )
    readings = [v if isinstance(v, TriggerReading) else TriggerReading(v) for v in values]
    return poll(state, readings, int(now * SECOND))


def reasons(decision: Decision) -> dict[str, str]:
    return {kind: condition.reason for kind, condition in decision.done.status.conditions.items() if condition.reason}


def test_work_wakes_a_sleeping_target() -> None:
    """0 to 1; the event names the metric; activity is remembered in whole seconds."""
    found = decide(make(), 0, 1, now=1000.7)
    assert found.scale_to == 1
    assert found.done.status.last_active == 1000 * SECOND
    assert found.done.events == (
        Event(
            "Normal",
            "KEDAScaleTargetActivated",
            "Scaled apps/v1.Deployment default/worker from 0 to 1, triggered by s0-redis-jobs",
        ),
    )
    assert reasons(found) == {"Ready": "ScaledObjectReady", "Active": "ScalerActive"}


def test_a_scale_that_is_refused_leaves_no_trace_of_activity() -> None:
    """The event says so, the next poll tries again."""
    refused = decide(make(), 0, 1).refused
    assert refused.status.last_active is None
    assert refused.events[0].reason == "KEDAScaleTargetActivationFailed"
    assert refused.events[0].message == "Failed to scale apps/v1.Deployment default/worker from 0 to 1"


@pytest.mark.parametrize(("value", "woken"), [(5, False), (5.1, True)])
def test_activity_begins_above_the_activation_threshold(value: float, woken: bool) -> None:
    """Not at it."""
    assert (decide(make(queue("5")), 0, value).scale_to == 1) is woken


def test_it_wakes_to_the_minimum() -> None:
    """From 0 to minReplicaCount; with an idle count from there, too, but not from the minimum on."""
    assert decide(make(min_replica_count=3), 0, 1).scale_to == 3
    idle = make(min_replica_count=3, idle_replica_count=1)
    assert decide(idle, 1, 1).scale_to == 3
    assert decide(idle, 2, 1).scale_to == 3
    assert decide(idle, 3, 1).scale_to is None
    assert decide(make(min_replica_count=3), 2, 1).scale_to is None


def test_an_awake_target_is_left_to_the_hpa() -> None:
    """Only the time of activity moves."""
    found = decide(make(), 4, 1)
    assert found.scale_to is None
    assert found.done.status.last_active == 1000 * SECOND
    assert found.done.events == ()


def test_it_sleeps_straight_from_many_once_cooled_down() -> None:
    """kedacore/keda#7770: 5 replicas, idle for more than 300 s: 0 at once, whatever the HPA's policies say."""
    found = decide(make(), 5, 0, now=1000, last_active=699)
    assert found.scale_to == 0
    assert found.done.events == (
        Event("Normal", "KEDAScaleTargetDeactivated", "Deactivated apps/v1.Deployment default/worker from 5 to 0"),
    )
    assert reasons(found)["Active"] == "ScalerNotActive"
    assert found.refused.events[0].reason == "KEDAScaleTargetDeactivationFailed"


def test_the_cool_down_has_to_be_over() -> None:
    """lastActive + 300 s < now, strictly."""
    found = decide(make(), 5, 0, now=1000, last_active=700)
    assert found.scale_to is None
    assert reasons(found)["Active"] == "ScalerCooldown"
    assert decide(make(), 5, 0, now=1000.001, last_active=700).scale_to == 0


def test_the_cool_down_is_only_about_the_last_step() -> None:
    """kedacore/keda#737: with a minimum of 1 KEDA never scales down, however short the cool-down is."""
    found = decide(make(min_replica_count=1, cooldown_period=1), 5, 0, last_active=10)
    assert found.scale_to is None
    assert reasons(found)["Active"] == "ScalerNotActive"


def test_a_slow_scale_down_policy_does_not_slow_the_last_step() -> None:
    """kedacore/keda#7204: the HPA may be on its way from 50 with one pod a minute; at 47 the cool-down ends: 0."""
    assert decide(make(), 47, 0, now=1000, last_active=690).scale_to == 0


def test_without_activity_only_the_initial_cool_down_counts() -> None:
    """A target that somebody else scaled up is put to sleep at the first poll, unless the object is new."""
    assert decide(make(), 3, 0, now=1).scale_to == 0
    fresh = make(initial_cooldown_period=120)
    found = decide(fresh, 3, 0, now=120)
    assert found.scale_to is None
    assert reasons(found)["Active"] == "ScalerCooldown"
    assert decide(fresh, 3, 0, now=120.5).scale_to == 0


def test_idle_zero_with_minimum_two() -> None:
    """kedacore/keda#1958: asleep at 0, awake at 2 or more, never at 1."""
    both = make(idle_replica_count=0, min_replica_count=2)
    assert decide(both, 0, 1).scale_to == 2
    assert decide(both, 2, 0, last_active=100).scale_to == 0
    assert decide(both, 9, 0, last_active=100).scale_to == 0
    assert decide(both, 0, 0).scale_to is None


def test_an_idle_count_above_zero_flaps_against_the_hpa() -> None:
    """kedacore/keda#2314: KEDA goes to 1, the HPA's minimum is 2 and raises it again; every poll the same."""
    scaled_object = make(idle_replica_count=1, min_replica_count=2)
    replicas, seen = 2, []
    for now in range(1000, 1120, 30):
        decided = decide(scaled_object, replicas, 0, now=now, last_active=100).scale_to
        replicas = replicas if decided is None else decided
        seen.append(replicas)
        replicas = max(replicas, scaled_object.hpa_min_replicas)  # what the HPA does below its minimum
    assert seen == [1, 1, 1, 1]


def test_below_the_minimum_it_is_lifted_without_an_event() -> None:
    """Inactive, without an idle count."""
    found = decide(make(min_replica_count=3), 1, 0)
    assert found.scale_to == 3
    assert found.done.events == ()


def test_a_failing_trigger_keeps_an_inactive_target_where_it_is() -> None:
    """Not to zero: nobody knows whether there is work."""
    found = decide(make(), 5, BROKEN, last_active=100)
    assert found.scale_to is None
    assert reasons(found) == {"Ready": "TriggerError", "Active": "ScalerNotActive"}
    assert found.done.events == (Event("Warning", "KEDAScalerFailed", "connection refused"),)


def test_an_active_target_with_a_failing_trigger_is_not_remembered_as_active() -> None:
    """The two cases exclude each other in RequestScale, so the cool-down counts from the last poll without errors."""
    found = decide(make(queue(), queue()), 5, 1, BROKEN, last_active=100)
    assert found.scale_to is None
    assert found.done.status.last_active == 100 * SECOND
    assert reasons(found) == {"Ready": "PartialTriggerError", "Active": "ScalerActive"}
    assert decide(make(queue(), queue()), 0, 1, BROKEN).scale_to == 1


def test_any_trigger_wakes() -> None:
    """All that are active are named, in their order."""
    found = decide(make(queue(), queue(), queue()), 0, 3, 0, 2)
    assert found.scale_to == 1
    assert found.done.events[0].message.endswith("triggered by s0-redis-jobs;s2-redis-jobs")


def test_cpu_does_not_wake_or_keep_awake() -> None:
    """With an outside trigger beside it, cpu has no say; alone, the object counts as active always."""
    assert decide(make(queue(), CPU), 5, 0, last_active=100).scale_to == 0
    alone = decide(make(CPU, min_replica_count=1), 5)
    assert alone.active
    assert alone.done.status.last_active == 1000 * SECOND


# ---- fallback


def fallback(**more: Any) -> Fallback:
    return Fallback(**{"failure_threshold": 3, "replicas": 6, **more})


def test_a_fallback_begins_after_more_failures_than_the_threshold() -> None:
    """The third failure in a row is an error, the fourth gives target times replicas: 10 * 6."""
    scaled_object = make(fallback=fallback())
    third = decide(scaled_object, 5, BROKEN, failures={"s0-redis-jobs": 2}, last_active=100)
    assert third.error
    assert third.scale_to is None
    assert third.done.status.failures == {"s0-redis-jobs": 3}
    assert reasons(third)["Fallback"] == "NoFallbackFound"
    fourth = decide(scaled_object, 5, BROKEN, failures={"s0-redis-jobs": 3})
    assert fourth.measured["s0-redis-jobs"].value == 60_000
    assert fourth.active
    assert not fourth.error
    assert reasons(fourth)["Fallback"] == "FallbackExists"
    assert [event.reason for event in fourth.done.events] == ["ScaledObjectFallbackActivated"]


def test_a_fallback_wakes_a_sleeping_target() -> None:
    """It counts as activity; the HPA then goes on to the fallback's replicas."""
    assert decide(make(fallback=fallback()), 0, BROKEN, failures={"s0-redis-jobs": 3}).scale_to == 1


def test_a_success_forgives_all_failures() -> None:
    """The count begins again at 0."""
    found = decide(make(fallback=fallback()), 5, 1, failures={"s0-redis-jobs": 9})
    assert found.done.status.failures == {"s0-redis-jobs": 0}


def test_a_fallback_of_no_replicas_does_not_protect_from_sleep() -> None:
    """The guard asks for replicas other than 0, so an error with a cool-down that is over ends at zero."""
    found = decide(make(fallback=fallback(replicas=0)), 5, BROKEN, last_active=100)
    assert found.error
    assert found.scale_to == 0


@pytest.mark.parametrize(
    ("behavior", "replicas", "value"),
    [
        ("static", 9, 60_000),
        ("currentReplicas", 9, 90_000),
        ("currentReplicasIfHigher", 9, 90_000),
        ("currentReplicasIfHigher", 2, 60_000),
        ("currentReplicasIfLower", 9, 60_000),
        ("currentReplicasIfLower", 2, 20_000),
    ],
)
def test_behaviors_of_a_fallback(behavior: str, replicas: int, value: int) -> None:
    """Target 10 per replica."""
    scaled_object = make(fallback=fallback(behavior=behavior))
    found = decide(scaled_object, replicas, BROKEN, failures={"s0-redis-jobs": 3})
    assert found.measured["s0-redis-jobs"].value == value


def test_a_fallback_of_a_value_metric_is_divided_by_the_ready_pods() -> None:
    """The HPA multiplies by them: 10 * 6 / 4 = 15. Without a ready pod there is no such number."""
    scaled_object = make(queue(metric_type="Value"), fallback=fallback())
    assert (
        decide(scaled_object, 4, BROKEN, failures={"s0-redis-jobs": 3}, ready=4).measured["s0-redis-jobs"].value
        == 15_000
    )
    none = decide(scaled_object, 4, BROKEN, failures={"s0-redis-jobs": 3}, ready=0)
    assert none.measured["s0-redis-jobs"].error == "error performing fallback"


# ---- annotations


def test_a_paused_object_scales_nothing() -> None:
    """Whatever its triggers say."""
    found = decide(make(annotations={"autoscaling.keda.sh/paused": "true"}), 0, 5)
    assert found.scale_to is None
    assert reasons(found)["Paused"] == "ScaledObjectPaused"


def test_each_direction_can_be_paused() -> None:
    """Out: no waking. In: no sleep."""
    assert decide(make(annotations={"autoscaling.keda.sh/paused-scale-out": "true"}), 0, 5).scale_to is None
    asleep = decide(make(annotations={"autoscaling.keda.sh/paused-scale-in": "true"}), 5, 0, last_active=100)
    assert asleep.scale_to is None


def test_activation_can_be_forced() -> None:
    """Without work; the event says why."""
    found = decide(make(annotations={"autoscaling.keda.sh/force-activation": "true"}), 0, 0)
    assert found.scale_to == 1
    assert found.done.events[0].message.endswith("from 0 to 1, caused by forced activation annotation")


# ---- properties


@given(
    replicas=st.integers(0, 20),
    least=st.integers(0, 5),
    idle=st.one_of(st.none(), st.integers(0, 4)),
    value=st.one_of(st.floats(0, 10), st.just(BROKEN)),
    last_active=st.one_of(st.none(), st.integers(0, 1000)),
    protected=st.booleans(),
)
def test_a_poll_only_wakes_puts_to_sleep_or_lifts_to_the_minimum(
    replicas: int,
    least: int,
    idle: int | None,
    value: float | TriggerReading,
    last_active: int | None,
    protected: bool,
) -> None:
    """It never chooses among numbers: that is the HPA's part. And a second poll right after it does nothing more."""
    if idle is not None and idle >= max(least, 0):
        idle = None
    scaled_object = make(min_replica_count=least, idle_replica_count=idle, fallback=fallback() if protected else None)
    found = decide(scaled_object, replicas, value, last_active=last_active)
    assert found.scale_to in {None, least, max(least, 1), least if idle is None else idle}
    assert found.scale_to != replicas
    if found.scale_to is not None and found.scale_to < replicas:
        assert not found.active
        assert found.scale_to == (least if idle is None else idle)
    if found.scale_to is not None:
        again = decide(scaled_object, found.scale_to, value, last_active=last_active)
        assert again.scale_to is None
