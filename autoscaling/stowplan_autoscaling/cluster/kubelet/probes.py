"""Probes of one container: what a run of probes would find, worked out without running each of them.

A worker probes at `anchor`, `anchor` + period, and so on. Between two changes of what the application answers, all
probes find the same; so the moment at which a threshold is reached is known in advance, and only that one is planned.
`settle` takes the probes of the past into account, `plan` says when the result changes next.

Follows pkg/kubelet/prober/worker.go of Kubernetes v1.37.2: results count in runs of equal ones, a startup or liveness
worker rests after its verdict until there is a new container, and the delay before the first probe is compared with the
whole seconds since the whole second of the start. A random wait of workers on a kubelet that has just started is left
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stowplan_autoscaling.kernel import SECOND, whole_seconds

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Timer

    from .application import Probe

STARTUP: Final = "startup"
READINESS: Final = "readiness"
LIVENESS: Final = "liveness"


class Verdict(NamedTuple):
    """When a probe's result changes, and to what."""

    at: int
    is_success: bool


class ProbeWorker:
    """One probe of one container, over all its restarts. Times in nanoseconds.

    `answers_from`: since when, or from when on, the application answers; None: not in sight. What changes it calls
    `settle` first.
    """

    __slots__ = (
        "_settled",
        "anchor",
        "answers_from",
        "enabled",
        "is_on_hold",
        "is_overloaded",
        "kind",
        "last",
        "period",
        "probe",
        "result",
        "run",
        "timer",
    )

    def __init__(self, kind: str, probe: Probe, anchor: int) -> None:
        self.kind = kind
        self.probe = probe
        self.period = probe.period * SECOND
        self.anchor = anchor
        self.enabled: int | None = None
        """From when on it probes; None: not at all, there is no container or it has not started yet."""
        self.answers_from: int | None = None
        self.is_overloaded = False
        """The application does not answer in time although it runs: a probe fails after its timeout."""
        self.result: bool | None = None
        """The published result; None before the first."""
        self.last: bool | None = None
        self.run = 0
        self.is_on_hold = False
        self.timer: Timer | None = None
        """The planned verdict; whoever plans it keeps it here."""
        self._settled = anchor

    # ---- changes -----------------------------------------------------------------------------

    def new_container(self, started: int, answers_from: int | None) -> None:
        """A container was started: an unready, live one of which nothing is known."""
        self.result = {READINESS: False, LIVENESS: True, STARTUP: None}[self.kind]
        self.is_on_hold = False
        self.is_overloaded = False
        self.answers_from = answers_from
        self._settled = max(started, self._settled)
        self.enabled = None

    def enable(self, started: int, now: int) -> None:
        """Probe from now on, but not before the initial delay after the start of the container."""
        self.enabled = max(now, whole_seconds(started) + self.probe.initial_delay * SECOND, started)
        self._settled = max(now, self._settled)

    def stop(self) -> None:
        """The container has ended."""
        self.enabled = None

    def trigger(self, now: int) -> None:
        """Probe right now, and count the period from here (a status without readiness asks for it)."""
        self.settle(now)
        self.anchor = now

    def settle(self, now: int) -> None:
        """Count the probes before `now`, between which nothing changed."""
        if now <= self._settled:
            return
        if self.enabled is not None and not self.is_on_hold:
            first = self._first_tick(max(self._settled, self.enabled))
            if first < now:
                self._count(first, now)
        self._settled = now

    def _count(self, first: int, end: int) -> None:
        probes = (end - 1 - first) // self.period + 1
        failing = probes
        answers_from = self.answers_from
        if answers_from is not None and not self.is_overloaded:
            failing = min(probes, max(0, -((first - answers_from) // self.period)))
        if failing:
            self.run = failing + (self.run if self.last is False else 0)
            self.last = False
        if failing < probes:
            self.run = probes - failing + (self.run if self.last is True else 0)
            self.last = True

    def accept(self, verdict: Verdict) -> None:
        """A planned verdict has come to pass."""
        self.settle(verdict.at)
        self._settled = verdict.at + 1
        self.run = self.run + 1 if self.last is verdict.is_success else 1
        self.last = verdict.is_success
        self.result = verdict.is_success
        if self.kind == STARTUP or (self.kind == LIVENESS and not verdict.is_success):
            self.is_on_hold = True
            self.run = 0

    def unplan(self) -> None:
        """Forget the planned verdict."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # ---- what will be ------------------------------------------------------------------------

    def plan(self, now: int) -> Verdict | None:
        """The probe at which the result will change if nothing else does; None: never."""
        if self.enabled is None or self.is_on_hold:
            return None
        self.settle(now)
        first = self._first_tick(max(self._settled, self.enabled))
        failing = self._failing_from(first)
        fails_at = self._threshold(first, failing, is_success=False)
        if fails_at is not None:
            return Verdict(fails_at, is_success=False)
        if failing is None or self.result is True:
            return None
        # After failures the successes count from one; without any they go on counting.
        before = self.run if failing == 0 and self.last is True else 0
        needed = max(self.probe.success_threshold - before, 1)
        return Verdict(first + (failing + needed - 1) * self.period, is_success=True)

    def delay_of(self, verdict: Verdict) -> int:
        """How long the probe itself takes: a refused connection is no wait, an answer that does not come is."""
        return self.probe.timeout * SECOND if self.is_overloaded and not verdict.is_success else 0

    def _threshold(self, first: int, failing: int | None, *, is_success: bool) -> int | None:
        """When failures reach their threshold, if they do."""
        if self.result is is_success or failing == 0:
            return None
        needed = max(self.probe.failure_threshold - (self.run if self.last is False else 0), 1)
        if failing is not None and failing < needed:
            return None
        return first + (needed - 1) * self.period

    def _failing_from(self, first: int) -> int | None:
        """How many probes from `first` on fail; None: all."""
        if self.is_overloaded or self.answers_from is None:
            return None
        return max(0, -((first - self.answers_from) // self.period))

    def _first_tick(self, at: int) -> int:
        """The first probe not before that time."""
        return at + (self.anchor - at) % self.period if at > self.anchor else self.anchor
