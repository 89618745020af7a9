"""TeamNodes: a node that belongs to a team takes only pods of that team. A rule for one node at a time.

This is the easy way to write a plugin. It costs a call per node the first time a team's pod is seen; after that only
nodes that changed are asked again.
"""

from __future__ import annotations

from collections.abc import Hashable

from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import Inputs, PerNodeFilter, PreFilterResult
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SUCCESS, Status, unresolvable
from stowplan_scheduler.objects import Node

TEAM = "example.com/team"


class TeamNodes(PerNodeFilter):
    """Compares the label `example.com/team` of node and pod. Nodes without it are open to everybody."""

    name = "TeamNodes"
    filter_inputs = Inputs.NODE
    filter_reads_requests = False

    def __init__(self, args: object, handle: PluginHandle) -> None:
        """No args."""
        super().__init__()

    def filter_key(self, pod: PodInfo) -> Hashable:
        """All that is read of the pod."""
        return pod.shape.labels.get(TEAM)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """The state is what `filter_node` gets; it may depend on the key alone."""
        return PreFilterResult(state=pod.shape.labels.get(TEAM))

    def filter_node(self, state: object, node: NodeInfo) -> Status:
        """Removing other pods would not help, so preemption need not look at the node."""
        owner = None if node.node is None else node.node.metadata.labels.get(TEAM)
        if owner is None or owner == state:
            return SUCCESS
        return unresolvable("node(s) belonged to another team")

    def events(self) -> tuple[EventRegistration, ...]:
        """A new node, or other labels on one, may let a rejected pod in."""
        event = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (EventRegistration(event, self._after_node_change),)

    def _after_node_change(self, pod: PodInfo, old: object, new: object) -> Hint:
        owner = new.metadata.labels.get(TEAM) if isinstance(new, Node) else None
        return Hint.QUEUE if owner in {None, pod.shape.labels.get(TEAM)} else Hint.SKIP
