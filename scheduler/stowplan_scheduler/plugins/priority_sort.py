"""PrioritySort: higher priority first, then the earlier one (plugins/queuesort/priority_sort.go of v1.37.2)."""

from __future__ import annotations

from stowplan_scheduler.framework.interface import QueueSortPlugin
from stowplan_scheduler.framework.pod_info import PodInfo


class PrioritySort(QueueSortPlugin):
    """The default order of the active queue."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, timestamp: int) -> tuple[int, ...]:
        return (-pod.priority, timestamp)
