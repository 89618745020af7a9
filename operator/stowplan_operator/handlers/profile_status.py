"""The status of a SchedulerProfile, from the verdict on it and from what the workers of its group say.

| condition  | True                                          | observedGeneration                    |
|------------|-----------------------------------------------|---------------------------------------|
| Accepted   | the newest specification is good              | the newest                            |
| Programmed | the workers run the last good specification   | that of the last good specification   |
| Degraded   | something is wrong, and something still runs  | the newest                            |
| Paused     | its pods are left where they are              | the newest                            |
| Ready      | Accepted, Programmed, and a worker acts on it | the newest                            |

While an operator that has just started has not heard of the workers yet, it does not take back what was true before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stowplan_operator.worker.settings import Mode

from .accepted import Accepted
from .choosing import Running, Verdict
from .conditions import TRUE, Condition, condition, conditions_of, written
from .figures import figures_of
from .names import ACCEPTED, DEGRADED, PAUSED, PROGRAMMED, READY
from .observed import Health, Observed, RunningProfile, WorkerReport, integer, text

OLDER_RUNS: Final = "OlderConfigurationRuns"
NOTHING_RUNS: Final = "NothingAccepted"
WORKERS_STARTING: Final = "WorkersStarting"
WORKERS_CHANGING: Final = "WorkersChanging"
WORKER_REFUSED: Final = "WorkerRefused"
WORKER_SILENT: Final = "WorkerSilent"
WORKER_HINDERED: Final = "WorkerHindered"
HANDING_OVER: Final = "HandingOver"
NO_LEADER: Final = "NoLeader"
NOT_SYNCED: Final = "NotSynced"
AS_EXPECTED: Final = "AsExpected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a profile's status depends on beside its verdict.

    `reports`: of its group. `is_waiting`: for another group to let go of the schedulerName.
    """

    reports: Sequence[WorkerReport]
    is_waiting: bool


def profile_status(verdict: Verdict, around: Surroundings, now: int) -> dict[str, Any]:
    """The whole status that is to stand there. `now`: nanoseconds since the epoch."""
    profile, running = verdict.profile, verdict.running
    before = conditions_of(profile.status)
    kept = _kept(verdict, around, before)
    conditions = _conditions(verdict, around, kept)
    status: dict[str, Any] = {"observedGeneration": profile.generation}
    if running is not None:
        accepted = running.accepted
        applied = _applied(profile, accepted, around.reports)
        if applied:
            status["appliedHash"] = applied
            status["hashVersion"] = accepted.hash_version
        status["lastGood"] = {"generation": accepted.generation, "hash": accepted.hash}
        status["workers"] = profile.status.get("workers") if kept else _workers(accepted, around.reports)
        status.update(figures_of(profile, running, around.reports, now))
    status["conditions"] = written(conditions, before, now)
    return status


def _applied(profile: Observed, accepted: Accepted, reports: Sequence[WorkerReport]) -> str:
    """The hash that the leader runs; without a leader, what was there."""
    for report in reports:
        found = report.profiles.get(accepted.name)
        if report.is_leading and found is not None:
            return found.hash
    return text(profile.status.get("appliedHash"))


def _workers(accepted: Accepted, reports: Sequence[WorkerReport]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for report in sorted(reports, key=lambda report: report.name):
        found = report.profiles.get(accepted.name, RunningProfile(generation=0, hash="", mode=""))
        rows.append(
            {
                "name": report.name,
                "generation": found.generation,
                "hash": found.hash,
                "leading": report.is_leading and report.health is Health.ANSWERS,
            }
        )
    return rows


# ---- conditions ------------------------------------------------------------------------------------------------------


def _conditions(verdict: Verdict, around: Surroundings, kept: Mapping[str, Condition]) -> tuple[Condition, ...]:
    generation = verdict.profile.generation
    accepted = _accepted(verdict)
    if verdict.running is None:
        message = f"nothing runs: {accepted.message}"
        nothing = condition(PROGRAMMED, False, NOTHING_RUNS, message, generation)
        degraded = condition(DEGRADED, False, NOTHING_RUNS, "nothing runs", generation)
        paused = condition(PAUSED, False, NOTHING_RUNS, "nothing runs", generation)
        ready = condition(READY, False, accepted.reason, accepted.message, generation)
        return ready, accepted, nothing, degraded, paused
    programmed = kept.get(PROGRAMMED) or _programmed(verdict.running, around)
    degraded = kept.get(DEGRADED) or _degraded(verdict, verdict.running.accepted, around)
    paused = _paused(verdict.running, generation)
    ready = kept.get(READY) or _ready(verdict.running, accepted, programmed, around)
    return ready, accepted, programmed, degraded, paused


def _kept(verdict: Verdict, around: Surroundings, before: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Condition]:
    """What stands there, while nothing is known yet that could take it back."""
    running, profile = verdict.running, verdict.profile
    if running is None or any(report.health is not Health.STARTING for report in around.reports):
        return {}
    same = integer(profile.status.get("observedGeneration")) == profile.generation
    was = before.get(PROGRAMMED, {})
    if not same or was.get("status") != TRUE or integer(was.get("observedGeneration")) != running.accepted.generation:
        return {}
    return {
        type: Condition(
            type=type,
            status=text(entry.get("status")),
            reason=text(entry.get("reason")),
            message=text(entry.get("message")),
            generation=integer(entry.get("observedGeneration")),
        )
        for type, entry in before.items()
    }


def _accepted(verdict: Verdict) -> Condition:
    generation = verdict.profile.generation
    if verdict.refusal is None:
        return condition(ACCEPTED, True, "Accepted", f"generation {generation} is good", generation)
    return condition(ACCEPTED, False, verdict.refusal.reason, str(verdict.refusal), generation)


def _programmed(running: Running, around: Surroundings) -> Condition:
    generation = running.accepted.generation
    answering = [report for report in around.reports if report.health is Health.ANSWERS]
    if around.is_waiting:
        message = "workers of another group still act for this schedulerName; it is paused here until they let go"
        return condition(PROGRAMMED, False, HANDING_OVER, message, generation)
    if not answering:
        details = "; ".join(f"{report.name}: {report.detail}" for report in around.reports if report.detail)
        return condition(PROGRAMMED, False, WORKERS_STARTING, details or "no worker answers yet", generation)
    behind = [report for report in answering if not _runs(report, running)]
    if behind:
        refused = [report for report in behind if report.error]
        if refused:
            message = f"worker {refused[0].name} goes on with what it had: {refused[0].error}"
            return condition(PROGRAMMED, False, WORKER_REFUSED, message, generation)
        names = ", ".join(sorted(report.name for report in behind))
        message = f"waiting for {names} to take up generation {generation}"
        return condition(PROGRAMMED, False, WORKERS_CHANGING, message, generation)
    message = f"{len(answering)} worker{'s' if len(answering) > 1 else ''} with generation {generation}"
    return condition(PROGRAMMED, True, "WorkersRun", message, generation)


def _runs(report: WorkerReport, running: Running) -> bool:
    accepted = running.accepted
    found = report.profiles.get(accepted.name)
    return (
        found is not None
        and found.generation == accepted.generation
        and found.hash == accepted.hash
        and found.mode == running.mode
    )


def _degraded(verdict: Verdict, accepted: Accepted, around: Surroundings) -> Condition:
    generation = verdict.profile.generation
    if verdict.refusal is not None:
        message = f"generation {accepted.generation} runs, since generation {generation} was refused: {verdict.refusal}"
        return condition(DEGRADED, True, OLDER_RUNS, message, generation)
    refused = [report for report in around.reports if report.error]
    if refused:
        message = f"worker {refused[0].name} goes on with what it had: {refused[0].error}"
        return condition(DEGRADED, True, WORKER_REFUSED, message, generation)
    hindered = [report for report in around.reports if report.health is Health.ANSWERS and report.detail]
    if hindered:
        message = f"worker {hindered[0].name}: {hindered[0].detail}"
        return condition(DEGRADED, True, WORKER_HINDERED, message, generation)
    silent = [report for report in around.reports if report.health is Health.SILENT]
    if silent:
        details = "; ".join(f"{report.name}: {report.detail or 'does not answer'}" for report in silent)
        return condition(DEGRADED, True, WORKER_SILENT, details, generation)
    return condition(DEGRADED, False, AS_EXPECTED, "nothing is known to be wrong", generation)


def _paused(running: Running, generation: int) -> Condition:
    if running.mode == Mode.PAUSED:
        return condition(PAUSED, True, "RolloutPaused", "rollout.mode is Paused: its pods stay pending", generation)
    return condition(PAUSED, False, "RolloutRuns", f"rollout.mode is {running.mode}", generation)


def _ready(running: Running, accepted: Condition, programmed: Condition, around: Surroundings) -> Condition:
    generation = accepted.generation
    for needed in (accepted, programmed):
        if not needed.is_true:
            return condition(READY, False, needed.reason, needed.message, generation)
    if running.mode == Mode.PAUSED:
        return condition(READY, False, "Paused", "rollout.mode is Paused: its pods stay pending", generation)
    answering = [report for report in around.reports if report.health is Health.ANSWERS]
    leaders = [report for report in answering if report.is_leading]
    for report in leaders[:1] or answering:
        if report.detail:
            return condition(READY, False, WORKER_HINDERED, f"worker {report.name}: {report.detail}", generation)
    if not leaders:
        message = "no worker holds the Lease of the group yet: its pods stay pending"
        return condition(READY, False, NO_LEADER, message, generation)
    if not leaders[0].is_synced:
        return condition(READY, False, NOT_SYNCED, f"worker {leaders[0].name} still reads the cluster", generation)
    if running.mode == Mode.SHADOW:
        message = f"worker {leaders[0].name} decides in the shadow of another scheduler, and binds nothing"
        return condition(READY, True, "Shadow", message, generation)
    return condition(READY, True, "Ready", f"worker {leaders[0].name} schedules its pods", generation)
