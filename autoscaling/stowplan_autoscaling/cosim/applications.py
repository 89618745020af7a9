"""What the containers of each workload do: probes and pull policies from its manifest, times from the simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stowplan_autoscaling.cluster.kubelet import NO_DELAY, ApplicationModel, ContainerModel, Delay, fixed, probe_of
from stowplan_autoscaling.cluster.kubelet.delays import LOG_NORMAL
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.resources.wiring import start_delay

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation
    from stowplan_autoscaling.resources.demand import RunTime
    from stowplan_autoscaling.resources.settings import StartUp

_TASK_KINDS: Final = ("Job", "CronJob")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedDelay(Delay):
    """A log-normal time that is cut off at both ends, seconds."""

    least: float = 0.0
    most: float = float("inf")

    def seconds(self, u: float) -> float:
        """See Delay.seconds."""
        return min(max(Delay.seconds(self, u), self.least), self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDelay(Delay):
    """One of the times that were recorded, each as likely as the others."""

    times: tuple[float, ...] = (0.0,)

    def seconds(self, u: float) -> float:
        """See Delay.seconds."""
        return self.times[min(int(u * len(self.times)), len(self.times) - 1)]


def run_delay(run: RunTime) -> Delay:
    """How long a pod of a Job runs."""
    return BoundedDelay(
        kind=LOG_NORMAL,
        median=run.median / SECOND,
        sigma=run.sigma,
        least=run.minimum / SECOND,
        most=float("inf") if run.maximum is None else run.maximum / SECOND,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the pods of a Job do. `cpu`: cores while they work (None: what they request), `wait`: share without cpu."""

    run: Delay
    cpu: float | None = None
    memory: float | None = None
    wait: float = 0.0


_DEFAULT_TASK: Final = Task(run=fixed(60.0))
"""Pods of Jobs of which nothing is said: an assumption, which loading such a simulation warns of."""


class Applications:
    """The application of each workload, by the name that results give it."""

    def __init__(self, simulation: LoadedSimulation) -> None:
        self._startups: dict[str, StartUp] = {str(each.target): each for each in simulation.spec.kubelet.startups}
        self._manifests: dict[str, Mapping[str, Any]] = {}
        self._models: dict[str, ApplicationModel] = {}
        self.tasks: dict[str, Task] = {}
        for manifest in simulation.objects:
            self.learn(f"{manifest.kind} {manifest.key}", manifest.value)
        for each in simulation.spec.workloads.tasks:
            self.tasks[str(each.target)] = Task(
                run=run_delay(each.run_time), cpu=each.cpu, memory=each.memory, wait=each.wait
            )

    def learn(self, name: str, manifest: Mapping[str, Any]) -> None:
        """Take in the manifest of a workload, or of a bare pod."""
        spec = _pod_spec(manifest)
        if spec is not None:
            self._manifests[name] = spec
            self._models.pop(name, None)

    def task_of(self, name: str) -> Task | None:
        """What pods of a Job do; None for those that run for ever."""
        found = self.tasks.get(name)
        if found is None and name.partition(" ")[0] in _TASK_KINDS:
            return _DEFAULT_TASK
        return found

    def startup_of(self, name: str) -> StartUp | None:
        """What is said about the start of a workload."""
        return self._startups.get(name)

    def of(self, name: str) -> ApplicationModel:
        """The application of a workload."""
        found = self._models.get(name)
        if found is None:
            found = self._models[name] = self._make(name)
        return found

    def _make(self, name: str) -> ApplicationModel:
        spec = self._manifests.get(name, {})
        startup, task = self._startups.get(name), self.task_of(name)
        start = start_delay(startup)
        stop = NO_DELAY if startup is None else fixed(startup.stop / SECOND)
        run = None if task is None else task.run
        containers: dict[str, ContainerModel] = {}
        for each in _list(spec, "initContainers"):
            is_sidecar = each.get("restartPolicy") == "Always"
            containers[each["name"]] = _container(each, NO_DELAY, NO_DELAY, None if is_sidecar else fixed(0.0))
        for each in _list(spec, "containers"):
            containers[each["name"]] = _container(each, start, stop, run)
        return ApplicationModel(containers=containers, default=ContainerModel(start=start, stop=stop, run=run))


def _container(manifest: Mapping[str, Any], start: Delay, stop: Delay, run: Delay | None) -> ContainerModel:
    return ContainerModel(
        start=start,
        stop=stop,
        run=run,
        startup_probe=probe_of(manifest.get("startupProbe")),
        readiness_probe=probe_of(manifest.get("readinessProbe")),
        liveness_probe=probe_of(manifest.get("livenessProbe")),
        pull_policy=manifest.get("imagePullPolicy") or None,
    )


def _pod_spec(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """spec of the pods of a workload, or of the pod itself."""
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping):
        return None
    inner = (spec.get("jobTemplate") or {}).get("spec") or spec
    template = inner.get("template")
    if isinstance(template, Mapping):
        found = template.get("spec")
        return found if isinstance(found, Mapping) else None
    return spec if "containers" in spec else None


def _list(spec: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = spec.get(name)
    return found if isinstance(found, list) else ()
