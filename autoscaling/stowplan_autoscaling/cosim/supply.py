"""Node supply in a run: makes the loop that the simulation asks for, and writes down what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stowplan_autoscaling.resources.supply_wiring import autoscaling_options
from stowplan_autoscaling.results import SupplyRecord

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.resources import LoadedSimulation
    from stowplan_autoscaling.supply.loops.base import SupplyLoop
    from stowplan_autoscaling.supply.machines import Machine
    from stowplan_autoscaling.supply.provider import Provider
    from stowplan_scheduler.framework.cluster import Stores

    from .node_pools import NodePools
    from .pods import PodBook
    from .world import World


class SupplyJournal:
    """What a supply loop did and could not do, as rows of the results. Before the run begins nothing is written."""

    def __init__(self, world: World, pools: NodePools) -> None:
        self._world = world
        self._pools = pools

    def ran(self, loop: str) -> None:
        """A loop has looked at the cluster."""
        if self._world.has_begun:
            self._world.recorder.loop_ran(loop)

    def decided(self, loop: str, pool: str, nodes: int, pods: int, reason: str, message: str = "") -> None:
        """It acts."""
        self._row(loop, pool, nodes, pods, reason, message, is_stopped=False)

    def stopped(self, loop: str, pool: str, pods: int, reason: str, message: str = "") -> None:
        """It cannot act."""
        self._row(loop, pool, 0, pods, reason, message, is_stopped=True)

    def changed(self, pool: str, message: str) -> None:
        """A pool asks for other machines from now on."""
        self._world.event("NodePoolChanged", f"NodePool {pool}", message)

    def disrupted(self, machine: Machine) -> None:
        """A machine is being emptied, or no longer."""
        self._pools.machine_disrupted()

    def _row(self, loop: str, pool: str, nodes: int, pods: int, reason: str, message: str, *, is_stopped: bool) -> None:
        if self._world.has_begun:
            row = SupplyRecord(self._world.seconds, loop, pool, nodes, pods, reason, is_stopped, message)
            self._world.recorder.row(row)


class LocalVolumes:
    """Names of the volumes of a workload's pods that are on the node's disk, as its manifest has them.

    Host paths and empty directories that are not memory (pkg/utils/drain of kubernetes-sigs/cluster-autoscaler).
    """

    def __init__(self, simulation: LoadedSimulation, book: PodBook) -> None:
        self._book = book
        self._names: dict[str, tuple[str, ...]] = {}
        for manifest in simulation.objects:
            spec = manifest.value.get("spec") or {}
            self._learn(f"{manifest.kind} {manifest.key}", spec)
        for demand in simulation.spec.demand:
            if demand.jobs is not None:
                self._learn(f"Job {demand.jobs.namespace}/{demand.name}", demand.jobs.template.get("spec") or {})

    def _learn(self, name: str, spec: dict[str, Any]) -> None:
        spec = (spec.get("jobTemplate") or {}).get("spec") or spec
        template = spec.get("template")
        pod = (template.get("spec") or {}) if isinstance(template, dict) else spec
        volumes = pod.get("volumes") if isinstance(pod, dict) else None
        found = tuple(each["name"] for each in volumes or () if _is_local(each))
        if found:
            self._names[name] = found

    def of(self, pod: ClusterPod) -> tuple[str, ...]:
        """Those of a pod."""
        if not self._names:
            return ()
        life = self._book.lives.get(pod.key)
        name = "" if life is None or life.workload is None else life.workload.name
        return self._names.get(name or f"Pod {pod.key}", ())


def _is_local(volume: dict[str, Any]) -> bool:
    empty = volume.get("emptyDir")
    return "hostPath" in volume or (empty is not None and empty.get("medium") != "Memory")


def make_loop(
    world: World,
    informers: Informers,
    provider: Provider,
    stores: Stores,
    book: PodBook,
    pools: NodePools,
) -> SupplyLoop | None:
    """The loop that decides about the pools; None where they keep their initial nodes."""
    from stowplan_autoscaling.supply.loops.autoscaler_loop import AutoscalerLoop
    from stowplan_autoscaling.supply.loops.karpenter_loop import KarpenterLoop

    spec, journal = world.spec.supply, SupplyJournal(world, pools)
    if spec.cluster_autoscaler is not None:
        return AutoscalerLoop(
            world.kernel,
            world.server,
            informers,
            provider,
            world.simulation.pools,
            autoscaling_options(spec.cluster_autoscaler),
            stores,
            has_handler=spec.cluster_autoscaler.termination_handler,
            log=journal,
            rng=world.streams.generator("supply/expander"),
            local_volumes=LocalVolumes(world.simulation, book).of,
        )
    if spec.karpenter is not None:
        return KarpenterLoop(
            world.kernel,
            world.server,
            informers,
            provider,
            world.simulation.pools,
            spec.karpenter,
            start=world.start,
            log=journal,
        )
    return None
