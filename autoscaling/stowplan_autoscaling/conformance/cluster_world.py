"""The world around the controllers of one scenario: kubelets, metrics server, node supply, and the user.

Each does what the stubs of tests/conformance/controllers/internal/clustersim do, at the same moments of the agenda.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan_autoscaling.cluster.api_server import ApiServer
from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.controllers.deployment import DeploymentController
from stowplan_autoscaling.cluster.controllers.disruption import DisruptionController
from stowplan_autoscaling.cluster.controllers.horizontal import HorizontalPodAutoscalers
from stowplan_autoscaling.cluster.controllers.pod_gc import QUARANTINE, PodGarbageCollector
from stowplan_autoscaling.cluster.controllers.replica_set import ReplicaSetController
from stowplan_autoscaling.cluster.feed import ChangeFeed
from stowplan_autoscaling.cluster.informers import Informers
from stowplan_autoscaling.cluster.objects.apps import Deployment
from stowplan_autoscaling.cluster.objects.autoscaling import HorizontalPodAutoscaler
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.pods import FALSE, RUNNING, TRUE, ClusterPod
from stowplan_autoscaling.cluster.scheduling import SchedulerProcess
from stowplan_autoscaling.cluster.selector_index import SelectorIndex
from stowplan_autoscaling.cluster.workload_columns import WorkloadColumns
from stowplan_autoscaling.demand.points import Points, Usage, UsageSpec
from stowplan_autoscaling.hpa.controller import Outcome
from stowplan_autoscaling.hpa.metrics import MetricsError, PodMetric
from stowplan_autoscaling.hpa.objects import CrossVersionObjectReference, Scale
from stowplan_autoscaling.kernel import MICROSECOND, MILLISECOND, Kernel, nanoseconds, whole_seconds
from stowplan_scheduler.config import KubeSchedulerConfiguration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.defaulting import default_pod, resolve_priority
from stowplan_scheduler.effects import AttemptFailed, Effect, RecordEvent
from stowplan_scheduler.objects import LabelSelector, Namespace, ObjectMeta, PodSpec
from stowplan_scheduler.quantity import milli_value, parse_quantity
from stowplan_scheduler.queue import QueuedPodInfo
from stowplan_scheduler.scheduler import Scheduler
from stowplan_scheduler.selectors import LabelQuery
from stowplan_scheduler.timestamps import format_time, parse_time

from .meter import Measurement, Meter

EPOCH: Final = parse_time("2000-01-01T00:00:00Z")
EPS: Final = 500 * MICROSECOND
"""Scripted steps and scrapes act this much before their time, so that a sync at that time sees them."""

SUPPLIED: Final = "oracle/supplied"
GRACE: Final = 30
KCM_KINDS: Final = ("Pod", "Node", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget")


class PodLife:
    """What the world knows of one pod, and its line in the result."""

    __slots__ = (
        "cpu", "deleting", "deployment", "index", "is_running", "key", "labels", "log", "memory", "node", "ready",
        "running", "slot", "unschedulable",
    )  # fmt: skip

    def __init__(self, log: dict[str, Any], deployment: str, index: int, pod: ClusterPod) -> None:
        self.log = log
        self.deployment = deployment
        self.index = index
        self.key = pod.key
        self.labels = pod.metadata.labels
        self.slot = -1
        self.cpu = _requested(pod.spec, "cpu")
        self.memory = _requested(pod.spec, "memory")
        self.node = ""
        self.running = 0
        self.is_running = self.ready = self.deleting = self.unschedulable = False


class NodeLife:
    """What the world knows of one node. `mark` changes whenever it becomes empty or used."""

    __slots__ = ("mark", "pods", "supplied")

    def __init__(self, *, supplied: bool) -> None:
        self.supplied = supplied
        self.pods = 0
        self.mark = 0


class ClusterWorld:
    """One scenario: `create` its objects, then `run`."""

    def __init__(self, scenario: Mapping[str, Any], config: KubeSchedulerConfiguration) -> None:
        self._scenario = scenario
        self.kernel = Kernel(EPOCH)
        self.feed = ChangeFeed(self.kernel)
        self.server = ApiServer(
            self.kernel,
            self.feed,
            admit=self._admit,
            uid=lambda kind, key: f"uid-{kind.lower()}s-{key.rpartition('/')[2]}",
            keeps_annotations=False,
        )
        self.server.stamp = self._unique
        self.server.grace_of = lambda pod: GRACE
        self.server.patched = _through_json
        self.server.observers.append(self._observe)
        self.informers = Informers(KCM_KINDS)
        self._classes: list[Any] = []
        self._admitted: dict[int, tuple[PodSpec, PodSpec]] = {}
        self._scheduler = Scheduler(config, First(), start=EPOCH, metrics=False)
        self._kubelet = scenario["kubelet"]
        workloads = scenario.get("workloads") or {}
        self._kubelets = {name: each["kubelet"] for name, each in workloads.items() if each.get("kubelet")}
        self._usage = {
            name: tuple(_usage(each.get(what)) for what in ("cpu", "memory")) for name, each in workloads.items()
        }
        self._external = {name: Points(raw) for name, raw in (scenario.get("external") or {}).items()}
        self.lives: dict[str, PodLife] = {}
        self.nodes: dict[str, NodeLife] = {}
        self._counts: dict[str, int] = {}
        self._revisions: dict[str, int] = {}
        self._replica_sets: dict[str, int] = {}
        self._meter = Meter(self._usage)
        self._samples = self._meter.measure(EPOCH, 0, 0.0)
        self._window = nanoseconds(scenario["metrics"]["window"])
        self._lost: set[str] = set()
        self._ordering = False
        self._supplied = 0
        self._syncs: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._timeline: list[dict[str, Any]] = []
        self._logs: list[dict[str, Any]] = []
        self.server.create("Namespace", Namespace(metadata=ObjectMeta(name="default")))

    # ---- the run -----------------------------------------------------------------------------

    def create(self, kind: str, obj: Any) -> None:
        """Create an object before the start."""
        self.server.create(kind, obj)

    def run(self, hpas: Sequence[HorizontalPodAutoscaler]) -> dict[str, Any]:
        """Play the scenario to its end."""
        kernel, server, informers = self.kernel, self.server, self.informers
        client = Client(kernel, server)
        # On one processor the controller that was told last of a change reacts first.
        ReplicaSetController(kernel, informers, client, workers=1)
        DeploymentController(kernel, informers, client, workers=1)
        collector = PodGarbageCollector(kernel, informers, client, quarantine=QUARANTINE - MILLISECOND)
        index = SelectorIndex(informers)
        self._columns = WorkloadColumns(informers, index)
        self._columns.on_row = self._note_row
        HorizontalPodAutoscalers(
            kernel, informers, client, index.pods, self, workers=1, observe=self._synced, columns=self._columns
        )
        if self._scenario["objects"].get("pdbs"):
            DisruptionController(kernel, informers, client, workers=1)
        informers.start(server, self.feed)
        process = SchedulerProcess(
            kernel, server, self._scheduler, cycle=nanoseconds(self._scenario["cycle"]), on_effect=self._effect
        )
        process.start(self.feed)
        collector.start()
        for number, hpa in enumerate(hpas):
            self._create_at(EPOCH + nanoseconds(self._scenario["hpaStart"] + number), hpa)
        self._plan()
        kernel.run(EPOCH + nanoseconds(self._scenario["until"]) + EPS)
        self._end(process.trying)
        return {"hpa": self._syncs, "events": self._events, "timeline": self._timeline, "pods": self._logs}

    def _create_at(self, when: int, hpa: HorizontalPodAutoscaler) -> None:
        self.kernel.later(when, lambda: self.server.create("HorizontalPodAutoscaler", hpa))

    def _step_at(self, step: Mapping[str, Any]) -> None:
        self.kernel.later(EPOCH + nanoseconds(step["t"]) - EPS, lambda: self._step(step))

    def _end(self, pod: QueuedPodInfo | None) -> None:
        """The attempt under way is still made when everything else has stopped, but its filters are cut off."""
        life = None if pod is None else self.lives.get(pod.info.pod.metadata.name)
        if pod is None or life is None or pod.info.terminating:
            return
        self.kernel.now += nanoseconds(self._scenario["cycle"])
        life.log["failedAttempts"] = life.log.get("failedAttempts", 0) + 1
        count = len(self.nodes)
        none = f"0/{count} nodes are available:"
        plugins = ["NodeAffinity"] if count and _names_its_nodes(pod.info.pod.spec) else []
        reason = f" {count} node(s) didn't satisfy plugin(s) [NodeAffinity]." if plugins else ""
        message = f"{none}{reason} preemption: {none} {count} Preemption is not helpful for scheduling."
        if not count:
            message = "no nodes available to schedule pods"
        self._note("unschedulable", pod=life.log["name"], message=message, plugins=plugins)

    def _plan(self) -> None:
        for step in self._scenario.get("script") or ():
            self._step_at(step)
        metrics = self._scenario["metrics"]
        if metrics["interval"] > 0:
            self.kernel.later(EPOCH + nanoseconds(metrics.get("phase") or 0) - EPS, self._scrape)
        if self._scenario["sample"] > 0:
            self.kernel.later(EPOCH + nanoseconds(self._scenario["sample"]), self._tick)

    def _after(self, seconds: float, action: Any) -> None:
        self.kernel.later(self.kernel.now + nanoseconds(seconds), action)

    @property
    def _now(self) -> float:
        """Seconds, cut to milliseconds."""
        return (self.kernel.now - EPOCH) // MILLISECOND / 1000

    def _unique(self, now: int) -> int:
        """Whole seconds, 10 ms earlier, and a nanosecond per write: equal seconds stand in the order of the writes."""
        return whole_seconds(now) - 10 * MILLISECOND + self.server.version

    # ---- API server --------------------------------------------------------------------------

    def _admit(self, kind: str, obj: Any) -> Any:
        """Defaults and priority, once per template."""
        if kind == "PriorityClass":
            self._classes.append(obj)
        if not isinstance(obj, ClusterPod):
            return obj
        known = self._admitted.get(id(obj.spec))
        if known is None:
            admitted = resolve_priority(default_pod(obj), self._classes).spec
            known = self._admitted[id(obj.spec)] = obj.spec, admitted
        # A real API server starts a pod as Pending; the one that the recorded answers come from leaves the phase empty.
        return replace(obj, spec=known[1], status=replace(obj.status, phase=""))

    def _note(self, kind: str, **fields: Any) -> None:
        self._events.append({"t": self._now, "type": kind, **fields})

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        if kind == "Pod":
            self._observe_pod(old, new)
        elif kind == "Node":
            if old is None:
                self.nodes[new.metadata.name] = NodeLife(supplied=bool(new.metadata.labels.get(SUPPLIED)))
                self._note("nodeAdded", node=new.metadata.name)
                self._find_again(new.metadata.name)
                self._watch_empty(new.metadata.name)
            elif new is None:
                del self.nodes[old.metadata.name]
                self._lose(old.metadata.name)
                self._note("nodeRemoved", node=old.metadata.name)
        elif kind == "ReplicaSet" and new is not None and new.metadata.name not in self._revisions:
            owner = new.metadata.owner_references[0].name
            number = self._replica_sets[owner] = self._replica_sets.get(owner, 0) + 1
            self._revisions[new.metadata.name] = number

    def _lose(self, node: str) -> None:
        """Nobody measures the pods of a node that is gone."""
        self._lost.add(node)
        for life in self.lives.values():
            if life.node == node:
                self._meter.lose(life)

    def _find_again(self, node: str) -> None:
        """A node of the name of one that is gone: pods that are still there are measured again."""
        if node not in self._lost:
            return
        self._lost.discard(node)
        for life in self.lives.values():
            if life.node == node and life.is_running:
                self._meter.start(life)

    def _observe_pod(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if old is None:
            if new is not None:
                self._created(new)
            return
        life = self.lives[old.metadata.name]
        if new is None:
            self._gone(old.metadata.name, life)
            return
        if new.spec.node_name and not life.node:
            self._bound(new, life)
        if new.deleted is not None and not life.deleting:
            life.deleting, life.ready = True, False
            self._meter.note(life)
            life.log["deleted"] = self._now
            grace = min(self._kubelet_of(life)["terminate"], float(new.metadata.deletion_grace_period_seconds or 0))
            self._after(grace, lambda: self.server.remove("Pod", new.key))
        if new.unschedulable and not life.unschedulable:
            life.unschedulable = True
            self._start_order()

    def _created(self, pod: ClusterPod) -> None:
        replica_set = pod.metadata.owner_references[0].name
        deployment = replica_set.rpartition("-")[0]
        number = self._counts[deployment] = self._counts.get(deployment, 0) + 1
        log = {"name": f"{deployment}-{number}", "revision": self._revisions[replica_set], "created": self._now}
        life = self.lives[pod.metadata.name] = PodLife(log, deployment, number, pod)
        self._meter.add(life)
        self._logs.append(log)

    def _gone(self, name: str, life: PodLife) -> None:
        life.log["gone"] = self._now
        life.log.setdefault("deleted", self._now)
        del self.lives[name]
        self._meter.remove(life)
        self._columns.forget_sample(life.key)
        node = self.nodes.get(life.node)
        if node is not None:
            node.pods -= 1
            self._watch_empty(life.node)

    def _bound(self, pod: ClusterPod, life: PodLife) -> None:
        life.node = life.log["node"] = pod.spec.node_name
        life.log["scheduled"] = self._now
        life.unschedulable = False
        self._note("scheduled", pod=life.log["name"], node=life.node)
        node = self.nodes.get(life.node)
        if node is not None:
            node.pods += 1
            node.mark += 1
        name, bound = pod.metadata.name, self.kernel.now
        self._after(self._kubelet_of(life)["startup"], lambda: self._start(name, bound))

    # ---- kubelet -----------------------------------------------------------------------------

    def _kubelet_of(self, life: PodLife) -> Mapping[str, float]:
        return self._kubelets.get(life.deployment, self._kubelet)  # type: ignore[no-any-return]

    def _start(self, name: str, bound: int) -> None:
        life = self.lives.get(name)
        if life is None or life.deleting or life.node not in self.nodes:
            return
        life.is_running, life.running = True, self.kernel.now
        life.log["running"] = self._now
        self._meter.start(life)
        self._after(self._kubelet_of(life)["ready"], lambda: self._become_ready(name, life))
        pod: ClusterPod = self.server.get("Pod", f"default/{name}")
        began = self._unique(bound)
        status = replace(pod.status, phase=RUNNING, start_time=format_time(began))
        self.server.put("Pod", replace(pod, status=status, started=began, ready=FALSE, ready_since=began))

    def _become_ready(self, name: str, life: PodLife) -> None:
        if self.lives.get(name) is not life or life.deleting or life.node not in self.nodes:
            return
        life.ready = True
        life.log["ready"] = self._now
        self._meter.note(life)
        pod: ClusterPod = self.server.get("Pod", f"default/{name}")
        self.server.put("Pod", replace(pod, ready=TRUE, ready_since=self._unique(self.kernel.now)))

    # ---- metrics server ----------------------------------------------------------------------

    def _scrape(self) -> None:
        metrics = self._scenario["metrics"]
        taken = self._meter.measure(self.kernel.now, nanoseconds(metrics.get("warmup") or 0), self._now + 0.001)
        self._after(metrics.get("delay") or 0, lambda: self._publish(taken))
        self._after(metrics["interval"], self._scrape)

    def _publish(self, taken: Measurement) -> None:
        self._samples = taken
        self._columns.publish_rows(self._meter.rows_of(taken.pods), taken.time, self._window, taken.cpu)

    def _note_row(self, key: str, row: int) -> None:
        life = self.lives.get(key.rpartition("/")[2])
        if life is not None:
            self._meter.note_row(life, row)

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """The resource metrics API."""
        taken = self._samples
        values = taken.cpu if resource == "cpu" else taken.memory if resource == "memory" else None
        found: dict[str, PodMetric] = {}
        is_empty = True
        for index, life in enumerate(taken.pods):
            name = life.key.rpartition("/")[2]
            if self.lives.get(name) is not life or not selector.matches(life.labels):
                continue
            is_empty = False
            if values is not None and container in {None, "app"}:
                found[name] = PodMetric(taken.time, self._window, int(values[index]))
        if is_empty:
            raise MetricsError.nothing("resource")
        return found, taken.time

    def pods(
        self, metric: str, namespace: str, selector: LabelQuery, metric_selector: LabelSelector | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """There is no custom metrics API here."""
        raise MetricsError.unavailable("custom", "no such metric")

    def object(
        self,
        metric: str,
        namespace: str,
        object_ref: CrossVersionObjectReference,
        metric_selector: LabelSelector | None,
        now: int,
    ) -> tuple[int, int]:
        """There is no custom metrics API here."""
        raise MetricsError.unavailable("custom", "no such metric")

    def external(
        self, metric: str, namespace: str, selector: LabelSelector | None, now: int
    ) -> tuple[Sequence[int], int]:
        """The external metrics API."""
        series = self._external.get(metric)
        if series is None:
            raise MetricsError.unavailable("external", "no such metric")
        values = series.at(self._now)
        if not values:
            raise MetricsError.nothing("external")
        return values, now

    # ---- node supply -------------------------------------------------------------------------

    def _start_order(self) -> None:
        supply = self._scenario.get("supply")
        if supply is not None and not self._ordering:
            self._ordering = True
            self._after(supply["batch"], self._place_order)

    def _place_order(self) -> None:
        supply = self._scenario["supply"]
        waiting = [life for life in self.lives.values() if life.unschedulable and not life.deleting]
        allocatable = supply["template"]["status"]["allocatable"]
        cpu = milli_value(parse_quantity(allocatable["cpu"]))
        memory = milli_value(parse_quantity(allocatable["memory"]))
        wanted = max(
            1, -(-sum(life.cpu for life in waiting) // cpu), -(-sum(life.memory for life in waiting) // memory)
        )
        count = min(wanted, supply["max"] - sum(node.supplied for node in self.nodes.values()))
        if not waiting or count <= 0:
            self._ordering = False
            if waiting:
                self._ordering = True
                self._after(max(supply["retry"], 1), self._place_order)
            return
        self._note("order", n=count)
        self._after(supply["delay"], lambda: self._deliver(count))

    def _deliver(self, count: int) -> None:
        template = msgspec.convert(self._scenario["supply"]["template"], Node)
        for _ in range(count):
            self._supplied += 1
            name = f"{template.metadata.name}{self._supplied:03d}"
            labels = {**template.metadata.labels, SUPPLIED: "true", "kubernetes.io/hostname": name}
            self.server.create("Node", replace(template, metadata=replace(template.metadata, name=name, labels=labels)))
        self._after(self._scenario["supply"]["retry"], self._reorder)

    def _reorder(self) -> None:
        self._ordering = False
        if any(life.unschedulable and not life.deleting for life in self.lives.values()):
            self._start_order()

    def _watch_empty(self, name: str) -> None:
        """A supplied node that stays empty is removed."""
        supply, node = self._scenario.get("supply"), self.nodes.get(name)
        if supply is None or not supply.get("idle") or node is None or not node.supplied or node.pods > 0:
            return
        node.mark += 1
        mark = node.mark

        def remove() -> None:
            if self.nodes.get(name) is node and node.pods == 0 and node.mark == mark:
                self.server.remove("Node", name)

        self._after(supply["idle"], remove)

    # ---- script and timeline -----------------------------------------------------------------

    def _step(self, step: Mapping[str, Any]) -> None:
        operation, name = step["op"], step.get("name", "")
        if operation == "scale":
            self.server.scale("Deployment", f"default/{name}", step.get("n", 0))
        elif operation == "rollout":
            self._roll_out(self.server.get("Deployment", f"default/{name}"), step["t"])
        elif operation == "addNode":
            self.server.create("Node", msgspec.convert(step["node"], Node))
        elif operation == "deleteNode":
            self.server.remove("Node", name)
        else:
            node = self.server.find("Node", name)
            if node is not None:
                self.server.put("Node", replace(node, spec=replace(node.spec, unschedulable=operation == "cordon")))

    def _roll_out(self, deployment: Deployment, t: float) -> None:
        template = deployment.spec.template
        annotations = {**template.metadata.annotations, "rollout": f"{t:g}"}
        template = replace(template, metadata=replace(template.metadata, annotations=annotations))
        self.server.put(
            "Deployment",
            replace(
                deployment,
                metadata=replace(deployment.metadata, generation=deployment.metadata.generation + 1),
                spec=replace(deployment.spec, template=template),
            ),
        )

    def _tick(self) -> None:
        deployments = {
            each.metadata.name: [
                each.spec.replicas, each.status.replicas, each.status.ready_replicas, each.status.updated_replicas
            ]
            for each in self.server.all("Deployment").values()
        }  # fmt: skip
        self._timeline.append(
            {
                "t": self._now,
                "nodes": len(self.nodes),
                "pending": [life.node for life in self.lives.values()].count(""),
                "deployments": deployments,
            }
        )
        self._after(self._scenario["sample"], self._tick)

    # ---- logs --------------------------------------------------------------------------------

    def _effect(self, effect: Effect) -> None:
        if isinstance(effect, AttemptFailed):
            life = self.lives.get(effect.pod.metadata.name)
            if life is None:
                return
            life.log["failedAttempts"] = life.log.get("failedAttempts", 0) + 1
            plugins = [*effect.plugins] if effect.rejected else []
            self._note("unschedulable", pod=life.log["name"], message=effect.message, plugins=plugins)
            if effect.nominated_node:
                self._note("nominated", pod=life.log["name"], node=effect.nominated_node)
        elif isinstance(effect, RecordEvent) and effect.reason == "Preempted" and effect.related is not None:
            victim = self.lives.get(effect.regarding.metadata.name)
            preemptor = self.lives.get(effect.related.metadata.name)
            if victim is not None and preemptor is not None:
                self._note("preempted", pod=victim.log["name"], node=victim.node, by=preemptor.log["name"])

    def _synced(self, hpa: HorizontalPodAutoscaler, scale: Scale | None, outcome: Outcome) -> None:
        line: dict[str, Any] = {
            "t": self._now,
            "hpa": hpa.spec.scale_target_ref.name,
            "spec": 0 if scale is None else scale.spec_replicas,
            "status": 0 if scale is None else scale.status_replicas,
        }
        if outcome.proposal is not None:
            line["proposal"] = outcome.proposal
        if outcome.scale_to is not None:
            line["scaleTo"] = outcome.scale_to
        self._syncs.append(line)
        reasons = {condition.type: condition.reason for condition in outcome.status.conditions}
        line["able"] = reasons.get("AbleToScale", "")
        line["active"] = reasons.get("ScalingActive", "")
        line["limited"] = reasons.get("ScalingLimited", "")


def _names_its_nodes(spec: PodSpec) -> bool:
    """Whether the pod names the nodes that it may run on, as pods of a DaemonSet do."""
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return bool(required and all(term.match_fields for term in required.node_selector_terms))


def _requested(spec: PodSpec, name: str) -> int:
    """Milli-units that the containers request."""
    amounts = ((container.resources.requests or {}).get(name) for container in spec.containers)
    return sum(milli_value(parse_quantity(amount)) for amount in amounts if amount is not None)


def _through_json(pod: ClusterPod) -> ClusterPod:
    """A patch of the status goes through JSON there, where times have whole seconds."""
    started = None if pod.started is None else whole_seconds(pod.started)
    status = pod.status if started is None else replace(pod.status, start_time=format_time(started))
    return replace(
        pod,
        started=started,
        ready_since=whole_seconds(pod.ready_since),
        status=status,
    )


def _usage(raw: Any) -> Usage | None:
    return Usage(msgspec.convert(raw, UsageSpec)) if raw else None
