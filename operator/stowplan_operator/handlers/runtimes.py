"""Where workers run. One small interface: make these groups so, say what the workers report, stop.

`children` starts processes beside the operator; `deployments` has the cluster run them. Groups choose one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from .groups import CHILD, GroupPlan
from .observed import WorkerReport


class Runtime(Protocol):
    """Runs workers. All methods are called in the operator's loop."""

    async def apply(self, plans: Mapping[str, GroupPlan]) -> None:
        """Have exactly these groups. What is so already is left alone; groups that are not among them are drained.

        Raises ApiError or OSError if that could not be written; it may then be called again.
        """
        ...

    def reports(self) -> Sequence[WorkerReport]:
        """What each worker last said, and of those that are being drained as long as they act."""
        ...

    async def metrics(self, group: str, path: str) -> bytes | None:
        """A page of metrics of a worker that Prometheus cannot reach by itself; None if there is none, or no answer.

        `path`: /metrics or /metrics/resources.
        """
        ...

    async def close(self) -> None:
        """The operator leaves. What lives with it is stopped, and has stopped when this returns."""
        ...


class Runtimes:
    """Both runtimes as one: each has its own groups."""

    def __init__(self, children: Runtime, others: Runtime) -> None:
        self._children = children
        self._others = others

    async def apply(self, plans: Mapping[str, GroupPlan]) -> None:
        """Have exactly these groups, each where it says."""
        here = {name: plan for name, plan in plans.items() if plan.runtime == CHILD}
        there = {name: plan for name, plan in plans.items() if plan.runtime != CHILD}
        await self._children.apply(here)
        await self._others.apply(there)

    def reports(self) -> Sequence[WorkerReport]:
        """Of all workers."""
        return [*self._children.reports(), *self._others.reports()]

    async def metrics(self, group: str, path: str) -> bytes | None:
        """Of a child."""
        return await self._children.metrics(group, path)

    async def close(self) -> None:
        """Stop those that live with the operator."""
        await self._children.close()
        await self._others.close()
