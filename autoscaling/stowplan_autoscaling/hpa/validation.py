"""What the API server refuses in a HorizontalPodAutoscaler, in its words and in its order.

`admit` is what happens to a new object: defaults, then validation. Rules on labels, annotations and owners are left
out: they are those of every kind.

Follows pkg/apis/autoscaling/validation/validation.go and pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go
of Kubernetes v1.37.2. Bounds of minReplicas and maxReplicas are checked by generated code there
(pkg/apis/autoscaling/v2/zz_generated.validations.go), whose errors come last.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

from msgspec.structs import replace

from stowplan_scheduler.config.field_error import (
    JsonText,
    Path,
    aggregate_text,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan_scheduler.names import is_extended_resource, is_hugepage_resource, is_native_resource, subdomain_errors
from stowplan_scheduler.names import label_key_errors as qualified_name_errors
from stowplan_scheduler.objects.pod import Quantity
from stowplan_scheduler.quantity import parse_quantity, quantity_text

from .defaults import default_hpa
from .objects import (
    AVERAGE_VALUE,
    CONTAINER_RESOURCE,
    DISABLED_POLICY,
    EXTERNAL,
    MAX_POLICY,
    MIN_POLICY,
    OBJECT,
    PERCENT_POLICY,
    PODS,
    PODS_POLICY,
    RESOURCE,
    UTILIZATION,
    VALUE,
    ContainerResourceMetricSource,
    CrossVersionObjectReference,
    ExternalMetricSource,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ObjectMetricSource,
    PodsMetricSource,
    ResourceMetricSource,
)

MAX_PERIOD_SECONDS: Final = 1800
MAX_STABILIZATION_WINDOW_SECONDS: Final = 3600

_SOURCE_TYPES: Final = (CONTAINER_RESOURCE, EXTERNAL, OBJECT, PODS, RESOURCE)
_SELECT_POLICIES: Final = (DISABLED_POLICY, MAX_POLICY, MIN_POLICY)
_POLICY_TYPES: Final = (PERCENT_POLICY, PODS_POLICY)
_STANDARD_RESOURCES: Final = frozenset(
    "cpu memory ephemeral-storage requests.cpu requests.memory requests.ephemeral-storage limits.cpu limits.memory "
    "limits.ephemeral-storage pods resourcequotas services replicationcontrollers secrets configmaps "
    "persistentvolumeclaims storage requests.storage services.nodeports services.loadbalancers".split()
)
_DNS_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


_HPA = TypeVar("_HPA", bound=HorizontalPodAutoscaler)


class InvalidHPAError(ValueError):
    """The API server would refuse the autoscaler; the text is its answer."""


def admit(hpa: _HPA) -> _HPA:
    """A new autoscaler as the API server stores it. Raises InvalidHPAError."""
    hpa = default_hpa(hpa)
    errors = validate_hpa(hpa)
    if errors:
        name = hpa.metadata.name
        raise InvalidHPAError(f'HorizontalPodAutoscaler.autoscaling "{name}" is invalid: {aggregate_text(errors)}')
    metadata = replace(hpa.metadata, generation=1)
    return replace(hpa, metadata=metadata, status=HorizontalPodAutoscalerStatus())


def validate_hpa(hpa: HorizontalPodAutoscaler) -> list[str]:
    """The errors of an autoscaler that has its defaults."""
    name = Path("metadata").child("name")
    if not hpa.metadata.name:
        errors = [required(name, "name or generateName is required")]
    else:
        errors = [invalid(name, hpa.metadata.name, text) for text in subdomain_errors(hpa.metadata.name)]
    return [*errors, *_spec_errors(hpa.spec, Path("spec"))]


def _spec_errors(spec: HorizontalPodAutoscalerSpec, path: Path) -> list[str]:
    errors: list[str] = []
    least, most = spec.min_replicas, spec.max_replicas
    if least is not None and most < least:
        errors.append(invalid(path.child("maxReplicas"), most, "must be greater than or equal to `minReplicas`"))
    core = spec.scale_target_ref.kind == "ReplicationController"
    errors.extend(_reference_errors(spec.scale_target_ref, path.child("scaleTargetRef"), group_required=not core))
    errors.extend(_metrics_errors(spec, path.child("metrics")))
    if spec.behavior is not None:
        for rules, name in ((spec.behavior.scale_up, "scaleUp"), (spec.behavior.scale_down, "scaleDown")):
            errors.extend(_rules_errors(rules, path.child("behavior", name)))
    if least is not None and least < 0:
        errors.append(invalid(path.child("minReplicas"), least, "must be greater than or equal to 0"))
    if most == 0:
        errors.append(required(path.child("maxReplicas")))
    elif most < 0:
        errors.append(invalid(path.child("maxReplicas"), most, "must be greater than or equal to 1"))
    return errors


def _path_segment_errors(text: str, path: Path) -> list[str]:
    if text in {".", ".."}:
        return [invalid(path, text, f"may not be '{text}'")]
    return [invalid(path, text, f"may not contain '{part}'") for part in ("/", "%") if part in text]


def _reference_errors(reference: CrossVersionObjectReference, path: Path, *, group_required: bool) -> list[str]:
    errors: list[str] = []
    for text, name in ((reference.kind, "kind"), (reference.name, "name")):
        here = path.child(name)
        errors.extend(_path_segment_errors(text, here) if text else [required(here)])
    wrong = _api_version_error(reference.api_version, group_required=group_required)
    if wrong:
        errors.append(invalid(path.child("apiVersion"), reference.api_version, wrong))
    return errors


def _api_version_error(api_version: str, *, group_required: bool) -> str:
    if api_version.count("/") > 1:
        return f"unexpected GroupVersion string: {api_version}"
    group = api_version.partition("/")[0] if "/" in api_version else ""
    return "apiVersion must specify API group" if group_required and not group else ""


# ---- metrics -------------------------------------------------------------------------------------------------------


def _metrics_errors(spec: HorizontalPodAutoscalerSpec, path: Path) -> list[str]:
    errors = [error for i, metric in enumerate(spec.metrics) for error in _metric_errors(metric, path.index(i))]
    if spec.min_replicas == 0 and not any(metric.type in {OBJECT, EXTERNAL} for metric in spec.metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden(path, detail))
    return errors


def _metric_errors(metric: MetricSpec, path: Path) -> list[str]:
    errors: list[str] = []
    unknown = not_supported(path.child("type"), metric.type, _SOURCE_TYPES)
    if not metric.type:
        errors.append(required(path.child("type"), "must specify a metric source type"))
    if metric.type not in _SOURCE_TYPES:
        errors.append(unknown)
    present = _sources(metric)
    if present:
        errors.extend(_source_errors(present[0], metric, path))
    expected = metric.type[:1].lower() + metric.type[1:]
    if metric.type not in _SOURCE_TYPES:
        errors.append(unknown)
    elif expected not in present:
        errors.append(required(path.child(expected), "must populate information for the given metric source"))
    if len(present) != 1:
        extra = [name for name in present if name != expected]
        errors.extend(forbidden(path.child(name), "must populate the given metric source only") for name in extra)
    return errors


def _sources(metric: MetricSpec) -> list[str]:
    """The names of the sources that are set, in the order in which they are looked at."""
    given = {
        "object": metric.object,
        "external": metric.external,
        "pods": metric.pods,
        "resource": metric.resource,
        "containerResource": metric.container_resource,
    }
    return [name for name, source in given.items() if source is not None]


def _source_errors(name: str, metric: MetricSpec, path: Path) -> list[str]:
    """Only the first source that is set is looked into."""
    here = path.child(name)
    if metric.object is not None and name == "object":
        return _object_errors(metric.object, here)
    if metric.external is not None and name == "external":
        return _external_errors(metric.external, here)
    if metric.pods is not None and name == "pods":
        return _pods_errors(metric.pods, here)
    if metric.resource is not None and name == "resource":
        return _resource_errors(metric.resource, here)
    return _container_errors(metric.container_resource, here) if metric.container_resource is not None else []


def _object_errors(source: ObjectMetricSource, path: Path) -> list[str]:
    errors = _reference_errors(source.described_object, path.child("describedObject"), group_required=False)
    errors.extend(_identifier_errors(source.metric, path.child("metric")))
    errors.extend(_target_errors(source.target, path.child("target")))
    if source.target.value is None and source.target.average_value is None:
        errors.append(required(path.child("target", "averageValue"), "must set either a target value or averageValue"))
    return errors


def _external_errors(source: ExternalMetricSource, path: Path) -> list[str]:
    errors = _identifier_errors(source.metric, path.child("metric"))
    errors.extend(_target_errors(source.target, path.child("target")))
    target = source.target
    if target.value is None and target.average_value is None:
        detail = "must set either a target value for metric or a per-pod target"
        errors.append(required(path.child("target", "averageValue"), detail))
    if target.value is not None and target.average_value is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(path.child("target", "value"), detail))
    return errors


def _pods_errors(source: PodsMetricSource, path: Path) -> list[str]:
    errors = _identifier_errors(source.metric, path.child("metric"))
    errors.extend(_target_errors(source.target, path.child("target")))
    if source.target.average_value is None:
        errors.append(required(path.child("target", "averageValue"), "must specify a positive target averageValue"))
    return errors


def _resource_errors(source: ResourceMetricSource, path: Path) -> list[str]:
    errors = [] if source.name else [required(path.child("name"), "must specify a resource name")]
    return errors + _utilization_errors(source.target, path.child("target"))


def _container_errors(source: ContainerResourceMetricSource, path: Path) -> list[str]:
    errors: list[str] = []
    if not source.name:
        errors.append(required(path.child("name"), "must specify a resource name"))
    else:
        errors.extend(_resource_name_errors(source.name, path.child("name")))
    if not source.container:
        errors.append(required(path.child("container"), "must specify a container"))
    else:
        errors.extend(_dns_label_errors(source.container, path.child("container")))
    return errors + _utilization_errors(source.target, path.child("target"))


def _resource_name_errors(name: str, path: Path) -> list[str]:
    texts = list(qualified_name_errors(name))
    plain = "/" not in name
    if not texts and plain and not _is_standard_resource(name):
        texts.append("must be a standard resource type or fully qualified")
    if plain and name not in _CONTAINER_RESOURCES and not is_hugepage_resource(name):
        texts.append("must be a standard resource for containers")
    elif not plain and not is_native_resource(name) and not is_extended_resource(name):
        texts.append("doesn't follow extended resource name standard")
    return [invalid(path, name, text) for text in texts]


def _is_standard_resource(name: str) -> bool:
    return name in _STANDARD_RESOURCES or is_hugepage_resource(name.removeprefix("requests."))


def _dns_label_errors(name: str, path: Path) -> list[str]:
    errors = []
    if len(name.encode()) > 63:
        errors.append(invalid(path, name, "must be no more than 63 characters"))
    if not _DNS_LABEL.fullmatch(name):
        dotted = all(_DNS_LABEL.fullmatch(part) for part in name.split("."))
        errors.append(invalid(path, name, "must not contain dots" if dotted else _DNS_LABEL_RULE))
    return errors


def _utilization_errors(target: MetricTarget, path: Path) -> list[str]:
    errors = _target_errors(target, path)
    if target.average_utilization is None and target.average_value is None:
        detail = "must set either a target raw value or a target utilization"
        errors.append(required(path.child("averageUtilization"), detail))
    if target.average_utilization is not None and target.average_value is not None:
        detail = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(path.child("averageValue"), detail))
    return errors


def _target_errors(target: MetricTarget, path: Path) -> list[str]:
    errors: list[str] = []
    if not target.type:
        errors.append(required(path.child("type"), "must specify a metric target type"))
    if target.type not in {UTILIZATION, VALUE, AVERAGE_VALUE}:
        errors.append(invalid(path.child("type"), target.type, "must be either Utilization, Value, or AverageValue"))
    for amount, name in ((target.value, "value"), (target.average_value, "averageValue")):
        if amount is not None and parse_quantity(amount) <= 0:
            errors.append(invalid(path.child(name), _quantity(amount), "must be positive"))
    percent = target.average_utilization
    if percent is not None and percent < 1:
        errors.append(invalid(path.child("averageUtilization"), percent, "must be greater than 0"))
    return errors


def _quantity(amount: Quantity) -> JsonText:
    return JsonText(f'"{quantity_text(parse_quantity(amount))}"')


def _identifier_errors(metric: MetricIdentifier, path: Path) -> list[str]:
    here = path.child("name")
    if not metric.name:
        return [required(here, "must specify a metric name")]
    return _path_segment_errors(metric.name, here)


# ---- behavior ------------------------------------------------------------------------------------------------------


def _rules_errors(rules: HPAScalingRules | None, path: Path) -> list[str]:
    if rules is None:
        return []
    errors: list[str] = []
    window, here = rules.stabilization_window_seconds, path.child("stabilizationWindowSeconds")
    if window is not None and window < 0:
        errors.append(invalid(here, window, "must be greater than or equal to zero"))
    if window is not None and window > MAX_STABILIZATION_WINDOW_SECONDS:
        errors.append(invalid(here, window, f"must be less than or equal to {MAX_STABILIZATION_WINDOW_SECONDS}"))
    if rules.select_policy is not None and rules.select_policy not in _SELECT_POLICIES:
        errors.append(not_supported(path.child("selectPolicy"), rules.select_policy, _SELECT_POLICIES))
    policies = path.child("policies")
    if not rules.policies:
        errors.append(required(policies, "must specify at least one Policy"))
    for index, policy in enumerate(rules.policies or ()):
        errors.extend(_policy_errors(policy, policies.index(index)))
    if rules.tolerance is not None and parse_quantity(rules.tolerance) < 0:
        detail = "must be greater than or equal to 0"
        errors.append(invalid(path.child("tolerance"), _quantity(rules.tolerance), detail))
    return errors


def _policy_errors(policy: HPAScalingPolicy, path: Path) -> list[str]:
    errors: list[str] = []
    if policy.type not in _POLICY_TYPES:
        errors.append(not_supported(path.child("type"), policy.type, _POLICY_TYPES))
    if policy.value <= 0:
        errors.append(invalid(path.child("value"), policy.value, "must be greater than zero"))
    period = path.child("periodSeconds")
    if policy.period_seconds <= 0:
        errors.append(invalid(period, policy.period_seconds, "must be greater than zero"))
    if policy.period_seconds > MAX_PERIOD_SECONDS:
        errors.append(invalid(period, policy.period_seconds, f"must be less than or equal to {MAX_PERIOD_SECONDS}"))
    return errors
