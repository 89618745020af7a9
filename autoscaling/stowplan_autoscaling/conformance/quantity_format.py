"""How a sum of Kubernetes quantities is printed: in the notation of the first amount that is not zero.

Follows staging/src/k8s.io/apimachinery/pkg/api/resource (quantity.go, amount.go) of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stowplan_scheduler.objects import Pod
from stowplan_scheduler.quantity import NANOS

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


def format_like(name: str, nanos: int, pods: Iterable[Pod]) -> str:
    """An amount in the notation that the first of the pods uses for the resource."""
    for text in (text for pod in pods for text in _texts(name, pod)):
        if text.endswith("i"):
            return _binary(nanos)
        return _decimal(nanos)
    return _decimal(nanos)


def _texts(name: str, pod: Pod) -> list[str]:
    spec = pod.spec
    lists = [container.resources.requests for container in (*spec.containers, *spec.init_containers)]
    found = [str(amounts[name]) for amounts in (*lists, spec.overhead) if amounts and name in amounts]
    return [text for text in found if text.strip("0.")]


def _binary(nanos: int) -> str:
    if abs(nanos) < 1024 * NANOS:
        return _decimal(nanos)
    units = -(-nanos // NANOS)
    power = 0
    while power < len(_BINARY) - 1 and units % 1024 == 0:
        units //= 1024
        power += 1
    return f"{units}{_BINARY[power]}"


def _decimal(nanos: int) -> str:
    exponent = -9
    while exponent < 18 and nanos and nanos % 1000 == 0:
        nanos //= 1000
        exponent += 3
    return f"{nanos}{_DECIMAL[exponent if nanos else 0]}"
