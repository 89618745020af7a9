"""Node tables for tests of rules, made by the real cache and snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan_scheduler.cache.cache import Cache
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import Hint, HintFn
from stowplan_scheduler.framework.interface import FilterPlugin, ScorePlugin
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.framework.status import Status
from stowplan_scheduler.objects import Node, Pod


class World:
    """A cache with nodes and pods, and the cluster that follows it."""

    def __init__(self, nodes: Iterable[Node] = (), pods: Iterable[Pod] = ()) -> None:
        self.cache = Cache()
        self.cluster = Cluster()
        self.interner = PodInterner()
        for node in nodes:
            self.cache.add_node(node)
        for pod in pods:
            self.cache.add_pod(self.interner.info(pod))
        self.refresh()

    def refresh(self) -> None:
        """Take over what changed in the cache."""
        snapshot = self.cluster.snapshot
        self.cluster.table.apply(snapshot, self.cache.update_snapshot(snapshot))

    def info(self, pod: Pod) -> PodInfo:
        """The PodInfo of a pod."""
        return self.interner.info(pod)

    def view(self) -> NodeView:
        """All rows."""
        return NodeView(self.cluster.table, slice(0, self.cluster.table.size))

    def names(self) -> list[str]:
        """The nodes in row order."""
        return [info.name for info in self.cluster.table.infos]

    def verdicts(self, plugin: FilterPlugin, pod: Pod, view: NodeView | None = None) -> list[Status]:
        """What the plugin says about each row; its PreFilter must succeed."""
        result = plugin.pre_filter(self.info(pod), self.cluster)
        if not result.status.is_success:
            raise ValueError(f"PreFilter said {result.status}")
        return [plugin.reasons.statuses[i] for i in plugin.filter(result.state, view or self.view())]

    def passing(self, plugin: FilterPlugin, pod: Pod) -> list[str]:
        """The names of the nodes that the plugin lets pass."""
        return [n for n, status in zip(self.names(), self.verdicts(plugin, pod), strict=True) if status.is_success]

    def raw_scores(self, plugin: ScorePlugin, pod: Pod) -> list[int]:
        """The raw score of each row; PreScore must succeed."""
        view = self.view()
        result = plugin.pre_score(self.info(pod), self.cluster, view)
        if not result.status.is_success:
            raise ValueError(f"PreScore said {result.status}")
        return [int(score) for score in plugin.score(result.state, view)]

    def scores(self, plugin: ScorePlugin, pod: Pod) -> list[int]:
        """The normalized score of each row."""
        view = self.view()
        state = plugin.pre_score(self.info(pod), self.cluster, view).state
        return [int(score) for score in plugin.normalize(state, plugin.score(state, view), view)]


def ask(hint: HintFn | None, pod: PodInfo, old: object = None, new: object = None) -> Hint:
    """What a registration answers; without a function it is QUEUE."""
    return Hint.QUEUE if hint is None else hint(pod, old, new)


def info_of(pod: Pod) -> PodInfo:
    """The PodInfo of a pod outside any world."""
    return PodInterner().info(pod)
