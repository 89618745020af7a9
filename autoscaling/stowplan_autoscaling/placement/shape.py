"""The shape of a pod that does not exist: "how large may a pod of this kind still be?"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stowplan_scheduler.quantity import NANOS, QuantityError, format_quantity, milli_value, parse_quantity, value
from stowplan_scheduler.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar_resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan_scheduler.cache.node_info import NodeInfo

_MEBIBYTE = 1 << 20


class ShapeError(ValueError):
    """A text that describes no shape; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Amounts by resource in the scheduler's units (milli cores, bytes, counts); all above 0."""

    amounts: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """As it is written: cpu=1,memory=4Gi."""
        return ",".join(f"{name}={format_quantity(name, amount)}" for name, amount in self.amounts)


def parse_shape(text: str) -> Shape:
    """`cpu=1,memory=4Gi`, any resources, each once. Raises ShapeError."""
    amounts: dict[str, int] = {}
    for part in text.split(","):
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not (name and equals and amount):
            raise ShapeError(f'"{part.strip()}": must be resource=quantity, as in cpu=1,memory=4Gi')
        if name in amounts:
            raise ShapeError(f"{name}: occurs twice")
        amounts[name] = _amount(name, amount)
    return Shape(tuple(amounts.items()))


def _amount(name: str, text: str) -> int:
    if name not in {CPU, MEMORY, EPHEMERAL_STORAGE} and not is_scalar_resource(name):
        raise ShapeError(
            f'"{name}": must be cpu, memory, ephemeral-storage or an extended resource such as example.com/gpu'
        )
    try:
        nanos = parse_quantity(text)
    except QuantityError as failure:
        raise ShapeError(f'{name}: "{text}": {failure}') from None
    amount = milli_value(nanos) if name == CPU else value(nanos)
    if amount <= 0 or nanos > NANOS << 62:
        raise ShapeError(f'{name}: "{text}": must be greater than 0 and fit into 63 bits')
    return amount


def default_shape(nodes: Sequence[NodeInfo]) -> Shape | None:
    """One core with the memory that the cluster has per core, in whole MiB; None for a cluster without either."""
    cpu = sum(node.allocatable.milli_cpu for node in nodes)
    memory = sum(node.allocatable.memory for node in nodes)
    if cpu <= 0 or memory <= 0:
        return None
    per_core = memory * 1000 // cpu
    return Shape(((CPU, 1000), (MEMORY, max(1, per_core // _MEBIBYTE * _MEBIBYTE))))
