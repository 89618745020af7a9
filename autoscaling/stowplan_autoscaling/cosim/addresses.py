"""IP addresses for pods, where their number is limited: a sandbox takes one, a pod that has ended gives it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_autoscaling.demand import PodIps

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.pods import ClusterPod

    from .pods import PodBook, PodLife
    from .world import World


class Addresses:
    """The ones of a cluster. Pods in their node's network need none."""

    def __init__(self, world: World, book: PodBook, count: int) -> None:
        self._server = world.server
        self._pool = PodIps(addresses=count)
        self._taken: dict[str, None] = {}
        book.listeners.append(self._pod_changed)

    def take(self, key: str) -> bool:
        """One for a pod; False if there is none left. A pod that has one keeps it."""
        pod: ClusterPod | None = self._server.find("Pod", key)
        if pod is None or pod.spec.host_network or key in self._taken:
            return True
        if not self._pool.admits(len(self._taken)):
            return False
        self._taken[key] = None
        return True

    def _pod_changed(self, life: PodLife, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if new is None or new.is_terminal:
            self._taken.pop(life.key, None)
