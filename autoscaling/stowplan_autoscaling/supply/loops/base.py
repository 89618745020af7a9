"""What both supply loops have in common: how a run starts them, and where they say what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from stowplan_autoscaling.supply.machines import Machine

INTERRUPTION: Final = "Interruption"
"""The loop of whoever answers notices of the provider."""


class SupplyLoop(Protocol):
    """A supply loop that runs in a virtual cluster."""

    def start(self) -> None:
        """Begin: objects that are there have been announced by then."""

    def noticed(self, machine: Machine) -> None:
        """The provider will take a machine back."""


class SupplyLog(Protocol):
    """Told what a supply loop did, and what it wanted to do and could not."""

    def ran(self, loop: str) -> None:
        """A loop has looked at the cluster."""

    def decided(self, loop: str, pool: str, nodes: int, pods: int, reason: str, message: str = "") -> None:
        """It wants so many nodes more (or, negative, fewer) in a pool, for so many pods, or with so many that move."""

    def stopped(self, loop: str, pool: str, pods: int, reason: str, message: str = "") -> None:
        """Something kept it from acting."""

    def changed(self, pool: str, message: str) -> None:
        """A pool asks for other machines from now on."""

    def disrupted(self, machine: Machine) -> None:
        """It has begun to empty a machine, or given that up."""
