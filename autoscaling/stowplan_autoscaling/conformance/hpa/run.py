"""Runs one scenario: the controller in its world, sync by sync.

Follows internal/hpasim/run.go of the oracle.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.hpa import (
    HorizontalController,
    HorizontalPodAutoscaler,
    HPAFlags,
    InvalidHPAError,
    Scale,
    ScaleError,
    SyncQueue,
    admit,
)
from stowplan_autoscaling.kernel import MILLISECOND, nanoseconds
from stowplan_scheduler.objects import DEFAULT_NAMESPACE, ObjectMeta

from .agenda import EARLIER, SCRIPTS, START, Agenda, moment, seconds
from .metrics_apis import ScenarioMetrics
from .recorder import Recorder
from .scenario import Config, Fault, HPAStep, Scenario, active, read_scenario
from .world import World

_ATTEMPTS: Final = 5
"""Writes of a scale that meets conflicts (client-go's retry.DefaultRetry)."""

_BACK_OFF: Final = 10 * MILLISECOND + 500_000
"""Pause between them; upstream adds up to a tenth at random."""

_AFTERWARDS: Final = 200 * MILLISECOND
"""How long the controller goes on after the end of the world, for the last retries."""


def run_hpa(line: dict[str, Any]) -> dict[str, Any]:
    """The answer to one scenario."""
    scenario = read_scenario(line)
    try:
        run = _Run(scenario)
    except InvalidHPAError as error:
        return {"id": scenario.id, "invalid": str(error)}
    return {"id": scenario.id, "timeline": run.timeline()}


def _flags(config: Config) -> HPAFlags:
    return HPAFlags(
        sync_period=nanoseconds(config.sync_period or 15),
        tolerance=config.tolerance or 0.1,
        downscale_stabilization=nanoseconds(config.downscale_stabilization or 300),
        cpu_initialization_period=nanoseconds(config.cpu_initialization_period or 300),
        initial_readiness_delay=nanoseconds(config.initial_readiness_delay or 30),
    )


class _Run:
    """One scenario in progress."""

    def __init__(self, scenario: Scenario) -> None:
        hpa = scenario.hpa
        if not hpa.metadata.name:
            hpa = replace(hpa, metadata=ObjectMeta(name="hpa"))
        hpa = admit(hpa)
        self.name = hpa.metadata.name
        self.agenda = Agenda()
        self.world = World(scenario, self.agenda)
        self.metrics = ScenarioMetrics(self.world, self.agenda)
        self.agenda.run_before_start()
        self.hpas: dict[str, HorizontalPodAutoscaler] = {}
        for rival in scenario.rivals:
            self.hpas[f"{DEFAULT_NAMESPACE}/{rival}"] = _rival(hpa, rival)
        self.hpas[hpa.key] = hpa
        self.key = hpa.key
        flags = _flags(scenario.config)
        self.controller = HorizontalController(flags)
        self.queue = SyncQueue(flags.sync_period)
        self.recorder = Recorder(scenario.rivals, lambda: self.hpas[self.key].status)
        self._conflicts: dict[int, int] = {}
        for index, step in enumerate(scenario.hpa_script):
            self._plan_change(index, step, hpa)

    def _plan_change(self, index: int, step: HPAStep, hpa: HorizontalPodAutoscaler) -> None:
        try:
            spec = admit(replace(hpa, spec=step.spec)).spec
        except InvalidHPAError as error:
            raise InvalidHPAError(f"hpaScript[{index}]: {error}") from error

        def change(_: float) -> None:
            old = self.hpas[self.key]
            metadata = replace(old.metadata, generation=old.metadata.generation + 1)
            self.hpas[self.key] = replace(old, metadata=metadata, spec=spec)
            self.queue.add(self.key)

        self.agenda.at(step.t, SCRIPTS, change, late=True)

    def timeline(self) -> list[dict[str, Any]]:
        end = moment(self.world.scenario.until) + EARLIER
        now = START
        for key in sorted(self.hpas):
            self.controller.added(DEFAULT_NAMESPACE, self.hpas[key].metadata.name)
            self.queue.add(key)
        while True:
            due = self.queue.next_at(now)
            happens = self.agenda.next_at()
            if happens is not None and happens < end and (due is None or happens <= due):
                now = max(now, happens)
                self.agenda.run_until(now, end)
            elif due is None or due > end + _AFTERWARDS:
                break
            else:
                now = max(now, due)
                taken = self.queue.take(now)
                if taken is not None:
                    began, now = now, self._sync(taken, now, end)
                    self._resync(began, now)
                    self.queue.done(taken, now)
        self.recorder.finish()
        return self.recorder.entries

    def _resync(self, began: int, ended: int) -> None:
        """The informer's resync, every period since the start, if it falls into a sync."""
        period = self.queue.period
        tick = START + max(-((START - began) // period), 1) * period
        if tick <= ended:
            self.queue.resync(tick)

    def _sync(self, key: str, now: int, end: int) -> int:
        """One sync; returns when it ends."""
        hpa = self.hpas[key]
        target = hpa.spec.scale_target_ref.name
        sync = self.controller.begin(hpa, self._read(target, now), self.world.select, self.metrics, now)
        error = ""
        if sync.scale_to is not None:
            now, error = self._write(target, sync.scale_to, sync.plan.reference, now, end)
        outcome = self.controller.finish(sync, now, error)
        self.hpas[key] = replace(hpa, status=outcome.status)
        if key == self.key:
            self.recorder.outcome(outcome)
        self.recorder.error(outcome.error)
        return now

    # ---- the scale subresource ---------------------------------------------------------------------------------------

    def _read(self, target: str, now: int) -> Scale | ScaleError:
        world, t = self.world, seconds(now)
        if target != world.scenario.target.name:  # a rival's: one replica, the same selector
            return Scale(spec_replicas=1, status_replicas=1, selector=world.selector)
        self.recorder.begin(t, world.replicas)
        if active(world.scenario.scale_faults, "get", t):
            return ScaleError(f'deployments.apps "{target}" not found')
        return world.scale()

    def _write(self, target: str, replicas: int, reference: str, now: int, end: int) -> tuple[int, str]:
        """When the write has succeeded or failed, and why it failed."""
        for attempt in range(_ATTEMPTS):
            error, again = self._try(target, replicas, now)
            if not error:
                return now, ""
            latest = self._read(target, now)
            if isinstance(latest, ScaleError):
                self.recorder.error(f"error getting latest scale for {reference} during conflict retry: {latest}")
            if not again or attempt == _ATTEMPTS - 1:
                return now, error
            now += _BACK_OFF
            self.agenda.run_until(now, end)
        return now, ""

    def _try(self, target: str, replicas: int, now: int) -> tuple[str, bool]:
        """An error, "" for none, and whether it is worth another try."""
        t, faults = seconds(now), self.world.scenario.scale_faults
        if target != self.world.scenario.target.name:
            return "", False
        if active(faults, "update", t):
            return "Internal error occurred: scripted", False
        conflict = active(faults, "conflict", t)
        if conflict is not None and self._count(conflict) <= conflict.count:
            return f'Operation cannot be fulfilled on deployments.apps "{target}": scripted', True
        self.recorder.scaled(replicas)
        self.world.scale_to(replicas, t)
        return "", False

    def _count(self, fault: Fault) -> int:
        """How often the fault has met a write, this one included."""
        index = self.world.scenario.scale_faults.index(fault)
        self._conflicts[index] = self._conflicts.get(index, 0) + 1
        return self._conflicts[index]


def _rival(hpa: HorizontalPodAutoscaler, name: str) -> HorizontalPodAutoscaler:
    reference = replace(hpa.spec.scale_target_ref, name=name)
    return replace(hpa, metadata=replace(hpa.metadata, name=name), spec=replace(hpa.spec, scale_target_ref=reference))
