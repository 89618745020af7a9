"""What the API server fills in and what it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from autoscaling.hpa.builders import behavior, cpu, hpa, policy, rules
from stowplan_autoscaling.hpa import HorizontalPodAutoscaler, InvalidHPAError, admit
from stowplan_autoscaling.hpa.defaults import DEFAULT_METRICS, DEFAULT_SCALE_DOWN, DEFAULT_SCALE_UP


def test_an_empty_spec_means_80_percent_cpu_and_at_least_one_replica() -> None:
    """And without behavior there is none."""
    spec = hpa(least=None).spec
    assert (spec.min_replicas, spec.metrics, spec.behavior) == (1, DEFAULT_METRICS, None)


def test_an_empty_behavior_becomes_the_default_rules() -> None:
    """The window of scale-downs stays open: it is a flag of the controller."""
    given = hpa(cpu(), behavior=behavior()).spec.behavior
    assert given is not None
    assert (given.scale_up, given.scale_down) == (DEFAULT_SCALE_UP, DEFAULT_SCALE_DOWN)
    assert DEFAULT_SCALE_DOWN.stabilization_window_seconds is None


def test_rules_are_completed_field_by_field() -> None:
    """A list of policies replaces the default list; the rest comes from the defaults."""
    given = hpa(cpu(), behavior=behavior(rules(policy("Pods", 1)), rules(window=0))).spec.behavior
    assert given is not None
    assert given.scale_up is not None
    assert given.scale_down is not None
    assert given.scale_up.policies == (policy("Pods", 1),)
    assert (given.scale_up.stabilization_window_seconds, given.scale_up.select_policy) == (0, "Max")
    assert given.scale_down.policies == DEFAULT_SCALE_DOWN.policies
    assert given.scale_down.stabilization_window_seconds == 0


def test_a_new_autoscaler_has_the_generation_1_and_no_status() -> None:
    """Whatever its manifest says."""
    manifest = {
        "metadata": {"name": "web", "generation": 7},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "status": {"currentReplicas": 3},
    }
    found = admit(msgspec.convert(manifest, HorizontalPodAutoscaler))
    assert (found.key, found.metadata.generation, found.status.current_replicas) == ("default/web", 1, 0)


def refused(spec: dict[str, Any], name: str = "web") -> str:
    """The API server's answer to changes of a good spec."""
    base = {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    manifest = {"metadata": {"name": name}, "spec": {**base, **spec}}
    with pytest.raises(InvalidHPAError) as error:
        admit(msgspec.convert(manifest, HorizontalPodAutoscaler))
    return str(error.value).removeprefix(f'HorizontalPodAutoscaler.autoscaling "{name}" is invalid: ')


def external(**target: Any) -> dict[str, Any]:
    """A spec with one external metric."""
    return {"metrics": [{"type": "External", "external": {"metric": {"name": "q"}, "target": target}}]}


# Every text below was given by the real API server's code.
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"maxReplicas": 0},
        (
            "[spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`, "
            "spec.maxReplicas: Required value]"
        ),
    ),
    ({"minReplicas": -1}, "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"),
    (
        {"minReplicas": 0},
        (
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero "
            "replicas"
        ),
    ),
    (
        {"scaleTargetRef": {"kind": "a/b", "apiVersion": "v1"}},
        (
            "[spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/', "
            "spec.scaleTargetRef.name: Required "
            'value, spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group]'
        ),
    ),
    (
        {"behavior": {"scaleUp": {"policies": [], "stabilizationWindowSeconds": 3601, "tolerance": "-0.1"}}},
        (
            "[spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than "
            "or equal to 3600, "
            "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy, "
            'spec.behavior.scaleUp.tolerance: Invalid value: "-100m": must be greater than or equal to 0]'
        ),
    ),
    (
        {"behavior": {"scaleDown": {"selectPolicy": "Most", "policies": [{"type": "X", "periodSeconds": 1801}]}}},
        (
            '[spec.behavior.scaleDown.selectPolicy: Unsupported value: "Most": supported values: '
            '"Disabled", "Max", "Min", '
            'spec.behavior.scaleDown.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods", '
            "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero, "
            "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than "
            "or equal to 1800]"
        ),
    ),
    (
        external(type="Value", value="0", averageValue="1"),
        (
            '[spec.metrics[0].external.target.value: Invalid value: "0": must be positive, '
            "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for "
            "metric and a per-pod "
            "target]"
        ),
    ),
    (
        {"metrics": [{"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]},
        (
            "[spec.metrics[0].resource.target.averageUtilization: Required value: must set either a "
            "target raw value or a "
            "target utilization, spec.metrics[0].pods: Required value: must populate information for the given metric "
            "source]"
        ),
    ),
    (
        {
            "metrics": [
                {
                    "type": "ContainerResource",
                    "containerResource": {
                        "name": "weird",
                        "container": "a.b",
                        "target": {"type": "Utilization", "averageUtilization": 0},
                    },
                }
            ]
        },
        (
            '[spec.metrics[0].containerResource.name: Invalid value: "weird": must be a standard '
            "resource type or fully "
            'qualified, spec.metrics[0].containerResource.name: Invalid value: "weird": must be a '
            "standard resource for "
            'containers, spec.metrics[0].containerResource.container: Invalid value: "a.b": must not contain dots, '
            "spec.metrics[0].containerResource.target.averageUtilization: Invalid value: 0: must be greater than 0]"
        ),
    ),
]


@pytest.mark.parametrize(("spec", "text"), REFUSED)
def test_a_bad_spec_is_refused_in_upstreams_words_and_order(spec: dict[str, Any], text: str) -> None:
    """People search for these texts."""
    assert refused(spec) == text


def test_the_name_must_be_a_dns_subdomain() -> None:
    """As for every kind whose objects are stored by name."""
    assert refused({}, name="Web").startswith('metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain')
