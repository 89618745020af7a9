"""Attempts that measure themselves: those of `attempt.py`, with a stopwatch at the points around a decision.

PreBind and Bind last as upstream's do, until what they ask for is answered: upstream waits for the API server in the
plugin, here an effect is on its way. What lies before a decision is measured in `framework/measured.py`.

Follows pkg/scheduler/schedule_one.go and framework/runtime/framework.go of Kubernetes v1.37.2, as far as they observe
metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stowplan_scheduler.framework.status import Code, Status

from .attempt import Attempts, Binding

if TYPE_CHECKING:
    from stowplan_scheduler.effects import Outcome
    from stowplan_scheduler.framework.interface import PostFilterResult
    from stowplan_scheduler.framework.pod_info import PodInfo
    from stowplan_scheduler.framework.runtime import FitFailure, Profile
    from stowplan_scheduler.framework.timing import Hooks
    from stowplan_scheduler.queue import QueuedPodInfo

    from .scheduler import Scheduler

_SUCCESS = Code.SUCCESS.label
_ERROR = Code.ERROR.label


class _Step(msgspec.Struct):
    """What a pod with a node is waiting for. Times are the hooks'."""

    sampled: bool
    """Single calls of plugins are measured in this attempt."""
    pre_bind: int = 0
    """When PreBind began."""
    began: int = 0
    """When the effect that is under way was asked for."""
    plugin: str = ""
    """Who asked for it."""


class MeasuredAttempts(Attempts):
    """See the module. What happens is what happens with `Attempts`."""

    def __init__(self, scheduler: Scheduler, hooks: Hooks) -> None:
        """Nothing under way."""
        super().__init__(scheduler)
        self._hooks = hooks
        self._steps: dict[str, _Step] = {}
        """By UID, from Reserve to the end of the attempt."""

    def attempt(self, pod: QueuedPodInfo, now: int) -> None:
        """As `Attempts.attempt`."""
        self._hooks.sampled = self._hooks.sample()
        try:
            super().attempt(pod, now)
        finally:
            self._hooks.sampled = False

    def run_post_filters(
        self, pod: PodInfo, profile: Profile, failure: FitFailure
    ) -> tuple[PostFilterResult | None, Status]:
        """As `Attempts.run_post_filters`."""
        began = self._hooks.clock()
        result, status = super().run_post_filters(pod, profile, failure)
        self._point(profile, "PostFilter", status.code.label, began)
        return result, status

    # ---- Reserve, Permit ---------------------------------------------------------------------

    def _reserve(self, binding: Binding) -> Status | None:
        self._steps[binding.assumed.uid] = _Step(self._hooks.sampled)
        began = self._hooks.clock()
        refused = super()._reserve(binding)
        self._point(binding.profile, "Reserve", _label(refused), began)
        return refused

    def _unreserve(self, binding: Binding) -> None:
        step = self._steps.pop(binding.assumed.uid, None)
        before, self._hooks.sampled = self._hooks.sampled, step is not None and step.sampled
        began = self._hooks.clock()
        super()._unreserve(binding)
        self._point(binding.profile, "Unreserve", _SUCCESS, began)
        self._hooks.sampled = before

    def _permit(self, binding: Binding, now: int) -> Status | None:
        began = self._hooks.clock()
        refused = super()._permit(binding, now)
        status = Code.WAIT.label if refused is None and binding.waits else _label(refused)
        self._point(binding.profile, "Permit", status, began)
        return refused

    # ---- binding -----------------------------------------------------------------------------

    def _pre_flight(self, binding: Binding) -> Status | None:
        step = self._step(binding)
        self._hooks.sampled = step.sampled
        began = self._hooks.clock()
        broken = super()._pre_flight(binding)
        status = _SUCCESS if binding.pre_binds else Code.SKIP.label
        self._point(binding.profile, "PreBindPreFlight", status if broken is None else _ERROR, began)
        step.pre_bind = self._hooks.clock()
        return broken

    def _next_step(self, binding: Binding, now: int) -> None:
        step = self._step(binding)
        if binding.pre_binds:
            step.plugin, step.began = binding.pre_binds[0], self._hooks.clock()
        super()._next_step(binding, now)

    def _choose_binder(self, binding: Binding) -> Status:
        step = self._step(binding)
        self._point(binding.profile, "PreBind", _SUCCESS, step.pre_bind)
        self._hooks.sampled = step.sampled
        step.began = self._hooks.clock()
        status = super()._choose_binder(binding)
        step.plugin = status.plugin
        if not status.is_success:
            self._point(binding.profile, "Bind", status.code.label, step.began)
        return status

    def permit_decided(self, uid: str, plugin: str, reason: str | None, now: int) -> None:
        """As `Attempts.permit_decided`."""
        try:
            super().permit_decided(uid, plugin, reason, now)
        finally:
            self._hooks.sampled = False

    def effect_done(self, effect_id: int, outcome: Outcome, now: int) -> None:
        """As `Attempts.effect_done`."""
        binding = self._by_effect.get(effect_id)
        if binding is not None:
            self._answered(binding, self._step(binding), _SUCCESS if outcome.is_done else _ERROR)
        try:
            super().effect_done(effect_id, outcome, now)
        finally:
            self._hooks.sampled = False

    def _answered(self, binding: Binding, step: _Step, status: str) -> None:
        """The effect of a PreBind or Bind plugin is done, or has failed."""
        point = "Bind" if binding.is_binding else "PreBind"
        if step.sampled:
            self._hooks.observe(step.plugin, point, status, self._hooks.clock() - step.began)
        if binding.is_binding:
            self._point(binding.profile, point, status, step.began)
        elif status is _ERROR:
            self._point(binding.profile, point, status, step.pre_bind)

    def _post_bind(self, binding: Binding) -> None:
        step = self._steps.pop(binding.assumed.uid, None)
        self._hooks.sampled = step is not None and step.sampled
        began = self._hooks.clock()
        super()._post_bind(binding)
        self._point(binding.profile, "PostBind", _SUCCESS, began)

    # ---- all of them -------------------------------------------------------------------------

    def _step(self, binding: Binding) -> _Step:
        return self._steps.setdefault(binding.assumed.uid, _Step(sampled=False))

    def _point(self, profile: Profile, point: str, status: str, began: int) -> None:
        self._hooks.observe_point(profile.scheduler_name, point, status, self._hooks.clock() - began)


def _label(status: Status | None) -> str:
    return _SUCCESS if status is None else status.code.label
