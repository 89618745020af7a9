"""What each group of workers is to run: one WorkerConfiguration of all profiles of the group.

A schedulerName moves between groups without a moment in which two workers act for it: the new group has it paused, its
cache warm, until no worker of another group says that it is active there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stowplan_operator.api.election import ElectionSettings
from stowplan_operator.worker.configuration import API_VERSION, KIND
from stowplan_operator.worker.settings import Mode
from stowplan_scheduler.timestamps import NANOSECONDS

from .choosing import Compiler, Running, Verdict
from .observed import WorkerReport

_PAIR: Final = re.compile(r"(?<!\\)((?:\\\\)*)(\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})")
"""Two escapes that are one character, with whatever backslashes, escaped themselves, are before it."""

CHILD: Final = "Child"
DEPLOYMENT: Final = "Deployment"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """Whole seconds, as a WorkerConfiguration has them; by default kube-scheduler's."""

    duration: int = 15
    renew_deadline: int = 10
    retry_period: int = 2

    @classmethod
    def of(cls, duration: int, renew_deadline: int, retry_period: int) -> LeaseTimes:
        """From nanoseconds. Raises ValueError if nobody could keep such a Lease, or for parts of seconds."""
        given = (duration, renew_deadline, retry_period)
        if any(time % NANOSECONDS for time in given):
            raise ValueError("the times of Leases must be whole seconds")
        times = cls(
            duration=duration // NANOSECONDS,
            renew_deadline=renew_deadline // NANOSECONDS,
            retry_period=retry_period // NANOSECONDS,
        )
        times.election("namespace", "name", "identity")
        return times

    def election(self, namespace: str, name: str, identity: str) -> ElectionSettings:
        """A contender with these times. Raises ValueError."""
        return ElectionSettings(
            namespace=namespace,
            name=name,
            identity=identity,
            lease_duration_seconds=self.duration,
            renew_deadline_seconds=self.renew_deadline,
            retry_period_seconds=self.retry_period,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What does not come from profiles. `runtime`: of groups whose profiles say nothing about it."""

    namespace: str = "stowplan-system"
    runtime: str = CHILD
    lease: LeaseTimes = field(default_factory=LeaseTimes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """One group of workers. `text` is the file that each of them reads; `waiting` the schedulerNames it has paused."""

    name: str
    text: str
    replicas: int
    runtime: str
    waiting: frozenset[str] = frozenset()


def plan_groups(
    verdicts: Sequence[Verdict], reports: Iterable[WorkerReport], compiler: Compiler, settings: GroupSettings
) -> dict[str, GroupPlan]:
    """The plans by name of the group. The verdicts are in order of age: of two wishes about the runtime, the older."""
    members: dict[str, list[Running]] = {}
    for verdict in verdicts:
        if verdict.running is not None:
            members.setdefault(verdict.running.compiled.group, []).append(verdict.running)
    acting = _acting(reports)
    plans: dict[str, GroupPlan] = {}
    for name, group in sorted(members.items()):
        compiled = [running.compiled for running in group]
        elsewhere = {scheduler for scheduler, groups in acting.items() if groups - {name}}
        waiting = frozenset(elsewhere & {member.scheduler_name for member in compiled})
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": name,
            "configuration": compiler.configuration([(running.accepted.name, running.compiled) for running in group]),
            "profiles": _entries(group, waiting),
            "leaderElection": {
                "enabled": True,
                "namespace": settings.namespace,
                "leaseDurationSeconds": settings.lease.duration,
                "renewDeadlineSeconds": settings.lease.renew_deadline,
                "retryPeriodSeconds": settings.lease.retry_period,
            },
        }
        plans[name] = GroupPlan(
            name=name,
            text=_text(document),
            replicas=max(member.replicas for member in compiled),
            runtime=next((member.runtime for member in compiled if member.runtime), settings.runtime),
            waiting=waiting,
        )
    return plans


def _text(document: dict[str, Any]) -> str:
    """JSON that is YAML as well; the same profiles give the same bytes.

    A character beyond 16 bits is two escapes in JSON, and no such thing in YAML.
    """
    return _PAIR.sub(lambda match: match[1] + json.loads(f'"{match[2]}"'), json.dumps(document, indent=2)) + "\n"


def _entries(group: Iterable[Running], waiting: frozenset[str]) -> list[dict[str, Any]]:
    """The `profiles` of a WorkerConfiguration."""
    found = [
        {
            "schedulerName": running.compiled.scheduler_name,
            "profile": running.accepted.name,
            "uid": running.accepted.uid,
            "generation": running.accepted.generation,
            "hash": running.accepted.hash,
            "mode": Mode.PAUSED if running.compiled.scheduler_name in waiting else running.mode,
            "shadowOf": running.compiled.shadow_of,
        }
        for running in group
    ]
    return sorted(found, key=lambda entry: str(entry["schedulerName"]))


def _acting(reports: Iterable[WorkerReport]) -> Mapping[str, set[str]]:
    """The groups of whose workers one acts for a schedulerName, by schedulerName."""
    found: dict[str, set[str]] = {}
    for report in reports:
        for running in report.profiles.values():
            if running.mode == Mode.ACTIVE:
                found.setdefault(running.scheduler_name, set()).add(report.group)
    return found
