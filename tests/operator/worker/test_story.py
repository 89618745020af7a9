"""Stories, counts and what a broken object or plugin does."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from stowplan_operator.worker.machine import WorkerMachine
from stowplan_operator.worker.requests import BindPod, PatchPod
from stowplan_operator.worker.settings import MachineSettings
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.events import WATCHED
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import FilterPlugin, Inputs, PreFilterResult, ReasonIds
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SKIP
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.profiles import plugin_traits
from stowplan_scheduler.quantity import QuantityError
from support.builders import pod
from support.machines import CONFIG, SECOND, Changed, Desk, of, profile, settings, small, the, waiting


def test_the_story_of_a_pod_that_had_to_wait() -> None:
    desk = Desk(small(), waiting(cpu="2"), given=settings(profile("stowplan", generation=7)))
    desk.answer(the(PatchPod, desk.tick()), 200)
    desk.see(small("n2", cpu="4"))
    bind = the(BindPod, desk.settle(20 * SECOND))
    desk.answer(bind)
    desk.show_bound(bind)
    desk.lose(waiting())
    story = [record for record in desk.stories if record.pod == "default/p1"]
    assert [record.moment.value for record in story] == [
        "seen", "attempt", "asked", "answered", "assumed", "asked", "answered", "bound", "seen-bound", "gone",
    ]  # fmt: skip
    seen, attempt, asked, answered, assumed, bound = *story[:5], story[7]
    assert (seen.place, seen.epoch) == ("active", 0), "seen while following"
    assert (attempt.attempt, attempt.place, attempt.epoch, attempt.generation) == (1, "unschedulable", 1, 7)
    assert attempt.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert asked.message == "patch PodScheduled=False (Unschedulable)"
    assert (answered.request, answered.status) == (asked.request, 200)
    assert (assumed.node, bound.node) == ("n2", "n2")
    assert [record.seq for record in story] == sorted(record.seq for record in story)


def test_pods_of_other_schedulers_have_no_story() -> None:
    desk = Desk(small(), waiting(scheduler="another"))
    desk.lose(waiting())
    assert desk.stories == []


def test_an_object_that_cannot_be_read_is_reported_and_the_others_go_on() -> None:
    desk = Desk(small(), pod("bad").req(cpu="12x").scheduler("stowplan").raw(), waiting())
    assert [type(failure) for failure in desk.failures] == [QuantityError]
    assert desk.machine.failures == 1
    assert desk.story("bad") == ["refused"]
    assert the(BindPod, desk.tick()).key == "default/p1"


class Broken(FilterPlugin):
    """Breaks for pods with a label."""

    name = "Broken"
    filter_inputs = Inputs.CLUSTER

    def __init__(self, args: object, handle: PluginHandle) -> None:
        super().__init__()

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        if "breaks" in pod.pod.metadata.labels:
            raise ZeroDivisionError("as plugins do")
        return PreFilterResult(SKIP)

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        return np.zeros(view.size, np.int16)


def machine_with_a_broken_plugin(failures: list[Exception] | None) -> WorkerMachine:
    """A leader with a node, a pod for which the plugin breaks, and one for which it does not."""
    plugins = {"multiPoint": {"enabled": [{"name": "Broken"}]}}
    configuration = load_configuration(
        {**CONFIG, "profiles": [{"schedulerName": "stowplan", "plugins": plugins}]},
        extra_plugins=plugin_traits({"Broken": Broken}),
    )
    machine = WorkerMachine(
        MachineSettings.all_active(configuration),
        First(),
        start=0,
        third_party={"Broken": Broken},
        on_failure=None if failures is None else failures.append,
    )
    broken = pod("bad").labels(breaks="yes").priority(1).scheduler("stowplan").build()
    for made in (small(), broken, waiting()):
        machine.changed(Changed("ADDED", None, made), 0)
    for kind in WATCHED:
        machine.heard(kind, 1, 0)
    machine.lead(1, 0, 0)
    return machine


def test_a_plugin_that_breaks_costs_its_pod_an_attempt_and_nobody_else() -> None:
    failures: list[Exception] = []
    machine = machine_with_a_broken_plugin(failures)
    requests = machine.tick(0)
    assert [bind.key for bind in of(BindPod, requests)] == ["default/p1"]
    assert [str(failure) for failure in failures] == ["as plugins do"]
    condition = the(PatchPod, requests).condition
    assert condition is not None
    assert (condition.reason, condition.message) == ("SchedulerError", "ZeroDivisionError: as plugins do")
    assert machine.pending()["backoff"] == 1


def test_a_failure_that_nobody_listens_to_is_raised() -> None:
    with pytest.raises(ZeroDivisionError, match="as plugins do"):
        machine_with_a_broken_plugin(None).tick(0)


def test_counts_say_where_every_pod_is() -> None:
    desk = Desk(small(), waiting("p1"), waiting("p2", cpu="3"), waiting("p3"), waiting("p4"))
    desk.tick()
    assert desk.machine.pending() == {
        "active": 0, "backoff": 0, "unschedulable": 2, "gated": 0, "in_flight": 0, "binding": 2, "held": 0,
    }  # fmt: skip
    assert desk.machine.pending_of() == {"stowplan": 4}
    assert desk.machine.node_count == 1
    assert desk.machine.utilization() == {"cpu": 80, "memory": 0}
    assert {sample.metric for sample in desk.samples} >= {"schedule_attempts_total"}


def test_a_pod_that_has_ended_is_gone() -> None:
    desk = Desk(small(), waiting())
    held: Pod = desk.objects["Pod", "default/p1"]
    desk.see(replace(held, status=replace(held.status, phase="Failed")))
    assert of(BindPod, desk.tick()) == []
    assert desk.story("p1") == ["seen", "gone"]


def test_the_epoch_stands_in_the_records_of_a_leader_alone() -> None:
    desk = Desk(small(), waiting(), leading=False)
    assert {record.epoch for record in desk.stories} == {0}
    desk.machine.lead(9, 0, desk.now)
    desk.tick()
    assert {record.epoch for record in desk.stories if record.moment.value != "seen"} == {9}
