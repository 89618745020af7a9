"""Properties: whatever a profile holds, checks answer with problems and never with another exception."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from stowplan_operator.resources import (
    ProfileError,
    SchedulerProfile,
    check_together,
    compile_group,
    compile_profile,
    profile_hash,
    read_profile,
    summary,
)
from stowplan_operator.resources.convert import Naming, to_configuration, to_profiles
from stowplan_operator.resources.differences import differences, of_configuration, of_profile
from stowplan_scheduler.config import ConfigurationError, effective_profiles, load_configuration
from support.profile_strategies import FULL, PATHS, VALUES, Path, configurations, related, specs, spoilt
from support.profiles import problems_of, profile_object
from support.profiles import profile as made_profile


def test_the_full_spec_is_good_but_for_its_extenders() -> None:
    """So that what is spoilt in it is all that is wrong."""
    assert [problem.field for problem in problems_of({**profile_object(), "spec": FULL})] == ["spec.extenders"]
    assert len(PATHS) > 60


@settings(max_examples=200)
@given(spoilt())
def test_what_is_wrong_with_a_spoilt_profile_is_said_with_its_field(case: tuple[Path, dict[str, Any]]) -> None:
    path, spec = case
    problems = problems_of({**profile_object(), "spec": spec})
    for problem in problems:
        assert related(problem.field, path), (path, problem)
        assert problem.message
        assert str(problem).isprintable()
    assert len(summary(problems)) <= 1024


@settings(max_examples=100)
@given(VALUES)
@example({"schedulerName": "x", "pluginConfig": [{"name": "NodeResourcesFit", "args": {"": {"": []}}}]})
@example({"schedulerName": "x", "pluginConfig": [{"name": "NodeResourcesFit", "args": {'a"b: c': 1}}]})
@example(
    {
        "schedulerName": "x",
        "pluginConfig": [{"name": 'A"', "args": {}}],
        "plugins": {"score": {"enabled": [{"name": 'A"'}]}},
    }
)
def test_any_value_is_read_or_refused(value: Any) -> None:
    """A SchedulerProfile must at least have its name."""
    assert problems_of(value)
    assert problems_of({**profile_object(), "metadata": value}) or value["name"]
    assert problems_of({**profile_object(), "spec": value}) or value["schedulerName"]


@settings(max_examples=60)
@given(specs())
def test_a_good_profile_is_what_the_scheduler_s_own_loader_takes(spec: dict[str, Any]) -> None:
    """The generator makes few profiles that no scheduler takes, such as one without a binder."""
    profile = read_profile({**profile_object(), "spec": spec})
    try:
        document = compile_profile(profile)
    except ProfileError as error:
        fields = {problem.field for problem in error.problems}
        assume(not fields <= {"spec.plugins.bind", "spec.plugins"})
        raise
    (loaded,) = load_configuration(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [document]}
    ).profiles
    assert loaded.scheduler_name == "dense"
    # Reading it once more changes nothing.
    again = read_profile({**profile_object(), "spec": {**document}})
    assert profile_hash(again.spec) == profile_hash(profile.spec)
    assert differences(of_profile(profile), of_profile(again), running=False) == []


@settings(max_examples=60)
@given(configurations())
def test_a_configuration_goes_to_profiles_and_back_without_another_meaning(configuration: dict[str, Any]) -> None:
    try:
        before = effective_profiles(load_configuration(configuration))
    except ConfigurationError:
        assume(False)
        raise
    converted = to_profiles(configuration, Naming(take_over=True))
    assert converted.notes == ()
    profiles = [read_profile(document) for document in converted.documents]
    for each in profiles:
        compile_profile(each)
    back = to_configuration(profiles)
    after = effective_profiles(load_configuration(back.documents[0]))
    whole = configuration.get("percentageOfNodesToScore")
    for old, new in zip(before, after, strict=True):
        assert (old.scheduler_name, old.points, old.score_weights, old.args) == (
            new.scheduler_name,
            new.points,
            new.score_weights,
            new.args,
        )
        own = old.percentage_of_nodes_to_score
        assert (new.percentage_of_nodes_to_score or 0) == ((whole or 0) if own is None else own)
    for old_side, new_side in zip(of_configuration(configuration), of_configuration(back.documents[0]), strict=True):
        assert differences(old_side, new_side, running=True) == []


@settings(max_examples=60)
@given(specs())
def test_a_profile_goes_to_a_configuration_and_back_without_another_hash(spec: dict[str, Any]) -> None:
    profile = read_profile({**profile_object(), "spec": spec})
    try:
        compile_profile(profile)
    except ProfileError:
        assume(False)
    (document,) = to_configuration([profile]).documents
    (back,) = to_profiles(document, Naming()).documents
    assert profile_hash(read_profile(back).spec) == profile_hash(profile.spec)


@given(st.lists(specs(), max_size=3))
def test_hashes_of_equal_specs_are_equal_and_do_not_depend_on_the_order_of_fields(drawn: list[dict[str, Any]]) -> None:
    for spec in drawn:
        turned = dict(reversed(spec.items()))
        first, second = (read_profile({**profile_object(), "spec": each}) for each in (spec, turned))
        assert profile_hash(first.spec) == profile_hash(second.spec)


@st.composite
def crowds(draw: st.DrawFn) -> list[SchedulerProfile]:
    """Profiles that get in each other's way: few schedulers, few groups, few moments."""
    made = []
    for number in range(draw(st.integers(0, 6))):
        name = draw(st.sampled_from(["dense", "sparse", "third"]))
        rollout = {
            "mode": draw(st.sampled_from(["Active", "Shadow"])),
            "shadowOf": draw(st.sampled_from(["dense", "x"])),
        }
        if rollout == {"mode": "Shadow", "shadowOf": name}:
            rollout["shadowOf"] = "x"
        workers = {"group": draw(st.sampled_from("ab")), "replicas": draw(st.integers(1, 2))}
        created = f"2026-03-02T08:00:0{draw(st.integers(0, 2))}Z"
        made.append(made_profile(f"p{number}", created=created, schedulerName=name, rollout=rollout, workers=workers))
    return made


@settings(max_examples=60)
@given(crowds(), st.randoms(use_true_random=False))
def test_of_profiles_in_each_other_s_way_some_always_win_whatever_their_order(
    profiles: list[SchedulerProfile], random: Random
) -> None:
    problems = check_together(profiles)
    shuffled = list(profiles)
    random.shuffle(shuffled)
    assert check_together(shuffled) == problems
    winners = [each for each in profiles if each.name not in problems]
    assert bool(winners) == bool(profiles)
    # Nobody is in a winner's way, and the winners of a group make one configuration.
    assert check_together(winners) == {}
    assert len({each.spec.scheduler_name for each in winners}) == len(winners)
    for group in ("a", "b"):
        members = [each for each in winners if each.spec.workers.group == group]
        if members:
            compile_group(members)
    oldest = min(profiles, key=lambda each: each.metadata.age_key, default=None)
    assert oldest is None or oldest.name not in problems
