"""One sync of a Deployment, from its ReplicaSets to its status.

Follows syncDeployment (pkg/controller/deployment/{deployment_controller,sync,rolling,recreate,progress}.go of
Kubernetes v1.37.2). As upstream, a sync works on the Deployment as last seen: a second status write of one sync is a
conflict if the first one changed anything, and the key comes back after its back-off. Rollback annotations and adoption
are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.objects.apps import Deployment, ReplicaSet
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_scheduler.objects import controller_of, key_of

from .arithmetic import is_rolling
from .sync import DeploymentSync, Settled, Steady, look_again

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel

KIND: Final = "Deployment"
MAX_RETRIES: Final = 15
"""Failures in a row after which a Deployment waits for its next event."""


class DeploymentController:
    """All Deployments of a cluster."""

    def __init__(self, kernel: Kernel, informers: Informers, client: Client, *, workers: int = 5) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._settled: dict[str, tuple[Settled, tuple[int, ...]]] = {}
        """Versions of the Deployment and its ReplicaSets at which there is nothing to do, by key."""
        self._steady: dict[str, Steady] = {}
        self.queue = WorkQueue(kernel, self.sync, workers=workers, max_retries=MAX_RETRIES)
        self.queue.skips, self.queue.repeats = self._needs_nothing, self._is_late
        informers.handle(KIND, self._deployment_changed)
        informers.handle("ReplicaSet", self._replica_set_changed)
        informers.handle("Pod", self._pod_changed)

    def _deployment_changed(self, old: Deployment | None, new: Deployment | None) -> None:
        changed = new or old
        if changed is not None:
            self.queue.add(key_of(changed.metadata))

    def _replica_set_changed(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        changed = new or old
        owner = None if changed is None else self._owner_of(changed)
        if owner is not None:
            self.queue.add(key_of(owner.metadata))

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        """Only a Recreate rollout waits for pods to go."""
        if new is not None or old is None:
            return
        reference = controller_of(old.metadata)
        if reference is None or reference.kind != "ReplicaSet":
            return
        replica_set = self._informers.get("ReplicaSet", f"{old.metadata.namespace}/{reference.name}")
        if replica_set is None or replica_set.metadata.uid != reference.uid:
            return
        owner = self._owner_of(replica_set)
        if owner is not None and not is_rolling(owner):
            self.queue.add(key_of(owner.metadata))

    def _owner_of(self, replica_set: ReplicaSet) -> Deployment | None:
        reference = controller_of(replica_set.metadata)
        if reference is None or reference.kind != KIND:
            return None
        found: Deployment | None = self._informers.get(KIND, f"{replica_set.metadata.namespace}/{reference.name}")
        return found if found is not None and found.metadata.uid == reference.uid else None

    def sync(self, key: str) -> Steps | None:
        """Bring one Deployment closer to its spec. Raises ApiError to be called again."""
        deployment: Deployment | None = self._informers.get(KIND, key)
        if deployment is None:
            self._settled.pop(key, None)
            self._steady.pop(key, None)
            return None
        if self._needs_nothing(key):
            return None
        held = tuple(self._informers.children(deployment.metadata.uid).values())
        return self._sync(key, deployment, held, _versions(held))

    def _needs_nothing(self, key: str) -> bool:
        """Whether a sync would only plan the next one, which is done: the next look at a rollout that stands still.

        Upstream looks ten times a second at one that was late once.
        """
        known = self._settled.get(key)
        deployment: Deployment | None = self._informers.get(KIND, key)
        if known is None or deployment is None or known[0].version != deployment.version:
            return False
        if known[1] != _versions(self._informers.children(deployment.metadata.uid).values()):
            return False
        # What is stored may be newer than what is seen: then even a sync that changes nothing may be refused.
        if self._client.server.find(KIND, key) is not deployment:
            return False
        until, now = known[0].until, self._kernel.now
        if until is not None and until < now and known[0].fails_then:
            return False
        look_again(self.queue, key, until, now)
        return True

    def _is_late(self, key: str) -> bool:
        """Whether a settled Deployment is past its deadline, which then no longer matters."""
        known = self._settled.get(key)
        until = None if known is None else known[0].until
        return until is not None and until < self._kernel.now

    def _sync(
        self, key: str, deployment: Deployment, replica_sets: tuple[ReplicaSet, ...], versions: tuple[int, ...]
    ) -> Steps:
        run = DeploymentSync(self._kernel, self._informers, self._client, self.queue, key, deployment, replica_sets)
        steady = self._steady.get(key)
        if steady is not None and steady.holds_for(deployment, replica_sets):
            yield from run.steady_steps(steady, replica_sets)
        else:
            self._steady.pop(key, None)
            yield from run.steps()
            if run.steady is not None:
                self._steady[key] = run.steady
        if run.settled is not None:
            self._settled[key] = run.settled, versions


def _versions(replica_sets: Iterable[ReplicaSet]) -> tuple[int, ...]:
    return tuple([each.version for each in replica_sets])
