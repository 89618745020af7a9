"""The revisions of a DaemonSet's pod template (constructHistory, pkg/controller/daemon/update.go of v1.37.2)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import AlreadyExistsError
from stowplan_autoscaling.cluster.objects.controller_revision import KIND, ControllerRevision, in_order
from stowplan_autoscaling.inputs.workloads import template_hash
from stowplan_scheduler.objects import ObjectMeta, OwnerReference, key_of

from .placement import REVISION_LABEL

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.cluster.work_queue import Steps


class History(NamedTuple):
    """The hash of the template that pods are to have, and all other revisions."""

    digest: str
    old: Sequence[ControllerRevision]


def construct(
    client: Client, daemon_set: DaemonSet, held: Iterable[ControllerRevision]
) -> Generator[int, None, History]:
    """The history; the revision of the present template is made, or numbered anew, if need be."""
    template = daemon_set.spec.template
    same: list[ControllerRevision] = []
    old: list[ControllerRevision] = []
    for each in held:
        (same if each.template is template or each.template == template else old).append(each)
    number = max((each.revision for each in old), default=0) + 1
    if not same:
        current = yield from _create(client, daemon_set, number)
    else:
        current = in_order(same)[-1]
        if current.revision < number:
            yield from client.turn()
            client.server.put(KIND, replace(current, revision=number))
    return History(current.metadata.labels[REVISION_LABEL], old)


def _create(client: Client, daemon_set: DaemonSet, number: int) -> Generator[int, None, ControllerRevision]:
    """Store a new revision. A name that another template has is a collision: noted in the status, and an error."""
    meta, template = daemon_set.metadata, daemon_set.spec.template
    digest = template_hash(template, daemon_set.status.collision_count)
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name=meta.name, uid=meta.uid, controller=True)
    made = ControllerRevision(
        metadata=ObjectMeta(
            name=f"{meta.name}-{digest}",
            namespace=meta.namespace,
            labels={**template.metadata.labels, REVISION_LABEL: digest},
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
        yield from client.turn()
        stored = client.server.get(KIND, key_of(made.metadata))
        if stored.template != template:
            yield from _note_collision(client, daemon_set)
            raise
    return stored


def _note_collision(client: Client, daemon_set: DaemonSet) -> Steps:
    yield from client.turn()
    fresh: DaemonSet = client.server.get("DaemonSet", key_of(daemon_set.metadata))
    if fresh.status.collision_count == daemon_set.status.collision_count:
        yield from client.turn()
        status = replace(fresh.status, collision_count=fresh.status.collision_count + 1)
        client.server.update_status("DaemonSet", replace(fresh, status=status))


def clean_up(
    client: Client, daemon_set: DaemonSet, old: Sequence[ControllerRevision], pods: Iterable[ClusterPod]
) -> Steps:
    """Delete the oldest revisions that no pod has, beyond the limit."""
    surplus = len(old) - daemon_set.spec.revision_history_limit
    if surplus <= 0:
        return
    live = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods}
    for each in in_order(old):
        if surplus <= 0:
            return
        if each.metadata.labels.get(REVISION_LABEL, "") in live:
            continue
        yield from client.turn()
        client.server.delete(KIND, key_of(each.metadata))
        surplus -= 1
