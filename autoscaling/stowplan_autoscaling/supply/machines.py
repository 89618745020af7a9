"""One machine of a pool, from the request until it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .pools import MachineType, Offer, Pool

# Why a machine was asked for.
INITIAL: Final = "Initial"
SCALE_UP: Final = "ScaleUp"
PROVISIONING: Final = "Provisioning"
REPLACEMENT: Final = "Replacement"

# Why it went, beside the reasons of the engines.
RUNNING: Final = "Running"
FAILED: Final = "Failed"
OUT_OF_STOCK: Final = "OutOfStock"
INTERRUPTED: Final = "Interrupted"
LOST: Final = "Lost"


class Machine:
    """One machine; `node` is the name of its Node, `number` counts the machines of its pool.

    Times in nanoseconds of the virtual clock, None for what has not come: launched (from here on it is paid for),
    registered (its Node exists), ready (it takes pods), disrupted (somebody began to empty it), deleting (the provider
    was asked to take it back), ended. `end` says why it went.
    """

    __slots__ = (
        "began", "deleting", "disrupted", "end", "ended", "launched", "node", "number", "offer", "pool", "ready",
        "registered", "requested", "type",
    )  # fmt: skip

    def __init__(self, pool: Pool, type: MachineType, offer: Offer, number: int, requested: int, began: str) -> None:
        self.pool = pool
        self.type = type
        self.offer = offer
        self.number = number
        self.node = f"{pool.name}-{number}"
        self.requested = requested
        self.began = began
        self.launched: int | None = None
        self.registered: int | None = None
        self.ready: int | None = None
        self.disrupted: int | None = None
        self.deleting: int | None = None
        self.ended: int | None = None
        self.end = ""

    @property
    def is_coming(self) -> bool:
        """Whether it was asked for and takes no pods yet."""
        return self.ready is None and self.ended is None and self.deleting is None

    @property
    def is_leaving(self) -> bool:
        """Whether it is being emptied or taken back."""
        return self.ended is None and (self.disrupted is not None or self.deleting is not None)
