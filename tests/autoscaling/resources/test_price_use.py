"""Warnings about a price book that a simulation cannot use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.resources import load_simulation
from support.simulations import small, write


def warnings(folder: Path, book: str, candidate: str = "", **fields: Any) -> list[str]:
    """Those about the prices of a simulation with a node group of type m."""
    (folder / "prices.csv").write_text(book)
    simulation = small()
    group = {"name": "plain", "count": 2, "capacity": {"cpu": "4", "memory": "8Gi"}, "instanceType": "m"}
    simulation["spec"].update({"cluster": {"nodeGroups": [group]}, "prices": {"file": "prices.csv"}, **fields})
    loaded = load_simulation(write(folder, simulation), candidate=candidate)
    return [text for text in loaded.warnings if text.startswith("spec.prices.file")]


def test_a_book_of_what_there_is_needs_no_warning(tmp_path: Path) -> None:
    """Types of node groups, of node pools, and those that nodes have as a label."""
    types = [{"name": "p", "capacity": {"cpu": "4", "memory": "8Gi"}}]
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "own", "labels": {"node.kubernetes.io/instance-type": "big"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    cluster = {"objects": [node]}
    assert warnings(tmp_path, "type,price\np,1\nbig,1\n", instanceTypes=types, cluster=cluster) == []
    assert warnings(tmp_path, "type,price\nm,1\n") == []


def test_instance_types_that_are_nowhere_are_named(tmp_path: Path) -> None:
    """A few of them; commitments are paid nevertheless."""
    assert warnings(tmp_path, "type,price\nm,1\nM,1\n") == [
        'spec.prices.file: instance types that the simulation has nowhere: "M"'
    ]
    named = '"x0", "x1", "x2", "x3", "x4" and 2 more'
    paid = "; machines committed to are paid for all the same"
    rows = "".join(f"x{number},1,{number}\n" for number in range(7))
    assert warnings(tmp_path, f"type,price,committed\n{rows}") == [
        f"spec.prices.file: instance types that the simulation has nowhere: {named}{paid}"
    ]


def test_five_instance_types_are_all_named(tmp_path: Path) -> None:
    """There are no more."""
    rows = "".join(f"x{number},1\n" for number in range(5))
    assert warnings(tmp_path, f"type,price\n{rows}") == [
        'spec.prices.file: instance types that the simulation has nowhere: "x0", "x1", "x2", "x3", "x4"'
    ]


@pytest.mark.parametrize("candidate", ["", "today", "other"])
def test_what_any_candidate_has_is_known(tmp_path: Path, candidate: str) -> None:
    """One book serves all of them."""
    change = {"cluster": {"nodeGroups": {"plain": {"instanceType": "c"}}}}
    candidates = [{"name": "today"}, {"name": "other", "spec": change}]
    assert warnings(tmp_path, "type,price\nm,1\nc,2\n", candidate, candidates=candidates) == []


def test_columns_that_mean_nothing_are_named(tmp_path: Path) -> None:
    """A discount with another name would be lost."""
    assert warnings(tmp_path, "type,price,rebate,vcpu\nm,1,0.1,4\n") == [
        'spec.prices.file: columns that mean nothing here: "rebate", "vcpu"'
    ]
