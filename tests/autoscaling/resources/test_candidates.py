"""Candidates: what they change, what stays, and what is wrong with one, with file, candidate and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.resources import LoadedSimulation, autoscaler_of, load_simulation
from stowplan_autoscaling.resources.candidates import Goal
from stowplan_autoscaling.resources.measures import MEASURES, measure_of
from stowplan_autoscaling.resources.merging import merged
from stowplan_autoscaling.resources.simulation import SimulationSpec
from support.simulations import small, write


def with_candidates(*candidates: dict[str, Any], **fields: Any) -> dict[str, Any]:
    simulation = small()
    simulation["spec"].update({"candidates": list(candidates), **fields})
    return simulation


def loaded(folder: Path, name: str, *candidates: dict[str, Any], **fields: Any) -> LoadedSimulation:
    return load_simulation(write(folder, with_candidates(*candidates, **fields)), candidate=name)


# ---- merging ---------------------------------------------------------------------------------------------------------


def test_mappings_merge_and_null_removes() -> None:
    """As RFC 7396 has it."""
    assert merged({"a": 1, "b": {"c": 2, "d": 3}}, {"a": None, "b": {"c": 4}}) == {"b": {"c": 4, "d": 3}}


def test_lists_of_things_with_names_merge_by_name() -> None:
    """Those that are there keep their places, a new one comes last."""
    before = [{"name": "a", "max": 1}, {"name": "b", "max": 2}]
    after = merged({"pools": before}, {"pools": [{"name": "c", "max": 3}, {"name": "a", "max": 9}]})
    assert after == {"pools": [{"name": "a", "max": 9}, {"name": "b", "max": 2}, {"name": "c", "max": 3}]}
    assert before[0]["max"] == 1


def test_a_list_can_be_patched_as_a_mapping_from_names() -> None:
    """There null removes an entry, which a list has no place for."""
    before = {"pools": [{"name": "a", "max": 1}, {"name": "b", "max": 2}]}
    assert merged(before, {"pools": {"a": None, "b": {"max": 5}, "c": {"max": 7}}}) == {
        "pools": [{"name": "b", "max": 5}, {"name": "c", "max": 7}]
    }


def test_profiles_of_a_scheduler_merge_by_their_schedulers_name() -> None:
    """They have no other."""
    before = [{"schedulerName": "x", "percentageOfNodesToScore": 5}, {"schedulerName": "y"}]
    after = merged(before, [{"schedulerName": "y", "plugins": {}}])
    assert after == [before[0], {"schedulerName": "y", "plugins": {}}]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ([1, 2], [3], [3]),
        ([{"name": "a"}], [], []),
        ([{"type": "Pods", "value": 1}], [{"type": "Percent", "value": 2}], [{"type": "Percent", "value": 2}]),
        ([{"name": "a"}, {"name": "a"}], [{"name": "a", "x": 1}], [{"name": "a", "x": 1}]),
        ("text", {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ],
)
def test_all_else_is_replaced(before: Any, patch: Any, after: Any) -> None:
    """Lists without names, with two of one name, and scalars."""
    assert merged(before, patch) == after


def test_of_fields_that_exclude_each_other_the_given_one_counts() -> None:
    """A candidate need not know what the simulation had."""
    before = {"supply": {"karpenter": {}}, "demand": [{"name": "d", "series": {"constant": {"value": 1}, "per": "1s"}}]}
    patch = {
        "supply": {"clusterAutoscaler": {"scanInterval": "20s"}},
        "demand": {"d": {"series": {"ramp": {"end": 2}}}},
    }
    assert merged(before, patch, SimulationSpec) == {
        "supply": {"clusterAutoscaler": {"scanInterval": "20s"}},
        "demand": [{"name": "d", "series": {"per": "1s", "ramp": {"end": 2}}}],
    }
    assert merged(
        {"schedulerProfiles": {"file": "a.yaml"}}, {"schedulerProfiles": {"configuration": {}}}, SimulationSpec
    ) == {"schedulerProfiles": {"configuration": {}}}


# ---- what a candidate changes ----------------------------------------------------------------------------------------


def test_an_empty_candidate_is_the_simulation_as_it_stands(tmp_path: Path) -> None:
    """Its digest says so: a run of it can be used for either."""
    path = write(tmp_path, with_candidates({"name": "today"}, {"name": "wide", "spec": {"settle": "5m"}}))
    plain, today, wide = (load_simulation(path, candidate=name) for name in ("", "today", "wide"))
    assert plain.digest == today.digest != wide.digest
    assert (plain.candidate, today.candidate) == ("", "today")


def test_what_is_said_about_comparing_does_not_count_in_the_digest(tmp_path: Path) -> None:
    """A finished run is still good when a goal changes or another candidate joins."""
    first = loaded(tmp_path, "a", {"name": "a"}, goals=[{"metric": "waiting.p95"}], seeds=3)
    second = loaded(tmp_path, "a", {"name": "a", "description": "x"}, {"name": "b"}, baseline="b", seeds=7)
    assert first.digest == second.digest


def test_a_candidate_can_change_the_spec(tmp_path: Path) -> None:
    """Two nodes become five."""
    found = loaded(tmp_path, "big", {"name": "big", "spec": {"cluster": {"nodeGroups": {"plain": {"count": 5}}}}})
    assert len(found.of("Node")) == 5
    assert found.spec.cluster.node_groups[0].count == 5


def test_a_candidate_can_patch_an_autoscaler(tmp_path: Path) -> None:
    """What the patch does not name stays."""
    patch = {
        "target": {"kind": "HorizontalPodAutoscaler", "namespace": "shop", "name": "web"},
        "patch": {"spec": {"maxReplicas": 9, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}},
    }
    candidates = ({"name": "today"}, {"name": "fast", "patches": [patch]})
    [manifest] = loaded(tmp_path, "fast", *candidates).of("HorizontalPodAutoscaler")
    spec = autoscaler_of(manifest).spec
    assert (spec.max_replicas, spec.scale_target_ref.name, len(spec.metrics)) == (9, "web", 1)
    assert loaded(tmp_path, "fast", *candidates).digest != loaded(tmp_path, "today", *candidates).digest


def test_null_in_a_patch_removes(tmp_path: Path) -> None:
    """Although null elsewhere in a simulation means that a field is not there."""
    patch = {
        "target": {"kind": "Deployment", "namespace": "shop", "name": "web"},
        "patch": {"spec": {"replicas": None}},
    }
    [manifest] = loaded(tmp_path, "x", {"name": "x", "patches": [patch]}).of("Deployment")
    assert "replicas" not in manifest.value["spec"]


def test_requests_are_set_for_all_containers_or_for_one(tmp_path: Path) -> None:
    """The rest of the container stays."""
    target = {"namespace": "shop", "name": "web"}
    [manifest] = loaded(tmp_path, "x", {"name": "x", "requests": [{"target": target, "cpu": "250m"}]}).of("Deployment")
    [container] = manifest.value["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "web", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}


# ---- what can be wrong -----------------------------------------------------------------------------------------------

WEB = {"kind": "Deployment", "namespace": "shop", "name": "web"}


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (
            {"spec": {"cluster": {"nodeGroups": {"plain": {"count": -1}}}}},
            "candidate x: spec.cluster.nodeGroups[0].count: -1: must be at least 0",
        ),
        ({"spec": {"duratoin": "1h"}}, "candidate x: spec.duratoin: unknown field; did you mean duration?"),
        ({"spec": {"duration": "1h"}}, "spec.candidates[0]: spec.duration: must be the same for all candidates"),
        ({"spec": {"goals": []}}, "spec.candidates[0]: spec.goals: must be the same for all candidates"),
        (
            {"patches": [{"target": {**WEB, "name": "wbe"}, "patch": {}}]},
            "candidate x: spec.candidates[0].patches[0].target: no Deployment shop/wbe; did you mean shop/web?",
        ),
        (
            {"patches": [{"target": {**WEB, "kind": "Deploiment"}, "patch": {}}]},
            (
                "candidate x: spec.candidates[0].patches[0].target: no Deploiment shop/web: there is no Deploiment; "
                "did you mean Deployment?"
            ),
        ),
        (
            {"patches": [{"target": WEB, "patch": {"metadata": {"name": "other"}}}]},
            (
                'candidate x: spec.candidates[0].patches[0].patch.metadata.name: "other": a patch cannot make another '
                "object of it"
            ),
        ),
        (
            {"patches": [{"target": WEB, "patch": {"spec": {"replicas": "three"}}}]},
            'candidate x, Deployment shop/web: spec.replicas: must be an integer, got "three"',
        ),
        ({"requests": [{"target": WEB}]}, "spec.candidates[0].requests[0]: at least one of cpu, memory must be set"),
        (
            {"requests": [{"target": WEB, "container": "wbe", "cpu": 1}]},
            (
                'candidate x: spec.candidates[0].requests[0].container: no container "wbe" in Deployment shop/web; '
                "did you mean web?"
            ),
        ),
        ({"name": "X"}, 'spec.candidates[0].name: "X": must be lower case letters'),
    ],
)
def test_a_wrong_candidate_is_named_with_its_field(tmp_path: Path, candidate: dict[str, Any], message: str) -> None:
    """One line each."""
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, "x", {"name": "x", **candidate})
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "simulation.yaml"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"baseline": "b"}, 'spec.baseline: no candidate "b"; known are a'),
        ({"seeds": 0}, "spec.seeds: 0: must be at least 1"),
        ({"goals": [{"metric": "coast"}]}, 'spec.goals[0]: metric: "coast": no such metric; did you mean cost?'),
        ({"goals": [{"metric": "attempts"}]}, 'metric: "attempts": neither more nor less of it is better'),
        (
            {"goals": [{"metric": "waiting.p95", "limit": 60}]},
            'limit: "60": must be a duration such as 500ms, 60s or 5m',
        ),
        ({"goals": [{"metric": "used.cpu", "limit": "2"}]}, 'limit: "2": must be between 0 and 1, or a percentage'),
        ({"goals": [{"metric": "cost", "limit": "much"}]}, 'spec.goals[0]: limit: "much"'),
        ({"goals": [{"metric": "cost", "tolerance": "x%"}]}, 'spec.goals[0]: tolerance: "x"'),
        ({"prices": {"file": "none.csv"}}, "spec.prices.file"),
    ],
)
def test_what_is_compared_by_is_checked(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    """Whatever candidate is asked for."""
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, "a", {"name": "a"}, **fields)
    assert message in str(caught.value)


def test_two_candidates_need_two_names(tmp_path: Path) -> None:
    """They are folders."""
    with pytest.raises(InputError, match=r'spec\.candidates\[1\]\.name: "a": occurs twice'):
        loaded(tmp_path, "a", {"name": "a"}, {"name": "a"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"cluster": {"nodeGroups": {"plane": None}}},
            "spec.cluster.nodeGroups.plane: there is nothing to remove; did you mean plain?",
        ),
        (
            {"demand": [{"name": "visits", "sereis": None}]},
            "spec.demand.visits.sereis: there is nothing to remove; did you mean series?",
        ),
        ({"nodePools": {"burst": None}}, "spec.nodePools.burst: there is nothing to remove"),
        ({"suply": None}, "spec.suply: there is nothing to remove; did you mean supply?"),
    ],
)
def test_a_null_that_removes_nothing_is_a_mistake(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """A name that is spelt wrongly would pass else, as null leaves no trace."""
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, "x", {"name": "x", "spec": change})
    assert str(caught.value) == f"{tmp_path / 'simulation.yaml'}: candidate x: {message}"


def test_a_field_that_is_not_set_can_be_removed(tmp_path: Path) -> None:
    """To say that its default is meant."""
    found = loaded(tmp_path, "x", {"name": "x", "spec": {"settle": None, "supply": {"karpenter": None, "none": {}}}})
    assert found.spec.settle == 0


def test_candidates_that_are_alike_are_a_warning(tmp_path: Path) -> None:
    """Each alone is none: somebody has to be what the others are compared to."""
    same = {"cluster": {"nodeGroups": {"plain": {"count": 2}}}}
    patch = {"target": WEB, "patch": {"kind": "Deployment"}}
    candidates = (
        {"name": "today"},
        {"name": "later"},
        {"name": "same", "spec": same},
        {"name": "alike", "patches": [patch]},
    )
    assert loaded(tmp_path, "today", *candidates).warnings == ()
    assert loaded(tmp_path, "later", *candidates).warnings == ("candidate later: has the same changes as today",)
    for name in ("same", "alike"):
        assert loaded(tmp_path, name, *candidates).warnings == (
            f"candidate {name}: its changes change nothing: it is the simulation as it stands",
        )


# ---- goals and metrics -----------------------------------------------------------------------------------------------


def test_limits_are_read_in_the_unit_of_their_metric() -> None:
    """A minute is 60 seconds, 95 % is 0.95, 2m of money is a fifth of a cent."""
    assert Goal(metric="waiting.p95", limit="1m").limit_value == 60
    assert Goal(metric="slo.fast", limit="95%").limit_value == pytest.approx(0.95)
    assert Goal(metric="cost", limit="12.5").limit_value == 12.5
    assert Goal(metric="cost").limit_value is None


def test_a_limit_of_all_is_a_limit() -> None:
    """100 % is a share, more is none."""
    assert Goal(metric="used.cpu", limit="100%").limit_value == 1
    assert Goal(metric="used.cpu", limit="1").limit_value == 1


def test_a_tolerance_is_a_share_of_the_baseline_or_an_amount() -> None:
    """1 % if nothing is said."""
    assert Goal(metric="cost").tolerance_of(-200.0) == 2.0
    assert Goal(metric="cost", tolerance="3").tolerance_of(-200.0) == 3.0
    assert Goal(metric="waiting.p95", tolerance="1500ms").tolerance_of(60.0) == 1.5
    assert Goal(metric="used.cpu", tolerance="10%").tolerance_of(0.5) == pytest.approx(0.05)


def test_families_have_a_metric_for_each_name() -> None:
    """And no two metrics have one name."""
    found = measure_of("nodeHours.spot")
    assert found is not None
    assert (found.name, found.title, found.unit) == ("nodeHours.spot", "node-hours of spot", "h")
    assert measure_of("nodeHours.*") is None
    assert measure_of("slo.") is None
    assert measure_of("waiting.soup") is None
    names = [measure.name for measure in MEASURES]
    assert len(set(names)) == len(names)
