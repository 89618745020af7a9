"""Which taints a pod must tolerate in Karpenter's eyes: all of them, whatever their effect.

Follows pkg/scheduling/taints.go and pkg/apis/v1/taints.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan_scheduler.objects import Taint, Toleration
from stowplan_scheduler.tolerations import NO_EXECUTE, NO_SCHEDULE, is_tolerated

from .labels import GROUP

DISRUPTED: Final = Taint(key=f"{GROUP}/disrupted", effect=NO_SCHEDULE)
"""On a node that is about to be emptied."""

UNREGISTERED: Final = Taint(key=f"{GROUP}/unregistered", effect=NO_EXECUTE)
"""On a node until Karpenter has taken it over."""

_EPHEMERAL: Final = (
    Taint(key="node.kubernetes.io/not-ready", effect=NO_SCHEDULE),
    Taint(key="node.kubernetes.io/not-ready", effect=NO_EXECUTE),
    Taint(key="node.kubernetes.io/unreachable", effect=NO_SCHEDULE),
    Taint(key="node.cloudprovider.kubernetes.io/uninitialized", effect=NO_SCHEDULE, value="true"),
    UNREGISTERED,
)
_EPHEMERAL_PREFIX: Final = "readiness.k8s.io/"
_MEMO_LIMIT: Final = 1 << 16


def all_tolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Whether the tolerations cover every taint, PreferNoSchedule included."""
    return all(is_tolerated(taint, tolerations) for taint in taints)


def same_taint(a: Taint, b: Taint) -> bool:
    """Whether two taints have the same key and effect."""
    return a.key == b.key and a.effect == b.effect


def is_ephemeral(taint: Taint) -> bool:
    """Whether the taint is one that goes away while a node starts."""
    return taint.key.startswith(_EPHEMERAL_PREFIX) or any(same_taint(taint, known) for known in _EPHEMERAL)


class TaintMemo:
    """Remembers which tolerations cover which taints."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[Taint, ...], tuple[Toleration, ...]], bool] = {}

    def tolerated(self, taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
        """Whether the tolerations cover all of the taints."""
        if not taints:
            return True
        key = (taints, tolerations)
        known = self._known.get(key)
        if known is None:
            if len(self._known) > _MEMO_LIMIT:
                self._known.clear()
            known = self._known[key] = all_tolerated(taints, tolerations)
        return known
