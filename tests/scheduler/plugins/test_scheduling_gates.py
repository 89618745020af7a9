"""Tests of SchedulingGates."""

from __future__ import annotations

from stowplan_scheduler.framework.cluster_event import Action, Hint, Resource
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.plugins.scheduling_gates import SchedulingGates
from support.builders import pod
from support.tables import ask, info_of


def test_pod_without_gates_enters_the_queue() -> None:
    """The common case."""
    assert SchedulingGates().pre_enqueue(info_of(pod("p").build())).is_success


def test_gates_are_named_in_spec_order_as_go_prints_a_slice() -> None:
    """Users see this text in the pod's condition: `[b a]`, not `b, a` and not sorted."""
    status = SchedulingGates().pre_enqueue(info_of(pod("p").gated("b.example/x", "a.example/y").build()))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for scheduling gates: [b.example/x a.example/y]"


def test_only_the_end_of_the_gates_wakes_the_pod() -> None:
    """A gated pod is in no queue where other events could help it."""
    (registration,) = SchedulingGates().events()
    assert registration.event.resource is Resource.TARGET_POD
    assert registration.event.action == Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    assert ask(registration.hint, info_of(pod("p").build())) is Hint.QUEUE
