"""What profiles say about each other: the older one wins."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_operator.resources import SchedulerProfile, check_together
from support.profiles import profile

OLD, NEW, NEWEST = "2026-03-02T08:00:00Z", "2026-03-02T08:00:01Z", "2026-03-02T09:00:00Z"


def said(*profiles: SchedulerProfile) -> dict[str, list[str]]:
    return {name: [str(problem) for problem in found] for name, found in check_together(profiles).items()}


def test_profiles_of_different_schedulers_are_in_nobody_s_way() -> None:
    assert said(profile("dense"), profile("sparse"), profile("third", workers={"group": "batch"})) == {}


def test_of_two_profiles_with_one_scheduler_name_the_newer_one_says_so() -> None:
    older = profile("z", created=OLD, schedulerName="dense", workers={"group": "z"})
    newer = profile("a", created=NEW, schedulerName="dense", workers={"group": "a"})
    message = 'spec.schedulerName: "dense": belongs to the SchedulerProfile z, which is older'
    assert said(newer, older) == said(older, newer) == {"a": [message]}


def test_of_two_profiles_of_the_same_second_the_first_by_name_wins() -> None:
    first, second = (profile(name, created=OLD, schedulerName="dense") for name in ("a", "b"))
    assert list(said(second, first)) == ["b"]


def test_a_profile_that_is_refused_is_in_nobody_s_way() -> None:
    """The second loses its name to the first, so its wish for three workers is not heard by the third."""
    profiles = [
        profile("a", created=OLD, schedulerName="dense"),
        profile("b", created=NEW, schedulerName="dense", workers={"group": "batch", "replicas": 3}),
        profile("c", created=NEWEST, workers={"group": "batch"}),
    ]
    assert list(said(*profiles)) == ["b"]


@pytest.mark.parametrize(
    ("theirs", "mine", "expected"),
    [
        ({"replicas": 2}, {}, "replicas: 1: group default has 2, as dense says: set the same, or another group"),
        (
            {"runtime": "Deployment"},
            {"runtime": "Child"},
            'runtime: "Child": group default has "Deployment", as dense says: set the same, or another group',
        ),
        (
            {},
            {"runtime": "Child"},
            'runtime: "Child": group default has "the operator\'s", as dense says: set the same, or another group',
        ),
    ],
)
def test_the_oldest_profile_of_a_group_says_how_its_workers_run(
    theirs: dict[str, Any], mine: dict[str, Any], expected: str
) -> None:
    older, newer = profile("dense", created=OLD, workers=theirs), profile("sparse", created=NEW, workers=mine)
    assert said(older, newer) == {"sparse": [f"spec.workers.{expected}"]}


def test_a_worker_does_not_shadow_a_scheduler_that_it_runs_itself() -> None:
    shadow = {"mode": "Shadow", "shadowOf": "dense"}
    acting, watching = profile("dense", created=OLD), profile("sparse", created=NEW, rollout=shadow)
    assert said(acting, watching) == {
        "sparse": [
            'spec.rollout.shadowOf: "dense": is run by dense in the same group: put one of the two into another group'
        ]
    }
    elsewhere = profile("sparse", created=NEW, rollout=shadow, workers={"group": "trial"})
    assert said(acting, elsewhere) == {}


def test_the_shadow_wins_if_it_is_the_older_one() -> None:
    watching = profile("sparse", created=OLD, rollout={"mode": "Shadow", "shadowOf": "dense"})
    assert said(watching, profile("dense", created=NEW)) == {
        "dense": [
            (
                'spec.schedulerName: "dense": is what sparse of the same group shadows: put one of the two into '
                "another group"
            )
        ]
    }


def test_only_a_shadow_has_something_against_the_scheduler_that_it_watches() -> None:
    """shadowOf has a default, which is the name of a profile that took over."""
    taken = profile("default", created=OLD, schedulerName="default-scheduler", takeOver=True)
    assert said(taken, profile("dense", created=NEW)) == {}
    watching = profile("dense", created=NEW, rollout={"mode": "Shadow", "shadowOf": "elsewhere"})
    assert said(taken, watching) == {}
    assert list(said(taken, profile("dense", created=NEW, rollout={"mode": "Shadow"}))) == ["dense"]
