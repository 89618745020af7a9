"""From plain values to a SchedulerProfile: every finding, with the field that it is about."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_operator.resources import ProfileError, read_profile
from stowplan_operator.resources.reading import MAX_DEPTH
from support.profiles import profile, profile_object


def problems(value: Any) -> list[str]:
    with pytest.raises(ProfileError) as caught:
        read_profile(value)
    return [str(problem) for problem in caught.value.problems]


def test_what_a_server_adds_to_metadata_is_no_mistake() -> None:
    value = profile_object()
    value["metadata"] |= {
        "uid": "0a1b",
        "generation": 3,
        "resourceVersion": "77",
        "creationTimestamp": "2026-03-02T08:00:00Z",
        "deletionTimestamp": "2026-03-02T09:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
        "finalizers": ["example.com/wait"],
    }
    found = read_profile(value)
    assert (found.name, found.metadata.uid, found.metadata.generation) == ("dense", "0a1b", 3)
    assert found.is_deleted
    assert found.metadata.age_key == ("2026-03-02T08:00:00Z", "dense")


def test_defaults_are_those_of_the_definition() -> None:
    spec = profile().spec
    assert (spec.take_over, spec.percentage_of_nodes_to_score) == (False, None)
    assert (spec.rollout.mode, spec.rollout.shadow_of) == ("Active", "default-scheduler")
    assert (spec.workers.group, spec.workers.replicas, spec.workers.runtime) == ("default", 1, None)


def test_null_stands_for_an_absent_field() -> None:
    args = {"name": "NodeResourcesFit", "args": {"ignoredResources": None}}
    found = profile(plugins=None, pluginConfig=[args], rollout=None, scoringStrategy=None, extenders=None)
    assert found.spec == profile(pluginConfig=[{"name": "NodeResourcesFit", "args": {}}]).spec


def test_all_findings_are_reported_unknown_fields_first() -> None:
    spec = {
        "schedulerName": "Dense_1",
        "takeOver": 1,
        "percentageOfNodesToScore": 101,
        "plugns": {},
        "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": -1}, {"weight": 1}]}},
        "rollout": {"mode": "Shadowed"},
        "workers": {"group": "a.b", "replicas": 0},
    }
    assert problems({**profile_object(), "spec": spec}) == [
        "spec.plugns: unknown field; did you mean plugins?",
        "spec.plugins.score.enabled[1].name: must be set",
        "spec.schedulerName: \"Dense_1\": must be lower case letters, digits, '-' and '.', as in batch-packer",
        "spec.takeOver: must be true or false, got 1",
        "spec.percentageOfNodesToScore: 101: must be at most 100",
        "spec.plugins.score.enabled[0].weight: -1: must be at least 0",
        'spec.rollout.mode: "Shadowed": must be Active, Shadow or Paused',
        "spec.workers.group: \"a.b\": must be lower case letters, digits and '-', as in batch-1",
        "spec.workers.replicas: 0: must be at least 1",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "must be a SchedulerProfile, got a list"),
        (None, "must be a SchedulerProfile, got null"),
        ({}, "apiVersion: must be stowplan.io/v1alpha1"),
        ({"apiVersion": "stowplan.io/v1"}, 'apiVersion: "stowplan.io/v1": must be stowplan.io/v1alpha1'),
        (
            {"apiVersion": "stowplan.io/v1alpha1", "kind": "NodePool"},
            'kind: "NodePool": must be SchedulerProfile',
        ),
        ({**profile_object(), "spec": None}, "spec: must be set"),
        ({**profile_object(), "spec": "x"}, 'spec: must be a mapping, got "x"'),
        ({**profile_object(), "metadata": {}}, "metadata.name: must be set"),
    ],
)
def test_another_object_is_refused_in_one_line(value: Any, expected: str) -> None:
    assert problems(value) == [expected]


@pytest.mark.parametrize("depth", [MAX_DEPTH, 5000])
def test_nesting_without_end_is_refused_before_anything_recurses(depth: int) -> None:
    """An API server stores 10,000 levels; Python's stack ends at a tenth of it."""
    args: Any = {}
    for _ in range(depth):
        args = {"a": args}
    value = profile_object(pluginConfig=[{"name": "Other", "args": args}])
    assert problems(value) == [f"spec: nests deeper than {MAX_DEPTH} levels"]


def test_a_status_that_another_version_wrote_is_as_good_as_none() -> None:
    value = {**profile_object(), "status": {"phase": "Running", "pending": "many"}}
    assert read_profile(value).status.pending is None
    known = {**profile_object(), "status": {"pending": 3, "observedGeneration": 2}}
    assert read_profile(known).status.pending == 3


def test_texts_that_no_terminal_can_show_are_made_visible() -> None:
    value = {**profile_object(), "spec": {"schedulerName": "a\n\x1b[31m"}}
    (text,) = problems(value)
    assert r'"a\n\x1b[31m"' in text


@pytest.mark.parametrize(
    "spec", [{"schedulerName": "\ud800"}, {"\udfff": 1}, {"pluginConfig": [{"args": {"\ud800": 1}}]}]
)
def test_half_a_surrogate_pair_is_no_text(spec: dict[str, Any]) -> None:
    """JSON can spell one; no answer to the API server could quote it."""
    assert problems({**profile_object(), "spec": spec}) == ["spec: holds a text that is no Unicode"]
