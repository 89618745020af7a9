"""Which pods let their node go, which stay behind, and which hold it.

Rules are asked in upstream's order; the first that has an opinion decides:

| rule | pods | outcome |
|---|---|---|
| mirror | of kubelet's own | skip |
| long terminating | 30 s past the end of their grace period | skip |
| replica count (--skip-nodes-with-custom-controller-pods) | controller gone, or below --min-replica-count | block |
| daemon set | of DaemonSets | may go |
| safe to evict | annotated "true" | may go |
| terminal | finished | may go |
| on completion | annotated "on-completion" | wait |
| replicated | without a controller that makes them anew | block |
| system (--skip-nodes-with-system-pods) | in kube-system and in no budget | block, for an hour |
| not safe to evict | annotated "false" | block |
| local storage (--skip-nodes-with-local-storage) | with volumes on the node's disk | block |
| budget | whose budget is used up | block |

Follows pkg/simulator/drain.go and pkg/simulator/drainability/rules of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation, OwnerKey
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.pods import (
    SAFE_TO_EVICT,
    SAFE_TO_EVICT_LOCAL_VOLUMES,
    is_daemon_set_pod,
    is_long_terminating,
    is_mirror_pod,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import OwnerReference, Pod

from .disruption import RemainingBudgets

CONTROLLER_NOT_FOUND: Final = "ControllerNotFound"
MIN_REPLICAS_REACHED: Final = "MinReplicasReached"
NOT_REPLICATED: Final = "NotReplicated"
LOCAL_STORAGE: Final = "LocalStorageRequested"
NOT_SAFE_TO_EVICT: Final = "NotSafeToEvictAnnotation"
SYSTEM_POD: Final = "UnmovableKubeSystemPod"
NOT_ENOUGH_BUDGET: Final = "NotEnoughPdb"

_REPLICATED: Final = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})
_KUBE_SYSTEM: Final = "kube-system"


class Outcome(Enum):
    """What is to become of a pod."""

    MOVE = auto()
    SKIP = auto()
    WAIT = auto()
    BLOCK = auto()


Verdict = tuple[Outcome, str]
_MOVE: Final[Verdict] = (Outcome.MOVE, "")
_SKIP: Final[Verdict] = (Outcome.SKIP, "")
_WAIT: Final[Verdict] = (Outcome.WAIT, "")


@dataclass(slots=True)
class PodsToMove:
    """The pods of a node, sorted. With a `blocking` pod the lists end there.

    `until`: when time alone may change the verdict about a pod; None: never.
    """

    pods: list[PodInfo] = field(default_factory=list)
    daemons: list[PodInfo] = field(default_factory=list)
    on_completion: list[PodInfo] = field(default_factory=list)
    blocking: PodInfo | None = None
    reason: str = ""
    until: int | None = None

    def ends_at(self, when: int) -> None:
        """A verdict holds until then."""
        self.until = when if self.until is None else min(self.until, when)


class DrainRules:
    """The rules with the flags that shape them."""

    def __init__(self, options: AutoscalingOptions, observation: Observation) -> None:
        self._options = options
        self._observation = observation

    def pods_to_move(
        self, pods: Iterable[PodInfo], budgets: RemainingBudgets, now: int, *, check_owners: bool = True
    ) -> PodsToMove:
        """Sort the pods of a node, in order. Without `check_owners`, every controller is taken to be there."""
        owners = self._observation.owners if check_owners else None
        found = PodsToMove()
        for pod in pods:
            outcome, reason = self._judge(pod, budgets, owners, now, found)
            if outcome is Outcome.BLOCK:
                found.blocking, found.reason = pod, reason
                return found
            if outcome is Outcome.WAIT:
                found.on_completion.append(pod)
            elif outcome is Outcome.MOVE:
                (found.daemons if is_daemon_set_pod(pod) else found.pods).append(pod)
        return found

    def _judge(
        self,
        pod: PodInfo,
        budgets: RemainingBudgets,
        owners: Mapping[OwnerKey, int | None] | None,
        now: int,
        found: PodsToMove,
    ) -> Verdict:
        if is_mirror_pod(pod):
            return _SKIP
        if pod.terminating:
            if is_long_terminating(pod.pod, self._observation.facts(pod).deleted, now):
                return _SKIP
            found.ends_at(now)
        if owners is not None and self._options.skip_nodes_with_custom_controller_pods:
            reason = self._owner_trouble(pod, owners)
            if reason:
                return Outcome.BLOCK, reason
        annotation = pod.pod.metadata.annotations.get(SAFE_TO_EVICT, "")
        if is_daemon_set_pod(pod) or annotation == "true" or _is_terminal(pod.pod):
            return _MOVE
        if annotation == "on-completion":
            return _WAIT
        return self._blocking(pod, annotation, budgets, now, found)

    def _blocking(
        self, pod: PodInfo, annotation: str, budgets: RemainingBudgets, now: int, found: PodsToMove
    ) -> Verdict:
        options, owner = self._options, pod.shape.owner
        if owner is None or (options.skip_nodes_with_custom_controller_pods and owner.kind not in _REPLICATED):
            return Outcome.BLOCK, NOT_REPLICATED
        if options.skip_nodes_with_system_pods and pod.shape.namespace == _KUBE_SYSTEM and not budgets.selects(pod):
            created = self._observation.facts(pod).created
            if created and now > created + options.blocking_system_pod_distruption_timeout:
                return _MOVE
            found.ends_at(created + options.blocking_system_pod_distruption_timeout)
            return Outcome.BLOCK, SYSTEM_POD
        if annotation == "false":
            return Outcome.BLOCK, NOT_SAFE_TO_EVICT
        if options.skip_nodes_with_local_storage and self._has_local_storage(pod):
            return Outcome.BLOCK, LOCAL_STORAGE
        if budgets.forbids(pod):
            return Outcome.BLOCK, NOT_ENOUGH_BUDGET
        return _MOVE

    def _owner_trouble(self, pod: PodInfo, owners: Mapping[OwnerKey, int | None]) -> str:
        """Why the pod's controller would not make it anew."""
        owner = pod.shape.owner
        if owner is None:
            return ""
        kind = owner.kind
        if kind != "ReplicationController" and is_daemon_set_pod(pod):
            if kind != "DaemonSet" or _group(owner) != "apps":
                return ""
        elif kind == "StatefulSet":
            if _group(owner) != "apps":
                return ""
        elif kind not in {"ReplicationController", "Job", "ReplicaSet"}:
            return ""
        key = (kind, f"{pod.shape.namespace}/{owner.name}")
        if key not in owners:
            return CONTROLLER_NOT_FOUND
        replicas = owners[key]
        if kind in {"ReplicationController", "ReplicaSet"} and replicas is not None:
            return MIN_REPLICAS_REACHED if replicas < self._options.min_replica_count else ""
        return ""

    def _has_local_storage(self, pod: PodInfo) -> bool:
        """Whether the pod has a volume on the node's disk that no annotation gives up."""
        local = self._observation.facts(pod).local_volumes
        if not local:
            return False
        text = pod.pod.metadata.annotations.get(SAFE_TO_EVICT_LOCAL_VOLUMES, "")
        given_up = text.split(",") if text else []
        return any(name not in given_up for name in local)


def _group(owner: OwnerReference) -> str:
    return owner.api_version.partition("/")[0] if "/" in owner.api_version else ""


def _is_terminal(pod: Pod) -> bool:
    policy, phase = pod.spec.restart_policy, pod.status.phase
    if phase == "Failed":
        return True
    return phase == "Succeeded" and policy in {"Never", "OnFailure"}
