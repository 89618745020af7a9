"""The cache against a naive one, under any sequence of events.

The naive cache follows the rules of pkg/scheduler/backend/cache/cache.go word by word: it removes and adds where the
real one takes a short cut, adds every sum up from the pods, and copies everything deeply.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.cache.builders import AFFINITY, ANTI_AFFINITY, PLAIN, Images, node, pod, spec
from stowplan_scheduler.cache.cache import Cache
from stowplan_scheduler.cache.node_info import HostPortInfo, NodeInfo, claim_keys
from stowplan_scheduler.cache.node_tree import zone_key
from stowplan_scheduler.cache.snapshot import Snapshot, SnapshotDelta
from stowplan_scheduler.framework.pod_info import HostPort, PodInfo
from stowplan_scheduler.objects import Node
from stowplan_scheduler.resources import Resource

Row = dict[str, object]
"""Everything of a NodeInfo that a rule may read."""

SPECS = (
    PLAIN,
    spec(cpu="2", extra={"example.com/gpu": "1"}),
    spec(affinity=AFFINITY),
    spec(affinity=ANTI_AFFINITY),
    spec(ports=(("", 80), ("10.0.0.1", 443))),
    spec(ports=(("10.0.0.1", 443),)),
    spec(claims=("data",)),
    spec(claims=("data", "log"), affinity=ANTI_AFFINITY),
)
IMAGES: tuple[Images, ...] = ({}, {"a": 1, "b": 2}, {"b": 20, "c": 30}, {"a": 100})

names = st.sampled_from(["n1", "n2", "n3", "n4"])
uids = st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6"])
specs = st.sampled_from(SPECS)
zones = st.sampled_from(["", "z1", "z2"])
images = st.sampled_from(IMAGES)


@dataclass
class NaiveNode:
    """A node's pods in order, and the ports taken, which depend on history."""

    node: Node | None = None
    pods: list[PodInfo] = field(default_factory=list)
    affinity: list[PodInfo] = field(default_factory=list)
    anti_affinity: list[PodInfo] = field(default_factory=list)
    ports: set[HostPort] = field(default_factory=set)

    def lists_of(self, info: PodInfo) -> list[list[PodInfo]]:
        shape = info.shape
        chosen = [(self.pods, True), (self.affinity, shape.has_affinity)]
        chosen.append((self.anti_affinity, shape.has_required_anti_affinity))
        return [pods for pods, wanted in chosen if wanted]

    def add(self, info: PodInfo) -> None:
        for pods in self.lists_of(info):
            pods.append(info)
        self.ports |= set(info.shape.host_ports)

    def remove(self, info: PodInfo) -> None:
        for pods in self.lists_of(info):
            at = [held.uid for held in pods].index(info.uid)
            pods[at] = pods[-1]
            del pods[-1]
        self.ports -= set(info.shape.host_ports)

    def claims(self) -> Counter[str]:
        return Counter(key for info in self.pods for key in claim_keys(info.shape))


class NaiveCache:
    """Upstream's cache, plain and slow, together with its snapshot."""

    def __init__(self) -> None:
        self.nodes: dict[str, NaiveNode] = {}
        self.zones: list[tuple[str, list[str]]] = []
        self.sizes: dict[str, int] = {}
        self.holders: dict[str, set[str]] = {}
        self.claim_changes: Counter[str] = Counter()
        self.changed: set[str] = set()
        self.rows: dict[str, Row] = {}
        self.order: list[str] = []
        self.claims: dict[str, int] = {}

    # ---- events

    def add_pod(self, info: PodInfo) -> None:
        name = info.pod.spec.node_name
        held = self.nodes.setdefault(name, NaiveNode())
        self.claim_changes.subtract(held.claims())
        held.add(info)
        self.claim_changes.update(held.claims())
        self.changed.add(name)

    def remove_pod(self, info: PodInfo) -> None:
        name = info.pod.spec.node_name
        held = self.nodes[name]
        self.claim_changes.subtract(held.claims())
        held.remove(info)
        self.claim_changes.update(held.claims())
        self.changed.add(name)
        if not held.pods and held.node is None:
            del self.nodes[name]

    def set_node(self, new: Node) -> None:
        name = new.metadata.name
        held = self.nodes.setdefault(name, NaiveNode())
        old = held.node
        if old is not None:
            self.take_images(old)
        if old is None or zone_key(old) != zone_key(new):
            if old is not None:
                self.take_from_zone(old)
            self.put_into_zone(new)
        for image in new.status.images:
            for key in image.names:
                self.sizes.setdefault(key, image.size_bytes)
                self.holders.setdefault(key, set()).add(name)
        held.node = new
        self.changed.add(name)

    def remove_node(self, name: str) -> None:
        held = self.nodes[name]
        assert held.node is not None
        self.claim_changes.subtract(held.claims())
        self.take_from_zone(held.node)
        self.take_images(held.node)
        held.node = None
        if not held.pods:
            del self.nodes[name]

    def put_into_zone(self, new: Node) -> None:
        key = zone_key(new)
        for zone, members in self.zones:
            if zone == key:
                members.append(new.metadata.name)
                return
        self.zones.append((key, [new.metadata.name]))

    def take_from_zone(self, old: Node) -> None:
        for _, members in self.zones:
            if old.metadata.name in members:
                members.remove(old.metadata.name)
        self.zones = [(zone, members) for zone, members in self.zones if members]

    def take_images(self, old: Node) -> None:
        for image in old.status.images:
            for key in image.names:
                self.holders[key].discard(old.metadata.name)
                if not self.holders[key]:
                    del self.holders[key], self.sizes[key]

    # ---- snapshot

    def tree_order(self) -> list[str]:
        longest = max((len(members) for _, members in self.zones), default=0)
        return [members[at] for at in range(longest) for _, members in self.zones if at < len(members)]

    def update(self) -> int:
        """Bring the snapshot up to date; returns the number of copies that this takes."""
        present = {name for name, held in self.nodes.items() if held.node is not None}
        copies = self.changed & present
        lay_out = bool(copies - self.rows.keys()) or bool(self.rows.keys() - present)
        for name in copies:
            self.rows[name] = self.row(self.nodes[name])
        self.rows = {name: row for name, row in self.rows.items() if name in present}
        counts = Counter(self.claims)
        counts.update(self.claim_changes)
        lay_out = lay_out or any(count < 0 for count in counts.values())
        if lay_out:
            self.order = self.tree_order()
            counts = Counter()
            for row in self.rows.values():
                counts.update(row["claims"])  # type: ignore[call-overload]
        self.claims = {key: count for key, count in counts.items() if count}
        self.claim_changes.clear()
        self.changed.clear()
        return len(copies)

    def row(self, held: NaiveNode) -> Row:
        requested = Resource()
        for info in held.pods:
            requested.add(info.shape.node_requested)
        node_object = held.node
        assert node_object is not None
        keys = [key for image in node_object.status.images for key in image.names]
        return {
            "node": node_object,
            "pods": list(map(id, held.pods)),
            "affinity": list(map(id, held.affinity)),
            "anti_affinity": list(map(id, held.anti_affinity)),
            "requested": requested,
            "non_zero": tuple(
                sum(getattr(i.shape, f"non_zero_{what}") for i in held.pods) for what in ("cpu", "memory")
            ),
            "allocatable": Resource.from_map(node_object.status.allocatable),
            "ports": HostPortInfo(held.ports),
            "claims": dict(held.claims()),
            "images": {key: (self.sizes[key], len(self.holders[key])) for key in keys},
        }


def row_of(info: NodeInfo) -> Row:
    return {
        "node": info.node,
        "pods": list(map(id, info.pods)),
        "affinity": list(map(id, info.pods_with_affinity)),
        "anti_affinity": list(map(id, info.pods_with_required_anti_affinity)),
        "requested": info.requested,
        "non_zero": (info.non_zero_cpu, info.non_zero_memory),
        "allocatable": info.allocatable,
        "ports": info.used_ports or HostPortInfo(),
        "claims": info.pvc_ref_counts or {},
        "images": {key: (state.size, state.num_nodes) for key, state in info.image_states.items()},
    }


def as_rules_see(pods: list[PodInfo]) -> Counter[tuple[str, int, bool]]:
    return Counter((info.uid, info.shape.number, info.terminating) for info in pods)


class Replay:
    """Pods per row as a consumer of deltas knows them, without ever looking at the snapshot's own lists."""

    def __init__(self) -> None:
        self.rows: list[Counter[tuple[str, int, bool]]] = []

    def apply(self, delta: SnapshotDelta) -> None:
        if delta.relaid:
            assert delta.previous_rows is not None
            kept = [row for row in delta.previous_rows if row >= 0]
            left = [pods for row, pods in enumerate(self.rows) if row not in kept]
            assert sorted(map(sorted, left)) == sorted(sorted(as_rules_see(info.pods)) for info in delta.removed)
            self.rows = [Counter() if row < 0 else self.rows[row] for row in delta.previous_rows]
        for change in delta.changes:
            for info, sign in change.pods:
                self.rows[change.info.row][info.uid, info.shape.number, info.terminating] += sign
        self.rows = [Counter({key: count for key, count in row.items() if count}) for row in self.rows]


class CacheMachine(RuleBasedStateMachine):
    """Events in any order; snapshots in between."""

    @initialize()
    def start(self) -> None:
        self.cache = Cache()
        self.snapshot = Snapshot()
        self.naive = NaiveCache()
        self.replay = Replay()
        self.pods: dict[str, PodInfo] = {}
        self.assumed: set[str] = set()
        self.known: dict[str, NodeInfo] = {}

    @rule(name=names, zone=zones, held=images, cpu=st.sampled_from(["4", "8"]))
    def set_node(self, name: str, zone: str, held: Images, cpu: str) -> None:
        new = node(name, zone, cpu, held)
        self.cache.update_node(new)
        self.naive.set_node(new)

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        held = self.naive.nodes.get(name)
        if held is not None and held.node is not None:
            self.cache.remove_node(held.node)
            self.naive.remove_node(name)

    @rule(uid=uids, name=names, of=specs, assume=st.booleans())
    def new_pod(self, uid: str, name: str, of: object, assume: bool) -> None:
        if uid not in self.pods:
            info = pod(uid, name, of)  # type: ignore[arg-type]
            if assume:
                self.cache.assume_pod(info)
                self.assumed.add(uid)
            else:
                self.cache.add_pod(info)
            self.naive.add_pod(info)
            self.pods[uid] = info

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), elsewhere=st.none() | names, other=st.none() | specs)
    def confirm(self, data: st.DataObject, elsewhere: str | None, other: object) -> None:
        held = self.pods[data.draw(st.sampled_from(sorted(self.assumed)))]
        self.replace(held, elsewhere or held.pod.spec.node_name, other, terminating=held.terminating)
        self.assumed.discard(held.uid)

    @precondition(lambda self: set(self.pods) - self.assumed)
    @rule(data=st.data(), other=st.none() | specs, terminating=st.booleans())
    def update_pod(self, data: st.DataObject, other: object, terminating: bool) -> None:
        held = self.pods[data.draw(st.sampled_from(sorted(set(self.pods) - self.assumed)))]
        self.replace(held, held.pod.spec.node_name, other, terminating=terminating)

    def replace(self, held: PodInfo, name: str, other: object, *, terminating: bool) -> None:
        of = held.shape.pod.spec if other is None else other
        info = pod(held.uid, name, of, terminating=terminating)  # type: ignore[arg-type]
        change = self.cache.add_pod if held.uid in self.assumed else self.cache.update_pod
        change(info)
        self.naive.remove_pod(held)
        self.naive.add_pod(info)
        self.pods[held.uid] = info

    @rule(uid=uids)
    def remove_pod(self, uid: str) -> None:
        held = self.pods.pop(uid, None)
        if held is not None:
            forget = uid in self.assumed
            (self.cache.forget_pod if forget else self.cache.remove_pod)(held)
            self.naive.remove_pod(held)
            self.assumed.discard(uid)

    @rule()
    def update_snapshot(self) -> None:
        """Equal to the naive snapshot, by as few copies, with the same objects as before, and journals that add up."""
        delta = self.cache.update_snapshot(self.snapshot)
        copies = self.naive.update()
        self.replay.apply(delta)
        assert len(delta.changes) == copies
        snapshot = self.snapshot
        assert [info.name for info in snapshot.node_info_list] == self.naive.order
        assert {name: row_of(info) for name, info in snapshot.node_info_map.items()} == self.naive.rows
        assert snapshot.used_pvc_ref_counts == self.naive.claims
        assert self.replay.rows == [as_rules_see(info.pods) for info in snapshot.node_info_list]
        for name, info in snapshot.node_info_map.items():
            assert self.known.get(name, info) is info
        self.known = dict(snapshot.node_info_map)

    @invariant()
    def lists_agree(self) -> None:
        if not hasattr(self, "cache"):
            return
        snapshot, infos = self.snapshot, self.snapshot.node_info_list
        assert [info.row for info in infos] == list(range(len(infos)))
        assert all(snapshot.node_info_map[info.name] is info for info in infos)
        assert snapshot.have_pods_with_affinity == [i for i in infos if i.pods_with_affinity]
        assert snapshot.have_pods_with_required_anti_affinity == [
            i for i in infos if i.pods_with_required_anti_affinity
        ]
        assert (self.cache.pod_count, self.cache.assumed_count) == (len(self.pods), len(self.assumed))
        assert self.cache.node_count == len(self.naive.nodes)


CacheMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestCacheMachine = CacheMachine.TestCase
