"""The workload of a scenario and its pods: a stub of everything that the autoscaler scales.

Follows internal/hpasim/world.go and the scale subresource in internal/hpasim/apis.go of the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, RUNNING, SUCCEEDED, TRUE, UNKNOWN, ClusterPod
from stowplan_autoscaling.hpa import Scale
from stowplan_scheduler.objects import DEFAULT_NAMESPACE, ObjectMeta, PodSpec, PodStatus
from stowplan_scheduler.selectors import LabelQuery

from .agenda import PODS, SCRIPTS, Agenda, stamp
from .scenario import PodStep, Scenario


class WorldPod:
    """A pod: what the model knows of it, and the object that the controller sees."""

    __slots__ = ("deleting", "managed", "name", "number", "object", "phase", "ready", "running")

    def __init__(self, name: str, number: int, managed: bool, object: ClusterPod) -> None:
        """Pending; foreign pods are not managed and have the number 0."""
        self.name = name
        self.number = number
        self.managed = managed
        self.object = object
        self.phase = PENDING
        self.ready = False
        self.deleting = False
        self.running = 0.0

    @property
    def is_active(self) -> bool:
        """Whether it counts as a replica."""
        return self.managed and not self.deleting and self.phase not in {FAILED, SUCCEEDED}

    @property
    def rank(self) -> tuple[int, int]:
        """Order of removal: Pending, then unready, then ready pods; the newest first."""
        state = 0 if self.phase == PENDING else 2 if self.ready else 1
        return state, -self.number


class World:
    """Replicas wanted, pods existing."""

    def __init__(self, scenario: Scenario, agenda: Agenda) -> None:
        """The initial pods, and everything scripted on the agenda."""
        self.scenario = scenario
        self.agenda = agenda
        target = scenario.target
        self.replicas = target.replicas
        labels = ",".join(f"{key}={text}" for key, text in sorted(target.labels.items()))
        self.selector = labels if target.selector is None else target.selector
        self.pods: dict[str, WorldPod] = {}
        self._listed: list[ClusterPod] | None = None
        self._counter = 0
        age = scenario.pods.age or 3600.0
        for number in range(target.replicas):
            self._create(0.0 if number >= target.replicas - scenario.pods.fresh else -age)
        self.status_replicas = self._active_count()
        for step in scenario.script:
            agenda.at(step.t, SCRIPTS, lambda t, step=step: self._step(step, t))  # type: ignore[misc]
        for t, wanted in scenario.scale_script:
            agenda.at(t, SCRIPTS, lambda t, wanted=wanted: self.scale_to(int(wanted), t))  # type: ignore[misc]

    # ---- what others see ---------------------------------------------------------------------------------------------

    def scale(self) -> Scale:
        """The scale subresource."""
        return Scale(spec_replicas=self.replicas, status_replicas=self.status_replicas, selector=self.selector)

    def scale_to(self, replicas: int, t: float) -> None:
        """Somebody writes spec.replicas."""
        self.replicas = replicas
        self._reconcile(t)

    def select(self, namespace: str, query: LabelQuery) -> Sequence[ClusterPod]:
        """The pods that a query matches; all pods have the labels of the target."""
        if namespace != DEFAULT_NAMESPACE or not query.matches(self.scenario.target.labels):
            return ()
        if self._listed is None:
            self._listed = [self.pods[name].object for name in sorted(self.pods)]
        return self._listed

    def ready_count(self) -> int:
        """Pods that take load."""
        return sum(1 for pod in self.pods.values() if pod.ready and not pod.deleting and pod.phase == RUNNING)

    # ---- pods --------------------------------------------------------------------------------------------------------

    def _create(self, t: float) -> None:
        self._counter += 1
        pod = self._add(f"{self.scenario.target.name}-{self._counter:05d}", self._counter, True, t)
        self.agenda.at(t + self.scenario.pods.startup, PODS, lambda t: self._start(pod, t))

    def _add(self, name: str, number: int, managed: bool, t: float, spec: PodSpec | None = None) -> WorldPod:
        metadata = ObjectMeta(name=name, namespace=DEFAULT_NAMESPACE, labels=self.scenario.target.labels)
        template = self.scenario.target.pod_template if spec is None else spec
        api = ClusterPod(metadata=metadata, spec=template, status=PodStatus(phase=PENDING), created=stamp(t))
        pod = self.pods[name] = WorldPod(name, number, managed, api)
        self._listed = None
        return pod

    def _show(self, pod: WorldPod, **changes: object) -> None:
        pod.object = replace(pod.object, **changes)
        self._listed = None

    def _start(self, pod: WorldPod, t: float) -> None:
        """From Pending to Running, if there is room."""
        if self.pods.get(pod.name) is not pod or pod.deleting or pod.phase != PENDING:
            return
        capacity = self.scenario.pods.capacity
        if capacity and sum(1 for one in self.pods.values() if one.managed and one.phase == RUNNING) >= capacity:
            return  # until a place is free, see _gone
        pod.phase, pod.running = RUNNING, t
        at = stamp(t)
        self._show(pod, status=PodStatus(phase=RUNNING), started=at, ready=FALSE, ready_since=at)
        self.agenda.at(t + self.scenario.pods.ready, PODS, lambda t: self._become_ready(pod, t))

    def _become_ready(self, pod: WorldPod, t: float) -> None:
        if self.pods.get(pod.name) is pod and pod.phase == RUNNING and not pod.deleting:
            pod.ready = True
            self._show(pod, ready=TRUE, ready_since=stamp(t))

    def _gone(self, pod: WorldPod, t: float) -> None:
        if self.pods.get(pod.name) is pod:
            del self.pods[pod.name]
            self._listed = None
            self._start_pending(t)

    def _start_pending(self, t: float) -> None:
        """Free places go to the pods that waited longest."""
        if self.scenario.pods.capacity:
            for name in sorted(self.pods):
                pod = self.pods[name]
                if pod.managed and pod.phase == PENDING:
                    self._start(pod, t)

    def _active_count(self) -> int:
        return sum(1 for pod in self.pods.values() if pod.is_active)

    def _reconcile(self, t: float) -> None:
        """Create or remove pods until there are as many as wanted."""
        pods = sorted((pod for pod in self.pods.values() if pod.is_active), key=lambda pod: pod.rank)
        for _ in range(len(pods), self.replicas):
            self._create(t)
        for pod in pods[: max(len(pods) - self.replicas, 0)]:
            self._remove(pod, t)
        count, lag = self._active_count(), self.scenario.pods.status_lag
        if lag > 0:
            self.agenda.at(t + lag, SCRIPTS, lambda _: self._set_status(count))
        else:
            self._set_status(count)

    def _set_status(self, count: int) -> None:
        self.status_replicas = count

    def _remove(self, pod: WorldPod, t: float) -> None:
        terminate = self.scenario.pods.terminate
        if pod.phase == PENDING or terminate == 0:
            self._gone(pod, t)
            return
        pod.deleting = True
        self._show(pod, deleted=stamp(t + terminate))
        self.agenda.at(t + terminate, PODS, lambda t: self._gone(pod, t))

    # ---- scripts -----------------------------------------------------------------------------------------------------

    def _step(self, step: PodStep, t: float) -> None:
        pod = self.pods.get(step.pod)
        if pod is None and step.create is not None:
            pod = self._add(step.pod, 0, False, t, step.create)
        if pod is None:
            return
        if step.phase:
            if pod.phase != RUNNING and step.phase == RUNNING:
                pod.running = t
            pod.phase = step.phase
            pod.ready = pod.ready and step.phase == RUNNING
        if step.ready is not None:
            pod.ready = step.ready
        if step.no_ready or step.unknown:
            pod.ready = False
        pod.deleting = pod.deleting or step.deleting
        self._show(pod, **self._changes(pod, step, t))
        if step.gone:
            self._gone(pod, t)
        self._reconcile(t)
        self._start_pending(t)

    @staticmethod
    def _changes(pod: WorldPod, step: PodStep, t: float) -> dict[str, object]:
        """What the API object shows of a step."""
        changes: dict[str, object] = {"status": PodStatus(phase=pod.phase)}
        since = stamp(t if step.transition is None else step.transition)
        if step.no_ready:
            changes.update(ready="", ready_since=0)
        elif step.unknown:
            changes.update(ready=UNKNOWN, ready_since=since)
        elif step.ready is not None:
            changes.update(ready=TRUE if step.ready else FALSE, ready_since=since)
        elif step.phase not in {"", RUNNING} and pod.object.ready:
            changes.update(ready=FALSE, ready_since=since)
        if step.start is not None:
            changes["started"] = stamp(step.start)
        if step.no_start:
            changes["started"] = None
        if step.deleting:
            changes["deleted"] = stamp(t + 30)
        return changes
