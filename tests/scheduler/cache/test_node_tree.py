"""The order of nodes, and which labels make a zone."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.cache.builders import node
from stowplan_scheduler.cache.errors import CacheError
from stowplan_scheduler.cache.node_tree import NodeTree, zone_key
from stowplan_scheduler.objects import Node, ObjectMeta


def tree_of(*nodes: Node) -> NodeTree:
    tree = NodeTree()
    for each in nodes:
        tree.add_node(each)
    return tree


def labelled(**labels: str) -> Node:
    beta, stable = "failure-domain.beta.kubernetes.io/", "topology.kubernetes.io/"
    keys = {
        "beta_zone": f"{beta}zone",
        "beta_region": f"{beta}region",
        "zone": f"{stable}zone",
        "region": f"{stable}region",
    }
    return Node(metadata=ObjectMeta(name="n", labels={keys[name]: value for name, value in labels.items()}))


@pytest.mark.parametrize(
    ("given", "key"),
    [
        (labelled(), ""),
        (labelled(zone="z"), ":\x00:z"),
        (labelled(region="r"), "r:\x00:"),
        (labelled(zone="z", region="r"), "r:\x00:z"),
        (labelled(zone="z", beta_zone="old", region="r", beta_region="older"), "older:\x00:old"),
        (labelled(zone="z", beta_zone=""), ""),
    ],
)
def test_the_zone_key_prefers_the_deprecated_labels_even_if_they_are_empty(given: Node, key: str) -> None:
    """Upstream falls back to the stable label only where the deprecated one is absent."""
    assert zone_key(given) == key


def test_zones_take_turns_and_used_up_zones_are_passed_over() -> None:
    """Zone a has three nodes, b one, c two; a was seen first."""
    tree = tree_of(node("a1", "a"), node("b1", "b"), node("a2", "a"), node("c1", "c"), node("a3", "a"), node("c2", "c"))
    assert tree.names() == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert tree.num_nodes == 6


def test_the_same_zone_name_in_two_regions_is_two_zones() -> None:
    """The key holds region and zone."""
    tree = tree_of(node("r1", "z", region="r"), node("r2", "z", region="r"), node("s1", "z", region="s"))
    assert tree.names() == ["r1", "s1", "r2"]


def test_a_zone_goes_with_its_last_node_and_comes_back_as_the_last_zone() -> None:
    """First-seen order counts from when the zone was last new."""
    tree = tree_of(node("a1", "a"), node("b1", "b"), node("b2", "b"))
    tree.remove_node(node("a1", "a"))
    tree.add_node(node("a1", "a"))
    assert tree.names() == ["b1", "a1", "b2"]


def test_a_node_that_changes_its_zone_goes_behind_the_others_there() -> None:
    """An update without a change of zone leaves the place."""
    tree = tree_of(node("a1", "a"), node("a2", "a"), node("b1", "b"))
    tree.update_node(node("a1", "a"), msgspec.structs.replace(node("a1", "a")))
    assert tree.names() == ["a1", "b1", "a2"]
    tree.update_node(node("a1", "a"), node("a1", "b"))
    assert tree.names() == ["a2", "b1", "a1"]
    assert tree.num_nodes == 3


def test_adding_twice_counts_once_and_removing_an_unknown_node_is_an_error() -> None:
    """The text shows the zone key as Go quotes it."""
    tree = tree_of(node("a1", "a"), node("a1", "a"))
    assert tree.num_nodes == 1
    with pytest.raises(CacheError, match=r'^node "a1" in group ":\\x00:b" was not found$'):
        tree.remove_node(node("a1", "b"))
    assert tree.names() == ["a1"]


def test_an_empty_tree_has_no_names() -> None:
    """No zone at all, not an empty one."""
    tree = tree_of(node("a"))
    tree.remove_node(node("a"))
    assert (tree.names(), tree.num_nodes) == ([], 0)
