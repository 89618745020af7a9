"""Passes on what kubelets say about containers: a pod does its work while all of its main containers run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_autoscaling.cluster.kubelet.containers import KILLED

if TYPE_CHECKING:
    from .load_engine import LoadEngine
    from .metrics_engine import MetricsEngine
    from .pods import PodBook, PodLife
    from .world import World


class _Running:
    """What runs of one pod."""

    __slots__ = ("main", "seen", "starts", "up")

    def __init__(self, main: tuple[str, ...]) -> None:
        self.main = main
        self.up: set[str] = set()
        self.starts = dict.fromkeys(main, 0)
        self.seen = False
        """Whether all ran at once before."""


class ContainerEvents:
    """The listener of the kubelets."""

    def __init__(self, world: World, book: PodBook, loads: LoadEngine, metrics: MetricsEngine) -> None:
        self._world = world
        self._book = book
        self._loads = loads
        self._metrics = metrics
        self._pods: dict[str, _Running] = {}
        book.listeners.append(self._pod_changed)

    def _pod_changed(self, life: PodLife, old: object, new: object) -> None:
        if new is None:
            self._pods.pop(life.key, None)

    def container_started(self, pod: str, container: str, now: int) -> None:
        """See ContainerListener."""
        life = self._book.lives.get(pod)
        found = self._world.server.find("Pod", pod)
        if life is None or found is None:
            return
        running = self._pods.get(pod)
        if running is None:
            running = self._pods[pod] = _Running(tuple(each.name for each in found.spec.containers))
        if container not in running.starts:
            return
        running.up.add(container)
        running.starts[container] += 1
        if running.seen:
            self._metrics.container_restarted(life, container)
        if len(running.up) == len(running.main):
            if not running.seen:
                running.seen = True
                self._metrics.pod_runs(found, life)
            first = running.main[0]
            # The kubelet names its draws by the number of starts before.
            self._loads.pod_runs(found, life, f"{life.key}/{first}/{running.starts[first] - 1}")

    def container_ended(self, pod: str, container: str, now: int, exit_code: int) -> None:
        """See ContainerListener."""
        life, running = self._book.lives.get(pod), self._pods.get(pod)
        if life is None or running is None or container not in running.up:
            return
        running.up.discard(container)
        self._loads.pod_stops(life, killed=exit_code == KILLED)
