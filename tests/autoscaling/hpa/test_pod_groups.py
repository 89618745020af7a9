"""Which samples count, pod by pod."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from autoscaling.hpa.builders import NOW, RULES, SECOND, one_pod
from stowplan_autoscaling.cluster.pods import FALSE, SUCCEEDED, TRUE, UNKNOWN
from stowplan_autoscaling.hpa.metrics import PodMetric
from stowplan_autoscaling.hpa.pod_groups import group_pods, without
from stowplan_scheduler.objects import PodStatus


def grouped(letter: str = "R", resource: str = "cpu", sample_age: float = 0, **changes: object) -> str:
    """The group of one changed pod: started, ready and since are seconds before NOW."""
    pod = replace(one_pod("p", letter), **changes)
    sample = {"p": PodMetric(NOW - round(sample_age * SECOND), 15 * SECOND, 1)}
    groups = group_pods([pod], sample, resource, RULES, NOW)
    names = {"ignored": groups.ignored, "unready": groups.unready, "missing": groups.missing}
    return next((name for name, found in names.items() if found), f"ready {groups.ready}")


def ago(seconds: float) -> int:
    """A time before NOW."""
    return NOW - round(seconds * SECOND)


def test_deleting_and_failed_pods_are_ignored() -> None:
    """They will not take load again."""
    assert grouped(deleted=NOW) == "ignored"
    assert grouped("F") == "ignored"


def test_pending_pods_are_unready_for_every_metric() -> None:
    """Readiness matters for cpu alone, but a pod that is not placed has no load at all."""
    assert grouped("P") == grouped("P", resource="memory") == grouped("P", resource="") == "unready"


def test_a_succeeded_pod_counts_like_a_running_one() -> None:
    """Upstream forgets it: only Failed is special."""
    assert grouped(status=PodStatus(phase=SUCCEEDED)) == "ready 1"


def test_other_resources_ignore_readiness() -> None:
    """Memory is used whether a pod serves or not."""
    assert grouped("U") == "unready"
    assert grouped("U", resource="memory") == "ready 1"


@pytest.mark.parametrize("changes", [{"ready": ""}, {"started": None}])
def test_without_readiness_or_start_time_a_pod_is_unready(changes: dict[str, Any]) -> None:
    """Nothing is known of it yet."""
    assert grouped(**changes) == "unready"


@pytest.mark.parametrize(
    ("since", "sample_age", "group"), [(100, 85, "ready 1"), (100, 85.001, "unready"), (10, 0, "unready")]
)
def test_a_young_pods_sample_must_be_a_window_younger_than_its_readiness(
    since: float, sample_age: float, group: str
) -> None:
    """With a window of 15 s, readiness at -100 s allows samples from -85 s on."""
    assert grouped(started=ago(200), ready=TRUE, ready_since=ago(since), sample_age=sample_age) == group


@pytest.mark.parametrize(("age", "group"), [(299.999, "unready"), (300, "ready 1")])
def test_a_pod_is_young_for_less_than_five_minutes(age: float, group: str) -> None:
    """Lost readiness excludes a young pod; of an old one it may be the load's fault."""
    assert grouped(started=ago(age), ready=FALSE, ready_since=ago(5)) == group


@pytest.mark.parametrize(("delay", "group"), [(29.999, "unready"), (30, "ready 1")])
def test_an_old_pod_that_was_never_ready_is_unready(delay: float, group: str) -> None:
    """Its readiness turned False within 30 s of its start and never again."""
    assert grouped(started=ago(1000), ready=FALSE, ready_since=ago(1000 - delay)) == group


def test_unknown_readiness_does_not_exclude() -> None:
    """Only False does: a node that is lost says nothing about the load before."""
    assert grouped(started=ago(1000), ready=UNKNOWN, ready_since=ago(990)) == "ready 1"


def test_samples_of_ignored_and_unready_pods_are_dropped() -> None:
    """Foreign samples stay: who uses them decides later."""
    all_samples = {name: PodMetric(NOW, SECOND, 1) for name in ("a", "b", "c", "foreign")}
    all_pods = [one_pod("a", "R"), one_pod("b", "F"), one_pod("c", "P"), one_pod("d", "R")]
    groups = group_pods(all_pods, all_samples, "", RULES, NOW)
    assert groups.missing == ("d",)
    assert without(all_samples, groups) == {"a": 1, "foreign": 1}
