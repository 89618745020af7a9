"""Who listens to an event, and what the rejectors' hints make of a pod."""

from __future__ import annotations

import pytest

from scheduler.queue.queue_support import PROFILE, make_info, make_pod, queued
from stowplan_scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    FORCE_ACTIVATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    Resource,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.queue.hints import HintIndex, HintMap, Strategy


def never(info: PodInfo, old: object, new: object) -> Hint:
    return Hint.SKIP


def broken(info: PodInfo, old: object, new: object) -> Hint:
    raise RuntimeError("no such field")


INDEX = HintIndex(
    {
        PROFILE: HintMap(
            {
                "Always": (EventRegistration(NODE_ADD),),
                "Never": (EventRegistration(NODE_ADD, never),),
                "AllPods": (EventRegistration(ClusterEvent(Resource.POD, Action.ADD)),),
                "Silent": None,
                "Deaf": (),
            }
        )
    }
)


@pytest.mark.parametrize(
    ("unschedulable", "pending", "strategy"),
    [
        ((), (), Strategy.AFTER_BACKOFF),
        (("Always",), (), Strategy.AFTER_BACKOFF),
        (("Never",), (), Strategy.SKIP),
        (("Never", "Always"), (), Strategy.AFTER_BACKOFF),
        (("Deaf",), (), Strategy.SKIP),
        (("Unknown",), (), Strategy.SKIP),
        (("Silent",), (), Strategy.AFTER_BACKOFF),
        ((), ("Always",), Strategy.IMMEDIATELY),
        (("Always",), ("Never",), Strategy.AFTER_BACKOFF),
        (("Always",), ("Silent",), Strategy.IMMEDIATELY),
        (("Never",), ("Never",), Strategy.SKIP),
    ],
)
def test_the_strongest_answer_of_the_rejectors_wins(
    unschedulable: tuple[str, ...], pending: tuple[str, ...], strategy: Strategy
) -> None:
    """Event Node/Add. A pending plugin that says Queue skips the back-off; a pod without rejectors is retried."""
    pod = queued(rejectors=unschedulable)
    pod.pending_plugins = frozenset(pending)
    assert INDEX.strategy(pod, NODE_ADD, None, None) is strategy


@pytest.mark.parametrize(
    ("subject", "strategy"),
    [
        (None, Strategy.AFTER_BACKOFF),
        (make_pod("p"), Strategy.AFTER_BACKOFF),
        (make_info("p"), Strategy.AFTER_BACKOFF),
        (make_pod("p", uid="another life"), Strategy.SKIP),
        ("no pod", Strategy.SKIP),
    ],
)
def test_a_wildcard_concerns_every_pod_or_the_one_it_names(subject: object, strategy: Strategy) -> None:
    """ForceActivate carries the pod that is meant; the timeout carries none. Hints are not asked."""
    pod = queued("p", rejectors=["Deaf"])
    assert INDEX.strategy(pod, FORCE_ACTIVATE, None, subject) is strategy


def test_a_hint_that_raises_counts_as_queue_and_is_reported() -> None:
    """A pod must not be stuck because of a plugin's mistake, and the mistake must not be silent."""
    reported: list[str] = []
    index = HintIndex(
        {PROFILE: HintMap({"Broken": (EventRegistration(NODE_ADD, broken),)})},
        lambda plugin, event, info, error: reported.append(f"{plugin} {event.label} {info.key}: {error}"),
    )
    assert index.strategy(queued("p", rejectors=["Broken"]), NODE_ADD, None, None) is Strategy.AFTER_BACKOFF
    assert reported == ["Broken NodeAdd ns/p: no such field"]


@pytest.mark.parametrize(
    ("event", "listeners"),
    [
        (NODE_ADD, ["Always", "Never", "Silent"]),
        (NODE_DELETE, ["Silent"]),
        (ASSIGNED_POD_ADD, ["AllPods", "Silent"]),
        (ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD), ["AllPods", "Silent"]),
        (ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), []),
        (ClusterEvent(Resource.RESOURCE_SLICE, Action.ADD), []),
    ],
)
def test_a_plugin_that_does_not_say_listens_to_all_but_two_resources(event: ClusterEvent, listeners: list[str]) -> None:
    """Volume attachments and resource slices are missing from upstream's list; Pod stands for its three kinds."""
    interest = INDEX.interest(event)
    assert [plugin for _, plugin in interest.rejectors] == listeners
    assert INDEX.is_of_interest(event) is bool(listeners)


def test_a_wildcard_is_of_interest_to_nobody_in_particular_and_to_all() -> None:
    """It matches no registration, yet it must reach every pod."""
    assert INDEX.interest(UNSCHEDULABLE_TIMEOUT).rejectors == ()
    assert INDEX.is_of_interest(UNSCHEDULABLE_TIMEOUT)


def test_a_more_general_event_than_registered_is_not_heard() -> None:
    """Node/Update means that none of the specific changes happened: I <= R numerically."""
    taint = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
    hint_map = HintMap(
        {"Taint": (EventRegistration(taint),), "Any": (EventRegistration(ClusterEvent(Resource.NODE, Action.UPDATE)),)}
    )
    assert [name for name, _ in hint_map.hints_for(ClusterEvent(Resource.NODE, Action.UPDATE))] == ["Any"]
    assert [name for name, _ in hint_map.hints_for(taint)] == ["Taint", "Any"]
    assert hint_map.events_of("Taint") == (taint,)
