"""Makes the pods of workload objects, as the controllers of Kubernetes would.

Names are made to be read and to stay the same from run to run, where upstream draws random letters:

| object                | pods                                                           |
|-----------------------|----------------------------------------------------------------|
| Deployment `web`      | ReplicaSet `web-<hash>`, then `web-<hash>-00001`, ...           |
| ReplicaSet, ReplicationController `web` | `web-00001`, ...                              |
| StatefulSet `db`      | `db-0`, ...                                                    |
| DaemonSet `agent`     | `agent-<node>`                                                 |
| Job `load`            | `load-00001`, ...; with completionMode Indexed `load-0`, ...    |

The pods of one object share one spec object, so that what is computed for one of them holds for all.

Follows pkg/controller/{deployment,replicaset,statefulset,daemon,job} of Kubernetes v1.37.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from stowplan_scheduler.defaulting import fold_label_keys
from stowplan_scheduler.objects import (
    Affinity,
    DaemonSet,
    Deployment,
    Job,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Toleration,
    Volume,
    WorkloadSpec,
)
from stowplan_scheduler.selectors import LabelQuery, NodeQuery
from stowplan_scheduler.tolerations import find_untolerated_taint

from .errors import FieldError

Admit = Callable[[Pod], Pod]
"""What the API server does to a pod that is created."""

TEMPLATE_HASH_LABEL: Final = "pod-template-hash"
REVISION_HASH_LABEL: Final = "controller-revision-hash"
_POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
_POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_COMPLETION_INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"

_HASH_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Upstream's alphabet for generated names: no vowels, so no words."""

_DAEMON_TAINTS: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


def template_hash(template: PodTemplateSpec, collisions: int = 0) -> str:
    """Ten letters that depend on the template, and on how often that hash was taken already."""
    text = msgspec.json.encode(template) + (str(collisions).encode() if collisions else b"")
    number = int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
    letters = []
    for _ in range(10):
        number, rest = divmod(number, len(_HASH_LETTERS))
        letters.append(_HASH_LETTERS[rest])
    return "".join(letters)


# ---- the controllers -----------------------------------------------------------------------------------------------


def replica_set_of(deployment: Deployment) -> ReplicaSet:
    """The one ReplicaSet of a deployment that has never been changed."""
    spec = deployment.spec
    check_template(spec)
    digest = {TEMPLATE_HASH_LABEL: template_hash(spec.template)}
    meta = deployment.metadata
    template_meta = spec.template.metadata
    name = f"{meta.name}-{digest[TEMPLATE_HASH_LABEL]}"
    selector = spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            uid=f"{meta.namespace}/{name}",
            labels={**template_meta.labels, **digest},
            owner_references=(_owner("apps/v1", "Deployment", meta),),
        ),
        spec=WorkloadSpec(
            replicas=spec.replicas,
            selector=replace(selector, match_labels={**selector.match_labels, **digest}),
            template=replace(spec.template, metadata=replace(template_meta, labels={**template_meta.labels, **digest})),
        ),
    )


def pods_of_replica_set(replica_set: ReplicaSet, admit: Admit) -> Iterator[Pod]:
    """The pods of a ReplicaSet."""
    spec, meta = replica_set.spec, replica_set.metadata
    check_template(spec)
    pod = admit(_prototype(spec.template, meta.namespace, _owner("apps/v1", "ReplicaSet", meta)))
    return _numbered(pod, meta.name, spec.replicas)


def pods_of_replication_controller(controller: ReplicationController, admit: Admit) -> Iterator[Pod]:
    """The pods of a ReplicationController."""
    spec, meta = controller.spec, controller.metadata
    if spec.template is None:
        raise FieldError("spec.template", "must be set")
    if not LabelQuery.of_map(spec.selector).matches(spec.template.metadata.labels):
        raise FieldError("spec.template.metadata.labels", "must match spec.selector")
    pod = admit(_prototype(spec.template, meta.namespace, _owner("v1", "ReplicationController", meta)))
    return _numbered(pod, meta.name, spec.replicas)


def pods_of_stateful_set(stateful_set: StatefulSet, admit: Admit) -> Iterator[Pod]:
    """The pods of a StatefulSet, each with volumes for the claims that the controller makes from its templates."""
    spec, meta = stateful_set.spec, stateful_set.metadata
    check_template(spec)
    labels = {REVISION_HASH_LABEL: f"{meta.name}-{template_hash(spec.template)}"}
    owner = _owner("apps/v1", "StatefulSet", meta)
    pod = admit(_prototype(spec.template, meta.namespace, owner, labels))
    names = ((f"{meta.name}-{index}", index) for index in range(_count(spec.replicas)))
    pods = _labelled(pod, ((name, {_POD_NAME_LABEL: name, _POD_INDEX_LABEL: str(index)}) for name, index in names))
    templates = [template.metadata.name for template in spec.volume_claim_templates]
    return (_with_claims(pod, templates) for pod in pods) if templates else pods


def _with_claims(pod: Pod, templates: Sequence[str]) -> Pod:
    """The pod with a volume per template; a volume of the same name in its spec gives way."""
    kept = tuple(volume for volume in pod.spec.volumes if volume.name not in templates)
    claims = tuple(
        Volume(
            name=name,
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=f"{name}-{pod.metadata.name}"),
        )
        for name in templates
    )
    return replace(pod, spec=replace(pod.spec, volumes=(*kept, *claims)))


def pods_of_job(job: Job, admit: Admit) -> Iterator[Pod]:
    """The pods that a Job has running at once: parallelism, but no more than completions."""
    spec, meta = job.spec, job.metadata
    if spec.suspend:
        return iter(())
    wanted = _count(spec.parallelism)
    if spec.completions is not None:
        wanted = min(wanted, spec.completions)
    labels = {"job-name": meta.name, "controller-uid": meta.uid}
    labels |= {f"batch.kubernetes.io/{name}": text for name, text in labels.items()}
    pod = admit(_prototype(spec.template, meta.namespace, _owner("batch/v1", "Job", meta), labels))
    if spec.completion_mode != "Indexed":
        return _numbered(pod, meta.name, wanted)
    indexes = range(wanted)
    return _labelled(pod, ((f"{meta.name}-{index}", {_COMPLETION_INDEX_LABEL: str(index)}) for index in indexes))


def pods_of_daemon_set(daemon_set: DaemonSet, nodes: Sequence[Node], admit: Admit) -> Iterator[Pod]:
    """The pods of a DaemonSet: one for each node that its controller would pick."""
    spec, meta = daemon_set.spec, daemon_set.metadata
    check_template(spec)
    labels = {REVISION_HASH_LABEL: template_hash(spec.template), "pod-template-generation": "1"}
    template = replace(spec.template, spec=_with_daemon_tolerations(spec.template.spec))
    # The template's node name picks nodes; the pods themselves go through the scheduler.
    bound_to = template.spec.node_name
    template = replace(template, spec=replace(template.spec, node_name=""))
    pod = admit(_prototype(template, meta.namespace, _owner("apps/v1", "DaemonSet", meta), labels))
    affinity = template.spec.affinity.node_affinity if template.spec.affinity else None
    query = NodeQuery.of(template.spec.node_selector, affinity)
    for node in nodes:
        if bound_to in {"", node.metadata.name} and _runs_daemon(node, query, template.spec.tolerations):
            name = f"{meta.name}-{node.metadata.name}"
            yield _named(pod, name, spec=replace(pod.spec, affinity=_only_node(pod.spec.affinity, node.metadata.name)))


def check_template(spec: WorkloadSpec) -> None:
    """Raises FieldError where a workload's selector is absent or does not select its own pods."""
    if spec.selector is None or not (spec.selector.match_labels or spec.selector.match_expressions):
        raise FieldError("spec.selector", "must be set")
    if not LabelQuery.of(spec.selector).matches(spec.template.metadata.labels):
        raise FieldError("spec.template.metadata.labels", "must match spec.selector")


# ---- daemon sets ---------------------------------------------------------------------------------------------------


def _with_daemon_tolerations(spec: PodSpec) -> PodSpec:
    taints = (*_DAEMON_TAINTS, *((("network-unavailable", "NoSchedule"),) if spec.host_network else ()))
    added = [Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect) for name, effect in taints]
    kept = [toleration for toleration in spec.tolerations if replace(toleration, toleration_seconds=None) not in added]
    return replace(spec, tolerations=(*kept, *added))


def _runs_daemon(node: Node, query: NodeQuery, tolerations: Sequence[Toleration]) -> bool:
    if not query.matches(node.metadata.labels, node.metadata.name):
        return False
    return find_untolerated_taint(node.spec.taints, tolerations) is None


def _only_node(affinity: Affinity | None, name: str) -> Affinity:
    """The affinity with its required node terms replaced by the node's name."""
    term = NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)),))
    affinity = affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=(term,)),
    )
    return replace(affinity, node_affinity=node_affinity)


# ---- pods of a template --------------------------------------------------------------------------------------------


def _owner(api_version: str, kind: str, meta: ObjectMeta) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=meta.name, uid=meta.uid, controller=True)


def _prototype(
    template: PodTemplateSpec, namespace: str, owner: OwnerReference, labels: Mapping[str, str] | None = None
) -> Pod:
    meta = ObjectMeta(
        namespace=namespace,
        labels={**template.metadata.labels, **(labels or {})},
        annotations=template.metadata.annotations,
        owner_references=(owner,),
    )
    return Pod(metadata=meta, spec=template.spec)


def _count(replicas: int | None) -> int:
    return 1 if replicas is None else replicas


def _numbered(pod: Pod, name: str, replicas: int | None) -> Iterator[Pod]:
    return (_named(pod, f"{name}-{number:05d}") for number in range(1, _count(replicas) + 1))


def _named(pod: Pod, name: str, *, spec: PodSpec | None = None) -> Pod:
    meta = pod.metadata
    return Pod(metadata=replace(meta, name=name, uid=f"{meta.namespace}/{name}"), spec=spec or pod.spec)


def _labelled(pod: Pod, named: Iterable[tuple[str, dict[str, str]]]) -> Iterator[Pod]:
    """Pods that each have labels of their own; where the affinity reads such a label, also a spec of their own."""
    keys = _label_keys(pod.spec)
    for name, labels in named:
        made = _named(pod, name)
        made = replace(made, metadata=replace(made.metadata, labels={**pod.metadata.labels, **labels}))
        yield made if keys.isdisjoint(labels) else fold_label_keys(made)


def _label_keys(spec: PodSpec) -> frozenset[str]:
    """The labels whose value the API server writes into the selectors of the pod's affinity."""
    terms: list[PodAffinityTerm] = []
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else ():
        if affinity is not None:
            terms.extend(affinity.required_during_scheduling_ignored_during_execution)
            preferred = affinity.preferred_during_scheduling_ignored_during_execution
            terms.extend(weighted.pod_affinity_term for weighted in preferred)
    return frozenset(key for term in terms for key in (*term.match_label_keys, *term.mismatch_label_keys))
