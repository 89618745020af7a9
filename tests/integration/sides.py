"""Two clusters with the same verbs: the real control plane, and ours in virtual time.

Both take the manifests of the Kubernetes API and answer with its JSON. A side is one namespace.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from autoscaling.cluster.small_world import START, World
from integration.kube_api import Answer, KubeApi, Manifest, path_of, sure
from integration.manifests import quota, simple_pod
from stowplan_autoscaling.cluster.admission import Admission
from stowplan_autoscaling.cluster.controllers.deployment import DeploymentController
from stowplan_autoscaling.cluster.controllers.disruption import DisruptionController
from stowplan_autoscaling.cluster.controllers.replica_set import ReplicaSetController
from stowplan_autoscaling.cluster.controllers.resource_quota import ResourceQuotaController
from stowplan_autoscaling.cluster.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
)
from stowplan_autoscaling.cluster.eviction import EvictionRefusedError, evict
from stowplan_autoscaling.inputs.decode import KINDS
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.resources.typed import TYPES
from stowplan_scheduler.objects import Node, ObjectMeta
from stowplan_scheduler.timestamps import format_time

API_VERSIONS: Final = {
    "Pod": "v1",
    "ResourceQuota": "v1",
    "LimitRange": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
}
"""The kinds that are compared."""

_CODES: Final[dict[type[ApiError], int]] = {
    ForbiddenError: 403,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    ConflictError: 409,
    TooManyRequestsError: 429,
    EvictionRefusedError: 429,
    ApiError: 500,
}


class Side(Protocol):
    """What a test does with one of the two."""

    def create(self, manifest: Manifest) -> Answer: ...

    def change(self, kind: str, name: str, spec: Manifest) -> None:
        """Merge a change into the spec of an object."""
        ...

    def delete(self, kind: str, name: str) -> None: ...

    def list(self, kind: str) -> list[Manifest]:
        """The objects of a kind, by name."""
        ...

    def report(self, pod: str, *, phase: str = "Running", ready: bool = True) -> None:
        """Say of a pod what its kubelet would."""
        ...

    def bind(self, pod: str) -> None:
        """Put a pod onto a node without a kubelet: there its deletion waits for somebody to confirm it."""
        ...

    def evict(self, pod: str, **options: Any) -> Answer: ...

    def clock(self) -> float:
        """The time in seconds."""
        ...

    def wait(self, until: Callable[[], bool], seconds: float) -> float:
        """Let time pass until something is so, at most so many seconds; returns how many it took."""
        ...


class RealSide:
    """A namespace of the real control plane."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        self._beacons = 0
        sure(api.create(self._named("Namespace", namespace, api_version="v1")))

    def _named(self, kind: str, name: str, *, api_version: str = "") -> Manifest:
        return {
            "apiVersion": api_version or API_VERSIONS[kind],
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace} if kind != "Namespace" else {"name": name},
        }

    def create(self, manifest: Manifest) -> Answer:
        """POST it."""
        return self._api.create(_in_namespace(manifest, self.namespace))

    def rehearse(self, manifest: Manifest, namespace: str = "") -> Answer:
        """POST it without effect, to find out what the server knows by now."""
        manifest = _in_namespace(manifest, namespace or self.namespace)
        return self._api.request("POST", f"{path_of(manifest, named=False)}?dryRun=All", manifest)

    def catch_up(self) -> None:
        """Wait until admission knows the quotas as they are now.

        It hears of all quotas in the order of their changes: once it enforces a change that was made last, in a
        namespace of its own, it has heard of the others.
        """
        namespace = f"{self.namespace}-beacon"
        limits = {"limits.cpu": str(self._beacons)}
        beacon = _in_namespace(quota(limits, "beacon"), namespace)
        if self._beacons == 0:
            sure(self._api.create(self._named("Namespace", namespace, api_version="v1")))
            sure(self._api.create(beacon))
        else:
            sure(self._api.patch(beacon, {"spec": beacon["spec"]}))
        pod = simple_pod("rehearsal", None, {"cpu": "1000k"})
        self.wait(lambda: self.rehearse(pod, namespace).message.endswith(f"limits.cpu={self._beacons}"), 20)
        self._beacons += 1

    def change(self, kind: str, name: str, spec: Manifest) -> None:
        """PATCH it."""
        sure(self._api.patch(self._named(kind, name), {"spec": spec}))

    def delete(self, kind: str, name: str) -> None:
        """DELETE it."""
        sure(self._api.delete(self._named(kind, name)))

    def list(self, kind: str) -> list[Manifest]:
        """GET them."""
        found = self._api.all(API_VERSIONS[kind], kind, self.namespace)
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def report(self, pod: str, *, phase: str = "Running", ready: bool = True) -> None:
        """PATCH its status."""
        # The pod is ready since a moment ago, so that it is available at once.
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": format_time(time.time_ns() - SECOND)}
        change = {"status": {"phase": phase, "conditions": [condition]}}
        sure(self._api.patch(self._named("Pod", pod), change, subresource="status"))

    def bind(self, pod: str) -> None:
        """POST a binding; the node is made for it."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{self.namespace}-{pod}"}}
        sure(self._api.create(node))
        meta = {"name": pod, "namespace": self.namespace}
        target = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}  # type: ignore[index]
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        sure(self._api.request("POST", path_of(self._named("Pod", pod), subresource="binding"), binding))

    def evict(self, pod: str, **options: Any) -> Answer:
        """POST an eviction."""
        meta = {"name": pod, "namespace": self.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        if options:
            body["deleteOptions"] = options
        return self._api.request("POST", path_of(self._named("Pod", pod), subresource="eviction"), body)

    def clock(self) -> float:
        """That of the machine."""
        return time.monotonic()

    def wait(self, until: Callable[[], bool], seconds: float) -> float:
        """Ask again and again."""
        start = self.clock()
        while not until() and self.clock() - start < seconds:
            time.sleep(0.02)
        return self.clock() - start


class VirtualSide:
    """Our API server, admission and controllers, put together as a simulation has them, without scheduler and kubelets.

    Controllers hear of a change at once and their requests are not limited: neither changes where things come to rest.
    """

    STEP: Final = 0.005

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        admission = Admission()
        self._world = world = World(admit=admission.admit)
        admission.connect(world.server)
        DeploymentController(world.kernel, world.informers, world.client())
        ReplicaSetController(world.kernel, world.informers, world.client())
        DisruptionController(world.kernel, world.informers, world.client())
        quotas = ResourceQuotaController(world.kernel, world.informers, world.client(), usages=admission.usages)
        world.start(quotas.start)

    def _key(self, kind: str, name: str) -> str:
        return name if kind == "PriorityClass" else f"{self.namespace}/{name}"

    def _get(self, kind: str, name: str) -> Any:
        return self._world.server.get(kind, self._key(kind, name))

    def create(self, manifest: Manifest) -> Answer:
        """Through admission."""
        kind = manifest["kind"]
        typed = msgspec.convert(_in_namespace(manifest, self.namespace), TYPES.get(kind) or KINDS[kind].type)
        return _answer(lambda: self._world.server.create(kind, typed))

    def change(self, kind: str, name: str, spec: Manifest) -> None:
        """An update of the rest as it is."""
        old = self._get(kind, name)
        merged = _merged(msgspec.to_builtins(old.spec), spec)
        self._world.server.update(kind, msgspec.structs.replace(old, spec=msgspec.convert(merged, type(old.spec))))

    def delete(self, kind: str, name: str) -> None:
        """A deletion."""
        self._world.server.delete(kind, self._key(kind, name))

    def list(self, kind: str) -> list[Manifest]:
        """As JSON."""
        found = [msgspec.to_builtins(each) for each in self._world.server.all(kind).values()]
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def report(self, pod: str, *, phase: str = "Running", ready: bool = True) -> None:
        """Write its status."""
        old = self._get("Pod", pod)
        status = msgspec.structs.replace(old.status, phase=phase)
        since = self._world.kernel.now - SECOND
        self._world.server.put("Pod", msgspec.structs.replace(old, status=status, ready=str(ready), ready_since=since))

    def bind(self, pod: str) -> None:
        """Bind it."""
        node = f"{self.namespace}-{pod}"
        self._world.server.create("Node", Node(metadata=ObjectMeta(name=node)))
        self._world.server.bind(self._key("Pod", pod), node)

    def evict(self, pod: str, **options: Any) -> Answer:
        """The eviction subresource."""
        grace, dry_run = options.get("gracePeriodSeconds"), bool(options.get("dryRun"))
        server, key, now = self._world.server, self._key("Pod", pod), self._world.kernel.now
        return _answer(lambda: evict(server, key, now, grace=grace, dry_run=dry_run))

    def clock(self) -> float:
        """Since the start."""
        return (self._world.kernel.now - START) / SECOND

    def wait(self, until: Callable[[], bool], seconds: float) -> float:
        """Let virtual time pass in small steps."""
        start = self.clock()
        while not until() and self.clock() - start < seconds:
            self._world.run(self.clock() + self.STEP)
        return self.clock() - start


def _in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    if manifest["kind"] == "PriorityClass":
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _answer(request: Callable[[], Any]) -> Answer:
    """The answer of our API server in the words of a real one."""
    try:
        stored = request()
    except ApiError as error:
        details: Manifest = {}
        if isinstance(error, EvictionRefusedError):
            details = {"causes": [{"message": error.cause}], "retryAfterSeconds": error.retry_after}
        return Answer(_CODES[type(error)], {"message": str(error), "details": details})
    return Answer(201, {} if stored is None else msgspec.to_builtins(stored))


def _merged(old: Any, change: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(change, dict) or not isinstance(old, dict):
        return change
    merged = {**old, **{key: _merged(old.get(key), each) for key, each in change.items()}}
    return {key: each for key, each in merged.items() if each is not None}
