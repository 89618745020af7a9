"""Every field of a profile may hold anything: nothing crashes, and one condition names the field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_operator.handlers.observed import observed
from stowplan_operator.handlers.reconcile import Situation, reconcile
from support.situations import COMPILER, PACK, SETTINGS, START, Cluster, profile

FULL: Final[dict[str, Any]] = {
    "schedulerName": "dense",
    "takeOver": False,
    "percentageOfNodesToScore": 50,
    "plugins": {
        "score": {
            "enabled": [{"name": "NodeResourcesFit", "weight": 3}],
            "disabled": [{"name": "ImageLocality"}],
        },
        "multiPoint": {"disabled": [{"name": "NodeAffinity"}]},
    },
    "pluginConfig": [
        {"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{"name": "cpu", "weight": 1}]}},
        {"name": "PodTopologySpread", "args": {"defaultingType": "System"}},
    ],
    "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 2}]},
    "rollout": {"mode": "Active", "shadowOf": "default-scheduler"},
    "workers": {"group": "default", "replicas": 1, "runtime": "Child"},
}

Path = tuple[str | int, ...]


def paths(value: Any, here: Path = ()) -> Iterator[Path]:
    """The paths of all values in a document, its own included."""
    yield here
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*here, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*here, index))


def replaced(value: Any, path: Path, by: Any) -> Any:
    """The document with another value at a path."""
    if not path:
        return by
    made = deepcopy(value)
    at(made, path[:-1])[path[-1]] = by
    return made


def at(value: Any, path: Path) -> Any:
    """What stands at a path."""
    for step in path:
        value = value[step]
    return value


def texts(path: Path) -> str:
    """The path as messages have it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in ("spec", *path))[1:]


ALL_PATHS: Final = sorted(set(paths(FULL)), key=str)
ANYTHING: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        [
            "NaN",
            "\x00",
            "\ud800",
            "☃",
            "\U0001f680",
            "\\ud83d\\ude80",
            "a" * 300,
            "-1",
            "1e400",
            "default-scheduler",
            "*",
            "${jndi}",
        ]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)


def judge(spec: Any, status: Any = None) -> Cluster:
    """A cluster with this profile in it, and a good one beside it, after the operator looked at it."""
    made = profile("dense", PACK)
    made["spec"] = spec
    if status is not None:
        made["status"] = status
    cluster = Cluster(made, profile("wide", {"workers": {"group": "other"}}))
    cluster.step()
    cluster.workers_read()
    cluster.step()
    return cluster


def test_the_document_that_is_spoilt_is_good() -> None:
    assert judge(FULL).condition("dense", "Accepted")["message"] == "generation 1 is good"


@given(st.sampled_from(ALL_PATHS), ANYTHING)
@settings(max_examples=200)
def test_any_value_in_any_field_is_taken_or_refused_with_the_path_of_a_field(path: Path, value: Any) -> None:
    cluster = judge(replaced(FULL, path, value))
    accepted = cluster.condition("dense", "Accepted")
    assert accepted["status"] in {"True", "False"}
    if accepted["status"] == "False":
        assert re.match(r"spec([.\[].*)?: .", accepted["message"]), accepted["message"]
        assert accepted["message"].isprintable()
        assert len(accepted["message"]) <= 1024
    assert cluster.condition("wide", "Accepted")["status"] == "True"
    json.dumps([cluster.status("dense"), cluster.config_map]).encode()


@pytest.mark.parametrize("path", [path for path in ALL_PATHS if path], ids=texts)
def test_a_mapping_of_nonsense_in_a_field_is_refused_with_the_path_of_that_field(path: Path) -> None:
    accepted = judge(replaced(FULL, path, {"nonsense": {"nonsense": 1}})).condition("dense", "Accepted")
    assert accepted["status"] == "False"
    # As kube-scheduler's own decoder, the one of args does not say which entry of a list it speaks of.
    where = texts(path).replace("args.resources[0]", "args.resources")
    assert accepted["message"].startswith((texts(path), where)), accepted["message"]


@pytest.mark.parametrize("path", [path for path in ALL_PATHS if isinstance(at(FULL, path), dict)], ids=texts)
def test_an_unknown_field_is_refused_with_its_path(path: Path) -> None:
    accepted = judge(replaced(FULL, (*path, "nonsense"), 1)).condition("dense", "Accepted")
    assert accepted["status"] == "False"
    assert "nonsense" in accepted["message"]
    assert accepted["message"].startswith((texts(path), texts(path).replace("args.resources[0]", "args")))


@given(ANYTHING, ANYTHING, ANYTHING)
@settings(max_examples=200)
def test_any_status_that_stands_there_is_replaced_by_a_true_one(status: Any, conditions: Any, entry: Any) -> None:
    for found in (status, {"conditions": conditions, "workers": status, "lastGood": entry}, {"conditions": [entry]}):
        cluster = judge(FULL, found)
        assert cluster.condition("dense", "Programmed")["status"] == "True"


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"inner": value}
    return value


@pytest.mark.parametrize("levels", [101, 5_000, 200_000])
def test_a_profile_that_nests_without_end_is_refused(levels: int) -> None:
    spec = {**FULL, "pluginConfig": [{"name": "InterPodAffinity", "args": deep(levels)}]}
    made = profile("dense", PACK)
    made["spec"] = spec
    assert "nests deeper" in refusal(made)


def refusal(made: dict[str, Any]) -> str:
    """Why a profile is refused; without copying it."""
    desired = reconcile(Situation(profiles=[observed(made)]), COMPILER, SETTINGS, START)
    (write,) = desired.statuses
    return str(next(each["message"] for each in write.status["conditions"] if each["type"] == "Accepted"))
