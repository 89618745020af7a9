"""What goes down with a machine that the provider takes before it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_autoscaling.supply.karpenter.pods import is_daemon, is_mirror

from .base import INTERRUPTION, SupplyLog

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.supply.machines import Machine


def tell_lost_pods(machine: Machine, informers: Informers, log: SupplyLog) -> None:
    """Say how many pods still ran there. Those that go with every node do not count."""
    pods = informers.pods_on(machine.node).values()
    count = sum(not (pod.is_terminal or is_daemon(pod) or is_mirror(pod)) for pod in pods)
    if count:
        log.stopped(INTERRUPTION, machine.pool.name, count, "PodsLost", f"{machine.node} was taken with them")
