"""A control plane with the shipped manifests in it, nodes, an audit of bindings, and the operator's own account."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from integration.accounts import kubeconfig_of
from integration.binding_audit import BindingAudit
from integration.control_plane import API_SERVER, ControlPlane
from integration.crds import wait_until_served
from integration.kube_api import KubeApi
from integration.kubectl import Kubectl
from integration.operator_process import NAMESPACE, PATIENCE, OperatorProcess, Profiles
from integration.scheduling_load import create_all, node, pod, pods_of, unbound
from stowplan_operator.resources.definitions import KINDS

ACCOUNT: Final = "stowplan-operator"
NODES: Final = 10


class OperatorBench:
    """What tests of the operator share. `kubeconfig`: that of the operator's ServiceAccount, with the shipped roles."""

    def __init__(self, plane: ControlPlane, audit: BindingAudit, kubeconfig: Path) -> None:
        self.plane = plane
        self.audit = audit
        self.kubeconfig = kubeconfig
        self.api: KubeApi = plane.api
        self.profiles = Profiles(self.api)
        self.kubectl = Kubectl(plane)

    def operator(self, folder: Path, label: str = "operator", options: Sequence[str] = ()) -> OperatorProcess:
        """One that is not started yet."""
        return OperatorProcess(self.plane, folder, kubeconfig=self.kubeconfig, label=label, options=options)

    # ---- pods ----------------------------------------------------------------------------------

    def create_pods(self, scheduler: str, prefix: str, count: int) -> list[str]:
        """Make pods; returns their names."""
        names = [f"{prefix}-{number:03d}" for number in range(count)]
        create_all(self.plane, [pod(name, scheduler, cpu="10m", memory="16Mi") for name in names])
        return names

    def waiting(self, names: Sequence[str]) -> list[str]:
        """Those without a node."""
        wanted = set(names)
        found = [each for each in pods_of(self.api) if each["metadata"]["name"] in wanted]
        assert len(found) == len(wanted), f"{len(found)} of {len(wanted)} pods are there"
        return unbound(found)

    def wait_bound_once(self, operator: OperatorProcess, names: Sequence[str]) -> None:
        """Until all have a node; and each was bound exactly once, as the server's audit log has it."""
        operator.until(lambda: not self.waiting(names), f"{len(names)} pods have a node")
        bound = self.audit.bound()
        assert {name: bound[f"default/{name}"] for name in names} == dict.fromkeys(names, 1)

    @contextlib.contextmanager
    def stream_of_pods(self, scheduler: str, prefix: str, rate: float) -> Iterator[list[str]]:
        """Pods, so many a second, as long as the block lasts; the list of their names grows."""
        names: list[str] = []
        ends = threading.Event()

        def create() -> None:
            with contextlib.closing(self.plane.api) as api:
                while not ends.wait(1 / rate):
                    name = f"{prefix}-{len(names):04d}"
                    assert api.create(pod(name, scheduler, cpu="10m", memory="16Mi")).is_success
                    names.append(name)

        thread = threading.Thread(target=create, name="pods")
        thread.start()
        try:
            yield names
        finally:
            ends.set()
            thread.join()

    # ---- waiting -------------------------------------------------------------------------------

    def wait_served(self) -> None:
        """Until the definitions, which were just applied, are served."""
        for kind in KINDS:
            wait_until_served(self.api, kind)

    def wait(self, operator: OperatorProcess, name: str, **expected: str) -> None:
        """Until a profile's conditions are as in `Profiles.shows`."""

        def shows() -> bool:
            return self.profiles.shows(name, **expected)

        try:
            operator.until(shows, f"{name} shows {expected}")
        except Exception as error:
            raise AssertionError(f"{error}\n{self.profiles.conditions(name)}") from error

    def wait_without_workers(self, operator: OperatorProcess) -> None:
        """Until no worker runs."""
        operator.until(lambda: operator.status()["workers"] == [], "no worker runs")


@contextlib.contextmanager
def operator_bench(rig: Path, repository: Path, folder: Path) -> Iterator[OperatorBench]:
    """One bench, from the start of its control plane to its end."""
    audit = BindingAudit(folder)
    # No controllers here: nobody would take the taint off a new node.
    flags = {API_SERVER: (*audit.flags, "--disable-admission-plugins", "TaintNodesByCondition")}
    with ControlPlane(rig, folder, components=(), flags=flags) as plane:
        kubectl = Kubectl(plane)
        kubectl("apply", "--kustomize", str(repository / "deploy" / "kustomize" / "default"))
        create_all(plane, [node(f"node-{number}", cpu="64", memory="256Gi", pods="1000") for number in range(NODES)])
        bench = OperatorBench(plane, audit, kubeconfig_of(plane, ACCOUNT, NAMESPACE, folder))
        bench.wait_served()
        yield bench
        bench.api.close()


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something that needs no operator. Raises AssertionError."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
