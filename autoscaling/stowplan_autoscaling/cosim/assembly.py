"""Puts a cluster together from a simulation: API server, controllers, scheduler, kubelets, loads, metrics, results.

The order matters where parts hear of the same change: the book of pods first (it keeps the counts that others read),
then loads and metrics, then whoever only watches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stowplan_autoscaling.cluster.admission import Admission
from stowplan_autoscaling.cluster.api_server import ApiServer
from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.controllers.cron_job import CronJobController
from stowplan_autoscaling.cluster.controllers.daemon_set import DaemonSetController
from stowplan_autoscaling.cluster.controllers.deployment import DeploymentController
from stowplan_autoscaling.cluster.controllers.disruption import DisruptionController
from stowplan_autoscaling.cluster.controllers.garbage_collector import DEPENDENTS, GarbageCollector
from stowplan_autoscaling.cluster.controllers.horizontal import HorizontalPodAutoscalers
from stowplan_autoscaling.cluster.controllers.job import JobController, TtlAfterFinishedController
from stowplan_autoscaling.cluster.controllers.node_lifecycle import NodeLifecycleController
from stowplan_autoscaling.cluster.controllers.pod_gc import PodGarbageCollector
from stowplan_autoscaling.cluster.controllers.replica_set import ReplicaSetController
from stowplan_autoscaling.cluster.controllers.resource_quota import ResourceQuotaController
from stowplan_autoscaling.cluster.controllers.stateful_set import StatefulSetController
from stowplan_autoscaling.cluster.controllers.taint_eviction import TaintEvictionController
from stowplan_autoscaling.cluster.feed import ChangeFeed
from stowplan_autoscaling.cluster.informers import Informers
from stowplan_autoscaling.cluster.kubelet import Kubelets
from stowplan_autoscaling.cluster.node_faults import NodeFaults
from stowplan_autoscaling.cluster.objects.batch import Job, finished_condition
from stowplan_autoscaling.cluster.scheduling import SchedulerProcess
from stowplan_autoscaling.cluster.selector_index import SelectorIndex
from stowplan_autoscaling.cluster.work_queue import TokenBucket
from stowplan_autoscaling.kernel import Kernel
from stowplan_autoscaling.resources.wiring import eviction_rates, hpa_flags, image_catalog, kubelet_config
from stowplan_autoscaling.results import Recorder
from stowplan_autoscaling.streams import Streams
from stowplan_autoscaling.supply.provider import Provider
from stowplan_scheduler.scheduler import Scheduler

from .addresses import Addresses
from .applications import Applications
from .arrivals import JobStream, TracePlayer, task_of
from .autoscalers import KIND as HPA
from .autoscalers import Autoscalers
from .containers import ContainerEvents
from .faults import FaultPlayer
from .initial import add_initial_nodes, create_objects, scaled_objects
from .load_engine import LoadEngine
from .memory_watch import MemoryWatch
from .metrics_engine import MetricsEngine
from .misfits import Misfits
from .node_pools import NodePools
from .observations import Observations
from .pods import PodBook
from .scaled_pods import ScaledPods
from .supply import make_loop
from .world import World

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation

KINDS: Final = (
    "Node",
    "Pod",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ControllerRevision",
    "Job",
    "CronJob",
    "PodDisruptionBudget",
    "ResourceQuota",
    "ReplicationController",
    "HorizontalPodAutoscaler",
)
"""What the controllers watch."""


class Assembly:
    """Everything of one run. `start` it, then let the kernel run."""

    def __init__(self, simulation: LoadedSimulation, recorder: Recorder, on_sample: Callable[[float], None]) -> None:
        spec = simulation.spec
        self.kernel = Kernel(spec.start - spec.settle, most_per_instant=spec.bounds.events_per_instant)
        self.feed = ChangeFeed(self.kernel)
        admission = Admission()
        self.server = ApiServer(self.kernel, self.feed, admit=admission.admit, uid=self._uid)
        admission.connect(self.server)
        streams = Streams(spec.seed)
        self.world = World(simulation, self.kernel, self.server, streams, recorder)
        self.book = PodBook(self.world)
        self.applications = Applications(simulation)
        self.streams: dict[str, JobStream] = {}
        self.traces: list[TracePlayer] = []
        self._add_sources(admission)
        self.loads = LoadEngine(self.world, self.book, self.applications)
        has_scalers = bool(simulation.of("HorizontalPodAutoscaler", "ScaledObject")) or bool(self.traces)
        self.metrics = MetricsEngine(self.world, self.book, self.loads, has_resources=has_scalers)
        self.server.observe(self._observe, "Node", "Job")
        self.kubelets = Kubelets(
            self.kernel,
            self.server,
            streams,
            config=kubelet_config(spec),
            catalog=image_catalog(spec.kubelet),
            application=lambda pod: self.applications.of(self.book.name_of(pod) or f"Pod {pod.key}"),
            listener=ContainerEvents(self.world, self.book, self.loads, self.metrics),
            record=self.world.events_of("kubelet"),
            on_end=lambda _: None,
        )
        self.loads.kubelets = self.kubelets
        if spec.cluster.pod_ips is not None:
            self.kubelets.gives_address = Addresses(self.world, self.book, spec.cluster.pod_ips).take
        self.faults = NodeFaults(self.kernel, self.server, streams)
        self.faults.listen(lambda node, alive: self.metrics.node_works(node, works=alive))
        self.player = FaultPlayer(self.world, self.book, self.faults, self.kubelets, self.loads)
        self.memory = MemoryWatch(self.world, self.book, self.loads, self.kubelets)
        self.provider = self._provider()
        self.pools = NodePools(self.world, self.book, self.loads, self.provider)
        self.observations = Observations(
            self.world, self.book, self.loads, self.kubelets, self.streams, self.pools, on_sample
        )
        self.autoscalers = Autoscalers(self.world, self.book, self.loads, self.metrics)
        self.informers = Informers(KINDS, spec.controllers.watch_latency)
        self._start: list[Callable[[], None]] = []
        self._add_controllers(admission)
        scheduler = Scheduler(
            simulation.scheduler,
            streams.generator("scheduler"),
            start=spec.start,
            third_party=simulation.third_party,
            metrics=False,
        )
        self.process = SchedulerProcess(
            self.kernel,
            self.server,
            scheduler,
            cycle=spec.controllers.scheduler.attempt,
            on_effect=self.observations.effect,
            on_decision=self.observations.decided,
        )
        self.supply = None
        if self.provider is not None:
            self.supply = make_loop(self.world, self.informers, self.provider, scheduler.stores, self.book, self.pools)
        if self.supply is not None:
            self.observations.misfits = Misfits(self.world)

    def _provider(self) -> Provider | None:
        """Whoever rents out machines, where there are pools."""
        world = self.world
        if not world.simulation.pools:
            return None
        provider = Provider(
            self.kernel, self.server, world.streams, world.spec.provider, self.faults, self.kubelets, start=world.start
        )
        self.book.times_of = provider.times_of
        return provider

    def _uid(self, kind: str, key: str) -> str:
        """A pod of a StatefulSet that is made again has the name of the one before, and another uid."""
        return f"{kind}/{key}/{self.server.version + 1}"

    def _add_sources(self, admission: Admission) -> None:
        for demand in self.world.spec.demand:
            if demand.jobs is not None:
                stream = self.streams[demand.name] = JobStream(self.world, self.book, demand, demand.jobs)
                self.applications.learn(stream.workload, {"spec": demand.jobs.template.get("spec") or {}})
                self.applications.tasks[stream.workload] = task_of(demand.jobs)
            trace = self.world.simulation.loads[demand.name].trace
            if demand.trace is not None and trace is not None:
                player = TracePlayer(
                    self.world,
                    self.applications,
                    trace,
                    demand.trace,
                    name=demand.name,
                    complete=admission.complete,
                )
                self.traces.append(player)

    def _client(self, name: str, *, times: int = 1) -> Client:
        controllers = self.world.spec.controllers
        limit = TokenBucket(times * controllers.client_qps, times * controllers.client_burst)
        return Client(self.kernel, self.server, limit=limit, record=self.world.events_of(name))

    def _add_controllers(self, admission: Admission) -> None:
        """Those of kube-controller-manager, each with a client of its own, with upstream's numbers of workers."""
        kernel, informers, client, controllers = self.kernel, self.informers, self._client, self.world.spec.controllers
        ReplicaSetController(kernel, informers, client("replicaset-controller"))
        DeploymentController(kernel, informers, client("deployment-controller"))
        StatefulSetController(kernel, informers, client("statefulset-controller"))
        DaemonSetController(kernel, informers, client("daemonset-controller"))
        JobController(kernel, informers, client("job-controller"))
        CronJobController(kernel, informers, client("cronjob-controller"))
        TtlAfterFinishedController(kernel, informers, client("ttl-after-finished-controller"))
        index, server = SelectorIndex(informers), self.metrics.server
        if server is not None and not server.config.outages:
            # During an outage the API answers otherwise than the samples say.
            self.metrics.scaled = ScaledPods(informers, index, server, self.book)
        HorizontalPodAutoscalers(
            kernel,
            informers,
            client("horizontal-pod-autoscaler"),
            index.pods,
            self.autoscalers.asked,
            flags=hpa_flags(controllers),
            workers=controllers.hpa.concurrent_syncs,
            observe=self.autoscalers.synced,
            columns=self.metrics.scaled,
        )
        DisruptionController(kernel, informers, client("disruption-controller"))
        quota = ResourceQuotaController(kernel, informers, client("resourcequota-controller"), usages=admission.usages)
        lifecycle = NodeLifecycleController(
            kernel,
            informers,
            client("node-controller"),
            self.faults,
            grace=controllers.node_lifecycle.monitor_grace_period,
            startup_grace=controllers.node_lifecycle.startup_grace_period,
            period=controllers.node_lifecycle.monitor_period,
            rates=eviction_rates(controllers),
        )
        TaintEvictionController(kernel, informers, client("taint-eviction-controller"))
        collector = PodGarbageCollector(
            kernel,
            informers,
            client("pod-garbage-collector"),
            threshold=controllers.pod_garbage.terminated_pod_threshold,
            quarantine=controllers.pod_garbage.quarantine,
        )
        GarbageCollector(kernel, informers, client("garbage-collector", times=2), dependents=DEPENDENTS)
        self._start = [quota.start, lifecycle.start, collector.start]

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        if kind == "Node" and new is not None:
            self.loads.nodes.put(new)
            if old is None:
                self.metrics.node_works(new.metadata.name, works=True)
        elif kind == "Node" and self.metrics.server is not None:
            self.metrics.server.node_removed(old.metadata.name)
        elif kind == "Job" and isinstance(new, Job) and isinstance(old, Job):
            self._job_changed(old, new)

    def _job_changed(self, old: Job, new: Job) -> None:
        if finished_condition(new) is None or finished_condition(old) is not None:
            return
        workload = self.book.job_groups.get(f"{new.metadata.namespace}/{new.metadata.name}")
        for stream in self.streams.values():
            if stream.workload == workload:
                stream.finished += 1

    # ---- the start ---------------------------------------------------------------------------

    def start(self) -> None:
        """Create the objects; the run begins at once, or when they have settled."""
        has_settled = not self.world.spec.settle
        if self.provider is not None:
            add_initial_nodes(self.world.simulation.pools, self.provider)
        create_objects(self.world, without=() if has_settled else (HPA,))
        self.informers.start(self.server, self.feed)
        self.process.start(self.feed, self.world.spec.controllers.watch_latency)
        self.kubelets.start(self.feed)
        for start in self._start:
            start()
        if self.supply is not None:
            self.supply.start()
        if has_settled:
            self._begin()
        else:
            self.kernel.later(self.world.start, self._begin_settled)

    def _begin_settled(self) -> None:
        """Autoscalers see the cluster from the beginning of the demand only: before, there is nothing to measure."""
        create_objects(self.world, only=(HPA,))
        self._begin()

    def _begin(self) -> None:
        """Plan the first of everything that the run is about."""
        self.player.start()
        self.loads.start()
        self.metrics.start()
        for scaled_object in scaled_objects(self.world):
            self.autoscalers.add_scaled_object(scaled_object)
        self.autoscalers.start()
        self.memory.start()
        for stream in self.streams.values():
            stream.start()
        for trace in self.traces:
            trace.start()
        self.pools.start()
        self.observations.start()
