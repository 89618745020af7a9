"""Which tolerations tolerate which taints.

Follows staging/src/k8s.io/api/core/v1/toleration.go and
staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go of Kubernetes v1.37.2. The operators Lt and Gt belong
to a feature that is off by default; they tolerate nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from .objects import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

HARD_EFFECTS: Final = (NO_SCHEDULE, NO_EXECUTE)
"""The effects that keep a pod off a node."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint.

    An empty effect or key covers every effect or key. Exists ignores the value; Equal, the default, compares it, even
    where the key is empty (which the API server does not admit).
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def find_untolerated_taint(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """The first taint with one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not is_tolerated(taint, tolerations):
            return taint
    return None
