"""The revisions of a StatefulSet's pod template.

Follows getStatefulSetRevisions and truncateHistory (pkg/controller/statefulset/stateful_set_control.go) and
pkg/controller/history/controller_history.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import AlreadyExistsError
from stowplan_autoscaling.cluster.objects.controller_revision import KIND, ControllerRevision, in_order
from stowplan_autoscaling.inputs.workloads import template_hash
from stowplan_scheduler.objects import ObjectMeta, OwnerReference, key_of

from .identity import revision_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.objects.stateful_set import StatefulSet
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.cluster.work_queue import Steps


class Revisions(NamedTuple):
    """The one that pods had before an update, the one they are to have, and how many names were taken already."""

    current: ControllerRevision
    update: ControllerRevision
    collisions: int


def find_revisions(
    client: Client, stateful_set: StatefulSet, held: Iterable[ControllerRevision]
) -> Generator[int, None, Revisions]:
    """The two revisions; the second is made, or numbered anew, if the template has changed."""
    ordered = in_order(held)
    collisions = stateful_set.status.collision_count
    template = stateful_set.spec.template
    equal = [each for each in ordered if each.template is template or each.template == template]
    number = ordered[-1].revision + 1 if ordered else 1
    if equal and equal[-1] is ordered[-1]:
        update = ordered[-1]
    elif equal:
        yield from client.turn()
        update = client.server.put(KIND, replace(equal[-1], revision=number))
    else:
        update, collisions = yield from _create(client, stateful_set, number, collisions)
    name = stateful_set.status.current_revision
    current = next((each for each in ordered if each.metadata.name == name), update)
    return Revisions(current, update, collisions)


def _create(
    client: Client, stateful_set: StatefulSet, number: int, collisions: int
) -> Generator[int, None, tuple[ControllerRevision, int]]:
    """Store a new revision; a name that another template has is a collision, and the next name is tried."""
    meta, template = stateful_set.metadata, stateful_set.spec.template
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name=meta.name, uid=meta.uid, controller=True)
    while True:
        made = ControllerRevision(
            metadata=ObjectMeta(
                name=f"{meta.name}-{template_hash(template, collisions)}",
                namespace=meta.namespace,
                labels=template.metadata.labels,
                annotations=meta.annotations,
                owner_references=(owner,),
            ),
            template=template,
            revision=number,
        )
        yield from client.turn()
        try:
            stored: ControllerRevision = client.server.create(KIND, made)
        except AlreadyExistsError:
            stored = client.server.get(KIND, key_of(made.metadata))
            if stored.template != template:
                collisions += 1
                continue
        return stored, collisions


def truncate(
    client: Client,
    stateful_set: StatefulSet,
    held: Iterable[ControllerRevision],
    live: Revisions,
    pods: Sequence[ClusterPod],
) -> Steps:
    """Delete the oldest revisions that nothing uses, beyond the limit."""
    limit = stateful_set.spec.revision_history_limit
    used = {live.current.metadata.name, live.update.metadata.name, *(revision_of(pod) for pod in pods)}
    unused = [each for each in in_order(held) if each.metadata.name not in used]
    if limit < 0 or len(unused) <= limit:
        return
    for each in unused[: len(unused) - limit]:
        yield from client.turn()
        client.server.delete(KIND, key_of(each.metadata))
