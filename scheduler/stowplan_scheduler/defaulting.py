"""What the API server does to an object before a scheduler sees it, as far as scheduling reads the result.

Pure functions: they return the same object where nothing changes. `default_object` is the part that every object gets
(the scheme's defaults and pod-level resources); priority, default tolerations and the folding of label keys are
separate, because recorded objects have been through them already.

Follows pkg/apis/core/v1/defaults.go, pkg/apis/apps/v1/defaults.go, pkg/apis/batch/v1/defaults.go,
pkg/apis/scheduling/v1, pkg/api/pod/util.go (DefaultPodLevelResources), pkg/registry/core/pod/strategy.go
(mutatePodAffinity) and plugin/pkg/admission/{priority,defaulttolerationseconds} of Kubernetes v1.37.2. RuntimeClass
overhead is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar, cast

from msgspec.structs import replace

from .names import is_hugepage_resource, is_pod_level_resource
from .objects import (
    DEFAULT_NAMESPACE,
    Affinity,
    Container,
    ContainerPort,
    ContainerStatus,
    DaemonSet,
    Deployment,
    Job,
    JobSpec,
    LabelSelectorRequirement,
    Namespace,
    Node,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodDisruptionBudget,
    PodSpec,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    ResourceMap,
    ResourceRequirements,
    Service,
    StatefulSet,
    Toleration,
    WorkloadSpec,
)
from .quantity import NANOS_PER_MILLI, milli_value, parse_quantity, quantity_text
from .resources import aggregate_limits, aggregate_requests
from .selectors import IN, NOT_IN

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
DEFAULT_GRACE_PERIOD_SECONDS: Final = 30
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
PREEMPT_NEVER: Final = "Never"
METADATA_NAME_LABEL: Final = "kubernetes.io/metadata.name"

SYSTEM_PRIORITY_CLASSES: Final = (
    PriorityClass(
        metadata=ObjectMeta(name="system-node-critical"), value=2_000_001_000, preemption_policy=PREEMPT_LOWER_PRIORITY
    ),
    PriorityClass(
        metadata=ObjectMeta(name="system-cluster-critical"),
        value=2_000_000_000,
        preemption_policy=PREEMPT_LOWER_PRIORITY,
    ),
)
"""The classes that every API server has."""

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_DEFAULT_TOLERATION_SECONDS: Final = 300

_T = TypeVar("_T")


class UnknownPriorityClassError(ValueError):
    """A pod names a priority class that does not exist; an API server refuses such a pod."""


class PriorityConflictError(ValueError):
    """A pod states a priority or preemption policy other than its priority class's; an API server refuses it."""


# ---- API defaults --------------------------------------------------------------------------------------------------


def default_object(obj: _T) -> _T:
    """The object with the API server's defaults; kinds without any are returned as they are. Raises QuantityError."""
    rule = _RULES.get(type(obj))
    return obj if rule is None else cast(_T, rule(obj))


def default_pod(pod: Pod) -> Pod:
    """The pod with the API server's defaults: namespace, scheduler name, requests, host ports, pod-level resources.

    Raises QuantityError.
    """
    spec = default_pod_spec(pod.spec)
    spec = _changed(
        spec,
        containers=_default_containers(spec.containers, spec.host_network, requests_from_limits=True),
        init_containers=_default_containers(spec.init_containers, spec.host_network, requests_from_limits=True),
        termination_grace_period_seconds=_default_grace_period(pod.spec.termination_grace_period_seconds),
    )
    status = _changed(
        pod.status,
        allocated_resources=_rounded(pod.status.allocated_resources),
        resources=_rounded_resources(pod.status.resources),
        container_statuses=_map(pod.status.container_statuses, _default_container_status),
        init_container_statuses=_map(pod.status.init_container_statuses, _default_container_status),
    )
    meta = _default_namespace(pod.metadata)
    return default_pod_level_resources(_changed(pod, metadata=meta, spec=spec, status=status))


def _default_container_status(status: ContainerStatus) -> ContainerStatus:
    return _changed(
        status,
        allocated_resources=_rounded(status.allocated_resources),
        resources=_rounded_resources(status.resources),
    )


def default_pod_spec(spec: PodSpec) -> PodSpec:
    """What a pod and a pod template share: scheduler name, restart policy, port protocols, amounts in whole milli."""
    return _changed(
        spec,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        restart_policy=spec.restart_policy or "Always",
        termination_grace_period_seconds=(
            DEFAULT_GRACE_PERIOD_SECONDS
            if spec.termination_grace_period_seconds is None
            else spec.termination_grace_period_seconds
        ),
        containers=_default_containers(spec.containers, False, requests_from_limits=False),
        init_containers=_default_containers(spec.init_containers, False, requests_from_limits=False),
        overhead=_rounded(spec.overhead),
        resources=_rounded_resources(spec.resources),
    )


def _default_grace_period(seconds: int | None) -> int:
    if seconds is None:
        return DEFAULT_GRACE_PERIOD_SECONDS
    return seconds if seconds >= 0 else 1


def _default_containers(
    containers: tuple[Container, ...], host_network: bool, *, requests_from_limits: bool
) -> tuple[Container, ...]:
    def default(container: Container) -> Container:
        resources = _requests_from_limits(container.resources) if requests_from_limits else container.resources
        resources = _rounded_resources(resources)
        ports = _map(container.ports, lambda port: _default_port(port, host_network))
        return _changed(container, resources=resources, ports=ports)

    return _map(containers, default)


def _default_port(port: ContainerPort, host_network: bool) -> ContainerPort:
    host_port = port.container_port if host_network and port.host_port == 0 else port.host_port
    return _changed(port, protocol=port.protocol or "TCP", host_port=host_port)


_Resources = TypeVar("_Resources", ResourceRequirements, "ResourceRequirements | None")


def _rounded_resources(resources: _Resources) -> _Resources:
    if resources is None:
        return resources
    return _changed(resources, requests=_rounded(resources.requests), limits=_rounded(resources.limits))


_Amounts = TypeVar("_Amounts", ResourceMap, "ResourceMap | None")


def _rounded(amounts: _Amounts) -> _Amounts:
    """Amounts finer than a milli rounded up to one, which the API server does to every list of quantities."""
    if not amounts:
        return amounts
    fine = {name: nanos for name, amount in amounts.items() if (nanos := parse_quantity(amount)) % NANOS_PER_MILLI}
    if not fine:
        return amounts
    return {**amounts, **{name: f"{milli_value(nanos)}m" for name, nanos in fine.items()}}


def _requests_from_limits(resources: ResourceRequirements) -> ResourceRequirements:
    if resources.limits is None:
        return resources
    requests = resources.requests or {}
    missing = {name: amount for name, amount in resources.limits.items() if name not in requests}
    if not missing and resources.requests is not None:
        return resources
    return replace(resources, requests={**requests, **missing})


def default_pod_level_resources(pod: Pod) -> Pod:
    """The pod with `spec.resources` filled in from its containers, where it has any (API server, pod strategy).

    Needs containers whose requests were defaulted already. In order: limits of huge pages from the containers';
    requests from the containers' and then from the pod's own limits; limits where every container has one.
    """
    resources = pod.spec.resources
    if resources is None or not (resources.requests or resources.limits):
        return pod
    limits = dict(resources.limits or {})
    requests = dict(resources.requests or {})
    _default_hugepage_limits(pod, requests, limits)
    _default_pod_level_requests(pod, requests, limits)
    _default_pod_level_limits(pod, requests, limits)
    filled = _changed(resources, requests=requests or resources.requests, limits=limits or resources.limits)
    return _changed(pod, spec=_changed(pod.spec, resources=filled))


def _default_hugepage_limits(pod: Pod, requests: ResourceMap, limits: ResourceMap) -> None:
    for name, nanos in aggregate_limits(pod).items():
        if is_hugepage_resource(name) and name not in requests:
            limits.setdefault(name, quantity_text(nanos))


def _default_pod_level_requests(pod: Pod, requests: ResourceMap, limits: ResourceMap) -> None:
    for name, nanos in aggregate_requests(pod).items():
        # Huge pages cannot be overcommitted: their request comes from the limit below.
        if name in {"cpu", "memory"}:
            requests.setdefault(name, quantity_text(nanos))
    for name, amount in limits.items():
        if is_pod_level_resource(name):
            requests.setdefault(name, amount)


def _default_pod_level_limits(pod: Pod, requests: ResourceMap, limits: ResourceMap) -> None:
    total = aggregate_limits(pod)
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    for name, amount in requests.items():
        if name in limits or name not in total or not is_pod_level_resource(name):
            continue
        if all(name in (container.resources.limits or {}) for container in containers):
            limits[name] = quantity_text(max(total[name], parse_quantity(amount)))


def _default_node(node: Node) -> Node:
    status = node.status
    # Upstream does this for an absent map only; here an explicitly empty one is taken for absent.
    capacity = _rounded(status.capacity)
    allocatable = _rounded(status.allocatable or capacity)
    return _changed(node, status=_changed(status, capacity=capacity, allocatable=allocatable))


def _default_namespace_object(namespace: Namespace) -> Namespace:
    meta = namespace.metadata
    if not meta.name or meta.labels.get(METADATA_NAME_LABEL) == meta.name:
        return namespace
    return replace(namespace, metadata=replace(meta, labels={**meta.labels, METADATA_NAME_LABEL: meta.name}))


def _default_priority_class(priority_class: PriorityClass) -> PriorityClass:
    return _changed(priority_class, preemption_policy=priority_class.preemption_policy or PREEMPT_LOWER_PRIORITY)


def _default_replication_controller(controller: ReplicationController) -> ReplicationController:
    spec = controller.spec
    meta = _default_namespace(controller.metadata)
    labels = spec.template.metadata.labels if spec.template else {}
    return _changed(
        controller,
        metadata=_changed(meta, labels=meta.labels or labels),
        spec=_changed(
            spec,
            replicas=1 if spec.replicas is None else spec.replicas,
            selector=spec.selector or labels,
            template=spec.template and _changed(spec.template, spec=default_pod_spec(spec.template.spec)),
        ),
    )


_Workload = TypeVar("_Workload", ReplicaSet, Deployment, StatefulSet)


def _default_workload(workload: _Workload) -> _Workload:
    spec = workload.spec
    spec = _changed(_default_template(spec), replicas=1 if spec.replicas is None else spec.replicas)
    return _changed(workload, metadata=_default_namespace(workload.metadata), spec=spec)


def _default_daemon_set(daemon_set: DaemonSet) -> DaemonSet:
    spec = _default_template(daemon_set.spec)
    return _changed(daemon_set, metadata=_default_namespace(daemon_set.metadata), spec=spec)


_Spec = TypeVar("_Spec", bound="WorkloadSpec | JobSpec")


def _default_template(spec: _Spec) -> _Spec:
    return _changed(spec, template=_changed(spec.template, spec=default_pod_spec(spec.template.spec)))


def _default_job(job: Job) -> Job:
    spec = _default_template(job.spec)
    both_absent = spec.completions is None and spec.parallelism is None
    spec = _changed(
        spec,
        completions=1 if both_absent else spec.completions,
        parallelism=1 if spec.parallelism is None else spec.parallelism,
        completion_mode=spec.completion_mode or "NonIndexed",
        suspend=bool(spec.suspend),
    )
    meta = _default_namespace(job.metadata)
    return _changed(job, metadata=_changed(meta, labels=meta.labels or spec.template.metadata.labels), spec=spec)


_Namespaced = TypeVar("_Namespaced", Service, PodDisruptionBudget)


def _default_namespaced(obj: _Namespaced) -> _Namespaced:
    return _changed(obj, metadata=_default_namespace(obj.metadata))


def _default_namespace(meta: ObjectMeta) -> ObjectMeta:
    return _changed(meta, namespace=meta.namespace or DEFAULT_NAMESPACE)


_RULES: Final[Mapping[type, Callable[..., object]]] = {
    Pod: default_pod,
    Node: _default_node,
    Namespace: _default_namespace_object,
    PriorityClass: _default_priority_class,
    Service: _default_namespaced,
    PodDisruptionBudget: _default_namespaced,
    ReplicationController: _default_replication_controller,
    ReplicaSet: _default_workload,
    Deployment: _default_workload,
    StatefulSet: _default_workload,
    DaemonSet: _default_daemon_set,
    Job: _default_job,
}


# ---- admission -----------------------------------------------------------------------------------------------------


def resolve_priority(pod: Pod, classes: Iterable[PriorityClass], *, strict: bool = False) -> Pod:
    """The pod with the priority and preemption policy of its class, or of the global default.

    Without `strict`, as for objects taken from a cluster: a priority that is set stays, and an unknown class counts 0.
    With `strict`, as the Priority admission plugin: the system classes exist, an unknown class raises
    UnknownPriorityClassError, and a priority or policy that contradicts the class raises PriorityConflictError.
    """
    if pod.spec.priority is not None and not strict:
        return pod
    chosen = _priority_class(pod.spec.priority_class_name, (*classes, *(SYSTEM_PRIORITY_CLASSES if strict else ())))
    if chosen is None and pod.spec.priority_class_name and strict:
        raise UnknownPriorityClassError(
            f"pod {pod.key}: no PriorityClass with name {pod.spec.priority_class_name} was found"
        )
    if strict:
        _check_priority(pod, chosen)
    if chosen is None:
        policy = pod.spec.preemption_policy or (PREEMPT_LOWER_PRIORITY if strict else None)
        return _changed(pod, spec=_changed(pod.spec, priority=0, preemption_policy=policy))
    spec = _changed(
        pod.spec,
        priority=chosen.value,
        priority_class_name=chosen.metadata.name,
        preemption_policy=pod.spec.preemption_policy or chosen.preemption_policy,
    )
    return _changed(pod, spec=spec)


def _priority_class(name: str, classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """The class of this name; without a name the global default, of several the one with the smallest value."""
    if name:
        return next((found for found in classes if found.metadata.name == name), None)
    return min((found for found in classes if found.global_default), key=lambda found: found.value, default=None)


def _check_priority(pod: Pod, chosen: PriorityClass | None) -> None:
    priority, policy = (chosen.value, chosen.preemption_policy) if chosen else (0, PREEMPT_LOWER_PRIORITY)
    if pod.spec.priority is not None and pod.spec.priority != priority:
        raise PriorityConflictError(
            f"pod {pod.key}: the integer value of priority ({pod.spec.priority}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
    if pod.spec.preemption_policy and policy and pod.spec.preemption_policy != policy:
        raise PriorityConflictError(
            f"pod {pod.key}: the string value of PreemptionPolicy ({pod.spec.preemption_policy}) must not be provided "
            f"in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )


def add_default_tolerations(pod: Pod) -> Pod:
    """The pod with tolerations of 300 s for nodes that are not ready or unreachable (DefaultTolerationSeconds)."""
    added = tuple(
        Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=_DEFAULT_TOLERATION_SECONDS)
        for key in (_NOT_READY, _UNREACHABLE)
        if not any(_covers(toleration, key) for toleration in pod.spec.tolerations)
    )
    if not added:
        return pod
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *added)))


def _covers(toleration: Toleration, key: str) -> bool:
    return toleration.key in {key, ""} and toleration.effect in {"NoExecute", ""}


def fold_label_keys(pod: Pod) -> Pod:
    """The pod with matchLabelKeys and mismatchLabelKeys of its pod affinity added to the label selectors.

    The API server does this once, at creation; doing it twice adds the same expressions again and changes no decision.
    """
    affinity = pod.spec.affinity
    if affinity is None:
        return pod
    labels = pod.metadata.labels
    folded: Affinity = _changed(
        affinity,
        pod_affinity=affinity.pod_affinity and _fold_affinity(affinity.pod_affinity, labels),
        pod_anti_affinity=affinity.pod_anti_affinity and _fold_affinity(affinity.pod_anti_affinity, labels),
    )
    return _changed(pod, spec=_changed(pod.spec, affinity=folded))


def _fold_affinity(affinity: PodAffinity, labels: Mapping[str, str]) -> PodAffinity:
    return _changed(
        affinity,
        required_during_scheduling_ignored_during_execution=_map(
            affinity.required_during_scheduling_ignored_during_execution, lambda term: _fold_term(term, labels)
        ),
        preferred_during_scheduling_ignored_during_execution=_map(
            affinity.preferred_during_scheduling_ignored_during_execution,
            lambda weighted: _changed(weighted, pod_affinity_term=_fold_term(weighted.pod_affinity_term, labels)),
        ),
    )


def _fold_term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    # A term without a selector matches no pod, whatever is added.
    if term.label_selector is None:
        return term
    added = tuple(
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for keys, operator in ((term.match_label_keys, IN), (term.mismatch_label_keys, NOT_IN))
        for key in keys
        if key in labels
    )
    if not added:
        return term
    selector = term.label_selector
    return replace(term, label_selector=replace(selector, match_expressions=(*selector.match_expressions, *added)))


def admit_manifest_pod(pod: Pod, classes: Iterable[PriorityClass]) -> Pod:
    """A pod from a manifest as an API server would store it: defaults, priority, tolerations, folded label keys.

    Raises UnknownPriorityClassError, PriorityConflictError, QuantityError.
    """
    return fold_label_keys(add_default_tolerations(resolve_priority(default_pod(pod), classes, strict=True)))


# ---- helpers -------------------------------------------------------------------------------------------------------


def _changed(struct: _T, **changes: object) -> _T:
    """The struct with the changes; the same object where none of them is one."""
    real = {name: new for name, new in changes.items() if getattr(struct, name) is not new}
    real = {name: new for name, new in real.items() if getattr(struct, name) != new}
    return replace(struct, **real) if real else struct  # type: ignore[type-var]


def _map(items: tuple[_T, ...], change: Callable[[_T], _T]) -> tuple[_T, ...]:
    """The items changed; the same tuple where none of them is."""
    if not items:
        return items
    changed = tuple(map(change, items))
    return items if all(new is old for new, old in zip(changed, items, strict=True)) else changed
