"""The cache: what the scheduler believes about nodes and pods, its own decisions included.

A pod is absent, assumed (decided, not yet seen on its node) or added. Every change of a NodeInfo takes the next number
of one counter, its generation, and moves the NodeInfo to the end of a list; an update of the snapshot walks that list
from the end and stops at the first NodeInfo that the snapshot has already.

Follows pkg/scheduler/backend/cache/cache.go of Kubernetes v1.37.2. Assumed pods never expire there either.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Node, Pod

from .errors import CacheCorruptedError, CacheError
from .image_states import ImageStates
from .node_info import NodeInfo, add_counts, claim_keys, pod_changes
from .node_tree import NodeTree
from .snapshot import NO_PODS, RowChange, Snapshot, SnapshotDelta, SnapshotInconsistent

__all__ = ["Cache", "CacheCorruptedError", "CacheError", "PodRef", "SnapshotInconsistent"]

PodRef = PodInfo | Pod
"""A pod to look up: its uid counts, and its node where upstream compares that."""


class Cache:
    """Nodes and the pods on them. Pods are known by uid, nodes by name."""

    __slots__ = (
        "_assumed",
        "_claim_changes",
        "_generation",
        "_images",
        "_nodes",
        "_pods",
        "_priorities",
        "_served",
        "_tree",
    )

    def __init__(self) -> None:
        """Nothing known yet."""
        # In order of last change, the latest at the end. Holds ghosts too; the tree does not.
        self._nodes: OrderedDict[str, NodeInfo] = OrderedDict()
        self._tree = NodeTree()
        self._pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        self._images = ImageStates()
        self._generation = 0
        self._priorities: dict[int, int] = {}
        # Changes of the uses of claims since the last snapshot.
        self._claim_changes: dict[str, int] = {}
        # Journals and claim changes count from the last update of this snapshot.
        self._served: Snapshot | None = None

    # ---- reading ----------------------------------------------------------------------------

    @property
    def pod_count(self) -> int:
        """The number of pods, those on ghosts included."""
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods."""
        return len(self._assumed)

    @property
    def node_count(self) -> int:
        """The number of NodeInfos, ghosts included."""
        return len(self._nodes)

    def get_node(self, name: str) -> NodeInfo | None:
        """The live NodeInfo of that name, perhaps a ghost. Not a copy: read it, do not change it."""
        return self._nodes.get(name)

    def get_pod(self, pod: PodRef) -> PodInfo | None:
        """What is held of the pod with this uid, even if its node is gone; None if the pod is not in the cache."""
        return self._pods.get(_uid(pod))

    def is_assumed_pod(self, pod: PodRef) -> bool:
        """Whether the pod was assumed and neither confirmed nor forgotten since."""
        return _uid(pod) in self._assumed

    # ---- pods -------------------------------------------------------------------------------

    def assume_pod(self, info: PodInfo) -> None:
        """Count a pod on the node of its spec.nodeName before the node is known to have it.

        Raises CacheError if the pod is in the cache already.
        """
        uid = info.uid
        if uid in self._pods:
            raise CacheError(f"pod {_named(info)} is in the cache, so can't be assumed")
        self._add(info)
        self._assumed.add(uid)

    def forget_pod(self, pod: PodRef) -> None:
        """Take an assumed pod back; nothing happens if the cache has no such pod. Upstream's RemoveAssumedPod as well.

        Raises CacheError if the pod is on another node or not assumed.
        """
        held = self._pods.get(_uid(pod))
        if held is None:
            return
        node, held_node = _node_name(pod), _node_name(held)
        if node != held_node:
            raise CacheError(f"pod {_named(pod)} was assumed on {node} but assigned to {held_node}")
        if held.uid not in self._assumed:
            raise CacheError(f"pod {_named(pod)} is not assumed, so it cannot be removed or forgotten")
        self._remove(held)

    def add_pod(self, info: PodInfo) -> None:
        """A pod was seen on its node: a new one, or an assumed one, which is thereby confirmed, if need be elsewhere.

        Raises CacheError if the pod was added before.
        """
        held = self._pods.get(info.uid)
        if held is None:
            self._add(info)
        elif info.uid in self._assumed:
            self._update(held, info)
        else:
            raise CacheError(f"pod {_named(info)} was already in added state")

    def update_pod(self, info: PodInfo) -> None:
        """A pod on a node changed.

        Raises CacheError if the pod is not in the cache or only assumed, CacheCorruptedError if it changed its node.
        """
        held = self._pods.get(info.uid)
        if held is None:
            raise CacheError(f"pod {_named(info)} is not added to scheduler cache, so cannot be updated")
        if info.uid in self._assumed:
            raise CacheError(f"assumed pod {_named(info)} should not be updated")
        if held.pod.spec.node_name != info.pod.spec.node_name:
            raise CacheCorruptedError(
                "Pod updated on a different node than previously added to. "
                "Scheduler cache is corrupted and can badly affect scheduling decisions"
            )
        self._update(held, info)

    def remove_pod(self, pod: PodRef) -> None:
        """A pod is gone from its node; a pod without a node name counts as gone from where it was.

        Raises CacheError if the pod is not in the cache, CacheCorruptedError if it is on another node.
        """
        held = self._pods.get(_uid(pod))
        if held is None:
            raise CacheError(f"pod {_named(pod)} is not found in scheduler cache, so cannot be removed from it")
        if _node_name(pod) not in {"", _node_name(held)}:
            raise CacheCorruptedError("Scheduler cache is corrupted and can badly affect scheduling decisions")
        self._remove(held)

    def _add(self, info: PodInfo) -> None:
        name = info.pod.spec.node_name
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = NodeInfo()
        node.add_pod(info)
        self._touch(name, node)
        self._pods[info.uid] = info
        add_counts(self._priorities, (info.priority,), 1)
        if info.shape.pod.spec.volumes:
            add_counts(self._claim_changes, claim_keys(info.shape), 1)

    def _remove(self, held: PodInfo) -> None:
        name = held.pod.spec.node_name
        node = self._nodes[name]
        node.remove_pod(held)
        if node.pods or node.node is not None:
            self._touch(name, node)
        else:
            # The last pod of a ghost takes the ghost along.
            del self._nodes[name]
        del self._pods[held.uid]
        add_counts(self._priorities, (held.priority,), -1)
        self._assumed.discard(held.uid)
        if held.shape.pod.spec.volumes:
            add_counts(self._claim_changes, claim_keys(held.shape), -1)

    def _update(self, held: PodInfo, info: PodInfo) -> None:
        """Upstream removes the pod and adds it; where only the object is new, the sums need not be touched.

        The generation moves all the same, and the pod goes to the end of the node's list: preemption sees the order.
        """
        name = info.pod.spec.node_name
        if held.shape is info.shape and held.pod.spec.node_name == name:
            node = self._nodes[name]
            node.replace_pod(held, info)
            self._touch(name, node)
            self._pods[info.uid] = info
            self._assumed.discard(info.uid)
        else:
            self._remove(held)
            self._add(info)

    def _touch(self, name: str, node: NodeInfo) -> None:
        self._generation += 1
        node.generation = self._generation
        self._nodes.move_to_end(name)

    # ---- nodes ------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """A node appeared, perhaps one whose pods were seen first. Of a node that is known, an update."""
        name = node.metadata.name
        info = self._nodes.get(name)
        if info is None:
            info = NodeInfo()
        old = info.node
        # Reads quantities and may raise: the rest is told afterwards.
        info.set_node(node)
        self._nodes[name] = info
        if old is None:
            self._tree.add_node(node)
        else:
            self._tree.update_node(old, node)
        info.image_set = self._images.replace(info.image_set, node.status.images)
        self._touch(name, info)

    def update_node(self, node: Node) -> None:
        """A node changed. Its generation moves whatever changed, and so the counts of its images are looked up anew."""
        self.add_node(node)

    def remove_node(self, node: Node) -> None:
        """A node is gone. With pods on it, it stays as a ghost until they are gone too: their events may come later.

        Raises CacheError if there is no such node.
        """
        name = node.metadata.name
        info = self._nodes.get(name)
        if info is None:
            raise CacheError(f"node {name} is not found")
        self._tree.remove_node(info.node or node)
        for key, uses in (info.pvc_ref_counts or {}).items():
            add_counts(self._claim_changes, (key,), -uses)
        if info.image_set is not None:
            self._images.release(info.image_set)
        info.remove_node()
        if info.pods:
            self._touch(name, info)
        else:
            del self._nodes[name]

    # ---- snapshot ---------------------------------------------------------------------------

    def update_snapshot(self, snapshot: Snapshot) -> SnapshotDelta:
        """Bring a snapshot up to date; O(changed nodes), O(nodes) only when nodes came or went.

        NodeInfos of the snapshot keep their identity. Raises SnapshotInconsistent, with the delta, after a repair.
        """
        switched = self._serve(snapshot)
        delta = SnapshotDelta()
        lay_out, toggled = self._copy_changed(snapshot, delta.changes)
        if len(snapshot.node_info_map) > self._tree.num_nodes:
            self._drop_deleted(snapshot)
            lay_out = True
        if switched and not lay_out:
            snapshot.count_claims()
        elif self._claim_changes and not lay_out:
            # Upstream loses count when a pod leaves a ghost. It notices by a negative number, and starts again.
            lay_out = not snapshot.apply_claim_changes(self._claim_changes)
        self._claim_changes.clear()
        snapshot.lowest_priority = min(self._priorities, default=NO_PODS)
        if lay_out:
            snapshot.lay_out(self._tree.names(), delta)
        else:
            for info in toggled:
                snapshot.relist(info)
        if len(snapshot.node_info_list) != self._tree.num_nodes:
            self._repair(snapshot, delta)
        return delta

    def _serve(self, snapshot: Snapshot) -> bool:
        """Whether another snapshot was updated last: the journals count from then, and are forgotten."""
        served, self._served = self._served, snapshot
        if served is None or served is snapshot:
            return False
        for info in self._nodes.values():
            info.journal = None
        return True

    def _copy_changed(self, snapshot: Snapshot, changes: list[RowChange]) -> tuple[bool, list[NodeInfo]]:
        """Copy what is newer than the snapshot.

        Returns whether a node is new in it, and the NodeInfos that got their first, or lost their last, pod with
        (anti-)affinity.
        """
        infos, known = snapshot.node_info_map, snapshot.generation
        new_node = False
        toggled: list[NodeInfo] = []
        newest = 0
        for name, info in reversed(self._nodes.items()):
            newest = newest or info.generation
            if info.generation <= known:
                break
            if info.node is None:
                continue
            target = infos.get(name)
            if target is None:
                target = _admit(snapshot, name, info)
                new_node = True
            elif bool(target.pods_with_affinity) != bool(info.pods_with_affinity) or bool(
                target.pods_with_required_anti_affinity
            ) != bool(info.pods_with_required_anti_affinity):
                toggled.append(target)
            changes.append(self._copy(info, target))
        snapshot.generation = newest or known
        return new_node, toggled

    def _copy(self, info: NodeInfo, target: NodeInfo) -> RowChange:
        states = self._images.frozen(info.image_set)
        info.image_states = states
        pods = pod_changes(target.pods, info.pods) if info.journal is None else info.journal
        info.journal = ()
        held = target.image_states
        node_changed = _differ(target.node, info.node) or (held is not states and held != states)
        info.copy_into(target)
        return RowChange(target, pods, node_changed)

    def _drop_deleted(self, snapshot: Snapshot) -> None:
        """Take names without a node out of the snapshot's map."""
        for name in [*snapshot.node_info_map]:
            info = self._nodes.get(name)
            if info is None or info.node is None:
                del snapshot.node_info_map[name]

    def _repair(self, snapshot: Snapshot, delta: SnapshotDelta) -> None:
        """Make the snapshot agree with the tree again, and say so."""
        message = (
            f"snapshot state is not consistent, length of NodeInfoList={len(snapshot.node_info_list)} "
            f"not equal to length of nodes in tree={self._tree.num_nodes} "
            f", length of NodeInfoMap={len(snapshot.node_info_map)}, length of nodes in cache={len(self._nodes)}"
            ", trying to recover"
        )
        for name, info in self._present():
            if name not in snapshot.node_info_map:
                delta.changes.append(self._copy(info, _admit(snapshot, name, info)))
        snapshot.lay_out(self._tree.names(), delta)
        raise SnapshotInconsistent(message, delta)

    def _present(self) -> Iterable[tuple[str, NodeInfo]]:
        return ((name, info) for name, info in self._nodes.items() if info.node is not None)


def _admit(snapshot: Snapshot, name: str, info: NodeInfo) -> NodeInfo:
    """A new NodeInfo of the snapshot. Its row starts empty, whatever the journal counted from: it was a ghost."""
    info.journal = None
    target = snapshot.node_info_map[name] = NodeInfo()
    return target


def _uid(pod: PodRef) -> str:
    return pod.uid if isinstance(pod, PodInfo) else pod.metadata.uid or pod.key


def _node_name(pod: PodRef) -> str:
    return pod.pod.spec.node_name if isinstance(pod, PodInfo) else pod.spec.node_name


def _named(pod: PodRef) -> str:
    """uid(namespace/name), as upstream names a pod in errors."""
    meta = pod.pod.metadata if isinstance(pod, PodInfo) else pod.metadata
    return f"{_uid(pod)}({meta.namespace}/{meta.name})" if meta.namespace else f"{_uid(pod)}({meta.name})"


def _differ(old: Node | None, new: Node | None) -> bool:
    """Whether a rule could tell the two apart. A heartbeat brings another object with another version and no news."""
    if old is new:
        return False
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (
        before.labels != after.labels
        or before.annotations != after.annotations
        or before.name != after.name
        or old.spec != new.spec
        or old.status != new.status
    )
