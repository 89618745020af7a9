"""What the autoscaler sees: nodes, pods, budgets, owners and the cloud's groups, kept up to date change by change.

An observation lives as long as the autoscaler. Whoever runs the loop tells it what changed in between, and nothing
else: a loop then costs what the changes cost, not what the cluster costs. Times are nanoseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner

from .node_groups import GroupState
from .readiness import is_ready

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
    from stowplan_scheduler.objects import Node, Pod, PodDisruptionBudget

OwnerKey = tuple[str, str]
"""(kind, namespace/name)."""


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """A node. `group`: the id of its node group, None for a node that no group has.

    `created`: metadata.creationTimestamp; `since`: when its readiness last changed; `has_instance`: whether the cloud
    still has its machine.
    """

    node: Node
    group: str | None
    created: int
    since: int
    ready: bool
    has_instance: bool = True


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod. `number`: place in order of creation; `deleted`: metadata.deletionTimestamp.

    `unschedulable`: the scheduler said so (PodScheduled=False, Unschedulable).
    `local_volumes`: names of its volumes on the node's disk (hostPath, emptyDir that is not memory).
    """

    info: PodInfo
    number: int
    created: int
    deleted: int | None = None
    unschedulable: bool = False
    local_volumes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The node that the pod is on or is nominated to; "" for neither."""
        pod = self.info.pod
        return pod.spec.node_name or (pod.status.nominated_node_name if self.deleted is None else "")


class Observation:
    """See the module. `dirty`: names of nodes whose object or pods changed since the last loop."""

    def __init__(self, stores: Stores | None = None) -> None:
        """`stores`: what scheduling rules read besides nodes and pods (namespaces, services, owners)."""
        self.stores = Stores() if stores is None else stores
        self.interner = PodInterner()
        self.nodes: dict[str, ObservedNode] = {}
        self.pods: dict[str, ObservedPod] = {}
        self.on_node: dict[str, dict[str, ObservedPod]] = {}
        self.waiting: dict[str, ObservedPod] = {}
        self.budgets: tuple[PodDisruptionBudget, ...] = ()
        self.owners: dict[OwnerKey, int | None] = {}
        """Owners that exist, with their wanted replicas (None where that is not set)."""
        self.daemon_sets: tuple[DaemonSet, ...] = ()
        self.groups: dict[str, GroupState] = {}
        self.dirty: set[str] = set()
        self.version = 0
        """Moves with every change of anything but `groups`."""

    # ---- nodes -------------------------------------------------------------------------------

    def set_node(
        self,
        node: Node,
        *,
        group: str | None,
        created: int,
        since: int | None = None,
        has_instance: bool = True,
    ) -> None:
        """A node appeared or changed. `since`: by default, kept while the readiness stays, `created` for a new one."""
        name, ready = node.metadata.name, is_ready(node)
        if since is None:
            held = self.nodes.get(name)
            since = held.since if held is not None and held.ready == ready else created
        self.nodes[name] = ObservedNode(node, group, created, since, ready, has_instance)
        self._touch(name)

    def remove_node(self, name: str) -> None:
        """A node is gone; its pods stay until they are gone too."""
        if self.nodes.pop(name, None) is not None:
            self._touch(name)

    # ---- pods --------------------------------------------------------------------------------

    def set_pod(
        self,
        pod: Pod,
        *,
        number: int,
        created: int,
        deleted: int | None = None,
        unschedulable: bool = False,
        local_volumes: Iterable[str] = (),
    ) -> None:
        """A pod appeared or changed; a finished one is to be removed. See ObservedPod."""
        uid = pod.metadata.uid or pod.key
        held = self.pods.get(uid)
        info = self.interner.info(pod) if held is None else self.interner.info_like(pod, held.info)
        if held is not None:
            self._take_out(uid, held)
        seen = ObservedPod(info, number, created, deleted, unschedulable, tuple(local_volumes))
        self.pods[uid] = seen
        place = seen.place
        if place:
            self.on_node.setdefault(place, {})[uid] = seen
            self._touch(place)
        else:
            self.waiting[uid] = seen
            self.version += 1

    def remove_pod(self, uid: str) -> None:
        """A pod is gone or has finished."""
        held = self.pods.pop(uid, None)
        if held is not None:
            self._take_out(uid, held)

    def pods_on(self, name: str) -> list[ObservedPod]:
        """The pods that are on a node or nominated to it, in order of creation."""
        pods = self.on_node.get(name)
        return sorted(pods.values(), key=lambda pod: pod.number) if pods else []

    def facts(self, info: PodInfo) -> ObservedPod:
        """What is known of a pod; of one that was never observed (a pod of a template), nothing."""
        return self.pods.get(info.uid) or ObservedPod(info, 0, 0)

    # ---- everything else ---------------------------------------------------------------------

    def set_budgets(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        """All disruption budgets."""
        self.budgets = tuple(budgets)
        self.version += 1

    def set_owner(self, kind: str, key: str, replicas: int | None) -> None:
        """An owner of pods is there, with so many wanted replicas."""
        if self.owners.get((kind, key), -1) != replicas:
            self.owners[kind, key] = replicas
            self.version += 1

    def remove_owner(self, kind: str, key: str) -> None:
        """An owner of pods is gone."""
        if (kind, key) in self.owners:
            del self.owners[kind, key]
            self.version += 1

    def set_daemon_sets(self, daemon_sets: Iterable[DaemonSet]) -> None:
        """All DaemonSets: new nodes of a group without nodes get their pods."""
        self.daemon_sets = tuple(daemon_sets)
        self.version += 1

    def set_group(self, group_id: str, state: GroupState) -> None:
        """What the cloud says of a group."""
        self.groups[group_id] = state

    def _take_out(self, uid: str, held: ObservedPod) -> None:
        place = held.place
        if place:
            pods = self.on_node[place]
            del pods[uid]
            if not pods:
                del self.on_node[place]
            self._touch(place)
        else:
            del self.waiting[uid]
            self.version += 1

    def _touch(self, name: str) -> None:
        self.dirty.add(name)
        self.version += 1
