"""Requests that take turns: those of the controllers that tests/conformance/controllers/internal/clustersim/orderly.go
holds back.

There a request is served when everything else is idle. In the reaction to a change that is a nanosecond, one step of
the clock, after the change was seen; so what these controllers do next is counted from then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stowplan_autoscaling.cluster.client import Client
from stowplan_autoscaling.cluster.informers import Informers

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.feed import Change, ChangeFeed
    from stowplan_autoscaling.cluster.work_queue import Steps
    from stowplan_autoscaling.kernel import Kernel


class TurnInformers(Informers):
    """Informers that remember when they last saw a change, and have controllers added when all others are there."""

    def __init__(
        self,
        kernel: Kernel,
        kinds: tuple[str, ...],
        add_controllers: Callable[[], None],
        start_controllers: Callable[[], None],
    ) -> None:
        super().__init__(kinds)
        self._kernel = kernel
        self._add_controllers = add_controllers
        self._start_controllers = start_controllers
        self.changed_at = -1
        """The time of the last change, at which reactions to it begin."""

    def start(self, server: ApiServer, feed: ChangeFeed) -> None:
        """Add the controllers, then begin."""
        self._add_controllers()
        super().start(server, feed)
        self._start_controllers()

    def _changed(self, change: Change) -> None:
        self.changed_at = self._kernel.now
        super()._changed(change)


class TurnClient(Client):
    """A client whose requests wait for the end of the reaction to a change."""

    def __init__(self, kernel: Kernel, server: ApiServer, informers: TurnInformers) -> None:
        super().__init__(kernel, server)
        self._informers = informers

    def turn(self) -> Steps:
        """Wait until everything else is idle."""
        if self.kernel.now == self._informers.changed_at:
            yield self.kernel.now + self.kernel.step
