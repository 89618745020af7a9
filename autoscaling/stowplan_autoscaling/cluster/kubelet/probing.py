"""The probes of one pod at work: which of them may run, when their results change, and what that sets off.

Follows pkg/kubelet/prober/prober_manager.go and the probe updates in syncLoopIteration (pkg/kubelet/kubelet.go) of
Kubernetes v1.37.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .backoff import JITTER
from .probes import READINESS, STARTUP, ProbeWorker, Verdict

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Timer

    from .containers import ContainerState
    from .pod_worker import PodWorker

_UNHEALTHY: Final = "Unhealthy"


class Probing:
    """Plans the verdicts of a pod's probes."""

    __slots__ = ("_resync", "_worker")

    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker
        self._resync: Timer | None = None

    def enable(self, each: ContainerState) -> None:
        """Let the probes of a container run that may: the startup probe first, the others once it has succeeded."""
        now, started = self._worker.env.kernel.now, each.has_started
        for probe in each.probes:
            if probe.enabled is None and (probe.kind == STARTUP or started):
                probe.enable(each.started, now)
                if probe.kind != READINESS:
                    self.plan(each, probe)
            if probe.kind == READINESS and started and probe.result is not True:
                probe.trigger(now)
                self.plan(each, probe)

    def plan(self, each: ContainerState, probe: ProbeWorker) -> None:
        """Plan the next change of a probe's result, instead of what was planned."""
        probe.unplan()
        worker = self._worker
        now = worker.env.kernel.now
        verdict = probe.plan(now)
        if verdict is None:
            return
        if probe.kind == READINESS and verdict.is_success and verdict.at - now > worker.node.sync_period:
            # Before that the pod is synced anyway, which probes at once and counts the period from there.
            self._plan_resync(verdict.at)
        at = verdict.at + probe.delay_of(verdict)
        probe.timer = worker.env.kernel.later(at, lambda: self._judge(each, probe, verdict))

    def _plan_resync(self, before: int) -> None:
        self.stop()
        worker = self._worker
        now, period = worker.env.kernel.now, worker.node.sync_period
        at = worker.node.next_sync_tick(now + period + round(period * JITTER * worker.next_uniform("resync")))
        if at < before:
            self._resync = worker.env.kernel.later(at, worker.sync)

    def _judge(self, each: ContainerState, probe: ProbeWorker, verdict: Verdict) -> None:
        """A probe's result has changed."""
        probe.timer = None
        worker = self._worker
        if worker.is_frozen or worker.has_ended or not each.is_running:
            return
        probe.accept(verdict)
        if not verdict.is_success:
            worker.env.event(worker.key, _UNHEALTHY, f"{probe.kind.capitalize()} probe failed")
        worker.report()
        if probe.kind != READINESS:
            worker.act_if_idle()

    def set_answering(self, *, is_answering: bool) -> None:
        """Whether the application answers probes in time, as far as its load goes."""
        now = self._worker.env.kernel.now
        for each in (*self._worker.init, *self._worker.main):
            if not each.is_running or each.is_init:
                continue
            for probe in each.probes:
                if probe.is_overloaded is is_answering:
                    probe.settle(now)
                    probe.is_overloaded = not is_answering
                    self.plan(each, probe)

    def stop(self) -> None:
        """No regular sync on account of a probe."""
        if self._resync is not None:
            self._resync.cancel()
            self._resync = None
