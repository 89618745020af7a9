"""A cluster for tests of workload controllers, with a kubelet that binds, starts, ends and removes pods by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stowplan_autoscaling.cluster.api_server import ApiServer
from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.feed import ChangeFeed
from stowplan_autoscaling.cluster.informers import Informers
from stowplan_autoscaling.cluster.objects.batch import Job, JobSpec, complete_job
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.pods import FAILED, FALSE, RUNNING, SUCCEEDED, TRUE, ClusterPod
from stowplan_autoscaling.cluster.work_queue import TokenBucket
from stowplan_autoscaling.kernel import SECOND, Kernel
from stowplan_scheduler.objects import Container, NodeSpec, ObjectMeta, PodSpec, PodTemplateSpec, Taint

START = 946_684_800 * SECOND
"""2000-01-01T00:00:00Z."""

KINDS = ("Pod", "Node", "Job", "CronJob", "StatefulSet", "DaemonSet", "ControllerRevision")
TEMPLATE = PodTemplateSpec(
    metadata=ObjectMeta(labels={"app": "x"}), spec=PodSpec(containers=(Container(name="app"),), restart_policy="Never")
)


class Lab:
    """Pods start `startup` seconds after creation, are ready then, and end after `run` more (0: never)."""

    def __init__(
        self, *, startup: float = 1, run: float = 0, terminate: float = 2, limited: bool = False, binds: bool = True
    ) -> None:
        self.kernel = Kernel(START)
        self.feed = ChangeFeed(self.kernel)
        self.server = ApiServer(self.kernel, self.feed, admit=lambda _, obj: self._admit(obj))
        self.server.observers.append(self._observe)
        self.informers = Informers(KINDS)
        self.events: list[tuple[float, str, str, str]] = []
        self.created: list[tuple[float, str]] = []
        self.fails: Callable[[ClusterPod], bool] = lambda pod: False
        self.refuse: Callable[[ClusterPod], Exception | None] = lambda pod: None
        self.terminate = terminate
        self._startup = startup
        self._run = run
        self._binds = binds
        self.client = Client(
            self.kernel, self.server, limit=TokenBucket(20, 30) if limited else None, record=self._record
        )

    def _admit(self, obj: Any) -> Any:
        if isinstance(obj, ClusterPod):
            refusal = self.refuse(obj)
            if refusal is not None:
                raise refusal
        return complete_job(obj) if isinstance(obj, Job) else obj

    def _record(self, kind: str, key: str, _: str, reason: str, message: str) -> None:
        self.events.append((round(self.kernel.elapsed, 3), kind, reason, message))

    def reasons(self, kind: str) -> list[str]:
        """Reasons of the events about objects of a kind."""
        return [reason for _, which, reason, _ in self.events if which == kind]

    # ---- kubelet -----------------------------------------------------------------------------

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        if kind != "Pod" or new is None:
            return
        if old is None:
            self.created.append((round(self.kernel.elapsed, 3), new.metadata.name))
            if self._binds:
                self._after(self._startup, lambda: self._start(new.key, new.metadata.uid, new.version))
        elif new.deleted is not None and old.deleted is None and new.metadata.deletion_grace_period_seconds:
            self._after(self.terminate, lambda: self._stop(new.key))

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self.kernel.later(self.kernel.now + round(seconds * SECOND), action)

    def _start(self, key: str, uid: str, version: int) -> None:
        pod: ClusterPod | None = self.server.find("Pod", key)
        if pod is None or pod.version != version or pod.deleted is not None:
            return
        node = pod.spec.node_name or "node-0"
        now = self.kernel.now
        pod = replace(pod, spec=replace(pod.spec, node_name=node), status=replace(pod.status, phase=RUNNING))
        self.server.put("Pod", replace(pod, started=now, ready=TRUE, ready_since=now))
        if self._run:
            self._after(self._run, lambda: self.end(key))

    def end(self, key: str, *, code: int | None = None) -> None:
        """The containers of a pod end."""
        pod: ClusterPod | None = self.server.find("Pod", key)
        if pod is None or pod.deleted is not None:
            return
        if code is None:
            code = 1 if self.fails(pod) else 0
        self._set_end(pod, code)

    def _set_end(self, pod: ClusterPod, code: int) -> None:
        now = self.kernel.now // SECOND * SECOND
        phase = FAILED if code else SUCCEEDED
        self.server.put(
            "Pod",
            replace(
                pod,
                status=replace(pod.status, phase=phase),
                ready=FALSE,
                ready_since=now,
                finished=now,
                exit_codes=(("app", code),),
            ),
        )

    def _stop(self, key: str) -> None:
        pod: ClusterPod | None = self.server.find("Pod", key)
        if pod is not None and not pod.is_terminal:
            self._set_end(pod, 143)
        if pod is not None:
            self.server.delete("Pod", key, grace=0)

    # ---- the test's own ----------------------------------------------------------------------

    def begin(self) -> None:
        """Start the informers."""
        self.informers.start(self.server, self.feed)

    def run(self, seconds: float) -> None:
        """Let time pass up to so many seconds since the start."""
        self.kernel.run(START + round(seconds * SECOND))

    def add_node(self, name: str, labels: dict[str, str] | None = None, taints: tuple[Taint, ...] = ()) -> None:
        """Create a node."""
        self.server.create(
            "Node", Node(metadata=ObjectMeta(name=name, labels=labels or {}), spec=NodeSpec(taints=taints))
        )

    def add_job(self, name: str = "work", **spec: Any) -> None:
        """Create a Job."""
        spec.setdefault("template", TEMPLATE)
        self.server.create("Job", Job(metadata=ObjectMeta(name=name, namespace="default"), spec=JobSpec(**spec)))

    def stored(self, kind: str, name: str) -> Any:
        """An object of the namespace default."""
        return self.server.get(kind, f"default/{name}")

    def pods(self) -> list[ClusterPod]:
        """All pods."""
        return list(self.server.all("Pod").values())

    def names(self) -> list[str]:
        """Names of pods that are not being deleted, sorted."""
        return sorted(pod.metadata.name for pod in self.pods() if pod.deleted is None)
