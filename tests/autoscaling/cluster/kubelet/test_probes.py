"""The probe worker that plans only changes finds what a worker that runs every probe finds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.cluster.kubelet import Probe, probe_of
from stowplan_autoscaling.cluster.kubelet.probes import LIVENESS, READINESS, STARTUP, ProbeWorker
from stowplan_autoscaling.kernel import SECOND

PROBES = st.builds(
    Probe,
    initial_delay=st.integers(0, 7),
    period=st.integers(1, 5),
    success_threshold=st.integers(1, 3),
    failure_threshold=st.integers(1, 4),
)


def naive(
    kind: str, probe: Probe, anchor: int, started: int, answers_from: int, changes: list[int], end: int
) -> list[tuple[int, bool]]:
    """Every probe one by one, as worker.go runs them; returns the changes of the result."""
    result = {READINESS: False, LIVENESS: True, STARTUP: None}[kind]
    last, run, on_hold = None, 0, False
    out: list[tuple[int, bool]] = []
    first = started + (anchor - started) % (probe.period * SECOND)
    for tick in range(first, end, probe.period * SECOND):
        if on_hold or int((tick - started // SECOND * SECOND) / SECOND) < probe.initial_delay:
            continue
        is_overloaded = sum(change <= tick for change in changes) % 2 == 1
        ok = tick >= answers_from and not is_overloaded
        last, run = (ok, run + 1) if last is ok else (ok, 1)
        if run < (probe.success_threshold if ok else probe.failure_threshold):
            continue
        if ok is not result:
            out.append((tick, ok))
            result = ok
        if kind == STARTUP or (kind == LIVENESS and not ok):
            on_hold = True
    return out


def planned(
    kind: str, probe: Probe, anchor: int, started: int, answers_from: int, changes: list[int], end: int
) -> list[tuple[int, bool]]:
    """The same by plans only."""
    worker = ProbeWorker(kind, probe, anchor)
    worker.new_container(started, answers_from)
    worker.enable(started, started)
    out: list[tuple[int, bool]] = []
    now, left = started, list(changes)
    while True:
        verdict = worker.plan(now)
        if left and (verdict is None or left[0] <= verdict.at):
            now = left.pop(0)
            worker.settle(now)
            worker.is_overloaded = not worker.is_overloaded
            continue
        if verdict is None or verdict.at >= end:
            return out
        now = verdict.at
        worker.accept(verdict)
        out.append((verdict.at, verdict.is_success))


@settings(max_examples=400)
@given(
    kind=st.sampled_from([STARTUP, READINESS, LIVENESS]),
    probe=PROBES,
    anchor=st.integers(0, 5_000),
    wait=st.integers(0, 9_000),
    answers=st.integers(0, 30_000),
    changes=st.lists(st.integers(0, 60_000), max_size=4, unique=True),
)
def test_plans_find_what_running_every_probe_finds(
    kind: str, probe: Probe, anchor: int, wait: int, answers: int, changes: list[int]
) -> None:
    """The whole model of probes rests on this: one planned moment instead of one event per period and pod."""
    milli = SECOND // 1000
    started = (anchor + wait) * milli
    arguments = (
        kind,
        probe,
        anchor * milli,
        started,
        started + answers * milli,
        sorted(started + change * milli for change in changes),
        started + 120 * SECOND,
    )
    assert planned(*arguments) == naive(*arguments)


def test_a_readiness_trigger_probes_at_once_and_moves_the_period() -> None:
    """A status that finds the container running asks for a probe, and the ticker is reset there (worker.go, run)."""
    worker = ProbeWorker(READINESS, Probe(period=10), 0)
    worker.new_container(7 * SECOND, 9 * SECOND)
    worker.enable(7 * SECOND, 7 * SECOND)
    worker.trigger(7 * SECOND)
    verdict = worker.plan(7 * SECOND)
    assert verdict is not None
    assert (verdict.at, verdict.is_success) == (17 * SECOND, True)


def test_the_initial_delay_counts_from_the_whole_second_of_the_start() -> None:
    """A status carries whole seconds, and the seconds since are cut, too: from 0.9 s on, 3 s of delay end at 3 s."""
    worker = ProbeWorker(LIVENESS, Probe(initial_delay=3, period=1, failure_threshold=1), 0)
    worker.new_container(SECOND * 9 // 10, None)
    worker.enable(SECOND * 9 // 10, SECOND * 9 // 10)
    verdict = worker.plan(SECOND)
    assert verdict is not None
    assert (verdict.at, verdict.is_success) == (3 * SECOND, False)


def test_a_probe_of_a_manifest_has_the_api_servers_defaults_where_it_says_nothing() -> None:
    """periodSeconds 0 is what an absent one looks like; SetDefaults_Probe makes it 10."""
    assert probe_of({"httpGet": {"path": "/"}, "initialDelaySeconds": 5, "periodSeconds": 0}) == Probe(initial_delay=5)
    assert probe_of(None) is None
