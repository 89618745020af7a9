"""Tests of ImageLocality. Numbers worked out by hand."""

from __future__ import annotations

import pytest

from stowplan_scheduler.plugins.image_locality import ImageLocality, normalized_image_name
from support.builders import NodeBuilder, node, pod
from support.tables import World, info_of

MIB = 1024 * 1024


def world(total: int, holders: int, *sizes_in_mib: int) -> World:
    """`total` nodes; the first `holders` hold images i0:v, i1:v, ... of these sizes."""
    nodes: list[NodeBuilder] = [node(f"n{index}") for index in range(total)]
    for built in nodes[:holders]:
        for index, size in enumerate(sizes_in_mib):
            built.image(f"i{index}:v", size=size * MIB)
    return World([built.build() for built in nodes])


@pytest.mark.parametrize(
    ("total", "holders", "size", "containers", "score"),
    [
        (4, 2, 500, 1, 23),
        (4, 2, 500, 2, 11),
        (4, 4, 20, 1, 0),
        (2, 2, 3000, 1, 100),
        (3, 1, 250, 1, 6),
    ],
)
def test_one_image(total: int, holders: int, size: int, containers: int, score: int) -> None:
    """500 MiB on 2 of 4 nodes count 250 MiB: 100 * (250 - 23) // (1000 - 23) = 23."""
    wanting = pod("p").image("i0:v")
    for _ in range(containers - 1):
        wanting.container("other:v")
    assert world(total, holders, size).raw_scores(ImageLocality(), wanting.build())[0] == score


def test_two_images() -> None:
    """1200 MiB for two containers: 100 * (1200 - 23) // (2000 - 23) = 59."""
    wanting = pod("p").image("i0:v").container("i1:v").build()
    assert world(4, 4, 600, 600).raw_scores(ImageLocality(), wanting) == [59, 59, 59, 59]


def test_nodes_without_the_image_score_nothing() -> None:
    """The smallest sum is 23 MiB, which counts 0."""
    assert world(3, 1, 900).raw_scores(ImageLocality(), pod("p").image("i0:v").build())[1:] == [0, 0]


def test_an_image_counts_as_often_as_it_is_used_by_all_kinds_of_users() -> None:
    """Init container, container and image volume: 3 * 300 MiB of 3 images, 100 * (900 - 23) // (3000 - 23) = 29."""
    wanting = pod("p").image("i0:v").init("i0:v").image_volume("i0:v").build()
    assert world(1, 1, 300).raw_scores(ImageLocality(), wanting) == [29]


def test_name_without_tag_means_latest() -> None:
    """A colon before the last slash is a port of the registry."""
    assert normalized_image_name("app") == "app:latest"
    assert normalized_image_name("registry:5000/app") == "registry:5000/app:latest"
    assert normalized_image_name("registry:5000/app:v1") == "registry:5000/app:v1"
    here = World([node("n").image("app:latest", size=1000 * MIB).build()])
    assert here.raw_scores(ImageLocality(), pod("p").image("app").build()) == [100]


def test_prepared_state_follows_the_number_of_nodes() -> None:
    """The share of nodes that hold an image is no property of the node: it must not be kept over a new layout."""
    here = world(2, 1, 1000)
    plugin = ImageLocality()
    state = plugin.pre_score(here.info(pod("p").image("i0:v").build()), here.cluster, here.view()).state
    assert list(plugin.score(state, here.view())) == [48, 0]
    here.cache.add_node(node("n2").build())
    here.cache.add_node(node("n3").build())
    here.refresh()
    assert list(plugin.score(state, here.view())) == [23, 0, 0, 0]


def test_key_is_the_images() -> None:
    """Requests do not matter; how often an image is used does."""
    plugin = ImageLocality()
    once = plugin.score_key(info_of(pod("p").image("a").req(cpu="1").build()))
    assert once == plugin.score_key(info_of(pod("q").image("a").build()))
    assert once != plugin.score_key(info_of(pod("q").image("a").container("a").build()))


def test_the_plugin_rejects_nobody_and_listens_to_everything() -> None:
    """Upstream has no EnqueueExtensions here, which means every event."""
    assert ImageLocality().events() is None
