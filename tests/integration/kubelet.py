"""Kubelets for a real control plane on this machine: pods of its nodes run, and say of themselves how they are.

    with Kubelet(plane, folder, Processes(...), images={"stowplan:0.1.0"}) as kubelet:
        ...

It makes nodes and keeps them ready. A pod that is bound to one of them gets an address, its volumes, and its container;
its readiness is what its readinessProbe finds, its end is SIGTERM, the grace that it asks for, SIGKILL. A container
that ends is started again. An image that is not among `images` cannot be pulled, as kubelets say it.

It knows what the pods of tests need and no more: one container, probes by HTTP, volumes of `integration.pod_volumes`.
It asks more often than a real one, so that tests need not wait: `PERIOD` for probes and for changes of volumes.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from integration.containers import Container, ContainerRuntime, Mount, Running
from integration.control_plane import ControlPlane
from integration.kube_api import KubeApi, Manifest, RefusedError, sure
from integration.pod_volumes import PodVolumes, field_of
from integration.scheduling_load import node
from stowplan_scheduler.quantity import parse_quantity

PERIOD: Final = 0.3
HEARTBEAT: Final = 5.0
"""A node whose lease is not renewed for 40 s counts as lost."""

LEASES: Final = "kube-node-lease"


@dataclass(slots=True)
class _Pod:
    """What a kubelet knows of one of its pods. `sent`: the status that was written last."""

    manifest: Manifest
    address: str
    volumes: PodVolumes
    log: Path
    started: str
    running: Running | None = None
    ready: bool = False
    restarts: int = 0
    kill_at: float | None = None
    sent: Mapping[str, Any] = field(default_factory=dict)

    @property
    def container(self) -> Manifest:
        found: Manifest = self.manifest["spec"]["containers"][0]
        return found


class Kubelet:
    """Those of `nodes` nodes, from `start` to `stop`.

    `images`: what can be pulled; a test may add some, and take some away. `exits`: exit codes of containers that have
    ended, by name of the pod.
    """

    def __init__(
        self, plane: ControlPlane, folder: Path, runtime: ContainerRuntime, *, images: Collection[str], nodes: int = 2
    ) -> None:
        self._plane = plane
        self._folder = folder
        self._runtime = runtime
        self.images = set(images)
        self.nodes: Sequence[str] = [f"node-{number}" for number in range(nodes)]
        self.exits: dict[str, list[int]] = {}
        self._pods: dict[str, _Pod] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Make the nodes, and look after what comes to them."""
        self._folder.mkdir(parents=True)
        with contextlib.closing(self._plane.api) as api:
            for name in self.nodes:
                sure(api.create(node(name, cpu="64", memory="256Gi", pods="200")))
                lease = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now()}
                sure(api.create({**_lease(name), "spec": lease}))
        self._thread.start()

    def stop(self) -> None:
        """End all containers at once; the nodes stay and are not ready before long."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()
        for pod in self._pods.values():
            if pod.running is not None:
                pod.running.kill()
            self._runtime.release(pod.manifest["metadata"]["name"])
        self._pods.clear()

    def log_of(self, pod: str) -> str:
        """All that a pod of this name wrote."""
        return (self._folder / f"{pod}.log").read_text(encoding="utf-8", errors="replace")

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(
            f"==> {path.stem}\n" + "\n".join(self.log_of(path.stem).splitlines()[-8:])
            for path in sorted(self._folder.glob("*.log"))
        )

    # ---- the loop ------------------------------------------------------------------------------

    def _run(self) -> None:
        beat = 0.0
        with contextlib.closing(self._plane.api) as api:
            while not self._ends.wait(PERIOD):
                # A server that is away is asked again.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if time.monotonic() - beat > HEARTBEAT:
                        for name in self.nodes:
                            sure(api.patch(_lease(name), {"spec": {"renewTime": _now()}}))
                        beat = time.monotonic()
                    self._sync(api)

    def _sync(self, api: KubeApi) -> None:
        listed = sure(api.request("GET", "/api/v1/pods"))["items"]
        mine = {
            each["metadata"]["uid"]: {"apiVersion": "v1", "kind": "Pod", **each}
            for each in listed
            if each["spec"].get("nodeName") in self.nodes
        }
        for uid in self._pods.keys() - mine.keys():
            self._forget(uid)
        for uid, manifest in mine.items():
            is_ending = "deletionTimestamp" in manifest["metadata"]
            if uid not in self._pods:
                if is_ending:
                    self._remove(api, manifest)
                    continue
                if manifest["status"].get("phase") in {"Succeeded", "Failed"}:
                    continue
                self._pods[uid] = self._new(manifest)
            pod = self._pods[uid]
            if manifest["status"].get("phase") == "Failed" and not is_ending:
                # Somebody, or this kubelet for want of memory, put an end to it.
                self._forget(uid)
            elif is_ending:
                self._end(api, uid, manifest)
            else:
                self._look(api, pod)
                self._write(api, pod, manifest)

    def _new(self, manifest: Manifest) -> _Pod:
        meta = manifest["metadata"]
        folder = self._folder / meta["uid"]
        address = self._runtime.address(meta["name"])
        return _Pod(manifest, address, PodVolumes(manifest, folder), self._folder / f"{meta['name']}.log", _now())

    def _forget(self, uid: str) -> None:
        pod = self._pods.pop(uid)
        if pod.running is not None:
            pod.running.kill()
        self._runtime.release(pod.manifest["metadata"]["name"])

    # ---- one pod -------------------------------------------------------------------------------

    def _look(self, api: KubeApi, pod: _Pod) -> None:
        """Start what is not running; ask what is whether it is ready."""
        if pod.container["image"] not in self.images:
            return
        try:
            pod.volumes.write(api)
        except RefusedError:
            # What is not there cannot be mounted; what was mounted stays as it is.
            if pod.running is None:
                return
        if pod.running is not None:
            code = pod.running.exit_code()
            if code is not None:
                self._note(pod, code)
                pod.running, pod.restarts = None, pod.restarts + 1
        if pod.running is None:
            pod.running = self._runtime.start(_container(pod))
        pod.ready = _answers(pod)

    def _end(self, api: KubeApi, uid: str, manifest: Manifest) -> None:
        """SIGTERM, the grace, SIGKILL; then the object goes."""
        pod = self._pods[uid]
        if pod.running is not None:
            if pod.kill_at is None:
                pod.kill_at = time.monotonic() + manifest["metadata"]["deletionGracePeriodSeconds"]
                pod.running.terminate()
            code = pod.running.exit_code()
            if code is None:
                if time.monotonic() < pod.kill_at:
                    return
                pod.running.kill()
                code = pod.running.exit_code()
            self._note(pod, -9 if code is None else code)
            pod.running = None
        self._forget(uid)
        self._remove(api, manifest)

    def _note(self, pod: _Pod, code: int) -> None:
        self.exits.setdefault(pod.manifest["metadata"]["name"], []).append(code)

    @staticmethod
    def _remove(api: KubeApi, manifest: Manifest) -> None:
        """Tell the API server that nothing is left of it; it may be gone already."""
        meta = manifest["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        api.request("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", options)

    # ---- status --------------------------------------------------------------------------------

    def _write(self, api: KubeApi, pod: _Pod, manifest: Manifest) -> None:
        status = self._status(pod)
        if status == pod.sent:
            return
        own = {each["type"]: each for each in status["conditions"]}
        others = [each for each in manifest["status"].get("conditions", ()) if each["type"] not in own]
        answer = api.patch(
            manifest, {"status": {**status, "conditions": [*others, *own.values()]}}, subresource="status"
        )
        # It may have been deleted meanwhile.
        if answer.code != 404:
            sure(answer)
        pod.sent = status

    def _status(self, pod: _Pod) -> dict[str, Any]:
        image = pod.container["image"]
        state: Manifest = {"running": {"startedAt": pod.started}}
        if pod.running is None:
            state = {"waiting": {"reason": "ContainerCreating"}}
            if image not in self.images:
                back_off = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
                state = {"waiting": back_off}
        text = "True" if pod.ready else "False"
        conditions = {"Initialized": "True", "ContainersReady": text, "Ready": text}
        return {
            "phase": "Pending" if pod.running is None else "Running",
            "podIP": pod.address,
            "podIPs": [{"ip": pod.address}],
            "startTime": pod.started,
            "conditions": [{"type": type, "status": status} for type, status in conditions.items()],
            "containerStatuses": [
                {
                    "name": pod.container["name"],
                    "image": image,
                    "imageID": "",
                    "ready": pod.ready,
                    "started": pod.running is not None,
                    "restartCount": pod.restarts,
                    "state": state,
                }
            ],
        }


def _lease(name: str) -> Manifest:
    meta = {"name": name, "namespace": LEASES}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _container(pod: _Pod) -> Container:
    """As its pod asks for it: environment, arguments with the variables in them, mounts."""
    spec, container = pod.manifest["spec"], pod.container
    environment = {}
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        environment[variable["name"]] = (
            variable.get("value", "") if source is None else field_of(pod.manifest, source["fieldRef"]["fieldPath"])
        )
    arguments = [
        re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), argument)
        for argument in container.get("args", ())
    ]
    mounts = [
        Mount(
            path=each["mountPath"], folder=pod.volumes.folder(each["name"]), read_only=bool(each.get("readOnly", False))
        )
        for each in container.get("volumeMounts", ())
    ]
    return Container(
        pod=pod.manifest["metadata"]["name"],
        image=container["image"],
        arguments=arguments,
        environment=environment,
        mounts=mounts,
        security={**spec.get("securityContext", {}), **container.get("securityContext", {})},
        memory=parse_quantity(container["resources"].get("limits", {}).get("memory", "0")) // 10**9,
        address=pod.address,
        log=pod.log,
    )


def _answers(pod: _Pod) -> bool:
    """Whether its readiness probe succeeds; a pod without one is ready."""
    probe = pod.container.get("readinessProbe")
    if probe is None:
        return True
    get = probe["httpGet"]
    ports = {each["name"]: each["containerPort"] for each in pod.container["ports"]}
    connection = http.client.HTTPConnection(pod.address, ports.get(get["port"], get["port"]), timeout=1)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", get["path"])
        return connection.getresponse().status == 200
    return False
