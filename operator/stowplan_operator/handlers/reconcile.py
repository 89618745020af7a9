"""From what is there to what should be: the pure middle of the operator.

    desired = reconcile(Situation(profiles=..., memory=..., reports=...), compiler, settings, now)

It is level-triggered: it reads the whole state and remembers nothing, so that it does not matter which events were
seen, in which order, or how often. What must survive a restart is in the state itself: in the memory of last good
specifications, in status, and in managedFields.

The shell carries out what it says in this order: the memory, the groups of workers, status, events. Each is written
only where it differs from what is there; so a crash between two writes is made up for by the same number of writes, and
reconciling again writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .accepted import Accepted, Memory
from .choosing import Compiler, Verdict, choose
from .figures import NAMES, figures_due_at
from .groups import GroupPlan, GroupSettings, plan_groups
from .model_status import ModelVerdict, VerdictKey, model_status, verdict_key
from .names import NODE_POOL, PROFILE, PROFILE_CONDITIONS, SIMULATION
from .observed import Observed, WorkerReport, entries
from .profile_status import Surroundings, profile_status
from .transitions import Happening, happenings
from .url_verdicts import UrlVerdicts, is_looked_up

_OWN_FIELDS: Final = ("observedGeneration", "appliedHash", "hashVersion", "lastGood", "workers", *NAMES)
"""Of status, beside the conditions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that the operator knows."""

    profiles: Sequence[Observed] = ()
    node_pools: Sequence[Observed] = ()
    simulations: Sequence[Observed] = ()
    memory: Memory = field(default_factory=dict)
    reports: Sequence[WorkerReport] = ()
    verdicts: Mapping[VerdictKey, ModelVerdict] = field(default_factory=dict)
    """On node pools and simulations; those without one are waited for."""
    urls: UrlVerdicts = field(default_factory=dict)
    """On URLs in profiles; those that are being looked up are waited for, which takes seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWrite:
    """A status that differs from what stands there, and what is to be told about that."""

    kind: str
    name: str
    uid: str
    status: Mapping[str, Any]
    happenings: tuple[Happening, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What should be. `statuses`: only those to write.

    `next_at`: when to look again even if nothing happens, in nanoseconds since the epoch; None: no need.
    """

    memory: Memory
    groups: Mapping[str, GroupPlan]
    statuses: tuple[StatusWrite, ...]
    next_at: int | None


def reconcile(situation: Situation, compiler: Compiler, settings: GroupSettings, now: int) -> Desired:
    """What should be at `now`, in nanoseconds since the epoch. Never raises for anything that an object may hold."""
    verdicts = choose(situation.profiles, situation.memory, compiler, situation.urls)
    groups = plan_groups(verdicts, situation.reports, compiler, settings)
    statuses: list[StatusWrite] = []
    due: list[int] = []
    for verdict in verdicts:
        profile = verdict.profile
        if not is_looked_up(profile.spec, situation.urls):
            continue
        status = profile_status(verdict, _around(verdict, groups, situation.reports), now)
        if differs(status, profile.status):
            statuses.append(_write(PROFILE, profile, status))
        later = figures_due_at(profile)
        if later is not None and later > now and verdict.running is not None:
            due.append(later)
    for kind, objects in ((NODE_POOL, situation.node_pools), (SIMULATION, situation.simulations)):
        for each in objects:
            found = situation.verdicts.get(verdict_key(kind, each))
            if found is None or each.is_deleting:
                continue
            status = model_status(each, found, now)
            if differs(status, each.status):
                statuses.append(_write(kind, each, status))
    return Desired(
        memory=_remembered(verdicts, situation.memory),
        groups=groups,
        statuses=tuple(statuses),
        next_at=min(due, default=None),
    )


def _remembered(verdicts: Sequence[Verdict], memory: Memory) -> dict[str, Accepted]:
    """What runs, and what was good of those that do not run for the sake of another profile."""
    kept: dict[str, Accepted] = {}
    for verdict in verdicts:
        found = memory.get(verdict.profile.uid) if verdict.running is None else verdict.running.accepted
        if found is not None:
            kept[verdict.profile.uid] = found
    return kept


def _around(verdict: Verdict, groups: Mapping[str, GroupPlan], reports: Sequence[WorkerReport]) -> Surroundings:
    if verdict.running is None:
        return Surroundings(reports=(), is_waiting=False)
    group = groups[verdict.running.compiled.group]
    return Surroundings(
        reports=[report for report in reports if report.group == group.name],
        is_waiting=verdict.running.compiled.scheduler_name in group.waiting,
    )


def _write(kind: str, about: Observed, status: dict[str, Any]) -> StatusWrite:
    told = tuple(happenings(kind, about.name, about.uid, about.status, status))
    return StatusWrite(kind=kind, name=about.name, uid=about.uid, status=status, happenings=told)


def differs(status: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether a status says anything else than what stands there; what others wrote there does not count."""
    if any(_filled(status.get(name)) != _filled(before.get(name)) for name in _OWN_FIELDS):
        return True
    own = [entry for entry in entries(before.get("conditions")) if entry.get("type") in PROFILE_CONDITIONS]
    return _by_type(entries(status.get("conditions"))) != _by_type(own)


def _filled(value: Any) -> Any:
    """Without what is empty: the API server may put defaults there, which say the same as nothing."""
    if isinstance(value, Mapping):
        return {name: inner for name, item in value.items() if (inner := _filled(item)) is not None} or None
    if isinstance(value, list):
        return [_filled(item) for item in value] or None
    return value or None


def _by_type(conditions: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {str(entry.get("type")): dict(entry) for entry in conditions}
