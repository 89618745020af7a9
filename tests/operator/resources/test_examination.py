"""All that is wrong with a profile at once: no finding hides another one, and none comes of another one."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given, settings

from stowplan_operator.resources import compile_profile, read_profile
from stowplan_operator.resources.examination import UNNAMED, examine
from stowplan_scheduler.config import RawArgs
from stowplan_scheduler.framework.interface import ScorePlugin
from support.profile_strategies import VALUES, Path, related, spoilt
from support.profiles import problems_of, profile_object

FIT = "NodeResourcesFit"


def fields(value: dict[str, Any], **third_party: Any) -> list[str]:
    return [problem.field for problem in examine(value, third_party).problems]


def said(**spec: Any) -> list[str]:
    return [str(problem) for problem in examine(profile_object(**spec)).problems]


def test_a_wrong_type_does_not_hide_what_only_the_scheduler_can_tell() -> None:
    """Types first, then rules, plugins and args, then what the scheduler's loader says of the whole."""
    spec: dict[str, Any] = {
        "percentageOfNodesToScore": 101,
        "unknown": 1,
        "plugins": {
            "score": {"enabled": [{"name": FIT, "weight": -1}, {"name": "Nope"}]},
            "bind": {"disabled": [{"name": "*"}]},
        },
        "pluginConfig": [
            {"name": FIT, "args": {"scoringStrategy": {"type": 7, "resources": [{"name": "cpu", "weight": "1"}]}}},
            {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}},
        ],
        "extenders": [{"urlPrefix": "https://here.mon.svc/", "weight": -1}],
    }
    assert fields(profile_object(**spec)) == [
        "spec.unknown",
        "spec.percentageOfNodesToScore",
        "spec.plugins.score.enabled[0].weight",
        "spec.extenders[0].weight",
        "spec.extenders",
        "spec.plugins.score.enabled[1].name",
        "spec.pluginConfig[0].args.scoringStrategy.type",
        "spec.pluginConfig[1].args.hardPodAffinityWeight",
        "spec.pluginConfig[0].args.scoringStrategy.resources[0].weight",
        "spec.plugins.bind",
    ]


def test_entries_keep_their_positions_when_one_before_them_is_no_entry() -> None:
    plugins = {"score": {"enabled": [{"weight": 1}, 5, {"name": "Nope"}, {"name": FIT}, {"name": "NodeName"}]}}
    assert fields(profile_object(plugins=plugins)) == [
        "spec.plugins.score.enabled[0].name",
        "spec.plugins.score.enabled[1]",
        "spec.plugins.score.enabled[2].name",
        "spec.plugins.score.enabled[4].name",
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        # Without the plugin that there is not, no plugin is left.
        (
            {"plugins": {"bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "Nope"}]}}},
            ["spec.plugins.bind.enabled[0].name"],
        ),
        # Nor a point, without the one whose utilization is wrong.
        (
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {"shape": [{"utilization": 101, "score": 1}]},
                }
            },
            ["spec.scoringStrategy.requestedToCapacityRatio.shape[0].utilization"],
        ),
        # The other schedulers that a shadow could not have are no matter of a name that is no name.
        ({"schedulerName": "A B", "rollout": {"mode": "Shadow"}}, ["spec.schedulerName"]),
        ({"schedulerName": None}, ["spec.schedulerName"]),
        ({"workers": {"runtime": "Child", "replicas": "2"}}, ["spec.workers.replicas"]),
    ],
)
def test_what_comes_of_another_finding_is_no_finding(spec: dict[str, Any], expected: list[str]) -> None:
    assert fields(profile_object(**spec)) == expected


def test_a_name_that_is_wrong_does_not_hide_the_rest() -> None:
    value = {**profile_object(percentageOfNodesToScore=-1), "metadata": {"name": ["dense"]}, "sepc": {}}
    examined = examine(value)
    assert [each.field for each in examined.problems] == ["sepc", "metadata.name", "spec.percentageOfNodesToScore"]
    assert examined.profile is not None
    assert examined.profile.name == UNNAMED
    assert not examined.is_sound("metadata")
    assert examined.is_sound("spec.workers", "spec.schedulerName")


@pytest.mark.parametrize("change", [{"kind": "Pod"}, {"apiVersion": "v1"}, {"spec": []}, {"spec": None}])
def test_what_is_no_profile_at_all_has_one_finding(change: dict[str, Any]) -> None:
    examined = examine({**profile_object(), **change})
    assert len(examined.problems) == 1
    assert examined.profile is None


class Picky(ScorePlugin):
    name = "Picky"

    def __init__(self, args: object, handle: object) -> None:
        if not isinstance(args, RawArgs) or args.value != {"level": 1}:
            raise LookupError("level: must be 1")


def test_a_plugin_of_another_distribution_sees_its_args_whatever_else_is_wrong() -> None:
    spec: dict[str, Any] = {
        "plugins": {"score": {"enabled": [{"name": "Picky"}]}, "bind": {"disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": "EBSLimits"}, {"name": "Picky", "args": {"level": 2}}],
        "rollout": {"mode": "On"},
    }
    assert fields(profile_object(**spec), Picky=Picky) == [
        "spec.rollout.mode",
        "spec.pluginConfig[0]",
        "spec.plugins.bind",
        "spec.pluginConfig[1].args",
    ]


def test_a_good_profile_has_no_finding_and_an_object_is_left_as_it_was() -> None:
    good = profile_object(scoringStrategy={"type": "MostAllocated"})
    examined = examine(good)
    assert (examined.problems, examined.taken_out) == ((), ())
    assert examined.profile == read_profile(good)
    bad = profile_object(plugins={"score": {"enabled": [{"name": "Nope", "weight": -1}]}}, workers=5)
    before = deepcopy(bad)
    assert len(examine(bad).problems) == 3
    assert bad == before


@settings(max_examples=200)
@given(spoilt())
def test_of_one_thing_that_is_wrong_all_findings_speak(case: tuple[Path, dict[str, Any]]) -> None:
    """FULL has extenders, which are not decided yet; nothing else is wrong with it."""
    path, spec = case
    value = {**profile_object(), "spec": spec}
    examined = examine(value)
    for problem in examined.problems:
        assert problem.field == "spec.extenders" or related(problem.field, path), (path, problem)
    assert set(problems_of(value)) <= set(examined.problems)
    assert bool(examined.problems) == bool(examined.taken_out)


@settings(max_examples=100)
@given(VALUES)
@example({"schedulerName": "x", "pluginConfig": [{"name": FIT, "args": {"": {"": []}}}]})
@example({"schedulerName": "x", "pluginConfig": [{"name": FIT, "args": {"a.b": 1, "a": {"b": 2}, "[0]": 3}}]})
def test_whatever_stands_there_is_examined_to_an_end(value: Any) -> None:
    """What is left in the end is good."""
    examined = examine({**profile_object(), "spec": value})
    assert set(problems_of({**profile_object(), "spec": value})) <= set(examined.problems)
    if examined.profile is not None:
        compile_profile(examined.profile)
