"""What an API server would refuse, as far as it would lead a scheduler astray.

Every object is checked for what makes it unusable: no name, no containers, a quantity that is none. Objects from
manifests, which no API server has seen, are also checked for the commonest mistakes in scheduling fields: unknown
effects and operators, selectors that do not parse, requests above limits.

Follows pkg/apis/core/validation/validation.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from stowplan_scheduler.names import label_key_errors, label_value_errors
from stowplan_scheduler.objects import (
    Container,
    LabelSelector,
    Node,
    NodeAffinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceMap,
    ResourceRequirements,
)
from stowplan_scheduler.quantity import QuantityError, parse_quantity
from stowplan_scheduler.selectors import LabelQuery, SelectorError, checked_node_selector, compile_preferred_terms

from .decode import field_path
from .errors import FieldError, shown

_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_OPERATORS: Final = ("Equal", "Exists", "Lt", "Gt")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")
_PREEMPTION: Final = ("Never", "PreemptLowerPriority")


def check_quantities(field: str, amounts: ResourceMap | None) -> None:
    """Raises FieldError for an amount that is not a quantity, or a negative one."""
    if not amounts:
        return
    for name, amount in amounts.items():
        try:
            nanos = parse_quantity(amount)
        except QuantityError as error:
            raise FieldError(field_path(field, name), f"{shown(amount)}: {error}") from None
        if nanos < 0:
            raise FieldError(field_path(field, name), f"{shown(amount)}: must be greater than or equal to 0")


def check_node(node: Node) -> None:
    """Raises FieldError for a node that cannot take part."""
    check_quantities("status.capacity", node.status.capacity)
    check_quantities("status.allocatable", node.status.allocatable)
    for index, image in enumerate(node.status.images):
        _check_integer(f"status.images[{index}].sizeBytes", image.size_bytes, 63)
    if not node.status.allocatable and not node.status.capacity:
        raise FieldError("status.allocatable", "must be set (status.capacity is used where it is absent)")


def check_manifest_node(node: Node) -> None:
    """Raises FieldError for labels and taints that an API server would refuse."""
    check_labels("metadata.labels", node.metadata.labels)
    for index, taint in enumerate(node.spec.taints):
        field = f"spec.taints[{index}]"
        _check_present(f"{field}.key", taint.key)
        _check_one_of(f"{field}.effect", taint.effect, _TAINT_EFFECTS)


def check_pod(pod: Pod) -> None:
    """Raises FieldError for a pod that cannot be counted: no containers, or amounts that are no quantities."""
    check_pod_spec(pod.spec, "spec")


def check_pod_spec(spec: PodSpec, field: str) -> None:
    """Like check_pod, for a spec at some path."""
    if not spec.containers:
        raise FieldError(f"{field}.containers", "must have at least one container")
    _check_containers(f"{field}.containers", spec.containers)
    _check_containers(f"{field}.initContainers", spec.init_containers)
    check_quantities(f"{field}.overhead", spec.overhead)
    if spec.resources is not None:
        _check_resources(f"{field}.resources", spec.resources)
    _check_integer(f"{field}.priority", spec.priority or 0, 31)
    for index, constraint in enumerate(spec.topology_spread_constraints):
        path = f"{field}.topologySpreadConstraints[{index}]"
        _check_integer(f"{path}.maxSkew", constraint.max_skew, 31)
        _check_integer(f"{path}.minDomains", constraint.min_domains or 0, 31)


def _check_containers(field: str, containers: Iterable[Container]) -> None:
    for index, container in enumerate(containers):
        resources = container.resources
        if resources.requests or resources.limits:
            _check_resources(f"{field}[{index}].resources", resources)
        for number, port in enumerate(container.ports):
            _check_integer(f"{field}[{index}].ports[{number}].hostPort", port.host_port, 31)


def _check_resources(field: str, resources: ResourceRequirements) -> None:
    check_quantities(f"{field}.requests", resources.requests)
    check_quantities(f"{field}.limits", resources.limits)


def check_manifest_spec(spec: PodSpec, field: str) -> None:
    """Raises FieldError for scheduling fields of a manifest's pod that an API server would refuse."""
    for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            _check_limits(f"{field}.{name}[{index}].resources", container.resources)
    if spec.resources is not None:
        _check_limits(f"{field}.resources", spec.resources)
    _check_one_of(f"{field}.preemptionPolicy", spec.preemption_policy or _PREEMPTION[0], _PREEMPTION)
    check_labels(f"{field}.nodeSelector", spec.node_selector)
    _check_tolerations(f"{field}.tolerations", spec)
    _check_spread(f"{field}.topologySpreadConstraints", spec)
    if spec.affinity is not None:
        _check_node_affinity(f"{field}.affinity.nodeAffinity", spec.affinity.node_affinity)
        _check_pod_affinity(f"{field}.affinity.podAffinity", spec.affinity.pod_affinity)
        _check_pod_affinity(f"{field}.affinity.podAntiAffinity", spec.affinity.pod_anti_affinity)


def check_labels(field: str, labels: Mapping[str, str]) -> None:
    """Raises FieldError for a label whose key or value has a form that Kubernetes does not allow."""
    for key, text in labels.items():
        if errors := label_key_errors(key):
            raise FieldError(field, f"the key {shown(key)}: {errors[0]}")
        if errors := label_value_errors(text):
            raise FieldError(field_path(field, key), f"{shown(text)}: {errors[0]}")


def check_selector(field: str, selector: LabelSelector | None) -> None:
    """Raises FieldError for a label selector that does not parse."""
    try:
        LabelQuery.of(selector)
    except SelectorError as error:
        raise FieldError(field, str(error)) from None


def check_count(field: str, count: int | None, most: int) -> None:
    """Raises FieldError for a number of replicas that is negative or beyond what is read."""
    if count is not None and not 0 <= count <= most:
        raise FieldError(field, f"{count}: must be between 0 and {most:,}")


def check_priority(value: int) -> None:
    """Raises FieldError for the value of a priority class that is no 32-bit number."""
    _check_integer("value", value, 31)


def _check_limits(field: str, resources: ResourceRequirements) -> None:
    for name, limit in (resources.limits or {}).items():
        request = (resources.requests or {}).get(name)
        if request is not None and parse_quantity(request) > parse_quantity(limit):
            path = field_path(f"{field}.requests", name)
            raise FieldError(path, f"{shown(request)}: must be less than or equal to the limit {shown(limit)}")


def _check_tolerations(field: str, spec: PodSpec) -> None:
    for index, toleration in enumerate(spec.tolerations):
        path = f"{field}[{index}]"
        operator = toleration.operator or "Equal"
        _check_one_of(f"{path}.operator", operator, _TOLERATION_OPERATORS)
        if not toleration.key and operator != "Exists":
            raise FieldError(
                f"{path}.operator", "must be Exists when `key` is empty, which means any key and any value"
            )
        if toleration.effect:
            _check_one_of(f"{path}.effect", toleration.effect, _TAINT_EFFECTS)


def _check_spread(field: str, spec: PodSpec) -> None:
    for index, constraint in enumerate(spec.topology_spread_constraints):
        path = f"{field}[{index}]"
        if constraint.max_skew <= 0:
            raise FieldError(f"{path}.maxSkew", f"{constraint.max_skew}: must be greater than zero")
        _check_present(f"{path}.topologyKey", constraint.topology_key)
        _check_one_of(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, _UNSATISFIABLE)
        if constraint.min_domains is not None and constraint.min_domains <= 0:
            raise FieldError(f"{path}.minDomains", f"{constraint.min_domains}: must be greater than zero")
        _check_one_of(f"{path}.nodeAffinityPolicy", constraint.node_affinity_policy or "Honor", _POLICIES)
        _check_one_of(f"{path}.nodeTaintsPolicy", constraint.node_taints_policy or "Honor", _POLICIES)
        check_selector(f"{path}.labelSelector", constraint.label_selector)


def _check_node_affinity(field: str, affinity: NodeAffinity | None) -> None:
    if affinity is None:
        return
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    for index, term in enumerate(preferred):
        path = f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _check_weight(f"{path}.weight", term.weight)
    try:
        if required is not None:
            checked_node_selector(required)
        compile_preferred_terms(preferred, "preferredDuringSchedulingIgnoredDuringExecution")
    except SelectorError as error:
        raise FieldError(field, error.errors[0]) from None


def _check_pod_affinity(field: str, affinity: PodAffinity | None) -> None:
    if affinity is None:
        return
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        _check_affinity_term(f"{field}.requiredDuringSchedulingIgnoredDuringExecution[{index}]", term)
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        path = f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        _check_weight(f"{path}.weight", weighted.weight)
        _check_affinity_term(f"{path}.podAffinityTerm", weighted.pod_affinity_term)


def _check_affinity_term(field: str, term: PodAffinityTerm) -> None:
    _check_present(f"{field}.topologyKey", term.topology_key)
    check_selector(f"{field}.labelSelector", term.label_selector)
    check_selector(f"{field}.namespaceSelector", term.namespace_selector)


def _check_integer(field: str, number: int, bits: int) -> None:
    """Raises FieldError for a number that its Go type would not hold, and arrays here would not either."""
    if not -(2**bits) <= number < 2**bits:
        raise FieldError(field, f"{number}: must fit into {bits + 1} bits")


def _check_weight(field: str, weight: int) -> None:
    if not 1 <= weight <= 100:
        raise FieldError(field, f"{weight}: must be in the range 1-100")


def _check_present(field: str, text: str) -> None:
    if not text:
        raise FieldError(field, "must be set")


def _check_one_of(field: str, text: str, allowed: Collection[str]) -> None:
    if text not in allowed:
        raise FieldError(field, f"{shown(text)}: must be one of {', '.join(allowed)}")
