"""The table of types against one look at each type, and the kwok catalogue by numbers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.supply.karpenter import InstanceType, Offering, Requirement, Requirements, TypeTable, one_of
from stowplan_autoscaling.supply.karpenter.amounts import Axis
from stowplan_autoscaling.supply.karpenter.instance_types import available_offerings
from stowplan_autoscaling.supply.karpenter.kwok_catalogue import CPU_LABEL, FAMILY_LABEL, KWOK_WELL_KNOWN
from stowplan_autoscaling.supply.karpenter.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, SPOT, ZONE
from stowplan_autoscaling.supply.karpenter.min_values import types_needed, unsatisfied
from stowplan_scheduler.quantity import NANOS

from .worlds import KWOK, A, B, instance_type

SOME = KWOK[::11]
TABLE = TypeTable(SOME, Axis(), KWOK_WELL_KNOWN)

requirements = st.lists(
    st.one_of(
        st.builds(lambda op, v: Requirement.of(ZONE, op, v), st.sampled_from(["In", "NotIn"]), st.just([A, "x"])),
        st.builds(lambda v: one_of(CAPACITY_TYPE, *v), st.lists(st.sampled_from([SPOT, ON_DEMAND]), min_size=1)),
        st.builds(lambda op, n: Requirement.of(CPU_LABEL, op, [n]), st.sampled_from(["Gt", "Lt"]), st.just("8")),
        st.builds(lambda v: one_of(FAMILY_LABEL, v), st.sampled_from(["c", "m", "x"])),
        st.sampled_from([one_of(ARCH, "arm64"), one_of("team", "a"), Requirement.of(ARCH, "DoesNotExist")]),
    ),
    max_size=4,
).map(Requirements.of)


@given(requirements)
def test_the_table_finds_what_a_look_at_each_type_finds(wanted: Requirements) -> None:
    offers = [available_offerings(item, wanted, KWOK_WELL_KNOWN) for item in SOME]
    agreeing = [item.requirements.intersects(wanted) for item in SOME]
    assert TABLE.allowed(wanted).tolist() == [a and bool(o) for a, o in zip(agreeing, offers, strict=True)]
    assert TABLE.stocked(wanted).tolist() == [bool(found) for found in offers]
    cheapest = [min((offer.price for offer in found), default=np.inf) for found in offers]
    assert TABLE.cheapest(wanted).tolist() == cheapest
    worst = [
        max((o.price for o in found if o.capacity_type == SPOT), default=0.0)
        or max((o.price for o in found), default=np.inf)
        for found in offers
    ]
    assert TABLE.worst_launch(wanted).tolist() == worst


def test_types_come_by_price_and_equals_in_the_order_of_the_catalogue() -> None:
    types = [instance_type(name, "1", "1Gi", price) for name, price in (("z", 1.0), ("a", 1.0), ("m", 0.5))]
    table = TypeTable(types, Axis(), KWOK_WELL_KNOWN)
    everything = Requirements()
    assert [item.name for item in table.in_order(table.allowed(everything), everything)] == ["m", "z", "a"]


def test_what_is_out_of_stock_is_not_offered() -> None:
    item = instance_type("t", "1", "1Gi", 1.0, zones=(A, B))
    gone = InstanceType(
        name="t", requirements=item.requirements, capacity=item.capacity,
        offerings=(Offering(A, ON_DEMAND, 1.0, available=False), Offering(B, ON_DEMAND, 2.0)),
    )  # fmt: skip
    table = TypeTable([gone], Axis(), KWOK_WELL_KNOWN)
    assert table.cheapest(Requirements()).tolist() == [2.0]
    assert not table.allowed(Requirements.of([one_of(ZONE, A)])).any()
    assert gone.price(A, ON_DEMAND) == 1.0


def test_huge_pages_and_overhead_are_taken_out_of_what_pods_get() -> None:
    item = InstanceType(
        name="t", requirements=Requirements(), offerings=(),
        capacity={"cpu": 2 * NANOS, "memory": 100 * NANOS, "hugepages-2Mi": 30 * NANOS},
        overhead={"cpu": NANOS // 10, "memory": 20 * NANOS, "other": 5},
    )  # fmt: skip
    assert item.allocatable == {"cpu": 19 * NANOS // 10, "memory": 50 * NANOS, "hugepages-2Mi": 30 * NANOS}


def test_limits_leave_the_types_that_stay_within_them() -> None:
    inside = TABLE.within({"cpu": 8 * NANOS, "nodes": NANOS})
    assert [item.name for item, ok in zip(SOME, inside, strict=True) if ok] == [
        item.name for item in SOME if item.capacity["cpu"] <= 8 * NANOS
    ]
    assert not TABLE.within({"nodes": -NANOS}).any()
    assert TABLE.most(inside, "cpu") == max(i.capacity["cpu"] for i in SOME if i.capacity["cpu"] <= 8 * NANOS)


@pytest.mark.parametrize(
    ("name", "on_demand", "cores", "gibibytes", "pods"),
    [
        ("c-1x-amd64-linux", 0.027147, 1, 2, 16),
        ("s-4x-amd64-linux", 0.117180, 4, 16, 64),
        ("m-16x-arm64-linux", 0.537439, 16, 128, 256),
        ("c-256x-amd64-windows", 6.949756, 256, 512, 1024),
    ],
)
def test_the_catalogue_of_kwok_has_the_published_numbers(
    name: str, on_demand: float, cores: int, gibibytes: int, pods: int
) -> None:
    item = next(item for item in KWOK if item.name == name)
    assert len(KWOK) == 144
    assert item.price(A, ON_DEMAND) == pytest.approx(on_demand, abs=5e-7)
    assert item.price(B, SPOT) == pytest.approx(0.7 * on_demand, abs=5e-7)
    assert item.capacity["cpu"] == cores * NANOS
    assert item.capacity["memory"] == (gibibytes << 30) * NANOS
    assert item.capacity["pods"] == pods * NANOS


@pytest.mark.shared
def test_the_catalogue_is_the_published_one_to_the_last_bit(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("prices/karpenter_kwok_instance_types.json.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        published = json.load(file)
    ours = [(item.name, [offer.price for offer in item.offerings]) for item in KWOK]
    assert ours == [(item["name"], [offer["Price"] for offer in item["offerings"]]) for item in published]


def test_values_that_the_requirement_excludes_do_not_count_towards_min_values() -> None:
    types = [instance_type(f"t{i}", "1", "1Gi", 1.0, labels={FAMILY_LABEL: f}) for i, f in enumerate("ccm")]
    wanted = Requirements.of([one_of(FAMILY_LABEL, "c", "m")._replace(min_values=2)])
    assert unsatisfied(types, wanted) == {}
    assert unsatisfied(types[:2], wanted) == {FAMILY_LABEL: 1}
    only_c = wanted.adding([one_of(FAMILY_LABEL, "c")])
    assert unsatisfied(types, only_c) == {FAMILY_LABEL: 1}
    assert unsatisfied([], wanted) == {}


def test_the_front_of_the_list_is_cut_where_it_has_values_enough() -> None:
    types = [instance_type(f"t{i}", "1", "1Gi", 1.0, labels={FAMILY_LABEL: f}) for i, f in enumerate("ccms")]
    assert types_needed(types, Requirements.of([one_of(FAMILY_LABEL, *"cms")._replace(min_values=2)])) == 3
    assert types_needed(types, Requirements.of([Requirement.of(INSTANCE_TYPE, "Exists", (), 4)])) == 4
    assert types_needed(types, Requirements.of([Requirement.of(INSTANCE_TYPE, "Exists", (), 9)])) == 4
    assert types_needed(types, Requirements()) == 0
