"""NodeInfo: sums, order of pods, ports and claims."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from scheduler.cache.builders import AFFINITY, ANTI_AFFINITY, PLAIN, node, pod, spec
from stowplan_scheduler.cache.errors import CacheError
from stowplan_scheduler.cache.node_info import MAX_JOURNAL, HostPortInfo, NodeInfo, pod_changes
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.resources import Resource

GIB = 1 << 30


def names(pods: Iterable[PodInfo]) -> list[str]:
    return [info.uid for info in pods]


def ports(info: NodeInfo) -> list[int]:
    return [taken.port for taken in info.used_ports or ()]


def test_sums_follow_pods_that_come_and_go() -> None:
    """Two pods of 100m and one of 2 cores: 2200m; without the big one 200m. Scalars vanish with their last pod."""
    info = NodeInfo()
    for each in (pod("a"), pod("b", of=spec(cpu="2", extra={"example.com/gpu": "3"})), pod("c")):
        info.add_pod(each)
    assert info.requested == Resource(2200, 3 * GIB, scalar={"example.com/gpu": 3})
    info.remove_pod(pod("b"))
    assert info.requested == Resource(200, 2 * GIB)
    assert (info.non_zero_cpu, info.non_zero_memory) == (200, 2 * GIB)


def test_removal_puts_the_last_pod_into_the_gap() -> None:
    """Upstream swaps with the last element, and preemption sees the order."""
    info = NodeInfo()
    for uid in "abcd":
        info.add_pod(pod(uid))
    assert info.remove_pod(pod("b")).uid == "b"
    assert names(info.pods) == ["a", "d", "c"]


def test_replacing_a_pod_leaves_the_order_of_removing_and_adding_it() -> None:
    """The short cut for confirmed pods must not be visible: b, d, c, then a; in the affinity list d, c, then a."""
    info, slow = NodeInfo(), NodeInfo()
    for uid, of in zip("abcd", (spec(affinity=ANTI_AFFINITY), PLAIN, *[spec(affinity=ANTI_AFFINITY)] * 2), strict=True):
        info.add_pod(pod(uid, of=of))
        slow.add_pod(pod(uid, of=of))
    again = pod("a", of=spec(affinity=ANTI_AFFINITY))
    info.replace_pod(info.pods[0], again)
    slow.remove_pod(again)
    slow.add_pod(again)
    assert names(info.pods) == names(slow.pods) == ["d", "b", "c", "a"]
    assert names(info.pods_with_affinity) == names(slow.pods_with_affinity) == ["d", "c", "a"]
    assert names(info.pods_with_required_anti_affinity) == ["d", "c", "a"]
    assert info.pods[-1] is again
    assert info.requested == slow.requested


def test_an_empty_affinity_block_counts_as_affinity_but_not_as_required_anti_affinity() -> None:
    """Upstream asks whether the block is there, not whether it says anything."""
    info = NodeInfo()
    info.add_pod(pod("a", of=spec(affinity=AFFINITY)))
    assert names(info.pods_with_affinity) == ["a"]
    assert info.pods_with_required_anti_affinity == ()


def test_removing_an_unknown_pod_is_an_error_and_changes_nothing() -> None:
    """The text is upstream's."""
    info = NodeInfo()
    info.set_node(node("n1"))
    info.add_pod(pod("a"))
    with pytest.raises(CacheError, match=r"^no corresponding pod pod-b in pods of node n1$"):
        info.remove_pod(pod("b"))
    assert names(info.pods) == ["a"]
    assert info.requested.milli_cpu == 100


@pytest.mark.parametrize(
    ("taken", "wanted", "conflict"),
    [
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "UDP", 80), False),
        (("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("", "", 80), True),
        (("", "", 80), ("10.0.0.1", "TCP", 80), True),
        (("", "", 80), ("10.0.0.1", "TCP", 81), False),
        (("", "", 0), ("", "", 0), False),
        (("", "", -1), ("", "", -1), False),
    ],
)
def test_ports_conflict_on_the_same_address_or_on_every_address(
    taken: tuple[str, str, int], wanted: tuple[str, str, int], conflict: bool
) -> None:
    """An empty address is every address, an empty protocol TCP, and port 0 is no port."""
    ports = HostPortInfo()
    ports.add(*taken)
    assert ports.conflicts(*wanted) is conflict


def test_the_first_release_of_a_port_frees_it_for_all() -> None:
    """Upstream keeps a set, not a count: two pods that share a port cannot happen, except after races."""
    info = NodeInfo()
    web = spec(ports=(("", 80),))
    info.add_pod(pod("a", of=web))
    info.add_pod(pod("b", of=web))
    assert ports(info) == [80]
    info.remove_pod(pod("a"))
    assert not info.used_ports
    # Removing and adding b takes the port again; so does the short cut.
    info.replace_pod(info.pods[0], pod("b", of=web))
    assert ports(info) == [80]


def test_claims_are_counted_by_use() -> None:
    """A claim named by two volumes of a pod counts twice."""
    info = NodeInfo()
    info.add_pod(pod("a", of=spec(claims=("data", "data"))))
    info.add_pod(pod("b", of=spec(claims=("data", "log"))))
    assert info.pvc_ref_counts == {"ns/data": 3, "ns/log": 1}
    info.remove_pod(pod("b"))
    assert info.pvc_ref_counts == {"ns/data": 2}
    info.remove_pod(pod("a"))
    assert info.pvc_ref_counts is None


def test_a_clone_and_its_origin_do_not_see_each_others_changes() -> None:
    """Preemption tries removals on clones; shared parts must be replaced, not changed."""
    info = NodeInfo()
    info.set_node(node("n1"))
    everything = spec(affinity=ANTI_AFFINITY, ports=(("", 80),), claims=("data",), extra={"example.com/gpu": "1"})
    info.add_pod(pod("a", of=everything))
    info.row = 7
    twin = info.clone()
    twin.remove_pod(pod("a"))
    twin.add_pod(pod("b", of=spec(ports=(("", 81),))))
    assert names(info.pods) == names(info.pods_with_affinity) == ["a"]
    assert info.requested == Resource(100, GIB, scalar={"example.com/gpu": 1})
    assert ports(info) == [80]
    assert info.pvc_ref_counts == {"ns/data": 1}
    assert names(twin.pods) == ["b"]
    assert (twin.row, twin.journal, twin.node) == (7, None, info.node)
    assert ports(twin) == [81]


def test_setting_a_node_reads_allocatable_and_features() -> None:
    """What a node with other amounts offers replaces the old amounts."""
    info = NodeInfo()
    info.set_node(node("n1", cpu="4", features=("A", "B")))
    assert info.allocatable == Resource(4000, allowed_pod_number=110)
    assert info.declared_features == {"A", "B"}
    info.set_node(node("n1", cpu="1500m"))
    assert info.allocatable == Resource(1500, allowed_pod_number=110)
    assert info.declared_features == frozenset()


def test_a_journal_is_written_only_once_it_was_begun_and_dropped_when_it_grows_long() -> None:
    """A NodeInfo that no snapshot holds needs no journal, and an idle scheduler must not collect one for ever."""
    info = NodeInfo()
    info.add_pod(pod("a"))
    assert info.journal is None
    info.journal = begun = []
    begun.append((pod("x"), 1))
    info.add_pod(pod("b"))
    info.remove_pod(pod("a"))
    assert [(p.uid, sign) for p, sign in begun] == [("x", 1), ("b", 1), ("a", -1)]
    for _ in range(MAX_JOURNAL // 2):
        info.add_pod(pod("c"))
        info.remove_pod(pod("c"))
    assert info.journal is None


def test_pod_changes_names_what_a_rule_can_tell_apart() -> None:
    """Another object of the same pod is no change; another shape, or a deletion that began, is."""
    before = [pod("a"), pod("b"), pod("c"), pod("d")]
    after = [pod("c", terminating=True), pod("a"), pod("b", of=spec(cpu="1")), pod("e")]
    changes = [(p.uid, sign) for p, sign in pod_changes(before, after)]
    assert changes == [("b", -1), ("c", -1), ("d", -1), ("c", 1), ("b", 1), ("e", 1)]
