"""ScaledObjects: defaults, and what is refused with the path of the field."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_autoscaling.inputs.errors import FieldError
from stowplan_autoscaling.keda import ExternalTrigger, ResourceTrigger, decode_scaled_object, triggers_of

KAFKA = {"type": "kafka", "metadata": {"consumerGroup": "g", "topic": "orders.v1", "lagThreshold": "50"}}
CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}


def manifest(annotations: dict[str, str] | None = None, name: str = "worker", **spec: Any) -> dict[str, Any]:
    given = {"scaleTargetRef": {"name": "worker"}, "triggers": [KAFKA], **spec}
    meta = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": meta, "spec": given}


def test_defaults_are_those_of_keda() -> None:
    """Poll every 30 s, cool down 300 s, none at first, 0 to 100 replicas, an HPA from 1, named after the object."""
    found = decode_scaled_object(manifest())
    assert (found.polling_interval, found.cooldown_period, found.initial_cooldown_period) == (30, 300, 0)
    assert (found.min_replicas, found.hpa_min_replicas, found.max_replicas) == (0, 1, 100)
    assert found.hpa_name == "keda-hpa-worker"
    assert found.spec.scale_target_ref.text == "apps/v1.Deployment"
    assert found.spec.idle_replica_count is None
    assert not found.is_paused


def test_given_values_win() -> None:
    """Zero is a value, too."""
    config = {"horizontalPodAutoscalerConfig": {"name": "mine"}}
    found = decode_scaled_object(
        manifest(cooldownPeriod=0, pollingInterval=5, minReplicaCount=2, idleReplicaCount=0, advanced=config)
    )
    assert (found.cooldown_period, found.polling_interval, found.hpa_min_replicas) == (0, 5, 2)
    assert found.hpa_name == "mine"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"scaleTargetRef": {}}, "spec.scaleTargetRef.name: is required"),
        ({"pollingInterval": 0}, "spec.pollingInterval: 0: must be at least 1"),
        ({"cooldownPeriod": -1}, "spec.cooldownPeriod: -1: must be at least 0"),
        ({"maxReplicaCount": 0}, "spec.maxReplicaCount: 0: must be at least 1"),
        ({"maxReplicaCount": 2**31}, "spec.maxReplicaCount: 2147483648: must be less than 2147483648"),
        ({"pollingInterval": "x"}, 'spec.pollingInterval: must be an integer, got "x"'),
        ({"minReplicas": 2}, "spec: object contains unknown field `minReplicas`"),
        (
            {"minReplicaCount": 101},
            "spec.minReplicaCount: 101: must not be greater than maxReplicaCount 100",
        ),
        (
            {"idleReplicaCount": 0},
            "spec.idleReplicaCount: 0: must be less than minReplicaCount 0",
        ),
        (
            {"idleReplicaCount": 2, "minReplicaCount": 2},
            "spec.idleReplicaCount: 2: must be less than minReplicaCount 2",
        ),
        ({"triggers": []}, "spec.triggers: must have at least one trigger"),
        (
            {"triggers": [{"type": "carrier-pigeon"}]},
            (
                'spec.triggers[0].type: "carrier-pigeon": must be one of '
                "aws-sqs-queue, kafka, prometheus, rabbitmq, redis, cpu, memory"
            ),
        ),
        (
            {"triggers": [KAFKA, {**KAFKA, "metricType": "Utilization"}]},
            'spec.triggers[1].metricType: "Utilization": must be AverageValue or Value',
        ),
        (
            {"triggers": [{"type": "prometheus", "metadata": {"threshold": "1"}}]},
            "spec.triggers[0].metadata.query: is required",
        ),
        (
            {"triggers": [{"type": "prometheus", "metadata": {"query": "q"}}]},
            "spec.triggers[0].metadata.threshold: is required",
        ),
        (
            {"triggers": [{"type": "prometheus", "metadata": {"query": "q", "threshold": "many"}}]},
            'spec.triggers[0].metadata.threshold: "many": must be a number',
        ),
        (
            {"triggers": [{"type": "kafka", "metadata": {"consumerGroup": "g", "lagThreshold": "1.5"}}]},
            'spec.triggers[0].metadata.lagThreshold: "1.5": must be an integer',
        ),
        (
            {"triggers": [{"type": "redis", "metadata": {"listName": "l", "listLength": "0"}}]},
            'spec.triggers[0].metadata.listLength: "0": must be greater than 0',
        ),
        (
            {"triggers": [{"type": "rabbitmq", "metadata": {"queueName": "q", "value": "5", "mode": "MessageRate"}}]},
            'spec.triggers[0].metadata.mode: "MessageRate": only QueueLength is modelled',
        ),
        (
            {"triggers": [{**KAFKA, "name": "a"}, {**KAFKA, "name": "a"}]},
            'spec.triggers[1].name: "a": must be unique',
        ),
        (
            {"triggers": [KAFKA, {**CPU, "useCachedMetrics": True}]},
            'spec.triggers[1].useCachedMetrics: not supported by "cpu"',
        ),
        (
            {"triggers": [KAFKA, {"type": "cpu", "metadata": {"value": "60"}}]},
            'spec.triggers[1].metricType: "": must be Utilization or AverageValue',
        ),
        (
            {"triggers": [KAFKA, {**CPU, "metadata": {"value": "60%"}}]},
            'spec.triggers[1].metadata.value: "60%": must be a percentage, such as 60',
        ),
        (
            {"triggers": [CPU]},
            "spec.minReplicaCount: must be at least 1: with cpu and memory triggers only, nothing wakes it from zero",
        ),
        (
            {"fallback": {"failureThreshold": -1, "replicas": 2}},
            "spec.fallback.failureThreshold: -1: must not be negative",
        ),
        (
            {"fallback": {"failureThreshold": 3, "replicas": 2, "behavior": "guess"}},
            (
                'spec.fallback.behavior: "guess": must be one of static, currentReplicas, currentReplicasIfHigher, '
                "currentReplicasIfLower"
            ),
        ),
        (
            {"triggers": [CPU], "minReplicaCount": 1, "fallback": {"failureThreshold": 3, "replicas": 2}},
            "spec.fallback: needs a trigger that is neither cpu nor memory",
        ),
        (
            {"advanced": {"scalingModifiers": {"formula": "a + b", "target": "5"}}},
            "spec.advanced.scalingModifiers: formulas are not modelled",
        ),
    ],
)
def test_what_is_refused(spec: dict[str, Any], message: str) -> None:
    """One error, with the field and what is allowed."""
    with pytest.raises(FieldError) as caught:
        decode_scaled_object(manifest(**spec))
    assert str(caught.value) == message


def test_names_and_annotations_are_checked() -> None:
    """The name becomes the value of a label, and part of the HPA's name."""
    with pytest.raises(FieldError, match=r"^metadata\.name: 64 characters: must be no more than 63$"):
        decode_scaled_object(manifest(name="a" * 64))
    with pytest.raises(FieldError, match=r"^spec\.advanced\.horizontalPodAutoscalerConfig\.name: .* no more than 63"):
        decode_scaled_object(manifest(name="a" * 55))
    with pytest.raises(FieldError, match=r"paused-replicas.*must be a number of replicas"):
        decode_scaled_object(manifest({"autoscaling.keda.sh/paused-replicas": "none"}))


@pytest.mark.parametrize(("text", "paused"), [("true", True), ("false", False), ("0", False), ("maybe", True)])
def test_an_annotation_that_is_no_boolean_counts_as_true(text: str, paused: bool) -> None:
    """As getBoolAnnotation reads it."""
    assert decode_scaled_object(manifest({"autoscaling.keda.sh/paused": text})).is_paused is paused


def test_triggers_are_read_as_their_scalers_do() -> None:
    """Name of the metric with the index, dots and slashes as dashes; defaults of targets."""
    triggers = [
        KAFKA,
        {"type": "kafka", "metadata": {"consumerGroup": "g", "activationLagThreshold": "3"}},
        {"type": "rabbitmq", "metadata": {"queueName": "a/b c", "value": "2.5"}, "metricType": "Value"},
        {"type": "aws-sqs-queue", "metadata": {"queueURL": "https://sqs.eu-west-1.amazonaws.com/1/jobs"}},
        {"type": "redis", "metadata": {"listName": "l"}, "useCachedMetrics": True},
        {"type": "prometheus", "metadata": {"query": "q", "threshold": "0.5", "activationThreshold": "0.1"}},
        {**CPU, "metadata": {"value": "60", "containerName": "app"}},
    ]
    found = triggers_of(decode_scaled_object(manifest(triggers=triggers)))
    outside = [trigger for trigger in found if isinstance(trigger, ExternalTrigger)]
    assert [(t.metric, t.target, t.activation, t.metric_type, t.cached) for t in outside] == [
        ("s0-kafka-orders-v1", 50, 0, "AverageValue", False),
        ("s1-kafka-g-topics", 10, 3, "AverageValue", False),
        ("s2-rabbitmq-a-2Fb+c", 2.5, 0, "Value", False),
        ("s3-aws-sqs-jobs", 5, 0, "AverageValue", False),
        ("s4-redis-l", 5, 0, "AverageValue", True),
        ("s5-prometheus", 0.5, 0.1, "AverageValue", False),
    ]
    assert found[6] == ResourceTrigger(index=6, resource="cpu", metric_type="Utilization", value="60", container="app")
