"""The fault simulation in continuous integration: 200 fixed seeds, crash points, replay, and that it has teeth."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from stowplan_operator.api.decode import WatchEvent
from stowplan_operator.api.election import Elector
from stowplan_operator.api.event_series import EventSeries
from stowplan_operator.api.old_lists import OldLists
from stowplan_operator.api.store import Change, ObjectStore
from stowplan_operator.worker import bindings, interpreter, machine, writes
from stowplan_operator.worker.requests import Answer
from stowplan_scheduler.attempt import Attempts
from stowplan_scheduler.event_handlers import EventHandlers
from stowplan_scheduler.preemption import default_preemption
from stowplan_scheduler.preemption.budgets import Budgets
from stowplan_scheduler.scheduler import Scheduler
from worker_simulation.breaking import POINTS
from worker_simulation.crash_points import boundaries, crashed_at
from worker_simulation.plan import MILLISECOND, SECOND, Fault, Plan
from worker_simulation.simulation import Failure, Outcome, Simulation, run

# Without coverage, which would more than double the time and is owed by the tests of each part.
pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

SEEDS = 200
PER_TEST = 25

BRANCHES = (
    "410",
    "a bind met 404",
    "a bind met 409",
    "a bind was read back",
    "a leader followed",
    "a list from the past was refused",
    "a list showed a deletion",
    "a node was overfilled by what its worker could not know",
    *(f"a plugin broke in {point}" for point in POINTS),
    "a read was ahead of the watch",
    "a victim was deleted",
    "an event was dropped",
    "drained to the end",
    "given up: does not lead any more",
    "given up: is already assigned to node",
    "given up: node deleted",
    "given up: not found",
    "given up: preempted by",
    "given up: was deleted and made anew",
    "story: dropped",
    "story: held",
    "the fence held a request back",
)
"""What must have happened somewhere in the seeds, beside every kind of fault."""

CRASH_SEED = 1
"""A run whose boundaries show every kind of request."""

outcomes: dict[int, Outcome] = {}


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        outcomes[seed] = run(seed)


def test_every_fault_and_every_rare_branch_has_happened() -> None:
    """A simulation in which something never happens any more has rotted; it would go on passing for ever."""
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired += (outcomes.get(seed) or run(seed)).fired
    assert [fault.name for fault in Fault if not fired[fault.name]] == []
    assert [branch for branch in BRANCHES if not fired[branch]] == []


def test_the_runs_are_of_a_size_in_which_something_can_go_wrong() -> None:
    known = [outcomes.get(seed) or run(seed) for seed in range(PER_TEST)]
    assert sum(outcome.pods for outcome in known) > 20 * PER_TEST
    assert sum(outcome.steps for outcome in known) > 2000 * PER_TEST


def test_the_same_seed_gives_the_same_log_under_another_hash_seed(repository: Path) -> None:
    """I14. Strings hash differently in the two processes; any set that is iterated over would show."""
    printed = []
    for hash_seed in ("1", "2"):
        packages = [str(repository / folder) for folder in ("scheduler", "autoscaling", "operator", "tests")]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(packages)}
        command = [sys.executable, "-m", "worker_simulation", "--first", "3", "--seeds", "8", "--digests"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.append([line for line in done.stdout.splitlines() if len(line.split()[-1]) == 64])
    assert len(printed[0]) == 8
    assert printed[0] == printed[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_sink_of_events_changes_nothing_else(seed: int) -> None:
    """The log of the run is the same, to the nanosecond."""
    others = frozenset({Fault.CRASH, Fault.LOST_ANSWER, Fault.POD_DELETED, Fault.IMPOSSIBLE})
    swift, slow = (
        Simulation(Plan(seed, only=others | more)).run() for more in (frozenset[Fault](), {Fault.SLOW_EVENTS})
    )
    assert slow.fired["an event was dropped"]
    assert swift.digest == slow.digest


def test_a_worker_may_die_at_any_moment_on_the_way_of_a_bind_a_read_or_a_deletion() -> None:
    """Each boundary of a reference run, one run each; patches are left to `make soak`."""
    found = boundaries(CRASH_SEED)
    chosen = [boundary for boundary in found if boundary.request != "PatchPod"]
    assert {(boundary.request, boundary.what) for boundary in chosen} == {
        (request, what) for request in ("BindPod", "ReadPod", "DeletePod") for what in ("leaves", "was carried out")
    }
    for boundary in chosen:
        crashed_at(CRASH_SEED, boundary.number)


def test_whoever_takes_over_may_die_as_well() -> None:
    """One boundary of each kind, then each of the first four of the successor; all pairs are left to `make soak`."""
    kinds: dict[tuple[str, str], int] = {}
    for boundary in boundaries(CRASH_SEED):
        if boundary.request != "PatchPod":
            kinds.setdefault((boundary.request, boundary.what), boundary.number)
    assert len(kinds) == 6
    for first in kinds.values():
        for second in range(4):
            crashed_at(CRASH_SEED, first, second)


def test_a_failure_says_all_that_is_needed_to_look_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed, step, invariant, the story of the pod, the last lines and a command."""
    monkeypatch.setattr(writes.PodWrites, "is_busy", lambda self, uid: False)
    monkeypatch.setattr(bindings.Bindings, "seen", lambda self, pod: None)
    text = _first_failure(range(60), frozenset({Fault.LOST_ANSWER, Fault.THIEF, Fault.NODE_CHANGED}), eagerness=3)
    assert text.startswith("seed ")
    assert ", step " in text
    assert "the story of default/" in text
    assert "the last lines of the log:" in text
    assert "python -m worker_simulation --first" in text


# ---- teeth: mistakes that the simulation must find -------------------------------------------------------------------


def _first_failure(seeds: range, only: frozenset[Fault] | None = None, eagerness: float = 1) -> str:
    for seed in seeds:
        try:
            Simulation(Plan(seed, only=only, eagerness=eagerness)).run()
        except Failure as failure:
            return str(failure)
    return ""


def _fail_over_to_a_blind_standby(seed: int) -> None:
    """More pods come than there is room for; the standby sees them, and nothing after; then the leader dies."""
    plan = Plan(seed, only=frozenset())
    plan.workers, plan.watch_delay, plan.cycle = 2, 300 * MILLISECOND, MILLISECOND
    plan.bind_latency, plan.max_binds, plan.fault_seconds = 100 * MILLISECOND, 2, 60
    simulation = Simulation(plan)

    def more() -> None:
        for app in simulation.actors.apps:
            app.replicas = 10

    def blind() -> None:
        for process in simulation.processes:
            if not process.leading:
                for watch in process.watches.values():
                    watch.freeze()

    def kill() -> None:
        for process in [process for process in simulation.processes if process.leading]:
            simulation.crash(process)

    simulation.kernel.at(5 * SECOND, more)
    simulation.kernel.at(6 * SECOND, blind)
    simulation.kernel.at(15 * SECOND, kill)
    simulation.run()


def _fail_over_to_blind_standbys() -> None:
    for seed in range(20):
        _fail_over_to_a_blind_standby(seed)


def test_it_finds_a_worker_that_does_not_wait_for_a_fresh_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that has been blind for a while takes over, and fills nodes that the leader before has filled."""
    _fail_over_to_blind_standbys()
    monkeypatch.setattr(machine, "BARRIER_KINDS", ())
    with pytest.raises(Failure, match="bound before the barrier"):
        _fail_over_to_blind_standbys()


def test_it_finds_a_worker_that_takes_a_lost_answer_for_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = bindings.Bindings.answered

    def careless(self: bindings.Bindings, answer: Answer, now: int, *, leading: bool) -> bindings.Finished | None:
        given = Answer(id=answer.id, status=422, message="lost") if answer.status == 0 else answer
        return answered(self, given, now, leading=leading)

    monkeypatch.setattr(bindings.Bindings, "answered", careless)
    assert "gives up a bind that was carried out" in _first_failure(range(60), frozenset({Fault.LOST_ANSWER}))


def test_it_finds_a_patch_that_comes_after_the_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes.PodWrites, "is_busy", lambda self, uid: False)
    only = frozenset({Fault.POD_DELETED, Fault.NODE_CHANGED})
    assert "a bound pod says" in _first_failure(range(100), only)


def test_it_finds_a_pod_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed bind that is not reported leaves its pod nowhere."""
    finished = interpreter.Interpreter.finished

    def forgets(self: interpreter.Interpreter, bind: bindings.Finished | None, now: int) -> None:
        if bind is None or bind.outcome.is_done:
            finished(self, bind, now)

    monkeypatch.setattr(interpreter.Interpreter, "finished", forgets)
    text = _first_failure(range(60), frozenset({Fault.SLOW, Fault.LEASE_LOST}), eagerness=3)
    assert "I5" in text or "I6" in text


def test_it_finds_a_leader_that_goes_on_binding_what_it_knows_to_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings.Bindings, "gone", lambda self, uid: None)
    only = frozenset({Fault.POD_DELETED, Fault.REFUSED, Fault.POD_MADE_ANEW, Fault.SLOW})
    assert "I2" in _first_failure(range(150), only)


def test_it_finds_an_elector_that_believes_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def believes(self: Elector, now: int) -> bool:
        return self.valid_until > 0 and now < self.valid_until + 20 * SECOND

    monkeypatch.setattr(Elector, "leading", believes)
    assert "I11" in _first_failure(range(40), frozenset({Fault.LEASE_LOST, Fault.PAUSE}), eagerness=3)


def test_it_finds_a_store_that_does_not_notice_what_a_list_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = ObjectStore.replace

    def keeps(self: ObjectStore, objects: Iterable[Any], version: str) -> list[Change]:
        return [change for change in replaced(self, objects, version) if change.type != "DELETED"]

    monkeypatch.setattr(ObjectStore, "replace", keeps)
    text = _first_failure(range(40), frozenset({Fault.WATCH_EXPIRED, Fault.POD_DELETED}), eagerness=3)
    assert "does not see the pods as they are" in text or "I2" in text


def test_it_finds_a_worker_that_believes_a_list_from_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OldLists, "refuses", lambda self, version, known, now: False)
    text = _first_failure(range(20), frozenset({Fault.OLD_LIST, Fault.LEASE_LOST}), eagerness=3)
    assert "is told of the past" in text


def test_it_finds_a_store_that_takes_old_events_for_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them comes alone, in order: only that all of it was told before gives them away."""
    apply = ObjectStore.apply

    def believes(self: ObjectStore, event: WatchEvent) -> list[Change]:
        self._version = 0
        return apply(self, event)

    monkeypatch.setattr(ObjectStore, "apply", believes)
    only = frozenset({Fault.WATCH_PAST, Fault.WATCH_BREAK, Fault.POD_DELETED})
    assert "is told of the past" in _first_failure(range(20), only, eagerness=3)


def test_it_finds_a_preemption_that_knows_no_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoBudgets(Budgets):
        def __init__(self, budgets: Iterable[object]) -> None:
            super().__init__(())

    monkeypatch.setattr(default_preemption, "Budgets", NoBudgets)
    text = _first_failure(range(60), frozenset({Fault.BUDGET_CHANGED, Fault.NODE_SHRUNK, Fault.NODE_CHANGED}))
    assert "I10" in text


def test_it_finds_a_budget_that_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as it was when it was seen first."""
    changed = EventHandlers.other_set

    def keeps(self: EventHandlers, other: Any, now: int) -> None:
        if f"default/{other.metadata.name}" not in self.stores.pod_disruption_budgets:
            changed(self, other, now)

    monkeypatch.setattr(EventHandlers, "other_set", keeps)
    text = _first_failure(range(10), frozenset({Fault.BUDGET_CHANGED}))
    assert "I10" in text or "does not see the disruption budgets as they are" in text


@pytest.mark.parametrize("point", ["PreEnqueue", "PostBind"])
def test_it_finds_a_worker_that_a_plugin_can_end(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    def raises(self: Scheduler, failure: Exception) -> None:
        if str(failure) == point:
            raise failure

    monkeypatch.setattr(Scheduler, "plugin_broke", raises)
    assert f" s: {point}\n" in _first_failure(range(30), frozenset({Fault.PLUGIN_BREAKS}))


def test_it_finds_a_pod_that_a_broken_attempt_leaves_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attempts, "abandon", lambda self, pod, failure, now: None)
    text = _first_failure(range(30), frozenset({Fault.PLUGIN_BREAKS}))
    assert "I3" in text or "I5" in text


def test_it_finds_events_that_are_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventSeries, "_forget_oldest", lambda self: [])
    assert "F17" in _first_failure(range(10), frozenset({Fault.SLOW_EVENTS}))
