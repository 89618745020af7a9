"""One sync: decisions, conditions, events, errors."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autoscaling.hpa.builders import NOW, Story, World, behavior, cpu, hpa, policy, queue, rps, rules
from stowplan_autoscaling.hpa import HorizontalController, Scale, ScaleError
from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerSpec


def test_a_rescale_is_told_in_status_conditions_and_event() -> None:
    """75 % of a target of 50 % with 4 pods: 6."""
    story = Story(hpa(cpu(50)), World("RRRR").use(750, 750, 750, 750), 4)
    outcome = story.sync(0)
    assert (outcome.scale_to, outcome.proposal) == (6, 6)
    assert outcome.metric == "cpu resource utilization (percentage of request)"
    assert outcome.reason == f"{outcome.metric} above target"
    assert [(e.type, e.reason, e.message) for e in outcome.events] == [
        ("Normal", "SuccessfulRescale", f"New size: 6; reason: {outcome.reason}")
    ]
    status = outcome.status
    assert (status.current_replicas, status.desired_replicas, status.last_scale_time) == (4, 6, NOW)
    assert status.observed_generation == 1
    assert [(one.type, one.status, one.reason) for one in status.conditions] == [
        ("AbleToScale", "True", "SucceededRescale"),
        ("ScalingActive", "True", "ValidMetricFound"),
        ("ScalingLimited", "False", "DesiredWithinRange"),
        ("ScaledToZero", "False", "NotScaledToZero"),
    ]
    resource = status.current_metrics[0].resource
    assert resource is not None
    assert (resource.current.average_utilization, resource.current.average_value) == (75, 750)


def test_a_status_that_stays_is_not_written_again() -> None:
    """Writes cost the API server, and every write wakes the watchers."""
    story = Story(hpa(cpu(50)), World("RR").use(500, 500), 2)
    assert story.sync(0).changed
    assert not story.sync(15).changed


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    """The reason changes from ready to stabilised; the time, cut to whole seconds, does not."""
    story = Story(hpa(cpu(50)), World("RRRR").use(500, 500, 500, 500), 4)
    story.sync(0.7)
    story.world.use(100, 100, 100, 100)
    story.sync(15)
    assert story.condition("AbleToScale") == ("True", "ScaleDownStabilized")
    assert {one.last_transition_time for one in story.hpa.status.conditions} == {NOW}


def test_a_scale_down_waits_for_the_window() -> None:
    """The first sync counts what it finds as a recommendation; it is too old at 315 s, not yet at 300 s."""
    story = Story(hpa(cpu(50)), World("RRRR").use(100, 100, 100, 100), 4)
    assert [story.sync(t).scale_to for t in (0, 15, 300, 315)] == [None, None, None, 1]


@pytest.mark.parametrize(
    ("replicas", "wanted", "reason"),
    [
        (12, 10, "Current number of replicas above Spec.MaxReplicas"),
        (1, 2, "Current number of replicas below Spec.MinReplicas"),
    ],
)
def test_outside_the_bounds_nothing_else_is_asked(replicas: int, wanted: int, reason: str) -> None:
    """No metrics, no stabilisation, no policies; conditions about them stay as they were."""
    forbidding = behavior(rules(policy("Pods", 1), select="Disabled"), rules(policy("Pods", 1), select="Disabled"))
    outcome = Story(hpa(cpu(50), least=2, behavior=forbidding), World(), replicas).sync(0)
    assert (outcome.scale_to, outcome.reason, outcome.error, outcome.proposal) == (wanted, reason, "", None)
    assert {one.type for one in outcome.status.conditions} == {"AbleToScale", "ScaledToZero"}


def test_a_workload_that_others_stopped_stays_stopped() -> None:
    """The controller does not know why, and leaves it alone."""
    story = Story(hpa(cpu(50)), World(), 0)
    assert story.sync(0).scale_to is None
    assert story.condition("ScalingActive") == ("False", "ScalingDisabled")


def test_a_workload_that_the_controller_stopped_wakes_up() -> None:
    """Down to 0 with an empty queue, up again with a full one: 2.5 messages at 1 per pod are 3 pods."""
    story = Story(hpa(queue(), least=0), World("RR").wait("0"), 2)
    assert [story.sync(t).scale_to for t in (0, 315)] == [None, 0]
    assert story.condition("ScaledToZero") == ("True", "ScaledToZero")
    story.world.wait("2500m")
    outcome = story.sync(330)
    assert (outcome.scale_to, outcome.reason) == (3, "external metric q(nil) above target")
    assert story.condition("ScaledToZero") == ("False", "NotScaledToZero")


@pytest.mark.parametrize(
    ("rules_of_both", "reason"), [(None, ""), (behavior(), "Current number of replicas below Spec.MinReplicas")]
)
def test_a_raised_minimum_wakes_a_workload(rules_of_both: HorizontalPodAutoscalerBehavior | None, reason: str) -> None:
    """Even with an empty queue. Without behavior the limits do it, and no reason is given."""
    story = Story(hpa(queue(), least=0, behavior=rules_of_both), World("RR").wait("0"), 2)
    story.sync(0)
    story.sync(315)
    story.hpa = replace(story.hpa, spec=hpa(queue(), least=2, behavior=rules_of_both).spec)
    outcome = story.sync(330)
    assert (outcome.scale_to, outcome.reason) == (2, reason)


def test_the_largest_proposal_wins_and_is_named() -> None:
    """Cpu asks for 6, the queue for 8."""
    story = Story(hpa(cpu(50), queue()), World("RRRR").use(750, 750, 750, 750).wait("8"), 4)
    outcome = story.sync(0)
    assert (outcome.proposal, outcome.metric, outcome.scale_to) == (8, "external metric q(nil)", 8)


def test_with_a_metric_missing_the_others_scale_up_only() -> None:
    """Up to 6 with an error; down to 2 not at all."""
    story = Story(hpa(cpu(50), queue()), World("RRRR").use(750, 750, 750, 750), 4)
    outcome = story.sync(0)
    error = (
        "invalid metrics (1 invalid out of 2), first error is: failed to get q external metric value: failed to get q "
        "external metric: unable to get external metric default/q/nil: unable to fetch metrics from external metrics "
        "API: no answer"
    )
    assert (outcome.scale_to, outcome.error) == (6, error)
    assert [event.reason for event in outcome.events] == ["FailedGetExternalMetric", "SuccessfulRescale"]
    assert outcome.status.current_metrics[1].external is None
    story = Story(hpa(cpu(50), queue()), World("RRRR").use(250, 250, 250, 250), 4)
    outcome = story.sync(0)
    prefix = "failed to compute desired number of replicas based on listed metrics for Deployment/default/web: "
    assert (outcome.scale_to, outcome.error, outcome.proposal) == (None, prefix + error, None)
    assert story.condition("ScalingActive") == ("False", "FailedGetExternalMetric")
    assert [event.reason for event in outcome.events] == ["FailedGetExternalMetric", "FailedComputeMetricsReplicas"]


def test_the_first_of_several_failures_is_the_reason() -> None:
    """All of them emit an event."""
    story = Story(hpa(rps(), cpu(50)), World("R"), 1)
    outcome = story.sync(0)
    assert story.condition("ScalingActive") == ("False", "FailedGetPodsMetric")
    assert "(2 invalid out of 2), first error is: failed to get pods metric value" in outcome.error
    assert [event.reason for event in outcome.events] == [
        "FailedGetPodsMetric",
        "FailedGetResourceMetric",
        "FailedComputeMetricsReplicas",
    ]


def test_a_scale_that_cannot_be_read_changes_a_condition_only() -> None:
    """Numbers of replicas and metrics of the status stay what they were."""
    story = Story(hpa(cpu(50)), World("RR").use(500, 500), 2)
    before = story.sync(0).status
    outcome = story.sync(15, scale=ScaleError('deployments.apps "web" not found'))
    assert story.condition("AbleToScale") == ("False", "FailedGetScale")
    assert (
        outcome.error
        == 'failed to query scale subresource for Deployment/default/web: deployments.apps "web" not found'
    )
    assert outcome.status.current_metrics == before.current_metrics
    assert outcome.status.desired_replicas == before.desired_replicas


def test_a_failed_write_is_no_rescale() -> None:
    """No scale event is remembered, the desired number stays, and the next sync tries again."""
    one_a_minute = behavior(rules(policy("Pods", 1)))
    story = Story(hpa(cpu(50), behavior=one_a_minute), World("RR").use(900, 900), 2)
    outcome = story.sync(0, error="no luck")
    assert (outcome.scale_to, outcome.status.desired_replicas) == (None, 0)
    assert outcome.error == "failed to rescale Deployment/default/web: no luck"
    assert story.condition("AbleToScale") == ("False", "FailedUpdateScale")
    assert [event.reason for event in outcome.events] == ["FailedRescale"]
    assert story.sync(15).scale_to == 3
    assert story.sync(30).scale_to is None


def test_a_scale_without_selector_is_refused() -> None:
    """A selector of everything would count the pods of all workloads."""
    controller = HorizontalController()
    scale = Scale(spec_replicas=1, status_replicas=1)
    world = World("R").use(500)
    outcome = controller.reconcile(hpa(cpu(50)), scale, world.select, world, NOW)
    assert [event.reason for event in outcome.events] == ["SelectorRequired", "FailedComputeMetricsReplicas"]
    assert outcome.error.endswith("for Deployment/default/web: selector is required")


def test_two_autoscalers_of_the_same_pods_are_both_refused() -> None:
    """The first may act once, before anybody knows what the second selects."""
    controller = HorizontalController()
    world = World("R").use(500)
    scale = Scale(spec_replicas=1, status_replicas=1, selector="app=web")
    first, second = hpa(cpu(50)), hpa(cpu(50), name="other")
    for one in (first, second):
        controller.added("default", one.metadata.name)
    reasons = []
    for one in (first, second, first):
        outcome = controller.reconcile(one, scale, world.select, world, NOW)
        reasons.append([event.reason for event in outcome.events])
    assert reasons[0] == []
    assert reasons[1] == reasons[2] == ["AmbiguousSelector", "FailedComputeMetricsReplicas"]
    controller.removed("default", "other")
    assert controller.reconcile(first, scale, world.select, world, NOW).error == ""


def test_a_removed_autoscaler_is_forgotten() -> None:
    """One of the same name starts without recommendations: it may scale down when its own have expired."""
    story = Story(hpa(cpu(50)), World("RRRR").use(500, 500, 500, 500), 4)
    story.sync(0)
    story.controller.removed("default", "web")
    assert story.controller.history("default/web").recommendations.replicas == []


def test_the_window_of_the_controller_is_the_default_of_a_behavior() -> None:
    """It is a flag and thus no default of the API; with behavior, 300 s are over at 300 s sharp."""
    story = Story(hpa(cpu(50), behavior=behavior()), World("RRRR").use(100, 100, 100, 100), 4)
    assert [story.sync(t).scale_to for t in (0, 285, 300)] == [None, None, 1]


def test_a_spec_without_its_source_cannot_be_synced() -> None:
    """Admission refuses it; whoever goes around admission gets an error and no wrong number."""
    bare = hpa(cpu(50))
    broken = replace(cpu(50), type="Pods")
    spec = HorizontalPodAutoscalerSpec(
        scale_target_ref=bare.spec.scale_target_ref, min_replicas=1, max_replicas=3, metrics=(broken,)
    )
    with pytest.raises(ValueError, match="without its source"):
        Story(replace(bare, spec=spec), World("R").use(1), 1).sync(0)


def test_waiting_for_a_policy_ends_with_its_period() -> None:
    """One pod per 300 s from 1 to 4, however much is asked for (a story of the enhancement proposal)."""
    slow = behavior(rules(policy("Pods", 1, 300)))
    story = Story(hpa(queue(), most=4, behavior=slow), World("R").wait("10"), 1)
    changes = [(t, to) for t in range(0, 901, 15) if (to := story.sync(t).scale_to) is not None]
    assert changes == [(0, 2), (300, 3), (600, 4)]
