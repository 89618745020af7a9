"""PreEnqueue over several plugins: which of them runs, and who is named."""

from __future__ import annotations

from scheduler.queue.queue_support import PROFILE, queued
from stowplan_scheduler.framework.interface import PreEnqueuePlugin
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SUCCESS, Code, Status, error, unresolvable
from stowplan_scheduler.queue import PreEnqueueGates


class Recorder:
    """Three plugins that write down when they run and give what `answers` says."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.answers: dict[str, Status] = {}
        self.gates = PreEnqueueGates({PROFILE: [self._plugin(name) for name in ("First", "Second", "Third")]})

    def _plugin(self, plugin_name: str) -> PreEnqueuePlugin:
        recorder = self

        class Gate(PreEnqueuePlugin):
            name = plugin_name

            def pre_enqueue(self, pod: PodInfo) -> Status:
                recorder.ran.append(plugin_name)
                return recorder.answers.get(plugin_name, SUCCESS)

        return Gate()


def test_all_plugins_must_agree() -> None:
    """Success only if none objects."""
    recorder = Recorder()
    assert recorder.gates(queued()) == SUCCESS
    assert recorder.ran == ["First", "Second", "Third"]


def test_the_first_objection_ends_the_round_and_names_its_plugin() -> None:
    """The name is what the gate is filed under."""
    recorder = Recorder()
    recorder.answers["Second"] = unresolvable("closed")
    status = recorder.gates(queued())
    assert (status.plugin, status.reasons) == ("Second", ("closed",))
    assert recorder.ran == ["First", "Second"]


def test_the_plugin_that_gated_last_time_runs_first_and_once() -> None:
    """Most often it still gates; if not, the others follow in their order."""
    recorder = Recorder()
    pod = queued()
    pod.gating_plugin = "Third"
    assert recorder.gates(pod).is_success
    assert recorder.ran == ["Third", "First", "Second"]


def test_an_error_gates_too() -> None:
    """Anything but success keeps the pod out."""
    recorder = Recorder()
    recorder.answers["First"] = error("no connection")
    assert recorder.gates(queued()).code is Code.ERROR


def test_a_profile_without_such_plugins_gates_nothing() -> None:
    """Most custom profiles disable SchedulingGates by accident at most."""
    assert PreEnqueueGates({})(queued()).is_success
