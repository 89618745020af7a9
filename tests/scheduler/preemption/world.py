"""A small cluster with the default profile, for preemption tests: nodes, pods, budgets, nominated pods, no queue."""

from __future__ import annotations

from msgspec.structs import replace

from stowplan_scheduler.cache.cache import Cache
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import PostFilterResult
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.framework.runtime import FitFailure
from stowplan_scheduler.framework.search import Search
from stowplan_scheduler.framework.selection import TieBreak
from stowplan_scheduler.objects import Node, Pod, PodCondition, PodDisruptionBudget
from stowplan_scheduler.preemption.default_preemption import DefaultPreemption
from stowplan_scheduler.profiles import build_profiles
from support.builders import PodBuilder


class FixedOffset:
    """A generator that always draws the same number, if it is in range."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def integers(self, low: int, high: int) -> int:
        return low + self.offset % (high - low)


class World:
    """The objects, in the order given; pods without a node but with a nominated one are nominated."""

    def __init__(self, *objects: Node | Pod | PodDisruptionBudget) -> None:
        self.cluster = Cluster()
        self.cache = Cache()
        self.interner = PodInterner()
        self.pods: dict[str, Pod] = {}
        self.nominated: dict[str, list[PodInfo]] = {}
        for item in objects:
            if isinstance(item, Node):
                self.cache.add_node(item)
            elif isinstance(item, PodDisruptionBudget):
                self.cluster.stores.pod_disruption_budgets[item.metadata.name] = item
            else:
                self.add_pod(item)
        handle = PluginHandle(self.cluster.stores, self.pods.get)
        self.profile = build_profiles(load_configuration(None), handle)["default-scheduler"]
        plugin = self.profile.plugins["DefaultPreemption"]
        assert isinstance(plugin, DefaultPreemption)
        self.plugin = plugin

    def add_pod(self, pod: Pod) -> None:
        self.pods[pod.key] = pod
        info = self.interner.info(pod)
        if pod.spec.node_name:
            self.cache.add_pod(info)
        elif pod.status.nominated_node_name:
            self.nominated.setdefault(pod.status.nominated_node_name, []).append(info)

    def nominated_nodes(self) -> tuple[str, ...]:
        return tuple(self.nominated)

    def nominated_pods_for_node(self, node: str) -> list[PodInfo]:
        return self.nominated.get(node, [])

    def fail(self, pod: Pod) -> FitFailure:
        """The search for a pod that fits nowhere."""
        self.pods[pod.key] = pod
        self.update()
        info = self.interner.info(pod)
        decision, _ = self.profile.schedule(info, self.cluster, self, 0, TieBreak.HEAP, FixedOffset())
        assert isinstance(decision, FitFailure), "the pod fits"
        return decision

    def search(self, pod: Pod) -> Search:
        """The rules with their states, whether the pod fits or not."""
        self.update()
        return self.profile.search(self.interner.info(pod), CycleState(), self.cluster, self)[0]

    def update(self) -> None:
        self.cluster.table.apply(self.cluster.snapshot, self.cache.update_snapshot(self.cluster.snapshot))

    def preempt(self, pod: Pod | PodBuilder, offset: int = 0) -> PostFilterResult:
        """What DefaultPreemption says about a pod that fits nowhere."""
        pod = pod.build() if isinstance(pod, PodBuilder) else pod
        failure = self.fail(pod)
        info = self.interner.info(pod)
        return self.plugin.post_filter(info, failure.search, failure.diagnosis, FixedOffset(offset))

    def snapshot_state(self) -> list[tuple[str, list[str], int, int]]:
        """What a dry run must not change."""
        infos = self.cluster.snapshot.node_info_list
        return [(i.name, [p.key for p in i.pods], i.requested.milli_cpu, len(i.used_ports or ())) for i in infos]


def victims(result: PostFilterResult) -> list[str]:
    """The names of the victims, the most important first."""
    return [victim.pod.metadata.name for victim in result.victims]


def message(result: PostFilterResult) -> str:
    return result.status.message


def terminating_by_preemption(pod: Pod, reason: str = "PreemptionByScheduler", status: str = "True") -> Pod:
    """The pod with a deletion timestamp and the condition that a scheduler sets on its victims."""
    condition = PodCondition(type="DisruptionTarget", status=status, reason=reason)
    meta = replace(pod.metadata, deletion_timestamp="2000-01-01T00:00:00Z")
    return replace(pod, metadata=meta, status=replace(pod.status, conditions=(condition,)))
