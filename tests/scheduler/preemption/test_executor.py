"""Carrying out: the order of effects, the gate, and what happens when something goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from msgspec.structs import replace

from stowplan_scheduler.effects import DONE, DeleteVictim, Effect, Outcome, PatchPodStatus, RecordEvent, Result
from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.preemption.default_preemption import DefaultPreemption
from stowplan_scheduler.preemption.executor import PreemptionExecutor, Step
from support.builders import PodBuilder, pod

FAILED = Outcome(Result.FAILED, "the server said no")
IN_MEMORY = Outcome(in_memory=True)
INTERNER = PodInterner()


def info(built: PodBuilder | Pod) -> PodInfo:
    return INTERNER.info(built.build() if isinstance(built, PodBuilder) else built)


PREEMPTOR = info(pod("in").priority(10))


def running(*names: str) -> list[PodInfo]:
    return [info(pod(name).on("n1")) for name in names]


class Running:
    """An executor, the pods that its lister sees, and the ids it takes."""

    def __init__(self, victims: Sequence[PodInfo], lower: Sequence[PodInfo] = ()) -> None:
        self.pods = {victim.key: victim.pod for victim in victims}
        self.executor = PreemptionExecutor(self.pods.get)
        ids = count(1)
        self.next_id = lambda: next(ids)
        self.effects = self.start(victims, lower)

    def start(self, victims: Sequence[PodInfo], lower: Sequence[PodInfo] = ()) -> list[Effect]:
        return self.executor.start(PREEMPTOR, victims, "n1", lower, self.next_id, "my-scheduler")

    def answer(self, effect: Effect, outcome: Outcome = DONE) -> Step:
        return self.executor.effect_done(effect.id, outcome, self.next_id)

    def is_gated(self) -> bool:
        return self.executor.is_running(PREEMPTOR.uid)


def deletions(effects: Sequence[Effect]) -> list[str]:
    return [effect.victim.metadata.name for effect in effects if isinstance(effect, DeleteVictim)]


def notes(effects: Sequence[Effect]) -> list[tuple[str, str]]:
    return [(e.regarding.metadata.name, e.note) for e in effects if isinstance(e, RecordEvent)]


def test_all_but_the_last_victim_go_first() -> None:
    """The gate watches the last one, so it must not be gone while others are still there."""
    run = Running(running("a", "b", "c"))
    assert deletions(run.effects) == ["a", "b"]
    first, second = run.effects
    assert deletions(run.answer(second).effects) == []
    assert run.is_gated()
    last = run.answer(first).effects
    assert deletions(last) == ["c"]
    assert run.is_gated()
    step = run.answer(last[-1])
    assert (deletions(step.effects), step.activate, run.is_gated()) == ([], None, False)


def test_a_deletion_says_what_the_victim_will_read() -> None:
    """The condition's message names the profile; the worker sets it before the deletion."""
    (effect,) = Running(running("a")).effects
    assert isinstance(effect, DeleteVictim)
    assert (effect.preemptor, effect.node_name) == (PREEMPTOR.pod, "n1")
    assert effect.message == "my-scheduler: preempting to accommodate a higher priority pod"


def test_each_victim_gets_an_event_once_it_is_deleted() -> None:
    """Normal, Preempted, related to the preemptor (reference 22)."""
    run = Running(running("a"))
    (event,) = run.answer(run.effects[0]).effects
    assert isinstance(event, RecordEvent)
    assert (event.type, event.reason, event.action) == ("Normal", "Preempted", "Preempting")
    assert (event.regarding.metadata.name, event.related) == ("a", PREEMPTOR.pod)
    assert event.note == "Preempted by pod default/in on node n1"


def test_nominations_of_lower_priority_are_taken_away_first() -> None:
    """They would no longer fit; the condition of those pods stays as it is."""
    lower = info(pod("lower").nominated("n1"))
    effects = Running(running("a"), [lower]).effects
    patch = effects[0]
    assert isinstance(patch, PatchPodStatus)
    assert (patch.pod, patch.reason, patch.nominated_node_name) == (lower.pod, "", "")
    assert deletions(effects) == ["a"]


def test_terminating_victims_are_left_alone() -> None:
    """Their deletion has been asked for by somebody; the last of the others is the last victim."""
    gone = info(pod("gone").on("n1").deleting())
    assert deletions(Running([*running("a"), gone]).effects) == ["a"]


def test_nothing_happens_if_all_victims_terminate() -> None:
    """No gate and no effect, not even for nominations (#134245)."""
    gone = info(pod("gone").on("n1").deleting())
    run = Running([gone], [info(pod("lower").nominated("n1"))])
    assert (run.effects, run.is_gated()) == ([], False)


def test_the_gate_opens_when_the_last_victim_is_seen_to_go() -> None:
    """The watch may be faster than the answer to the deletion, and no other event may come after it."""
    run = Running(running("a"))
    assert run.is_gated()
    victim = run.pods["default/a"]
    run.pods["default/a"] = replace(
        victim, metadata=replace(victim.metadata, deletion_timestamp="2000-01-01T00:00:00Z")
    )
    assert not run.is_gated()
    run.pods["default/a"] = victim
    assert run.is_gated()
    del run.pods["default/a"]
    assert not run.is_gated()


def test_the_gate_stays_shut_while_others_than_the_last_go() -> None:
    """Before the last deletion is asked for nothing that is seen opens it."""
    run = Running(running("a", "b"))
    run.pods.clear()
    assert run.is_gated()
    run.answer(run.effects[0])
    assert not run.is_gated()


def test_without_a_lister_the_answer_opens_the_gate() -> None:
    """Nothing can be seen then."""
    executor = PreemptionExecutor()
    ids = count(1)
    effects = executor.start(PREEMPTOR, running("a"), "n1", (), lambda: next(ids), "s")
    assert executor.is_running(PREEMPTOR.uid)
    executor.effect_done(effects[0].id, DONE, lambda: next(ids))
    assert not executor.is_running(PREEMPTOR.uid)


def test_a_failure_spares_the_last_victim_and_wakes_the_preemptor() -> None:
    """No deletion will be seen that could wake it; the other answers are waited for (#134294)."""
    run = Running(running("a", "b", "c"))
    first, second = run.effects
    assert run.answer(first, FAILED).activate is None
    assert run.is_gated()
    step = run.answer(second)
    assert (deletions(step.effects), step.activate, run.is_gated()) == ([], PREEMPTOR, False)
    assert notes(step.effects) == [("b", "Preempted by pod default/in on node n1")]


def test_a_failure_of_the_last_victim_wakes_the_preemptor() -> None:
    """And records no event."""
    run = Running(running("a"))
    step = run.answer(run.effects[0], FAILED)
    assert (step.effects, step.activate, run.is_gated()) == ([], PREEMPTOR, False)


def test_a_last_victim_that_was_only_in_memory_wakes_the_preemptor() -> None:
    """It never reached the API server, so nobody will see it go."""
    run = Running(running("a"))
    step = run.answer(run.effects[0], IN_MEMORY)
    assert (step.activate, run.is_gated()) == (PREEMPTOR, False)
    assert notes(step.effects) == [("a", "Preempted by pod default/in on node n1 (in kube-scheduler memory).")]


def test_another_victim_that_was_only_in_memory_wakes_nobody() -> None:
    """The last one is still to be seen."""
    run = Running(running("a", "b"))
    step = run.answer(run.effects[0], IN_MEMORY)
    assert step.activate is None
    assert run.answer(step.effects[-1]).activate is None


def test_only_deletions_are_awaited() -> None:
    """Answers to other effects, and second answers, change nothing."""
    run = Running(running("a"), [info(pod("lower").nominated("n1"))])
    patch, deletion = run.effects
    assert [run.executor.awaits(effect.id) for effect in (patch, deletion)] == [False, True]
    assert run.answer(patch) == Step()
    assert run.is_gated()
    assert run.answer(deletion).effects
    assert run.answer(deletion) == Step()


def test_a_late_answer_does_not_open_the_gate_of_the_next_preemption() -> None:
    """The gate of the first one opened when its victim was seen to go, and the pod began another one."""
    run = Running(running("a"))
    del run.pods["default/a"]
    assert not run.is_gated()
    again = running("b")
    run.pods["default/b"] = again[0].pod
    run.start(again)
    run.answer(run.effects[0])
    assert run.is_gated()


def test_the_plugin_keeps_the_preemptor_out_of_the_queue() -> None:
    """With upstream's text; other pods are not concerned."""
    victims = running("a")
    pods = {victims[0].key: victims[0].pod}
    plugin = DefaultPreemption(None, PluginHandle(Stores(), pods.get))
    ids = count(1)
    plugin.executor.start(PREEMPTOR, victims, "n1", (), lambda: next(ids), "s")
    status = plugin.pre_enqueue(PREEMPTOR)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("waiting for the preemption for this pod to be finished",)
    assert plugin.pre_enqueue(info(pod("other"))).is_success
    pods.clear()
    assert plugin.pre_enqueue(PREEMPTOR).is_success
