"""In which settings candidates differ, and which of them mattered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stowplan_autoscaling.experiment.comparison import Change, Difference
from stowplan_autoscaling.experiment.settings import Settings, changes, effects_of, settings_of, settings_report
from stowplan_autoscaling.experiment.statistics import paired
from stowplan_autoscaling.resources import load_simulation
from support.experiments import WEB, comparison
from support.optional import some
from support.simulations import write


def changed(folder: Path, **candidate: Any) -> tuple[Change, ...]:
    """What a candidate changes, as its settings show it."""
    simulation = comparison(candidates=[{"name": "today"}, {"name": "x", **candidate}])
    path = write(folder, simulation)
    before, after = (settings_of(load_simulation(path, candidate=name)) for name in ("today", "x"))
    return changes(before, after)


def test_a_change_of_the_spec_has_its_path(tmp_path: Path) -> None:
    """Lists by name; the nodes that come of it are no settings."""
    found = changed(tmp_path, spec={"cluster": {"nodeGroups": {"plain": {"count": 3}}}, "settle": "1m"})
    assert found == (
        Change(path="cluster.nodeGroups[plain].count", baseline="2", value="3"),
        Change(path="settle", baseline="0s", value="1m"),
    )


def test_a_change_of_an_object_has_its_name(tmp_path: Path) -> None:
    """Whether by a patch or by a request."""
    found = changed(tmp_path, requests=[{"target": WEB, "cpu": "250m"}])
    path = "Deployment shop/web: spec.template.spec.containers[web].resources.requests.cpu"
    assert found == (Change(path=path, baseline="500m", value="250m"),)


def test_a_change_of_the_scheduler_is_one_of_its_configuration(tmp_path: Path) -> None:
    """With all defaults, so that a file and what stands in the simulation can be compared."""
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}],
    }
    found = changed(tmp_path, spec={"schedulerProfiles": {"configuration": configuration}})
    assert [(each.baseline, each.value) for each in found if each.path.endswith("scoringStrategy.type")] == [
        ("LeastAllocated", "MostAllocated")
    ]
    assert {each.path.partition("[")[0] for each in found} == {"schedulerProfiles"}
    assert all("[default-scheduler].pluginConfig[NodeResourcesFit]" in each.path for each in found)


def test_an_empty_candidate_changes_nothing(tmp_path: Path) -> None:
    """Nor does its description."""
    assert changed(tmp_path, description="the same") == ()


# ---- what mattered ---------------------------------------------------------------------------------------------------

SETTINGS: dict[str, Settings] = {
    "a": {"x": "1", "y": "1", "z": "0"},
    "b": {"x": "2", "y": "1", "z": "0"},
    "c": {"x": "2", "y": "2", "z": "0"},
}


def step(candidate: str, baseline: str, size: float) -> Difference:
    pairs = [(10 + size, 10.0)] * 6
    return some(paired(candidate, baseline, "cost", pairs, better="lower", tolerance=0.5))


def test_what_one_setting_did_is_told_apart_from_what_two_did() -> None:
    """a and b differ in x, b and c in y: c against a, with both, says nothing more."""
    differences = [step("b", "a", -3), step("c", "a", -3.2), step("c", "b", -0.2), step("a", "b", 3)]
    effects = effects_of(SETTINGS, differences, ["cost"])
    assert [(effect.settings, effect.difference.median) for effect in effects] == [(("x",), -3), (("y",), -0.2)]
    assert [effect.difference.outcome for effect in effects] == ["better", "no difference"]


def test_settings_that_mattered_come_first() -> None:
    """A setting in which all agree does not come at all."""
    effects = effects_of(SETTINGS, [step("b", "a", -0.1), step("c", "b", 4)], ["cost"])
    found = settings_report(SETTINGS, effects)
    assert [(each.path, each.is_alone, each.mattered) for each in found] == [("y", True, ("cost",)), ("x", True, ())]
    assert found[0].values == {"a": "1", "b": "1", "c": "2"}


def test_settings_that_only_change_together_share_their_effect() -> None:
    """And are not alone."""
    settings = {"a": SETTINGS["a"], "c": SETTINGS["c"]}
    effects = effects_of(settings, [step("c", "a", 2)], ["cost"])
    assert [effect.settings for effect in effects] == [("x", "y")]
    assert [(each.is_alone, each.mattered) for each in settings_report(settings, effects)] == [(False, ("cost",))] * 2


def test_metrics_that_are_no_goal_do_not_count() -> None:
    """There would be one that moved by chance."""
    assert effects_of(SETTINGS, [step("b", "a", 2)], ["waiting.p95"]) == ()
