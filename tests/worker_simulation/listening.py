"""What checks want to see of a worker and no request shows: the reason of an eviction, and preemptions as decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_scheduler.effects import DeleteVictim
from stowplan_scheduler.framework.interface import PostFilterResult
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.runtime import FitFailure, Profile
from stowplan_scheduler.framework.status import Status
from stowplan_scheduler.objects import Pod

if TYPE_CHECKING:
    from .checks import Checks
    from .process import Process


def listen(process: Process, checks: Checks) -> None:
    """Tell the checks from now on."""
    _listen_to_evictions(process, checks)
    _listen_to_preemptions(process, checks)


def _listen_to_evictions(process: Process, checks: Checks) -> None:
    writes = process.machine._interpreter.writes
    evict = writes.evict

    def seen(effect: DeleteVictim, victim: Pod) -> None:
        checks.evicting(process, effect)
        evict(effect, victim)

    writes.evict = seen  # type: ignore[method-assign]


def _listen_to_preemptions(process: Process, checks: Checks) -> None:
    """Before anything comes of one."""
    attempts = process.machine.scheduler.attempts
    run = attempts.run_post_filters

    def seen(pod: PodInfo, profile: Profile, failure: FitFailure) -> tuple[PostFilterResult | None, Status]:
        result, status = run(pod, profile, failure)
        checks.post_filtered(process, pod.pod, result)
        return result, status

    attempts.run_post_filters = seen  # type: ignore[method-assign]
