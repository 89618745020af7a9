"""PreEnqueue: which plugin, if any, keeps a pod out of the active queue.

Follows runPreEnqueuePluginsForPod of pkg/scheduler/backend/queue/scheduling_queue.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stowplan_scheduler.framework.status import SUCCESS, Status, error

from .queued_pod import QueuedPodInfo

if TYPE_CHECKING:
    from stowplan_scheduler.framework.interface import PreEnqueuePlugin


class PreEnqueueGates:
    """The PreEnqueue plugins of every profile, as the callable that a SchedulingQueue takes."""

    __slots__ = ("_broke", "_plugins")

    def __init__(
        self,
        plugins: Mapping[str, Sequence[PreEnqueuePlugin]],
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """`plugins` by scheduler name, in the order in which they run. `on_failure` is told of what one raises."""
        self._broke = on_failure
        self._plugins = {name: tuple(listed) for name, listed in plugins.items()}

    def __call__(self, pod: QueuedPodInfo) -> Status:
        """SUCCESS, or the first other status with its plugin's name. The plugin that gated last time runs first.

        One that raises keeps the pod outside until it is looked at again, as one that answers with an error.
        """
        plugins = self._plugins.get(pod.scheduler_name, ())
        if pod.gating_plugin:
            # Most often it still gates, which spares the others.
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != pod.gating_plugin))
        for plugin in plugins:
            try:
                status = plugin.pre_enqueue(pod.info)
            except Exception as failure:
                if self._broke is None:
                    raise
                self._broke(failure)
                status = error(f"{type(failure).__name__}: {failure}")
            if not status.is_success:
                return status.of(plugin.name)
        return SUCCESS
