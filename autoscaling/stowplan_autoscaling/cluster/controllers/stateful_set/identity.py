"""Names, ordinals and states of a StatefulSet's pods (pkg/controller/statefulset/stateful_set_utils.go of v1.37.2)."""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.cluster.objects.controller_revision import ControllerRevision
from stowplan_autoscaling.cluster.objects.stateful_set import StatefulSet
from stowplan_autoscaling.cluster.pod_template import pod_from_template
from stowplan_autoscaling.cluster.pods import FAILED, RUNNING, SUCCEEDED, ClusterPod
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import OwnerReference

REVISION_LABEL: Final = "controller-revision-hash"
POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"

NO_ORDINAL: Final = -1


def ordinal_of(pod: ClusterPod) -> int:
    """The number at the end of the pod's name; NO_ORDINAL if there is none."""
    parent, hyphen, number = pod.metadata.name.rpartition("-")
    if not hyphen or not parent or not (number.isascii() and number.isdigit()) or int(number) > 2**31 - 1:
        return NO_ORDINAL
    return int(number)


def revision_of(pod: ClusterPod) -> str:
    """The name of the revision that the pod was made from."""
    return pod.metadata.labels.get(REVISION_LABEL, "")


def is_running_and_ready(pod: ClusterPod) -> bool:
    """Whether it runs and its probes say so."""
    return pod.status.phase == RUNNING and pod.is_ready


def is_available(pod: ClusterPod, wait: int, now: int) -> bool:
    """Whether it has been ready for `wait` nanoseconds."""
    return pod.is_ready and (wait == 0 or pod.ready_since + wait <= now)


def has_ended(pod: ClusterPod) -> bool:
    """Whether its containers will not run again."""
    return pod.status.phase in {FAILED, SUCCEEDED}


def new_pod(
    stateful_set: StatefulSet, ordinal: int, current: ControllerRevision, update: ControllerRevision
) -> ClusterPod:
    """A pod of the revision that its ordinal is to have (newVersionedStatefulSetPod)."""
    revision = current if _keeps_current(stateful_set, ordinal) else update
    meta = stateful_set.metadata
    name = f"{meta.name}-{ordinal}"
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name=meta.name, uid=meta.uid, controller=True)
    labels = {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal), REVISION_LABEL: revision.metadata.name}
    return pod_from_template(revision.template, meta, owner, name=name, labels=labels)


def _keeps_current(stateful_set: StatefulSet, ordinal: int) -> bool:
    spec = stateful_set.spec
    rolling = spec.rolling_update
    if rolling is not None:
        return ordinal < spec.first_ordinal + rolling.partition
    return spec.strategy_type == "RollingUpdate" and ordinal < spec.first_ordinal + stateful_set.status.current_replicas


def next_check(pods: list[ClusterPod], wait: int, now: int) -> int:
    """Nanoseconds until the first ready pod becomes available; `wait` if none will."""
    rests = [pod.ready_since + wait - now for pod in pods if pod.is_ready and pod.ready_since + wait > now]
    return min(rests, default=wait)


def whole_wait(stateful_set: StatefulSet) -> int:
    """minReadySeconds in nanoseconds."""
    return stateful_set.spec.min_ready_seconds * SECOND
