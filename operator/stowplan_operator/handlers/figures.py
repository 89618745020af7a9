"""Figures of status: pending pods, utilization, the shadow's account. They always change, so they are written rarely.

A status that changes wakes everyone who watches it. Figures are renewed when the last write of the status is
`PERIOD_SECONDS` old; until then the old ones stand. When that write was the API server itself knows (managedFields), so
that an operator that was restarted does not write more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stowplan_operator.worker.settings import Mode
from stowplan_scheduler.timestamps import NANOSECONDS, TimestampError, parse_time

from .choosing import Running
from .names import STATUS_MANAGER
from .observed import Health, Observed, WorkerReport, entries, text

PERIOD_SECONDS: Final = 30
NAMES: Final = ("pending", "utilizationPercent", "shadow")
"""The figures among the fields of status."""


def figures_of(profile: Observed, running: Running, reports: Sequence[WorkerReport], now: int) -> dict[str, Any]:
    """The figures that are to stand in status: new ones if it is time, else those that stand there."""
    held = {name: profile.status[name] for name in NAMES if name in profile.status}
    leader = _leader(reports)
    if leader is None:
        return held
    fresh = fresh_figures(running, leader)
    due = figures_due_at(profile)
    # A figure that is not there at all is not waited for.
    return fresh if due is None or now >= due or fresh.keys() - held.keys() else held


def fresh_figures(running: Running, leader: WorkerReport) -> dict[str, Any]:
    """What the leader of the group says."""
    found: dict[str, Any] = {}
    pending = leader.pending.get(running.accepted.name)
    if pending is not None:
        found["pending"] = pending
    if leader.utilization:
        found["utilizationPercent"] = max(leader.utilization.values())
    shadow = leader.shadow.get(running.compiled.scheduler_name)
    if shadow is not None and running.compiled.mode == Mode.SHADOW:
        found["shadow"] = dict(sorted(shadow.items()))
    return found


def figures_due_at(profile: Observed) -> int | None:
    """When figures may be written again, in nanoseconds since the epoch; None: now."""
    if not any(name in profile.status for name in NAMES):
        return None
    written_at = last_write(profile.managed_fields)
    return None if written_at is None else written_at + PERIOD_SECONDS * NANOSECONDS


def last_write(managed_fields: Sequence[Any]) -> int | None:
    """When status was last changed by us, by the API server's clock; None if never."""
    times: list[int] = []
    for entry in entries(list(managed_fields)):
        if entry.get("manager") == STATUS_MANAGER and entry.get("subresource") == "status":
            try:
                times.append(parse_time(text(entry.get("time"))))
            except TimestampError:
                continue
    return max(times, default=None)


def _leader(reports: Sequence[WorkerReport]) -> WorkerReport | None:
    """Before it has read the cluster it counts nothing."""
    leaders = (r for r in reports if r.is_leading and r.is_synced and r.health is Health.ANSWERS)
    return next(leaders, None)
