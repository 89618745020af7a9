"""A small virtual cluster with the Deployment and ReplicaSet controllers; the test plays scheduler and kubelets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World
from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.controllers.deployment import DeploymentController
from stowplan_autoscaling.cluster.controllers.deployment.revisions import REVISION
from stowplan_autoscaling.cluster.controllers.replica_set import ReplicaSetController
from stowplan_autoscaling.cluster.objects.apps import (
    RECREATE,
    Condition,
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdateDeployment,
)
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.pods import RUNNING, TRUE, ClusterPod
from stowplan_autoscaling.cluster.work_queue import TokenBucket
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import (
    Container,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    PodSpec,
    PodTemplateSpec,
)
from stowplan_scheduler.objects.cluster import IntOrString

WEB = "default/web"
LABELS = {"app": "web"}


def template(version: int = 1) -> PodTemplateSpec:
    """Another one for each version."""
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=dict(LABELS), annotations={"version": str(version)}),
        spec=PodSpec(containers=(Container(name="app", image="web"),)),
    )


def rolling(surge: IntOrString, unavailable: IntOrString) -> DeploymentStrategy:
    """maxSurge and maxUnavailable."""
    return DeploymentStrategy(rolling_update=RollingUpdateDeployment(max_surge=surge, max_unavailable=unavailable))


RECREATED = DeploymentStrategy(type=RECREATE)


class AppsWorld(World):
    """`sizes` collects (new, old, ...) replicas, the newest ReplicaSet first, after every change of one."""

    def __init__(
        self,
        *,
        latency: int = 0,
        admit: Callable[[str, Any], Any] | None = None,
        limit: tuple[float, int] | None = None,
        with_replica_sets: bool = True,
        with_deployments: bool = True,
        workers: int = 5,
    ) -> None:
        super().__init__(latency=latency, admit=admit)
        self.replica_sets: ReplicaSetController | None = None
        self.deployments: DeploymentController | None = None
        if with_replica_sets:
            client = self._own_client(limit)
            self.replica_sets = ReplicaSetController(self.kernel, self.informers, client, workers=workers)
        if with_deployments:
            client = self._own_client(limit)
            self.deployments = DeploymentController(self.kernel, self.informers, client, workers=workers)
        self.sizes: list[tuple[int, ...]] = []
        self.server.observers.append(self._note)

    def _own_client(self, limit: tuple[float, int] | None) -> Client:
        bucket = None if limit is None else TokenBucket(*limit)
        return Client(self.kernel, self.server, limit=bucket, record=self._record)

    def _note(self, kind: str, old: Any, new: Any) -> None:
        if kind == "ReplicaSet":
            sizes = tuple(each.spec.replicas for each in reversed(self.sets()))
            if not self.sizes or sizes != self.sizes[-1]:
                self.sizes.append(sizes)

    # ---- the user ----------------------------------------------------------------------------

    def deploy(self, replicas: int, *, version: int = 1, **spec: Any) -> Deployment:
        """Create the Deployment "web"."""
        made = Deployment(
            metadata=ObjectMeta(name="web", namespace="default", labels=LABELS),
            spec=DeploymentSpec(
                replicas=replicas,
                selector=LabelSelector(match_labels=LABELS),
                template=template(version),
                **spec,
            ),
        )
        stored: Deployment = self.server.create("Deployment", made)
        return stored

    def roll_out(self, version: int) -> None:
        """Another template."""
        self.respecify(template=template(version))

    def respecify(self, **spec: Any) -> None:
        """Write fields of the spec."""
        held = self.web()
        self.server.update("Deployment", replace(held, spec=replace(held.spec, **spec)))

    def scale(self, replicas: int) -> None:
        """Write the scale subresource."""
        self.server.scale("Deployment", WEB, replicas)

    # ---- reading -----------------------------------------------------------------------------

    def web(self) -> Deployment:
        """The Deployment as stored."""
        found: Deployment = self.server.get("Deployment", WEB)
        return found

    def sets(self) -> list[ReplicaSet]:
        """All ReplicaSets, in order of creation."""
        return list(self.server.all("ReplicaSet").values())

    def only_set(self) -> ReplicaSet:
        """The one there is."""
        (found,) = self.sets()
        return found

    def active(self) -> list[ClusterPod]:
        """Active pods in order of creation."""
        return [pod for pod in self.server.all("Pod").values() if pod.is_active]

    def condition(self, kind: str) -> Condition:
        """A condition of the Deployment."""
        found = condition_of(self.web().status.conditions, kind)
        assert found is not None, f"no condition {kind}"
        return found

    # ---- kubelets ----------------------------------------------------------------------------

    def all_ready(self) -> None:
        """Make every active pod Ready."""
        for pod in self.active():
            if not pod.is_ready:
                self.make_ready(pod.metadata.name)

    def seconds(self, now: int) -> float:
        """Since the start."""
        return (now - START) / SECOND


def replica_set(
    name: str,
    replicas: int,
    *,
    owner: Deployment | None = None,
    version: int = 1,
    created: int = START,
    available: int = 0,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> ReplicaSet:
    """A ReplicaSet with the pods' template of a version, as its status has it observed and filled."""
    references: tuple[OwnerReference, ...] = ()
    if owner is not None:
        references = (
            OwnerReference(
                api_version="apps/v1",
                kind="Deployment",
                name=owner.metadata.name,
                uid=owner.metadata.uid,
                controller=True,
            ),
        )
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            labels=LABELS,
            annotations={REVISION: str(version), **(annotations or {})} if owner is not None else annotations or {},
            owner_references=references,
        ),
        spec=ReplicaSetSpec(
            replicas=replicas, selector=LabelSelector(match_labels=LABELS), template=template(version), **spec
        ),
        status=ReplicaSetStatus(
            observed_generation=1, replicas=replicas, ready_replicas=available, available_replicas=available
        ),
        created=created,
    )


def running(pod: ClusterPod, *, node: str = "", ready_since: int = START) -> ClusterPod:
    """The pod, running and ready."""
    return replace(
        pod,
        spec=replace(pod.spec, node_name=node),
        status=replace(pod.status, phase=RUNNING),
        ready=TRUE,
        ready_since=ready_since,
    )


class Forgetful(dict[Any, Any]):
    """In place of a memory: nothing stays in it."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Forget it."""


def forget_everything(world: AppsWorld) -> None:
    """Have both controllers do every sync in full."""
    if world.replica_sets is not None:
        world.replica_sets._settled = Forgetful()
    if world.deployments is not None:
        world.deployments._settled = Forgetful()
        world.deployments._steady = Forgetful()
