"""Images: which size counts, how many nodes hold one, and when a snapshot learns of it."""

from __future__ import annotations

from scheduler.cache.builders import Images, node, pod
from stowplan_scheduler.cache.cache import Cache
from stowplan_scheduler.cache.image_states import ImageStates
from stowplan_scheduler.cache.snapshot import Snapshot
from stowplan_scheduler.objects import ContainerImage


def states(snapshot: Snapshot, name: str) -> dict[str, tuple[int, int]]:
    return {image: (state.size, state.num_nodes) for image, state in snapshot.node_info_map[name].image_states.items()}


def cluster(**nodes: Images) -> tuple[Cache, Snapshot]:
    cache, snapshot = Cache(), Snapshot()
    for name, images in nodes.items():
        cache.add_node(node(name, images=images))
    cache.update_snapshot(snapshot)
    return cache, snapshot


def test_the_size_is_the_one_of_the_node_that_had_the_image_first() -> None:
    """n2 reports 20 bytes, but the register knows the name with 10."""
    _, snapshot = cluster(n1={"a": 10}, n2={"a": 20, "b": 5})
    assert states(snapshot, "n1") == {"a": (10, 2)}
    assert states(snapshot, "n2") == {"a": (10, 2), "b": (5, 1)}


def test_a_node_keeps_the_count_of_when_it_was_last_copied() -> None:
    """n3 brings the image to a third node; n1 hears of it when a pod of its own moves its generation."""
    cache, snapshot = cluster(n1={"a": 10}, n2={"a": 10})
    cache.add_node(node("n3", images={"a": 10}))
    cache.update_snapshot(snapshot)
    assert states(snapshot, "n1") == {"a": (10, 2)}
    assert states(snapshot, "n3") == {"a": (10, 3)}
    cache.assume_pod(pod("p", "n1"))
    delta = cache.update_snapshot(snapshot)
    assert states(snapshot, "n1") == {"a": (10, 3)}
    assert states(snapshot, "n2") == {"a": (10, 2)}
    assert [(c.info.name, c.node_changed) for c in delta.changes] == [("n1", True)]


def test_a_confirmed_pod_moves_the_generation_and_so_the_counts() -> None:
    """Upstream removes and adds the pod; the short cut taken here must refresh the counts as well."""
    cache, snapshot = cluster(n1={"a": 10})
    cache.assume_pod(pod("p", "n1"))
    cache.update_snapshot(snapshot)
    cache.add_node(node("n2", images={"a": 10}))
    cache.add_pod(pod("p", "n1"))
    cache.update_snapshot(snapshot)
    assert states(snapshot, "n1") == {"a": (10, 2)}


def test_a_name_leaves_with_its_last_node_and_comes_back_with_a_new_size() -> None:
    """As long as n2 holds the image its first size stays, although n1, which told it, is gone."""
    cache, snapshot = cluster(n1={"a": 10}, n2={"a": 20})
    cache.remove_node(node("n1"))
    cache.assume_pod(pod("p", "n2"))
    cache.update_snapshot(snapshot)
    assert states(snapshot, "n2") == {"a": (10, 1)}
    cache.remove_node(node("n2"))
    cache.add_node(node("n3", images={"a": 30}))
    cache.update_snapshot(snapshot)
    assert states(snapshot, "n3") == {"a": (30, 1)}


def test_any_update_of_the_only_holder_brings_its_own_size() -> None:
    """Upstream takes the images out and puts them back at every update, a heartbeat included."""
    cache, snapshot = cluster(n1={"a": 10}, n2={"a": 20})
    cache.update_node(node("n2", images={"a": 20}))
    cache.update_snapshot(snapshot)
    assert states(snapshot, "n2") == {"a": (10, 2)}
    cache.remove_node(node("n1"))
    cache.update_node(node("n2", images={"a": 20}))
    cache.update_snapshot(snapshot)
    assert states(snapshot, "n2") == {"a": (20, 1)}


def test_a_node_that_reports_other_images_gives_the_old_ones_up() -> None:
    """b stays with the size that n1 told, since n2 holds it too."""
    cache, snapshot = cluster(n1={"a": 10, "b": 7}, n2={"b": 8})
    cache.update_node(node("n1", images={"b": 9, "c": 1}))
    cache.update_snapshot(snapshot)
    assert states(snapshot, "n1") == {"b": (7, 2), "c": (1, 1)}


def test_copies_share_the_states_until_a_count_moves() -> None:
    """Copying a node must not cost a step per image: the very same mapping is handed out again."""
    cache, snapshot = cluster(n1={"a": 10}, n2={"a": 10})
    before = snapshot.node_info_map["n1"].image_states
    assert snapshot.node_info_map["n2"].image_states is before
    cache.assume_pod(pod("p", "n1"))
    delta = cache.update_snapshot(snapshot)
    assert snapshot.node_info_map["n1"].image_states is before
    assert [c.node_changed for c in delta.changes] == [False]
    # A change elsewhere makes the register look again, and find the same.
    cache.add_node(node("n3", images={"other": 1}))
    cache.assume_pod(pod("q", "n1"))
    cache.update_snapshot(snapshot)
    assert snapshot.node_info_map["n1"].image_states is before


def test_a_name_that_a_node_reports_twice_counts_once() -> None:
    """Both entries of the list name the image; the first one's size counts."""
    register = ImageStates()
    held = register.replace(None, (ContainerImage(names=("a", "a:1"), size_bytes=3), ContainerImage(names=("a",))))
    assert register.counts() == {"a": (3, 1), "a:1": (3, 1)}
    assert held is not None
    register.release(held)
    assert len(register) == 0
