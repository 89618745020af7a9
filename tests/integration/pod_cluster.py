"""A control plane whose pods run: the shipped manifests are applied, and what they ask for comes to life.

Deployments are made into pods by the real kube-controller-manager, which are bound by the real kube-scheduler and run
by `integration.kubelet`, with the accounts and the rights that they have in any cluster.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from image.podman import API_SERVER_FLAGS, Podman
from integration.binding_audit import BindingAudit
from integration.containers import ContainerRuntime, Processes
from integration.control_plane import API_SERVER, CONTROLLER_MANAGER, HOST, SCHEDULER, ControlPlane
from integration.crds import wait_until_served
from integration.kube_api import KubeApi, Manifest, sure
from integration.kubectl import Kubectl
from integration.kubelet import Kubelet
from integration.operator_process import NAMESPACE, PATIENCE, Profiles
from integration.scheduling_load import create_all, pod, pods_of, unbound
from stowplan_operator.handlers.names import GROUP_LABEL
from stowplan_operator.resources.definitions import KINDS

IMAGE: Final = "stowplan:0.1.0"
"""That of the shipped manifests."""


class PodCluster:
    """What tests ask of it."""

    def __init__(self, plane: ControlPlane, audit: BindingAudit, kubelet: Kubelet) -> None:
        self.plane = plane
        self.audit = audit
        self.kubelet = kubelet
        self.api: KubeApi = plane.api
        self.kubectl = Kubectl(plane)
        self.profiles = Profiles(self.api)

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for something. Fails with the logs of all pods."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: not after {PATIENCE:.0f} s\n{self.kubelet.logs()}")
            time.sleep(0.1)

    # ---- profiles ------------------------------------------------------------------------------

    def wait(self, name: str, **expected: str) -> None:
        """Until a profile's conditions are as in `Profiles.shows`."""
        try:
            self.until(lambda: self.profiles.shows(name, **expected), f"{name} shows {expected}")
        except BaseException as error:
            error.add_note(str(self.profiles.conditions(name)))
            raise

    def status(self, name: str) -> Manifest:
        """Of a profile."""
        found: Manifest = self.profiles.read(name).get("status", {})
        return found

    # ---- pods of Stowplan ----------------------------------------------------------------------

    def pods(self, labels: str) -> dict[str, Manifest]:
        """Those with these labels that are there to stay, by name."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={labels.replace('=', '%3D')}"
        listed = sure(self.api.request("GET", path))["items"]
        return {
            each["metadata"]["name"]: each
            for each in listed
            if "deletionTimestamp" not in each["metadata"] and each["status"].get("phase") != "Failed"
        }

    def workers(self, group: str) -> dict[str, Manifest]:
        """The pods of a group, by name."""
        return self.pods(f"{GROUP_LABEL}={group}")

    def wait_ready(self, labels: str, count: int) -> dict[str, Manifest]:
        """Until so many pods, and no others, have these labels, all ready."""
        self.until(lambda: [*map(is_ready, self.pods(labels).values())] == [True] * count, f"{count} of {labels}")
        return self.pods(labels)

    def evict(self, pod: str) -> tuple[int, str]:
        """Ask for the eviction of a pod of Stowplan, as a drain does; the code and the message of the answer."""
        meta = {"name": pod, "namespace": NAMESPACE}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        answer = self.api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", eviction)
        return answer.code, answer.message

    def owned(self, group: str) -> dict[str, Manifest]:
        """What the operator wrote for a group, by kind."""
        kinds = "configmaps,deployments,poddisruptionbudgets"
        listed = self.kubectl.get(kinds, "--namespace", NAMESPACE, "--selector", f"{GROUP_LABEL}={group}")
        return {each["kind"]: each for each in listed["items"]}

    # ---- pods to be placed ---------------------------------------------------------------------

    def create_pods(self, scheduler: str, prefix: str, count: int) -> list[str]:
        """Make pods; returns their names."""
        names = [f"{prefix}-{number:03d}" for number in range(count)]
        create_all(self.plane, [pod(name, scheduler, cpu="10m", memory="16Mi") for name in names])
        return names

    def wait_bound_once(self, names: list[str]) -> dict[str, str]:
        """Until all have a node; and each was bound exactly once. Returns their nodes."""

        def found() -> list[Manifest]:
            return [each for each in pods_of(self.api) if each["metadata"]["name"] in names]

        self.until(lambda: not unbound(found()), f"{len(names)} pods have a node")
        bound = self.audit.bound()
        assert {name: bound[f"default/{name}"] for name in names} == dict.fromkeys(names, 1)
        return {each["metadata"]["name"]: each["spec"]["nodeName"] for each in found()}


def is_ready(pod: Manifest) -> bool:
    """Whether a pod's condition says so."""
    conditions: dict[str, Any] = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True"


@contextlib.contextmanager
def pod_cluster(rig: Path, manifests: Path, folder: Path) -> Iterator[PodCluster]:
    """One with a kustomization applied, from its start to its end.

    Pods are processes; with STOWPLAN_CONTAINERS=podman containers from the image, which `make image-check` is for.
    """
    containers = os.environ.get("STOWPLAN_CONTAINERS") == "podman"
    audit = BindingAudit(folder)
    flags = {
        API_SERVER: (*audit.flags, *(API_SERVER_FLAGS if containers else ())),
        # It hands the authority to every namespace, from where pods have it.
        CONTROLLER_MANAGER: ("--root-ca-file", "certs/apiserver.crt"),
    }
    components = (CONTROLLER_MANAGER, SCHEDULER)
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(
            ControlPlane(rig, folder, components=components, service_accounts=True, flags=flags)
        )
        runtime: ContainerRuntime = Processes(f"https://{HOST}:{plane.port}")
        if containers:
            runtime = stack.enter_context(Podman(plane.port))
        kubelet = stack.enter_context(Kubelet(plane, folder / "pods", runtime, images={IMAGE}))
        cluster = PodCluster(plane, audit, kubelet)
        stack.callback(cluster.api.close)
        cluster.kubectl("apply", "--kustomize", str(manifests))
        for kind in KINDS:
            wait_until_served(cluster.api, kind)
        yield cluster
