"""The node of the virtual cluster: the scheduler's node with version and age."""

from __future__ import annotations

from stowplan_scheduler.objects import Node as SchedulerNode


class Node(SchedulerNode, frozen=True, kw_only=True):
    """A node. `created`: nanoseconds since 1970."""

    version: int = 0
    created: int = 0
