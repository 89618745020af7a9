"""The admission chain of the API server, in upstream's order.

    admission = Admission()
    server = ApiServer(kernel, feed, admit=admission.admit)
    admission.connect(server)

Defaults; limit ranges fill in; priority; default tolerations; what the pod strategy does (pod-level resources, label
keys folded into affinity); then limit ranges check, and quotas, which come last, charge. What depends on the pod's spec
alone is done once per spec: the pods of one template share it, before as well as after admission.

Follows pkg/kubeapiserver/options/plugins.go, staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go and
pkg/registry/core/pod/strategy.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.objects.batch import Job, complete_job
from stowplan_autoscaling.cluster.objects.quota import LimitRange, ResourceQuota, default_limit_range
from stowplan_autoscaling.cluster.pods import PENDING, ClusterPod
from stowplan_scheduler.defaulting import (
    PriorityConflictError,
    UnknownPriorityClassError,
    add_default_tolerations,
    default_object,
    default_pod,
    default_pod_level_resources,
    default_pod_spec,
    fold_label_keys,
    resolve_priority,
)
from stowplan_scheduler.objects import Affinity, ObjectMeta, PodSpec, Taint

from .amounts import in_whole_milli
from .limit_range import ANNOTATION, apply_defaults, complaint
from .pod_totals import written_like_containers
from .pod_usage import PodUsages
from .quota import charge
from .resources import forbidden

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer

NOT_READY: Final = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")

_MOST_TEMPLATES: Final = 4096
_PRIORITY_CLASS: Final = "PriorityClass"
_LIMIT_RANGE: Final = "LimitRange"
_QUOTA: Final = "ResourceQuota"
_BOUNDS: Final = ("max", "min", "default", "default_request", "max_limit_request_ratio")


@dataclass(frozen=True, slots=True)
class _Template:
    """What admission makes of the pods of one spec."""

    given: PodSpec
    spec: PodSpec
    annotation: str
    refusal: str
    """Why limit ranges refuse such pods; "" if they do not."""


class Admission:
    """Completes and checks new objects. Objects of kinds with a namespace must name it.

    `default_tolerations`: pods tolerate nodes that are not ready or unreachable for 300 s. `taints_new_nodes`: nodes
    are made with the taint not-ready:NoSchedule, which the node lifecycle controller takes off.
    """

    def __init__(self, *, default_tolerations: bool = True, taints_new_nodes: bool = False) -> None:
        self._default_tolerations = default_tolerations
        self._taints_new_nodes = taints_new_nodes
        self._server: ApiServer | None = None
        self._templates: dict[tuple[object, ...], _Template] = {}
        self._of_namespace: dict[str, dict[str, list[Any]]] = {_LIMIT_RANGE: {}, _QUOTA: {}}
        self.usages = PodUsages(_MOST_TEMPLATES)

    def connect(self, server: ApiServer) -> None:
        """Say which server this is the admission of; its priority classes, limit ranges and quotas count."""
        self._server = server
        server.observe(self._changed, _PRIORITY_CLASS, *self._of_namespace)
        for kind in self._of_namespace:
            for obj in server.all(kind).values():
                self._changed(kind, None, obj)

    def _changed(self, kind: str, old: Any, new: Any) -> None:
        if kind in {_PRIORITY_CLASS, _LIMIT_RANGE}:
            self._templates.clear()
        held = self._of_namespace.get(kind)
        if held is not None:
            obj = new if new is not None else old
            meta: ObjectMeta = obj.metadata
            others = [each for each in held.get(meta.namespace, ()) if each.metadata.name != meta.name]
            kept = others if new is None else [*others, new]
            held[meta.namespace] = sorted(kept, key=lambda each: str(each.metadata.name))

    # ---- the chain ---------------------------------------------------------------------------

    def admit(self, kind: str, obj: Any) -> Any:
        """The object as it is to be stored. Raises ForbiddenError, QuantityError."""
        admitted = self._pod(obj) if kind == "Pod" else self._other(kind, obj)
        quotas: list[ResourceQuota] = self._of_namespace[_QUOTA].get(obj.metadata.namespace, [])
        if quotas and self._server is not None:
            for quota in charge(kind, admitted, quotas, self.usages):
                self._server.update_status(_QUOTA, quota)
        return admitted

    def _pod(self, pod: ClusterPod) -> ClusterPod:
        template = self._template(pod)
        if template.refusal:
            raise ForbiddenError(forbidden("Pod", pod.metadata.name, template.refusal))
        meta = pod.metadata
        if template.annotation:
            meta = replace(meta, annotations={**meta.annotations, ANNOTATION: template.annotation})
        status = pod.status if pod.status.phase else replace(pod.status, phase=PENDING)
        return replace(pod, metadata=meta, spec=template.spec, status=status)

    def _template(self, pod: ClusterPod) -> _Template:
        key = (id(pod.spec), pod.metadata.namespace, *_folded_labels(pod))
        found = self._templates.get(key)
        if found is None:
            found = self._make_template(pod)
            if len(self._templates) >= _MOST_TEMPLATES:
                del self._templates[next(iter(self._templates))]
            # The template holds on to the given spec: its id stays taken.
            self._templates[key] = found
        return found

    def _make_template(self, pod: ClusterPod) -> _Template:
        limit_ranges: list[LimitRange] = self._of_namespace[_LIMIT_RANGE].get(pod.metadata.namespace, [])
        changed = cast(ClusterPod, default_pod(pod))
        spec, annotation = apply_defaults(changed.spec, limit_ranges)
        if annotation and pod.spec.resources is not None:
            # The totals of the pod come from its containers as they are after the limit ranges.
            given = default_pod_spec(pod.spec).resources
            changed = replace(changed, spec=replace(spec, resources=given))
            changed = cast(ClusterPod, default_pod_level_resources(changed))
        else:
            changed = replace(changed, spec=spec)
        changed = replace(changed, spec=written_like_containers(changed.spec))
        changed = self._prioritised(changed)
        if self._default_tolerations:
            changed = cast(ClusterPod, add_default_tolerations(changed))
        changed = cast(ClusterPod, fold_label_keys(changed))
        refusals = (complaint(changed.spec, limit_range) for limit_range in limit_ranges)
        return _Template(pod.spec, changed.spec, annotation, next(filter(None, refusals), ""))

    def _prioritised(self, pod: ClusterPod) -> ClusterPod:
        classes = self._server.all(_PRIORITY_CLASS).values() if self._server is not None else ()
        try:
            return cast(ClusterPod, resolve_priority(pod, classes, strict=True))
        except (UnknownPriorityClassError, PriorityConflictError) as error:
            # A pod that is still to be named is called by the beginning of its name.
            name = pod.metadata.generate_name or pod.metadata.name
            reason = str(error).removeprefix(f"pod {pod.key}: ")
            raise ForbiddenError(forbidden("Pod", name, reason)) from error

    def complete(self, kind: str, obj: Any) -> Any:
        """The defaults of an object other than a pod, as an update gives them too."""
        return self._other(kind, obj)

    # ---- kinds other than Pod ----------------------------------------------------------------

    def _other(self, kind: str, obj: Any) -> Any:
        if kind == _PRIORITY_CLASS:
            self._check_default_class(obj)
        if kind == "Node" and self._taints_new_nodes and NOT_READY not in obj.spec.taints:
            obj = replace(obj, spec=replace(obj.spec, taints=(*obj.spec.taints, NOT_READY)))
        return self.default(obj)

    def default(self, obj: Any) -> Any:
        """An object of a kind other than Pod with its defaults: also for whoever writes a new spec over an old one."""
        if isinstance(obj, LimitRange):
            return _in_whole_milli(default_limit_range(obj))
        if isinstance(obj, ResourceQuota):
            return replace(obj, spec=replace(obj.spec, hard=in_whole_milli(obj.spec.hard)))
        if isinstance(obj, Job):
            obj = complete_job(obj)
        return _with_default_template(default_object(obj))

    def _check_default_class(self, priority_class: Any) -> None:
        if not priority_class.global_default or self._server is None:
            return
        for other in self._server.all(_PRIORITY_CLASS).values():
            if other.global_default:
                reason = f"PriorityClass {other.metadata.name} is already marked as default. Only one default can exist"
                raise ForbiddenError(forbidden(_PRIORITY_CLASS, priority_class.metadata.name, reason))


def _folded_labels(pod: ClusterPod) -> tuple[object, ...]:
    """The labels that get into the pod's affinity."""
    affinity = pod.spec.affinity
    if affinity is None or not _folds(affinity):
        return ()
    return tuple(sorted(pod.metadata.labels.items()))


def _folds(affinity: Affinity) -> bool:
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if part is None:
            continue
        preferred = part.preferred_during_scheduling_ignored_during_execution
        terms = (
            *part.required_during_scheduling_ignored_during_execution,
            *(weighted.pod_affinity_term for weighted in preferred),
        )
        if any(term.match_label_keys or term.mismatch_label_keys for term in terms):
            return True
    return False


def _in_whole_milli(limit_range: LimitRange) -> LimitRange:
    limits = tuple(
        replace(item, **{name: in_whole_milli(getattr(item, name)) for name in _BOUNDS})
        for item in limit_range.spec.limits
    )
    return replace(limit_range, spec=replace(limit_range.spec, limits=limits))


def _with_default_template(obj: Any) -> Any:
    """The defaults of a pod template, for workloads of whatever kind."""
    spec: Any = getattr(obj, "spec", None)
    job = getattr(spec, "job_template", None)
    if job is not None:
        return replace(obj, spec=replace(spec, job_template=_with_default_template(job)))
    template = getattr(spec, "template", None)
    if template is None:
        return obj
    defaulted = default_pod_spec(template.spec)
    if defaulted is template.spec:
        return obj
    return replace(obj, spec=replace(spec, template=replace(template, spec=defaulted)))
