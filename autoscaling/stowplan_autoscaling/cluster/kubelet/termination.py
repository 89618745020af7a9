"""How the containers of one pod are stopped: SIGTERM, a grace period, SIGKILL, and in which order.

Follows killContainersWithSyncResult and killContainer (pkg/kubelet/kuberuntime/kuberuntime_container.go) of Kubernetes
v1.37.2.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.kernel import SECOND

from .containers import KILLED
from .probes import READINESS

if TYPE_CHECKING:
    from .application import Probe
    from .containers import ContainerState
    from .pod_worker import PodWorker

MINIMUM_GRACE: Final = 2 * SECOND
"""The least that a container gets after SIGTERM (kuberuntime_manager.go, minimumGracePeriodInSeconds)."""

DEFAULT_GRACE: Final = 30
"""terminationGracePeriodSeconds of a pod that does not say."""


def grace_period(seconds: int | None) -> int:
    """The nanoseconds of a grace period; None stands for the default."""
    return (DEFAULT_GRACE if seconds is None else seconds) * SECOND


class Termination:
    """Stops the containers of a pod."""

    __slots__ = ("_worker",)

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker

    def grace_of_probe(self, probe: Probe) -> int:
        """What a container gets whose probe has failed."""
        return self._grace_of_pod() if probe.termination_grace is None else grace_period(probe.termination_grace)

    def _grace_of_pod(self) -> int:
        pod = self._worker.env.server.find("Pod", self._worker.key)
        return grace_period(None if pod is None else pod.spec.termination_grace_period_seconds)

    def stopping(self, each: ContainerState, grace: int) -> tuple[int, int]:
        """How long a container takes to end after SIGTERM, and its exit code."""
        grace = max(grace, MINIMUM_GRACE)
        wants = self._worker.draw("stop", each.model.stop, each)
        return (wants, each.model.stop_exit_code) if wants <= grace else (grace, KILLED)

    def begin(self, grace: int | None) -> None:
        """Stop what runs: the main containers, then the sidecars one by one, the last one first."""
        worker = self._worker
        if grace is None:
            grace = self._grace_of_pod()
        stops: list[tuple[int, ContainerState, int]] = []
        ends = 0
        for each in worker.main:
            if each.is_running:
                stops.append(self._stop_of(each, 0, grace))
                ends = max(ends, stops[-1][0])
        for each in reversed(worker.init):
            if each.is_running:
                stops.append(self._stop_of(each, ends, grace))
                ends = stops[-1][0]
        kernel = worker.env.kernel
        now = kernel.now
        for after, each, code in stops:
            if after < ends:
                kernel.later(now + after, partial(self._stopped, each, code))
        if ends:
            kernel.later(now + ends, lambda: self._all_have_ended(stops))
        else:
            self._all_have_ended(stops)

    def _stop_of(self, each: ContainerState, after: int, grace: int) -> tuple[int, ContainerState, int]:
        """When a container whose turn comes `after` nanoseconds will have ended, from now on, and with which code."""
        for probe in each.probes:
            if probe.kind != READINESS:
                probe.unplan()
        stop, code = self.stopping(each, grace - after // SECOND * SECOND)
        return after + stop, each, code

    def _stopped(self, each: ContainerState, code: int) -> None:
        if not self._worker.is_frozen and each.is_running:
            self._worker.container_ended(each, code)

    def _all_have_ended(self, stops: list[tuple[int, ContainerState, int]]) -> None:
        if self._worker.is_frozen:
            return
        for _, each, code in stops:
            self._stopped(each, code)
        self._worker.containers_have_ended()
