"""The catalogue of Karpenter's kwok provider."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.prices import CatalogOffer, read_catalog


def entry(**fields: Any) -> dict[str, Any]:
    offering = {
        "Price": 0.5,
        "Available": True,
        "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
        ],
    }
    return {"name": "m", "architecture": "arm64", "operatingSystems": ["linux"], "resources": {"cpu": "4"},
            "offerings": [offering], **fields}  # fmt: skip


def read(*entries: Any) -> Any:
    return read_catalog(json.dumps(entries).encode(), "types.json")


def test_a_type_has_an_offer_for_each_zone() -> None:
    """Those that are not available are left out."""
    gone = {"Price": 1, "Available": False, "Requirements": []}
    [found] = read(entry(offerings=[*entry()["offerings"], gone]))
    assert (found.name, found.architecture, found.os, found.resources) == ("m", "arm64", "linux", {"cpu": "4"})
    assert found.offers == (CatalogOffer("a", "spot", 0.5), CatalogOffer("b", "spot", 0.5))


def test_an_offering_without_requirements_is_anywhere() -> None:
    """As any capacity type, in any zone."""
    [found] = read(entry(offerings=[{"Price": 2}]))
    assert found.offers == (CatalogOffer("", "", 2),)


def test_a_zone_that_an_offering_is_not_in_is_no_zone_of_it() -> None:
    """NotIn says nothing about where it is."""
    requirements = [{"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["c"]}]
    [found] = read(entry(offerings=[{"Price": 2, "Requirements": requirements}]))
    assert found.offers == (CatalogOffer("", "", 2),)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([3], "types.json: item 1: Expected `object`, got `int`"),
        ([entry(), entry()], "types.json: item 2: m: name: occurs twice"),
        ([entry(resources={"cpu": "4x"})], 'types.json: item 1: m: resources[cpu]: "4x"'),
        ([entry(offerings=[{"Price": -1}])], "types.json: item 1: m: offerings[0].Price: -1.0: must be at least 0"),
        ([entry(offerings=[{"Price": "1"}])], "types.json: item 1: m: offerings[0].Price: Expected `float`, got `str`"),
    ],
)
def test_a_wrong_entry_is_named(entries: list[Any], message: str) -> None:
    """With its number and its field."""
    with pytest.raises(InputError) as caught:
        read(*entries)
    assert message in str(caught.value)


def test_text_that_is_no_list_is_refused() -> None:
    """In one line."""
    with pytest.raises(InputError, match=r"types\.json: not a list of instance types in JSON"):
        read_catalog(b"{}", "types.json")


@pytest.mark.shared
def test_the_published_catalogue_has_144_types_with_8_offers(shared_data: Callable[[str], Path]) -> None:
    """Spot costs 0.7 of on-demand in each of four zones."""
    path = shared_data("prices/karpenter_kwok_instance_types.json.gz")
    found = read_catalog(gzip.decompress(path.read_bytes()), str(path))
    assert len(found) == 144
    assert {len(each.offers) for each in found} == {8}
    prices = {offer.capacity_type: offer.price for offer in found[0].offers}
    assert prices["spot"] == pytest.approx(0.7 * prices["on-demand"])
