"""Pod states, ghosts and errors of the cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.cache.builders import node, pod, spec
from stowplan_scheduler.cache.cache import Cache, CacheCorruptedError, CacheError


def uids(cache: Cache, name: str) -> list[str]:
    info = cache.get_node(name)
    return [] if info is None else [held.uid for held in info.pods]


def generation(cache: Cache, name: str) -> int:
    info = cache.get_node(name)
    assert info is not None
    return info.generation


@pytest.fixture
def cache() -> Cache:
    made = Cache()
    made.add_node(node("n1"))
    made.add_node(node("n2"))
    return made


def test_an_assumed_pod_becomes_an_added_one_and_leaves(cache: Cache) -> None:
    """absent, assumed, added, absent."""
    cache.assume_pod(pod("p", "n1"))
    assert cache.is_assumed_pod(pod("p"))
    assert (cache.pod_count, cache.assumed_count, uids(cache, "n1")) == (1, 1, ["p"])
    confirmed = pod("p", "n1")
    cache.add_pod(confirmed)
    assert not cache.is_assumed_pod(confirmed)
    assert cache.get_pod(confirmed.pod) is confirmed
    assert (cache.pod_count, cache.assumed_count, uids(cache, "n1")) == (1, 0, ["p"])
    cache.remove_pod(confirmed)
    assert (cache.pod_count, cache.get_pod(confirmed), uids(cache, "n1")) == (0, None, [])


def test_confirming_moves_the_generation_and_puts_the_pod_last(cache: Cache) -> None:
    """Upstream removes and adds the pod; both effects are visible there, and the sums stay."""
    cache.assume_pod(pod("p", "n1"))
    cache.assume_pod(pod("q", "n1"))
    before = generation(cache, "n1")
    cache.add_pod(pod("p", "n1"))
    assert generation(cache, "n1") > before
    assert uids(cache, "n1") == ["q", "p"]
    info = cache.get_node("n1")
    assert info is not None
    assert info.requested.milli_cpu == 200


def test_a_pod_confirmed_elsewhere_moves_to_its_real_node(cache: Cache) -> None:
    """Another scheduler may have bound it; what the API server says counts."""
    cache.assume_pod(pod("p", "n1"))
    cache.add_pod(pod("p", "n2"))
    assert (uids(cache, "n1"), uids(cache, "n2")) == ([], ["p"])
    assert not cache.is_assumed_pod(pod("p"))


def test_a_pod_confirmed_with_other_requests_counts_with_those(cache: Cache) -> None:
    """A webhook may have changed it in between."""
    cache.assume_pod(pod("p", "n1"))
    cache.add_pod(pod("p", "n1", spec(cpu="2")))
    info = cache.get_node("n1")
    assert info is not None
    assert info.requested.milli_cpu == 2000


def test_forgetting_undoes_an_assumption_and_an_unknown_pod_is_no_error(cache: Cache) -> None:
    """The pod may have been removed while its binding was under way."""
    cache.assume_pod(pod("p", "n1"))
    cache.forget_pod(pod("p", "n1"))
    cache.forget_pod(pod("p", "n1"))
    assert (cache.pod_count, uids(cache, "n1")) == (0, [])


def test_an_assumed_pod_may_be_removed(cache: Cache) -> None:
    """A delete event can arrive before the pod was seen on its node."""
    cache.assume_pod(pod("p", "n1"))
    cache.remove_pod(pod("p", "n1"))
    assert (cache.pod_count, cache.assumed_count) == (0, 0)


def test_a_delete_event_without_a_node_name_removes_the_pod_where_it_is(cache: Cache) -> None:
    """An informer that missed the event hands over the last state it knew."""
    cache.add_pod(pod("p", "n1"))
    cache.remove_pod(pod("p", "").pod)
    assert (cache.pod_count, uids(cache, "n1")) == (0, [])


def test_texts_of_errors_are_upstreams(cache: Cache) -> None:
    """uid(namespace/name); nothing changes by a refused call. Upstream gives the two nodes in this order."""
    cache.add_pod(pod("added", "n1"))
    cache.assume_pod(pod("assumed", "n1"))
    refused: list[tuple[Callable[[], None], str]] = [
        (lambda: cache.assume_pod(pod("added", "n1")), "added(ns/pod-added) is in the cache, so can't be assumed"),
        (lambda: cache.add_pod(pod("added", "n2")), "added(ns/pod-added) was already in added state"),
        (
            lambda: cache.update_pod(pod("x", "n1")),
            "x(ns/pod-x) is not added to scheduler cache, so cannot be updated",
        ),
        (
            lambda: cache.remove_pod(pod("x", "n1")),
            "x(ns/pod-x) is not found in scheduler cache, so cannot be removed from it",
        ),
        (
            lambda: cache.forget_pod(pod("added", "n1")),
            "added(ns/pod-added) is not assumed, so it cannot be removed or forgotten",
        ),
        (
            lambda: cache.forget_pod(pod("assumed", "n2")),
            "assumed(ns/pod-assumed) was assumed on n2 but assigned to n1",
        ),
    ]
    for call, text in refused:
        with pytest.raises(CacheError) as caught:
            call()
        assert str(caught.value) == f"pod {text}"
    with pytest.raises(CacheError, match=r"^assumed pod assumed\(ns/pod-assumed\) should not be updated$"):
        cache.update_pod(pod("assumed", "n1"))
    with pytest.raises(CacheError, match=r"^node n3 is not found$"):
        cache.remove_node(node("n3"))
    assert uids(cache, "n1") == ["added", "assumed"]
    assert uids(cache, "n2") == []


def test_a_pod_that_changes_its_node_is_corruption(cache: Cache) -> None:
    """spec.nodeName is immutable once set; upstream ends its process."""
    cache.add_pod(pod("p", "n1"))
    with pytest.raises(CacheCorruptedError, match="Pod updated on a different node than previously added to"):
        cache.update_pod(pod("p", "n2"))
    with pytest.raises(CacheCorruptedError, match="cache is corrupted"):
        cache.remove_pod(pod("p", "n2"))
    assert uids(cache, "n1") == ["p"]


def test_a_node_deleted_before_its_pods_stays_as_a_ghost_until_the_last_is_gone(cache: Cache) -> None:
    """Pod events come over another watch, perhaps later."""
    cache.add_pod(pod("p", "n1"))
    cache.add_pod(pod("q", "n1"))
    cache.remove_node(node("n1"))
    ghost = cache.get_node("n1")
    assert ghost is not None
    assert ghost.node is None
    cache.remove_pod(pod("p", "n1"))
    assert cache.get_node("n1") is ghost
    cache.remove_pod(pod("q", "n1"))
    assert (cache.get_node("n1"), cache.node_count) == (None, 1)


def test_pods_seen_before_their_node_are_there_when_it_appears(cache: Cache) -> None:
    """The ghost becomes a node; its sums were kept all along."""
    cache.add_pod(pod("p", "n9"))
    cache.add_node(node("n9", cpu="8"))
    info = cache.get_node("n9")
    assert info is not None
    assert (info.name, info.requested.milli_cpu, info.allocatable.milli_cpu) == ("n9", 100, 8000)


def test_a_deleted_node_cannot_be_deleted_again_while_it_is_a_ghost(cache: Cache) -> None:
    """The tree has it no more."""
    cache.add_pod(pod("p", "n1"))
    cache.remove_node(node("n1"))
    with pytest.raises(CacheError, match=r'^node "n1" in group "" was not found$'):
        cache.remove_node(node("n1"))


def test_an_update_of_an_unknown_node_adds_it() -> None:
    """As upstream does."""
    cache = Cache()
    cache.update_node(node("n1"))
    assert cache.node_count == 1


def test_a_node_with_unreadable_amounts_is_refused_and_nothing_changes(cache: Cache) -> None:
    """The old amounts stay in force."""
    before = generation(cache, "n1")
    with pytest.raises(ValueError):
        cache.update_node(node("n1", cpu="four"))
    with pytest.raises(ValueError):
        cache.add_node(node("n7", cpu="four"))
    info = cache.get_node("n1")
    assert info is not None
    assert (info.allocatable.milli_cpu, info.generation) == (4000, before)
    assert cache.node_count == 2
