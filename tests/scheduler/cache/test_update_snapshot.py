"""Updates of the snapshot: what is copied, what is laid out anew, what the delta tells."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from scheduler.cache.builders import AFFINITY, ANTI_AFFINITY, node, pod, spec
from stowplan_scheduler.cache.cache import Cache
from stowplan_scheduler.cache.node_info import MAX_JOURNAL, NodeInfo
from stowplan_scheduler.cache.snapshot import RowChange, Snapshot, SnapshotDelta, SnapshotInconsistent


def cluster(*names: str, zones: str = "") -> tuple[Cache, Snapshot]:
    """Nodes of those names, copied; `zones` gives each its zone, by letter."""
    cache, snapshot = Cache(), Snapshot()
    for name, zone in zip(names, zones or [""] * len(names), strict=True):
        cache.add_node(node(name, zone))
    cache.update_snapshot(snapshot)
    return cache, snapshot


def order(infos: list[NodeInfo]) -> list[str]:
    return [info.name for info in infos]


def journal(change: RowChange) -> list[tuple[str, int]]:
    return [(held.uid, sign) for held, sign in change.pods]


def copied(delta: SnapshotDelta) -> list[str]:
    return [change.info.name for change in delta.changes]


def test_only_what_changed_is_copied_whatever_the_number_of_nodes() -> None:
    """One pod on one of 300 nodes: one copy, and nothing laid out anew."""
    cache, snapshot = cluster(*(f"n{at}" for at in range(300)))
    before = snapshot.node_info_list
    cache.assume_pod(pod("p", "n250"))
    delta = cache.update_snapshot(snapshot)
    assert copied(delta) == ["n250"]
    assert (delta.relaid, delta.previous_rows, delta.removed) == (False, None, [])
    assert snapshot.node_info_list is before
    assert cache.update_snapshot(snapshot).changes == []


def test_a_walk_stops_at_the_first_node_that_the_snapshot_has() -> None:
    """Touched nodes come latest first; a node touched twice is copied once."""
    cache, snapshot = cluster("n1", "n2", "n3", "n4")
    for uid, name in (("a", "n2"), ("b", "n4"), ("c", "n2")):
        cache.assume_pod(pod(uid, name))
    delta = cache.update_snapshot(snapshot)
    assert copied(delta) == ["n2", "n4"]
    assert journal(delta.changes[0]) == [("a", 1), ("c", 1)]


def test_an_update_begins_the_journal_that_the_next_one_hands_over() -> None:
    """Comparing the lists of pods gives the same answer, at the price of a look at each pod of the node."""
    cache, snapshot = cluster("n1")
    live = cache.get_node("n1")
    assert live is not None
    assert live.journal == ()
    cache.assume_pod(pod("p", "n1"))
    written = live.journal
    assert cache.update_snapshot(snapshot).changes[0].pods is written


def test_node_infos_keep_their_identity_and_do_not_follow_the_cache() -> None:
    """Tables hold on to the objects; a cycle must not see later events."""
    cache, snapshot = cluster("n1")
    held = snapshot.node_info_list[0]
    cache.assume_pod(pod("p", "n1", spec(claims=("c",), ports=(("", 80),), affinity=ANTI_AFFINITY)))
    assert held.pods == []
    cache.update_snapshot(snapshot)
    assert snapshot.get("n1") is held
    assert [p.uid for p in held.pods] == ["p"]
    cache.forget_pod(pod("p", "n1"))
    assert [p.uid for p in held.pods] == ["p"]
    assert (held.pvc_ref_counts, held.requested.milli_cpu) == ({"ns/c": 1}, 100)
    assert held.used_ports is not None
    assert len(held.pods_with_required_anti_affinity) == 1


def test_new_nodes_are_laid_out_in_tree_order_and_old_rows_are_named() -> None:
    """Zones a, b, then a new node in b and in a: a1, b1, a2, b2."""
    cache, snapshot = cluster("a1", "b1", "b2", zones="abb")
    assert order(snapshot.node_info_list) == ["a1", "b1", "b2"]
    cache.add_node(node("a2", "a"))
    delta = cache.update_snapshot(snapshot)
    assert order(snapshot.node_info_list) == ["a1", "b1", "a2", "b2"]
    assert (delta.relaid, delta.previous_rows) == (True, [0, 1, -1, 2])
    assert [info.row for info in snapshot.node_info_list] == [0, 1, 2, 3]


def test_a_change_of_zone_waits_for_the_next_layout() -> None:
    """Upstream moves the node in the tree and leaves the list alone until a node comes or goes."""
    cache, snapshot = cluster("n1", "n2", "n3", zones="aab")
    assert order(snapshot.node_info_list) == ["n1", "n3", "n2"]
    cache.update_node(node("n1", "b"))
    delta = cache.update_snapshot(snapshot)
    assert not delta.relaid
    assert order(snapshot.node_info_list) == ["n1", "n3", "n2"]
    cache.add_node(node("n4", "c"))
    cache.update_snapshot(snapshot)
    assert order(snapshot.node_info_list) == ["n2", "n3", "n4", "n1"]


def test_a_deleted_node_leaves_with_its_pods_and_the_rows_close_up() -> None:
    """The NodeInfo that left still has the node and the pods, so that counters can take them out."""
    cache, snapshot = cluster("n1", "n2", "n3")
    cache.add_pod(pod("p", "n2"))
    cache.update_snapshot(snapshot)
    gone = snapshot.get("n2")
    cache.remove_node(node("n2"))
    delta = cache.update_snapshot(snapshot)
    assert delta.removed == [gone]
    assert delta.previous_rows == [0, 2]
    assert delta.changes == []
    assert snapshot.get("n2") is None
    assert gone is not None
    assert (gone.row, gone.name, [p.uid for p in gone.pods]) == (-1, "n2", ["p"])


def test_a_ghost_that_becomes_a_node_again_lists_all_its_pods() -> None:
    """Its row is a new one, so its journal starts from nothing, whatever happened while it was a ghost."""
    cache, snapshot = cluster("n1", "n2")
    cache.add_pod(pod("p", "n1"))
    cache.add_pod(pod("q", "n1"))
    cache.update_snapshot(snapshot)
    cache.remove_node(node("n1"))
    cache.update_snapshot(snapshot)
    cache.remove_pod(pod("q", "n1"))
    cache.add_node(node("n1"))
    delta = cache.update_snapshot(snapshot)
    assert [journal(change) for change in delta.changes] == [[("p", 1)]]
    assert delta.previous_rows == [0, -1]


def test_a_node_recreated_between_two_snapshots_keeps_its_row() -> None:
    """As upstream: in the tree it stands last by now, in the list where it was. The journal accounts for its pods."""
    cache, snapshot = cluster("n1", "n2")
    cache.add_pod(pod("p", "n1"))
    cache.update_snapshot(snapshot)
    held = snapshot.get("n1")
    cache.remove_node(node("n1"))
    cache.remove_pod(pod("p", "n1"))
    cache.add_pod(pod("q", "n1"))
    cache.add_node(node("n1", "b"))
    delta = cache.update_snapshot(snapshot)
    assert order(snapshot.node_info_list) == ["n1", "n2"]
    assert snapshot.get("n1") is held
    assert not delta.relaid
    assert [(journal(change), change.node_changed) for change in delta.changes] == [([("p", -1), ("q", 1)], True)]


def test_confirming_a_pod_copies_the_node_and_leaves_the_journal_empty() -> None:
    """The row's pods are the same as far as a rule can tell; another object took the place of the assumed one."""
    cache, snapshot = cluster("n1")
    cache.assume_pod(pod("p", "n1"))
    cache.update_snapshot(snapshot)
    confirmed = pod("p", "n1")
    cache.add_pod(confirmed)
    delta = cache.update_snapshot(snapshot)
    assert [(journal(change), change.node_changed) for change in delta.changes] == [([], False)]
    assert snapshot.node_info_list[0].pods == [confirmed]


def test_a_pod_that_begins_to_terminate_is_in_the_journal() -> None:
    """Topology spread does not count such pods."""
    cache, snapshot = cluster("n1")
    cache.add_pod(pod("p", "n1"))
    cache.update_snapshot(snapshot)
    cache.update_pod(pod("p", "n1", terminating=True))
    (change,) = cache.update_snapshot(snapshot).changes
    assert [(held.terminating, sign) for held, sign in change.pods] == [(False, -1), (True, 1)]


def test_a_node_update_is_told_apart_from_changes_of_pods() -> None:
    """Rules that read labels or taints need not look again when a pod came."""
    cache, snapshot = cluster("n1", "n2")
    cache.assume_pod(pod("p", "n1"))
    cache.update_node(node("n2", cpu="8"))
    delta = cache.update_snapshot(snapshot)
    assert [(change.info.name, change.node_changed) for change in delta.changes] == [("n2", True), ("n1", False)]


def test_a_heartbeat_is_no_news_for_rules_about_nodes() -> None:
    """The object is another one with another version; every rule about nodes would otherwise be asked again."""
    cache, snapshot = cluster("n1")
    beat = node("n1")
    metadata = msgspec.structs.replace(beat.metadata, resource_version="2", generation=7)
    cache.update_node(msgspec.structs.replace(beat, metadata=metadata))
    [change] = cache.update_snapshot(snapshot).changes
    assert (change.info.node is beat, change.node_changed) == (False, False)
    cache.update_node(node("n1", "b"))
    [change] = cache.update_snapshot(snapshot).changes
    assert change.node_changed


def test_lists_of_nodes_with_affinity_follow_in_the_order_of_rows() -> None:
    """A node is listed from its first such pod to its last one."""
    cache, snapshot = cluster("n1", "n2", "n3")
    cache.add_pod(pod("c", "n3", spec(affinity=ANTI_AFFINITY)))
    cache.add_pod(pod("a", "n1", spec(affinity=AFFINITY)))
    cache.update_snapshot(snapshot)
    cache.add_pod(pod("b", "n2", spec(affinity=ANTI_AFFINITY)))
    cache.add_pod(pod("b2", "n2", spec(affinity=ANTI_AFFINITY)))
    cache.update_snapshot(snapshot)
    assert order(snapshot.have_pods_with_affinity) == ["n1", "n2", "n3"]
    assert order(snapshot.have_pods_with_required_anti_affinity) == ["n2", "n3"]
    for uid, name in (("a", "n1"), ("b", "n2")):
        cache.remove_pod(pod(uid, name))
    delta = cache.update_snapshot(snapshot)
    assert not delta.relaid
    assert order(snapshot.have_pods_with_affinity) == ["n2", "n3"]
    cache.remove_node(node("n2"))
    cache.update_snapshot(snapshot)
    assert order(snapshot.have_pods_with_required_anti_affinity) == ["n3"]


def test_uses_of_claims_are_added_up_over_nodes() -> None:
    """Uses by pods, as upstream counts, whatever its comment says about nodes."""
    cache, snapshot = cluster("n1", "n2")
    for uid, name in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        cache.add_pod(pod(uid, name, spec(claims=("data",))))
    cache.update_snapshot(snapshot)
    assert snapshot.used_pvc_ref_counts == {"ns/data": 3}
    cache.remove_pod(pod("a", "n1"))
    cache.update_snapshot(snapshot)
    assert snapshot.used_pvc_ref_counts == {"ns/data": 2}
    cache.remove_node(node("n1"))
    cache.remove_pod(pod("c", "n2"))
    cache.update_snapshot(snapshot)
    assert snapshot.used_pvc_ref_counts == {}
    assert not snapshot.is_claim_used("ns/data")


def test_uses_of_claims_miscount_around_ghosts_as_upstream_does() -> None:
    """A claim of a pod on a node not seen yet counts as used, until a node comes or goes."""
    cache, snapshot = cluster("n1")
    cache.add_pod(pod("a", "n9", spec(claims=("data",))))
    cache.update_snapshot(snapshot)
    assert snapshot.is_claim_used("ns/data")
    cache.add_node(node("n2"))
    cache.update_snapshot(snapshot)
    assert not snapshot.is_claim_used("ns/data")


def test_a_negative_count_of_claims_makes_everything_anew() -> None:
    """The claim left with the node and leaves once more with the pod: upstream notices, and lays the list out."""
    cache, snapshot = cluster("n1", "n2", zones="ab")
    cache.add_pod(pod("a", "n1", spec(claims=("data",))))
    cache.update_snapshot(snapshot)
    cache.remove_node(node("n1", "a"))
    cache.update_snapshot(snapshot)
    cache.remove_pod(pod("a", "n1"))
    delta = cache.update_snapshot(snapshot)
    assert (delta.relaid, delta.previous_rows, delta.removed) == (True, [0], [])
    assert snapshot.used_pvc_ref_counts == {}


def test_an_inconsistent_snapshot_is_repaired_then_reported() -> None:
    """The list lost an entry. The failed update carries its delta; the next one is fine."""
    cache, snapshot = cluster("n1", "n2", "n3")
    del snapshot.node_info_list[1]
    cache.assume_pod(pod("p", "n3"))
    with pytest.raises(SnapshotInconsistent) as caught:
        cache.update_snapshot(snapshot)
    assert str(caught.value) == (
        "snapshot state is not consistent, length of NodeInfoList=2 not equal to length of nodes in tree=3 "
        ", length of NodeInfoMap=3, length of nodes in cache=3, trying to recover"
    )
    delta = caught.value.delta
    assert order(snapshot.node_info_list) == ["n1", "n2", "n3"]
    assert (copied(delta), delta.relaid, delta.previous_rows) == (["n3"], True, [0, 1, 2])
    assert cache.update_snapshot(snapshot).changes == []


def test_a_repair_brings_back_a_node_that_the_snapshot_lost() -> None:
    """Its generation is old, so the walk would never reach it. A new NodeInfo stands for it, with all its pods."""
    cache, snapshot = cluster("n1", "n2")
    cache.add_pod(pod("p", "n1"))
    cache.update_snapshot(snapshot)
    lost = snapshot.node_info_map.pop("n1")
    cache.add_node(node("n3"))
    with pytest.raises(SnapshotInconsistent) as caught:
        cache.update_snapshot(snapshot)
    delta = caught.value.delta
    assert order(snapshot.node_info_list) == ["n1", "n2", "n3"]
    assert delta.previous_rows == [-1, 1, -1]
    assert delta.removed == [lost]
    assert {change.info.name: journal(change) for change in delta.changes} == {"n1": [("p", 1)], "n3": []}
    assert cache.update_snapshot(snapshot).changes == []


def test_two_snapshots_of_one_cache_both_get_right_journals() -> None:
    """Journals count from one snapshot's last update; for another one, lists of pods are compared."""
    cache, first = cluster("n1", "n2")
    second = Snapshot()
    cache.add_pod(pod("a", "n1", spec(claims=("data",))))
    cache.update_snapshot(first)
    cache.add_pod(pod("b", "n1"))
    delta = cache.update_snapshot(second)
    assert {change.info.name: journal(change) for change in delta.changes} == {"n1": [("a", 1), ("b", 1)], "n2": []}
    cache.remove_pod(pod("a", "n1"))
    cache.add_pod(pod("c", "n2"))
    delta = cache.update_snapshot(first)
    assert [journal(change) for change in delta.changes] == [[("c", 1)], [("a", -1), ("b", 1)]]
    delta = cache.update_snapshot(second)
    assert [journal(change) for change in delta.changes] == [[("c", 1)], [("a", -1)]]
    assert first.used_pvc_ref_counts == second.used_pvc_ref_counts == {}


def test_a_long_quiet_time_does_not_collect_a_journal() -> None:
    """With more changes than the journal takes, the lists of pods are compared: one pod came."""
    cache, snapshot = cluster("n1")
    for at in range(MAX_JOURNAL):
        cache.add_pod(pod(f"p{at}", "n1"))
        cache.remove_pod(pod(f"p{at}", "n1"))
    cache.add_pod(pod("last", "n1"))
    (change,) = cache.update_snapshot(snapshot).changes
    assert journal(change) == [("last", 1)]


def test_the_last_node_may_go() -> None:
    """An empty cluster is a consistent one."""
    cache, snapshot = cluster("n1")
    cache.remove_node(node("n1"))
    delta = cache.update_snapshot(snapshot)
    assert (len(snapshot), delta.previous_rows, Counter(order(delta.removed))) == (0, [], Counter({"n1": 1}))
