"""Which ReplicaSet is the new one, and what is written on it.

Follows getNewReplicaSet (pkg/controller/deployment/sync.go) and pkg/controller/deployment/util/deployment_util.go of
Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.apps import Deployment, ReplicaSet, ReplicaSetSpec
from stowplan_autoscaling.inputs.workloads import TEMPLATE_HASH_LABEL, template_hash
from stowplan_scheduler.objects import ObjectMeta, OwnerReference, PodTemplateSpec

from .arithmetic import DESIRED_REPLICAS, MAX_REPLICAS, max_surge

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
MAX_HISTORY_LENGTH: Final = 2000
"""Characters of the annotation with earlier revisions."""

_NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)


def by_age(replica_sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """The oldest first, by name where they are equally old."""
    if len(replica_sets) < 2:
        return list(replica_sets)
    return sorted(replica_sets, key=lambda each: (each.created, each.metadata.name))


def find_new(deployment: Deployment, oldest_first: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The oldest ReplicaSet with the deployment's template."""
    template = deployment.spec.template
    for replica_set in oldest_first:
        if same_template(replica_set.spec.template, template):
            return replica_set
    return None


def same_template(mine: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Whether two templates are equal but for the label with the hash."""
    if mine.spec is not other.spec and mine.spec != other.spec:
        return False
    a, b = mine.metadata, other.metadata
    return a.annotations == b.annotations and _unhashed(a.labels) == _unhashed(b.labels)


def _unhashed(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != TEMPLATE_HASH_LABEL}


def revision_of(replica_set: ReplicaSet) -> int:
    """Its revision; 0 where there is none."""
    text = replica_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def annotated(deployment: Deployment, replica_set: ReplicaSet, revision: int, *, exists: bool) -> dict[str, str]:
    """The annotations that the new ReplicaSet should have."""
    if exists and not deployment.metadata.annotations and revision_of(replica_set) >= revision > 0:
        return replica_set.metadata.annotations
    held = dict(replica_set.metadata.annotations)
    held.update({name: value for name, value in deployment.metadata.annotations.items() if name not in _NOT_COPIED})
    before = held.get(REVISION, "")
    if not before or (before.isascii() and before.isdigit()):
        if (int(before) if before else 0) < revision:
            held[REVISION] = str(revision)
            if REVISION in replica_set.metadata.annotations:
                _remember(held, before)
    if not exists:
        held.update(sizes(deployment))
    return held


def _remember(annotations: dict[str, str], revision: str) -> None:
    """Append a revision to the history, whose oldest entries give way."""
    history = annotations.get(REVISION_HISTORY, "")
    entries = history.split(",")
    if not entries[0]:
        annotations[REVISION_HISTORY] = revision
        return
    length, start = len(history) + len(revision) + 1, 0
    while length > MAX_HISTORY_LENGTH and start < len(entries):
        length -= len(entries[start]) + 1
        start += 1
    if length <= MAX_HISTORY_LENGTH:
        annotations[REVISION_HISTORY] = ",".join([*entries[start:], revision])


def sizes(deployment: Deployment) -> dict[str, str]:
    """The annotations by which a later scaling is recognised."""
    replicas = deployment.spec.replicas
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + max_surge(deployment))}


def replica_set_of(deployment: Deployment, replicas: int, revision: int) -> ReplicaSet:
    """A new ReplicaSet for the deployment's template, not created yet."""
    spec, meta = deployment.spec, deployment.metadata
    digest = {TEMPLATE_HASH_LABEL: template_hash(spec.template, deployment.status.collision_count)}
    labels = {**spec.template.metadata.labels, **digest}
    made = ReplicaSet(
        metadata=ObjectMeta(
            name=f"{meta.name}-{digest[TEMPLATE_HASH_LABEL]}",
            namespace=meta.namespace,
            labels=labels,
            owner_references=(
                OwnerReference(api_version="apps/v1", kind="Deployment", name=meta.name, uid=meta.uid, controller=True),
            ),
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            min_ready_seconds=spec.min_ready_seconds,
            selector=replace(spec.selector, match_labels={**spec.selector.match_labels, **digest}),
            template=replace(spec.template, metadata=replace(spec.template.metadata, labels=labels)),
        ),
    )
    annotations = annotated(deployment, made, revision, exists=False)
    return replace(made, metadata=replace(made.metadata, annotations=annotations))
