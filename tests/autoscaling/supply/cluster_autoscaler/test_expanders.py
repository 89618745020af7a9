"""Expanders: which of several options is taken."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan_autoscaling.supply.cluster_autoscaler.expanders import (
    ExpanderChain,
    ExpanderContext,
    ExpanderError,
    Option,
    PodPrices,
)
from stowplan_autoscaling.supply.cluster_autoscaler.expanders.price import preferred_cpu, suppressed_unfitness
from stowplan_autoscaling.supply.cluster_autoscaler.expanders.waste import least_waste
from stowplan_autoscaling.supply.cluster_autoscaler.templates import TemplateNode
from stowplan_scheduler.framework.pod_info import PodInterner

from .builders import make_group, make_node, make_pod

INTERNER = PodInterner()


def option(
    group: str,
    cpu: str = "4",
    memory: str = "16Gi",
    *,
    nodes: int = 1,
    pods: int = 1,
    asks: tuple[str, str] = ("500m", "1000Mi"),
    price: float | None = None,
) -> Option:
    return Option(
        group=make_group(group, price=price),
        template=TemplateNode(make_node(f"{group}-t", cpu, memory), ()),
        node_count=nodes,
        pods=tuple(INTERNER.info(make_pod(f"{group}-{n}", *asks)) for n in range(pods)),
    )


def best(names: str, *options: Option, size: int = 1, priorities: str = "", rng: object = None) -> str:
    context = ExpanderContext(
        pod_prices=PodPrices(core=0.03, gib=0.004),
        priorities=priorities,
        rng=rng if isinstance(rng, np.random.Generator) else None,
    )
    found = ExpanderChain(names.split(","), context).best_option(options, size)
    return found.group.id if found is not None else ""


def test_least_waste_takes_the_best_balanced_node() -> None:
    """Upstream's vectors for a pod of 500m and 1000Mi."""
    balanced, roomy = option("balanced", "8", "16000Mi"), option("roomy", "8", "32000Mi")
    small = option("small", "4", "16000Mi")
    assert best("least-waste", roomy, balanced) == "balanced"
    assert best("least-waste", roomy, balanced, small) == "small"


def test_least_waste_keeps_exact_ties() -> None:
    tied = [option("a"), option("b"), option("c", "8")]
    assert [each.group.id for each in least_waste(tied)] == ["a", "b"]


def test_most_pods_and_least_nodes() -> None:
    options = option("a", nodes=3, pods=5), option("b", nodes=1, pods=4), option("c", nodes=2, pods=5)
    assert best("most-pods", *options) == "a"
    assert best("least-nodes", *options) == "b"
    assert best("most-pods,least-nodes", *options) == "c"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (1, 4.0),
        (2, 3.800296),
        (3, 3.602354),
        (4, 3.407874),
        (5, 3.218439),
        (10, 2.388851),
        (20, 1.441325),
        (50, 1.008712),
    ],
)
def test_unfitness_matters_less_for_many_nodes(nodes: int, expected: float) -> None:
    assert suppressed_unfitness(4.0, nodes) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("size", "cpu"), [(0, 1000), (2, 1000), (3, 2000), (20, 4000), (60, 8000), (200, 16_000), (201, 32_000)]
)
def test_larger_clusters_prefer_larger_nodes(size: int, cpu: int) -> None:
    assert preferred_cpu(size) == cpu


def test_price_weighs_money_by_fitness() -> None:
    """The same price per core: in a small cluster the small node wins, in a large one the large node does."""
    small, large = option("small", "1", price=0.1), option("large", "16", nodes=1, pods=16, price=1.6)
    assert best("price", small, large, size=1) == "small"
    assert best("price", small, large, size=150) == "large"
    assert best("price", option("free"), option("dear", price=9.0)) == "dear"


def test_priority_takes_the_highest_that_matches_and_lets_all_pass_otherwise() -> None:
    options = option("od-1"), option("spot-1"), option("spot-2")
    ranked = "10:\n- .*\n50:\n- ^spot\n"
    assert best("priority,least-nodes", *options, priorities=ranked) == "spot-1"
    for text in ("", "nonsense", "10: spot", "10:\n- '('\n", "10:\n- gpu\n"):
        assert best("priority", *options, priorities=text) == "od-1"


def test_a_tie_is_the_first_or_drawn() -> None:
    options = [option(name) for name in "abc"]
    assert best("random", *options) == "a"
    drawn = {best("random", *options, rng=np.random.default_rng(seed)) for seed in range(20)}
    assert drawn == {"a", "b", "c"}


def test_no_option_is_none() -> None:
    assert best("least-waste") == ""
    assert best("price", option("a"), option("b")) == ""


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["most-pods", "most-pods"], "multiple times"),
        (["random", "price"], "will never be used"),
        (["cheapest"], "Expander cheapest not supported"),
        (["price"], "needs prices"),
    ],
)
def test_a_chain_that_makes_no_sense_is_refused(names: list[str], text: str) -> None:
    with pytest.raises(ExpanderError, match=text):
        ExpanderChain(names, ExpanderContext())
