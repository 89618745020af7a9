"""Mode `workloads`: scenarios of mode `cluster` that also have Jobs, CronJobs, StatefulSets and DaemonSets.

`WorkloadWorld` adds to `ClusterWorld` what tests/conformance/controllers/internal/clustersim/workloads.go adds to its
stubs: pods that end, finalizers, a garbage collector, and the user's steps on these objects. Nodes that fail are the
matter of `node_stubs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.controllers.cron_job import CronJobController
from stowplan_autoscaling.cluster.controllers.daemon_set import DaemonSetController
from stowplan_autoscaling.cluster.controllers.job import JobController, TtlAfterFinishedController
from stowplan_autoscaling.cluster.controllers.stateful_set import StatefulSetController
from stowplan_autoscaling.cluster.errors import NotFoundError
from stowplan_autoscaling.cluster.objects.autoscaling import HorizontalPodAutoscaler
from stowplan_autoscaling.cluster.objects.batch import (
    COMPLETION_INDEX,
    CronJob,
    Job,
    complete_job,
    finished_condition,
)
from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
from stowplan_autoscaling.cluster.objects.stateful_set import StatefulSet
from stowplan_autoscaling.cluster.pods import FALSE, ClusterPod
from stowplan_autoscaling.cluster.work_queue import WorkQueue
from stowplan_autoscaling.hpa.validation import InvalidHPAError, admit
from stowplan_autoscaling.kernel import whole_seconds
from stowplan_scheduler.config import (
    ConfigurationError,
    KubeSchedulerConfiguration,
    configuration_error_text,
    load_configuration,
)
from stowplan_scheduler.defaulting import default_pod_spec
from stowplan_scheduler.objects import controller_of

from .cluster import KINDS, decode, decode_hpa
from .cluster_world import KCM_KINDS, ClusterWorld, PodLife
from .node_stubs import NodeStubs
from .turns import TurnClient, TurnInformers
from .workload_lines import cron_job_numbers, daemon_set_numbers, job_end, job_numbers, stateful_set_numbers
from .workload_steps import changed_node, changed_spec

WORKLOADS: Final[Mapping[str, tuple[str, type]]] = {
    "statefulSets": ("StatefulSet", StatefulSet),
    "daemonSets": ("DaemonSet", DaemonSet),
    "jobs": ("Job", Job),
    "cronJobs": ("CronJob", CronJob),
}
"""Further lists of a scenario, in the order of creation."""

_RANKS: Final = ("Job", "CronJob", "StatefulSet", "DaemonSet", "ControllerRevision")
"""In which order the controllers of these kinds react to the same moment."""
_STEP_KINDS: Final = {listed[:-1]: pair for listed, pair in WORKLOADS.items()}
_CLUSTER_SCOPED: Final = frozenset({"priorityClasses", "nodes"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_POD_INDEX: Final = "apps.kubernetes.io/pod-index"
_REVISION_HASH: Final = "controller-revision-hash"


def run_workloads(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result line of one scenario."""
    try:
        hpas = [admit(decode_hpa(raw)) for raw in scenario["objects"].get("hpas") or ()]
        config = load_configuration(scenario.get("scheduler"))
    except InvalidHPAError as failure:
        return {"id": scenario["id"], "invalid": str(failure)}
    except ConfigurationError as failure:
        return {"id": scenario["id"], "invalid": configuration_error_text(failure)}
    world = WorkloadWorld(scenario, config)
    for listed, (kind, type_) in (KINDS | WORKLOADS).items():  # type: ignore[operator]
        for raw in scenario["objects"].get(listed) or ():
            world.create(kind, _decode(type_, raw, namespaced=listed not in _CLUSTER_SCOPED))
    return {"id": scenario["id"], **world.run(hpas)}


def _decode(kind: type, raw: Any, *, namespaced: bool) -> Any:
    found = decode(kind, raw, namespaced=namespaced)
    if isinstance(found, CronJob):
        made = found.spec.job_template
        template = replace(made.spec.template, spec=default_pod_spec(made.spec.template.spec))
        made = replace(made, spec=replace(made.spec, template=template))
        found = replace(found, spec=replace(found.spec, job_template=made))
    return found


class WorkloadWorld(ClusterWorld):
    """One scenario with any kind of workload."""

    def __init__(self, scenario: Mapping[str, Any], config: KubeSchedulerConfiguration) -> None:
        self._names_used: dict[tuple[str, str], int] = {}
        self._cron_jobs: dict[str, str] = {}
        """Owners of Jobs, by name."""
        self._heads: dict[str, int] = {}
        self._hashes: dict[tuple[str, str], int] = {}
        self._more: dict[str, _More] = {}
        """By name of the pod."""
        self._raw_workloads: Mapping[str, Any] = scenario.get("workloads") or {}
        self._used = _used_kinds(scenario)
        super().__init__(scenario, config)
        self._node_stubs = NodeStubs(scenario, self.kernel, self.server, self.lives, self._meter, self._note)
        self._seen = self.informers = TurnInformers(
            self.kernel,
            (*KCM_KINDS, *(kind for kind in _RANKS if kind in self._used)),
            self._add_controllers,
            self._node_stubs.start,
        )
        self.server._uid = self._uid_of  # noqa: SLF001

    def _uid_of(self, kind: str, key: str) -> str:
        """A name that is used again is another object."""
        number = self._names_used[kind, key] = self._names_used.get((kind, key), 0) + 1
        uid = f"uid-{kind.lower()}s-{key.rpartition('/')[2]}"
        return uid if number == 1 else f"{uid}-{number:05d}"

    def run(self, hpas: Sequence[HorizontalPodAutoscaler]) -> dict[str, Any]:
        """Play the scenario to its end."""
        result = super().run(hpas)
        return {**result, "jobs": self._ends()}

    def _add_controllers(self) -> None:
        kernel, informers = self.kernel, self._seen
        others = Client(kernel, self.server)
        self._node_stubs.add_lifecycle(informers, others)
        client = TurnClient(kernel, self.server, informers)
        # Theirs have more workers than there are objects, whose writes take turns by name.
        queues: list[WorkQueue] = []
        if "Job" in self._used:
            queues.append(JobController(kernel, informers, client, workers=1).queue)
        if "CronJob" in self._used:
            queues.append(CronJobController(kernel, informers, client, workers=1).queue)
        if "Job" in self._used:
            queues.append(TtlAfterFinishedController(kernel, informers, client, workers=1).queue)
        if "StatefulSet" in self._used:
            queues.append(StatefulSetController(kernel, informers, client, workers=1).queue)
        if "DaemonSet" in self._used:
            queues.append(DaemonSetController(kernel, informers, client, workers=1).queue)
        for queue in queues:
            queue.by_name = True
        self._node_stubs.add_eviction(informers, others)

    # ---- API server --------------------------------------------------------------------------

    def _admit(self, kind: str, obj: Any) -> Any:
        obj = super()._admit(kind, obj)
        if kind in self._used and kind != "ControllerRevision":
            obj = replace(obj, created=whole_seconds(self.kernel.now))
        elif kind == "Node":
            obj = self._node_stubs.admit_node(obj)
        elif kind == "Pod":
            obj = self._node_stubs.admit_pod(obj)
        return complete_job(obj) if kind == "Job" else obj

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        super()._observe(kind, old, new)
        if kind == "Node":
            self._node_stubs.node_changed(old, new)
        elif kind == "Job":
            self._observe_job(old, new)
        if new is None and kind in self._used:
            self._after(0, lambda: self._collect(kind, old.metadata.uid))

    def _observe_job(self, old: Job | None, new: Job | None) -> None:
        if old is None:
            if new is not None:
                owner = controller_of(new.metadata)
                if owner is not None:
                    self._cron_jobs[new.metadata.name] = owner.name
                self._note("jobCreated", job=new.metadata.name)
        elif new is None:
            self._note("jobRemoved", job=old.metadata.name)
        else:
            end = finished_condition(new)
            if end is not None and finished_condition(old) is None:
                self._note("jobFinished", job=new.metadata.name, message=end.reason)

    def _collect(self, kind: str, uid: str) -> None:
        """Delete what belonged to a removed object, the oldest first."""
        dependents = "Job" if kind == "CronJob" else "Pod"
        found = [
            each
            for each in self.server.all(dependents).values()
            if any(owner.controller and owner.uid == uid for owner in each.metadata.owner_references)
        ]
        for each in sorted(found, key=lambda each: (each.created, each.metadata.name)):
            self.server.delete(dependents, f"default/{each.metadata.name}")

    # ---- pods --------------------------------------------------------------------------------

    def _created(self, pod: ClusterPod) -> None:
        owner = pod.metadata.owner_references[0]
        if owner.kind == "ReplicaSet":
            super()._created(pod)
            self._more[pod.metadata.name] = _More(owner.kind)
            return
        number = self._counts[owner.name] = self._counts.get(owner.name, 0) + 1
        log: dict[str, Any] = {
            "name": f"{owner.name}-{number}",
            "revision": 0 if owner.kind == "Job" else self._revision(owner.kind, owner.name, pod),
            "created": self._now,
        }
        ordinal = pod.metadata.labels.get(_POD_INDEX) or pod.metadata.annotations.get(COMPLETION_INDEX)
        if ordinal:
            log["ordinal"] = int(ordinal)
        name = pod.metadata.name
        life = self.lives[name] = PodLife(log, owner.name, number, pod)
        self._meter.add(life)
        self._more[name] = _More(owner.kind, self._cron_jobs.get(owner.name, "") if owner.kind == "Job" else "")
        self._logs.append(log)

    def _revision(self, kind: str, name: str, pod: ClusterPod) -> int:
        owner = f"{kind}/{name}"
        digest = owner, pod.metadata.labels.get(_REVISION_HASH, "")
        if digest not in self._hashes:
            self._hashes[digest] = self._heads[owner] = self._heads.get(owner, 0) + 1
        return self._hashes[digest]

    def _observe_pod(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if old is None or new is None:
            super()._observe_pod(old, new)
            return
        name = new.metadata.name
        life, more = self.lives[name], self._more[name]
        if new.spec.node_name and not life.node:
            self._bound(new, life)
        if new.status.phase in _ENDED and not more.finished and new.metadata.finalizers:
            self._ended(life, more, new.status.phase)
        if new.deleted is not None and not life.deleting:
            self._marked(new, life)
        if new.unschedulable and not life.unschedulable and more.kind != "DaemonSet":
            life.unschedulable = True
            self._start_order()

    def _marked(self, pod: ClusterPod, life: PodLife) -> None:
        """Deletion has begun."""
        life.deleting, life.ready = True, False
        self._meter.note(life)
        life.log["deleted"] = self._now
        name, grace = pod.metadata.name, float(pod.metadata.deletion_grace_period_seconds or 0)
        delay = min(self._kubelet_of(life)["terminate"], grace)
        if not pod.metadata.finalizers:
            self._after(delay, lambda: self._remove_pod(name, life))
        elif grace > 0:
            self._after(delay, lambda: self._stop_pod(name, life))

    def _gone(self, name: str, life: PodLife) -> None:
        more = self._more.pop(name)
        if more.finished or more.kind == "DaemonSet":
            life.node = ""
        super()._gone(name, life)

    def _bound(self, pod: ClusterPod, life: PodLife) -> None:
        more = self._more[pod.metadata.name]
        more.bound = self.kernel.now
        node = self.nodes.get(pod.spec.node_name)
        mark = 0 if node is None else node.mark
        super()._bound(pod, life)
        if node is not None and more.kind == "DaemonSet":
            node.pods -= 1
            node.mark = mark

    # ---- kubelet -----------------------------------------------------------------------------

    def _workload_of(self, life: PodLife) -> Mapping[str, Any]:
        found = self._raw_workloads.get(life.deployment)
        if found is not None:
            return found  # type: ignore[no-any-return]
        return self._raw_workloads.get(self._cron_jobs.get(life.deployment, "")) or {}

    def _kubelet_of(self, life: PodLife) -> Mapping[str, float]:
        kubelet: Mapping[str, float] = self._workload_of(life).get("kubelet") or self._kubelet
        return kubelet

    def _is_heard(self, life: PodLife, action: Callable[[], None]) -> bool:
        return self._node_stubs.is_heard(life.node, action)

    def _start(self, name: str, bound: int) -> None:
        more = self._more.get(name)
        if more is None or more.finished or more.bound != bound:
            return
        life = self.lives[name]
        if not self._is_heard(life, lambda: self._start(name, bound)):
            return
        super()._start(name, bound)
        run = self._workload_of(life).get("run")
        if run and life.is_running:
            self._after(run, lambda: self._finish_pod(name, life))

    def _become_ready(self, name: str, life: PodLife) -> None:
        if self.lives.get(name) is not life or self._more[name].finished:
            return
        if self._is_heard(life, lambda: self._become_ready(name, life)):
            super()._become_ready(name, life)

    def _finish_pod(self, name: str, life: PodLife) -> None:
        """The containers of a pod end by themselves."""
        if self.lives.get(name) is not life or life.deleting or life.node not in self.nodes:
            return
        more = self._more[name]
        if more.finished or not self._is_heard(life, lambda: self._finish_pod(name, life)):
            return
        phase = "Failed" if self._fails(life) else "Succeeded"
        self._ended(life, more, phase)
        self._set_phase(name, phase)

    def _fails(self, life: PodLife) -> bool:
        workload = self._workload_of(life)
        every = workload.get("failEvery") or 0
        return (
            life.index in (workload.get("fail") or ())
            or (every > 0 and life.index % every == 0)
            or ("ordinal" in life.log and life.log["ordinal"] in (workload.get("failIndexes") or ()))
        )

    def _ended(self, life: PodLife, more: _More, phase: str) -> None:
        more.finished = True
        life.is_running = life.ready = life.unschedulable = False
        self._meter.note(life)
        self._meter.lose(life)
        life.log["finished"], life.log["phase"] = self._now, phase
        node = self.nodes.get(life.node)
        if node is not None and more.kind != "DaemonSet":
            node.pods -= 1
            self._watch_empty(life.node)

    def _set_phase(self, name: str, phase: str) -> None:
        at = whole_seconds(self.kernel.now)
        pod: ClusterPod = self.server.get("Pod", f"default/{name}")
        code = 1 if phase == "Failed" else 0
        self.server.put(
            "Pod",
            replace(
                pod,
                status=replace(pod.status, phase=phase),
                ready=FALSE,
                ready_since=at,
                finished=at,
                exit_codes=tuple((container.name, code) for container in pod.spec.containers),
            ),
        )

    def _remove_pod(self, name: str, life: PodLife) -> None:
        """The kubelet is done with a deleted pod."""
        if self.lives.get(name) is life and self._is_heard(life, lambda: self._remove_pod(name, life)):
            self.server.remove("Pod", f"default/{name}")

    def _stop_pod(self, name: str, life: PodLife) -> None:
        """The same for a pod with finalizers: its containers were killed, so it failed."""
        if self.lives.get(name) is not life or life.node not in self.nodes:
            return
        if not self._is_heard(life, lambda: self._stop_pod(name, life)):
            return
        more = self._more[name]
        if not more.finished:
            self._ended(life, more, "Failed")
            self._set_phase(name, "Failed")
        self.server.delete("Pod", f"default/{name}", grace=0)

    # ---- script and timeline -----------------------------------------------------------------

    def _step(self, step: Mapping[str, Any]) -> None:
        operation, name = step["op"], step.get("name", "")
        if step.get("kind") in _STEP_KINDS:
            self._workload_step(step)
        elif operation in {"taint", "untaint", "label"}:
            node = self.server.find("Node", name)
            if node is not None:
                self.server.put("Node", changed_node(node, step))
        elif not self._node_stubs.step(step):
            super()._step(step)

    def _workload_step(self, step: Mapping[str, Any]) -> None:
        kind, type_ = _STEP_KINDS[step["kind"]]
        key = f"default/{step.get('name', '')}"
        if step["op"] == "create":
            self.server.create(kind, _decode(type_, step["object"], namespaced=True))
        elif step["op"] == "delete":
            self.server.remove(kind, key)
        else:
            try:
                stored = self.server.get(kind, key)
            except NotFoundError:
                return
            generation = stored.metadata.generation + 1
            changed = replace(stored, metadata=replace(stored.metadata, generation=generation))
            self.server.put(kind, replace(changed, spec=changed_spec(stored.spec, step)))

    def _tick(self) -> None:
        super()._tick()
        sample = self._timeline[-1]
        for listed, numbers in (
            ("jobs", job_numbers), ("cronJobs", cron_job_numbers), ("statefulSets", stateful_set_numbers),
            ("daemonSets", daemon_set_numbers),
        ):  # fmt: skip
            found = {each.metadata.name: numbers(each) for each in self.server.all(WORKLOADS[listed][0]).values()}
            if found:
                sample[listed] = found

    def _ends(self) -> list[dict[str, Any]]:
        held = self.server.all("Job")
        return [job_end(held[key]) for key in sorted(held)]


def _used_kinds(scenario: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of these workloads that there are from the start or by a step, and what their controllers watch."""
    steps = {step.get("kind") for step in scenario.get("script") or ()}
    used = {kind for name, (kind, _) in _STEP_KINDS.items() if scenario["objects"].get(f"{name}s") or name in steps}
    if "CronJob" in used:
        used.add("Job")
    if used & {"StatefulSet", "DaemonSet"}:
        used.add("ControllerRevision")
    return frozenset(used)


class _More:
    """What a world with these workloads knows besides of one pod."""

    __slots__ = ("bound", "cron_job", "finished", "kind")

    def __init__(self, kind: str, cron_job: str = "") -> None:
        self.kind = kind
        self.cron_job = cron_job
        self.finished = False
        self.bound = -1
