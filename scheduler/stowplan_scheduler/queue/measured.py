"""PreEnqueue gates and queueing hints that measure themselves; what they say is what `gates.py` and `hints.py` say.

Follows runPreEnqueuePluginsForPod and isPodWorthRequeuing of pkg/scheduler/backend/queue/scheduling_queue.go of
Kubernetes v1.37.2, as far as they observe metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan_scheduler.framework.status import Code, Status

from .gates import PreEnqueueGates
from .hints import HintErrorHandler, HintIndex, HintMap
from .queued_pod import QueuedPodInfo

if TYPE_CHECKING:
    from stowplan_scheduler.framework.cluster_event import ClusterEvent, HintFn
    from stowplan_scheduler.framework.interface import PreEnqueuePlugin
    from stowplan_scheduler.framework.pod_info import PodInfo
    from stowplan_scheduler.framework.timing import Hooks


class MeasuredGates(PreEnqueueGates):
    """Tells the hooks how long the gates take."""

    __slots__ = ("_hooks",)

    def __init__(
        self,
        plugins: Mapping[str, Sequence[PreEnqueuePlugin]],
        on_failure: Callable[[Exception], None] | None,
        hooks: Hooks,
    ) -> None:
        """As `PreEnqueueGates`."""
        super().__init__(plugins, on_failure)
        self._hooks = hooks

    def __call__(self, pod: QueuedPodInfo) -> Status:
        """As `PreEnqueueGates`. A failed attempt may end in here: its own sampling goes on afterwards."""
        hooks = self._hooks
        before, hooks.sampled = hooks.sampled, hooks.sample()
        began = hooks.clock()
        try:
            return super().__call__(pod)
        finally:
            # Upstream's status of this point is always Success: the variable that it prints is another one.
            hooks.observe_point(pod.scheduler_name, "PreEnqueue", Code.SUCCESS.label, hooks.clock() - began)
            hooks.sampled = before


class MeasuredHintIndex(HintIndex):
    """Tells the hooks how long each hint takes. A plugin that listens without a hint says Queue in no time."""

    __slots__ = ("_failed", "_hooks", "_tell")

    def __init__(self, maps: Mapping[str, HintMap], on_error: HintErrorHandler | None, hooks: Hooks) -> None:
        """As `HintIndex`."""
        super().__init__(maps, self._noted)
        self._tell = on_error
        self._hooks = hooks
        self._failed = False

    def of(self, maps: Mapping[str, HintMap]) -> MeasuredHintIndex:
        """As `HintIndex.of`."""
        return MeasuredHintIndex(maps, self._tell, self._hooks)

    def _noted(self, plugin: str, event: ClusterEvent, info: PodInfo, failure: Exception) -> None:
        self._failed = True
        if self._tell is not None:
            self._tell(plugin, event, info, failure)

    def _says_queue(
        self, plugin: str, hint: HintFn | None, info: PodInfo, event: ClusterEvent, old: object, new: object
    ) -> bool:
        self._failed = False
        began = self._hooks.clock()
        queue = super()._says_queue(plugin, hint, info, event, old, new)
        taken = self._hooks.clock() - began
        said = "Error" if self._failed else "Queue" if queue else "QueueSkip"
        self._hooks.observe_hint(plugin, event.label, said, taken)
        return queue
