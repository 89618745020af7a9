"""A control plane with an audit of bindings, workers with the rights of a ServiceAccount, and a steady load of pods.

What tests of faults, of take-over and of changes under load have in common: pods come all the time, something happens,
and in the end `bound_once` must hold.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from integration.binding_audit import BindingAudit
from integration.control_plane import API_SERVER, ControlPlane
from integration.kube_api import KubeApi
from integration.scheduling_load import NAMESPACE, create_all, node, pod, unbound
from integration.worker_account import worker_kubeconfig
from integration.worker_process import PATIENCE, WorkerProcess, worker_configuration

NAME: Final = "dense"
"""schedulerName of the pods."""

NODES: Final = 30
RATE: Final = 40.0
"""Pods per second."""


class Bench:
    """One control plane with an audit of bindings, and an account for workers."""

    def __init__(self, plane: ControlPlane, audit: BindingAudit, kubeconfig: Path) -> None:
        self.plane = plane
        self.audit = audit
        self.kubeconfig = kubeconfig

    def worker(
        self, folder: Path, label: str = "worker", configuration: Mapping[str, Any] | None = None
    ) -> WorkerProcess:
        """A worker of the folder's own group: its name is the test's."""
        if configuration is None:
            configuration = worker_configuration(NAME, name=group_of(folder))
        return WorkerProcess(self.plane, folder, configuration, kubeconfig=self.kubeconfig, label=label)


def group_of(folder: Path) -> str:
    """A name for a group of workers that no other test has."""
    return re.sub("[^a-z0-9]+", "-", folder.name.lower()).strip("-")


@contextlib.contextmanager
def open_bench(rig: Path, folder: Path) -> Iterator[Bench]:
    """Start it, with 30 nodes that have room for everything."""
    audit = BindingAudit(folder)
    # No controllers here: nobody would take the taint off a new node.
    flags = {API_SERVER: (*audit.flags, "--disable-admission-plugins", "TaintNodesByCondition")}
    with ControlPlane(rig, folder, components=(), flags=flags) as plane:
        # The pods of one test are still there in the next, and `make soak` has forty of them on one bench.
        names = [f"node-{number:02d}" for number in range(NODES)]
        create_all(plane, [node(name, cpu="256", memory="1Ti", pods="2000") for name in names])
        yield Bench(plane, audit, worker_kubeconfig(plane, folder))


class Load:
    """Creates pods one after the other in a thread of its own, and goes on after errors until each is there."""

    def __init__(self, plane: ControlPlane, prefix: str, rate: float = RATE) -> None:
        self._plane = plane
        self._prefix = prefix
        self._pause = 1 / rate
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self.created: list[str] = []
        """Names of pods that are there."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """No more pods."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        api = self._plane.api
        while not self._ends.is_set():
            name = f"{self._prefix}-{len(self.created):05d}"
            if self._create(api, name):
                self.created.append(name)
                self.after(api, name)
            self._ends.wait(self._pause)
        api.close()

    def after(self, api: KubeApi, name: str) -> None:
        """What else is done about a pod that was just created; nothing."""

    def _create(self, api: KubeApi, name: str) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            # 409: an earlier try whose answer was lost.
            return api.create(pod(name, NAME)).code in {201, 409}
        return False

    def wait_created(self, count: int) -> None:
        """Until there are so many more. Raises TimeoutError."""
        wanted, deadline = len(self.created) + count, time.monotonic() + PATIENCE
        while len(self.created) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {len(self.created)} of {wanted} pods could be created")
            time.sleep(0.02)


def bound_once(bench: Bench, worker: WorkerProcess, load: Load, *, answers_lost: bool = False) -> None:
    """All pods of a load get a node, and the audit has one binding for each.

    `answers_lost`: of some pods it may have none, for the server died between the binding and the line about it, or
    the worker did and the line says that nobody was there any more to be told (504).
    """
    load.end()
    names = set(load.created)

    def waiting() -> list[str]:
        with contextlib.closing(bench.plane.api) as api:
            return [name for name in unbound(api.all("v1", "Pod", NAMESPACE)) if name in names]

    # Pods that failed meanwhile wait for their back-off.
    worker.until(lambda: not waiting(), "all pods are bound")
    bound = bench.audit.bound()
    other = {name: bound[f"{NAMESPACE}/{name}"] for name in names if bound[f"{NAMESPACE}/{name}"] != 1}
    assert {name: count for name, count in other.items() if count or not answers_lost} == {}
    worker.until(lambda: is_at_rest(worker), "nothing is assumed and nothing waits")


def is_at_rest(worker: WorkerProcess) -> bool:
    """What was decided is confirmed by the watch, and no pod waits."""
    lines = worker.get("/metrics").text.splitlines()
    return 'scheduler_cache_size{type="assumed_pods"} 0' in lines and not any(worker.status()["pending"].values())
