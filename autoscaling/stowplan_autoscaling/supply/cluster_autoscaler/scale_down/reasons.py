"""Why a node stays, in upstream's words (pkg/simulator/cluster.go of kubernetes-sigs/cluster-autoscaler)."""

from __future__ import annotations

from typing import Final

SCALE_DOWN_DISABLED: Final = "ScaleDownDisabledAnnotation"
UNREADY_DISABLED: Final = "ScaleDownUnreadyDisabled"
NOT_AUTOSCALED: Final = "NotAutoscaled"
NOT_UNNEEDED_LONG_ENOUGH: Final = "NotUnneededLongEnough"
NOT_UNREADY_LONG_ENOUGH: Final = "NotUnreadyLongEnough"
MIN_SIZE_REACHED: Final = "NodeGroupMinSizeReached"
ATOMIC_FAILED: Final = "AtomicScaleDownFailed"
MINIMAL_LIMIT: Final = "MinimalResourceLimitExceeded"
BEING_DELETED: Final = "CurrentlyBeingDeleted"
NOT_UNDERUTILIZED: Final = "NotUnderutilized"
RECENTLY_UNREMOVABLE: Final = "RecentlyUnremovable"
NO_PLACE: Final = "NoPlaceToMovePods"
BLOCKED_BY_POD: Final = "BlockedByPod"
UNEXPECTED: Final = "UnexpectedError"
ON_COMPLETION: Final = "BlockedByOnCompletionPod"
