"""Pods that no pool of the run can take, whatever it buys: noticed at the first attempt to schedule them that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_autoscaling.resources.pool_use import problem_of

if TYPE_CHECKING:
    from stowplan_scheduler.objects import Pod, PodSpec

    from .pods import PodLife
    from .world import World


class Misfits:
    """The one of a run in which somebody buys nodes. Pods of one workload with the same specification are alike."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pools = world.simulation.pools
        self._known: dict[str, tuple[PodSpec, dict[str, str]]] = {}
        """By workload: the specification that was looked at last, and by pool what is wrong; {} if one takes it."""

    def look(self, life: PodLife, pod: Pod) -> None:
        """An attempt has failed. Pods of DaemonSets go where their node is, and are no reason for one."""
        if life.attempts > 1 or life.is_own:
            return
        workload = "" if life.workload is None else life.workload.name
        reasons = self._reasons(workload, pod)
        if reasons:
            created = self._world.since_start(life.created)
            self._world.recorder.cannot_take(life.key, workload, created, reasons)

    def _reasons(self, workload: str, pod: Pod) -> dict[str, str]:
        known = self._known.get(workload)
        if known is not None and known[0] == pod.spec:
            return known[1]
        reasons: dict[str, str] = {}
        for pool in self._pools:
            problem = problem_of(pod, pool)
            if not problem:
                reasons = {}
                break
            reasons[pool.name] = problem
        self._known[workload] = (pod.spec, reasons)
        return reasons
