"""Status codes of the scheduling framework and what they make the queue do with the pod.

Follows staging/src/k8s.io/kube-scheduler/framework/interface.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

import msgspec


class Code(IntEnum):
    """What a plugin says about a pod or a node. The numbers are upstream's."""

    SUCCESS = 0
    ERROR = 1
    """Something broke; the pod waits in the error back-off, whatever happens in the cluster."""
    UNSCHEDULABLE = 2
    """The pod does not fit now; removing lower-priority pods may help, so preemption looks at the node."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """The pod does not fit and preemption cannot change that."""
    WAIT = 4
    """Permit only: binding waits until the plugin allows it."""
    SKIP = 5
    """PreFilter, PreScore: the plugin's Filter or Score has nothing to do for this pod. Bind: not mine."""
    PENDING = 6
    """Rejected, waiting for an outside party; a matching event moves the pod to the active queue without back-off."""

    @property
    def label(self) -> str:
        """Upstream's spelling, e.g. UnschedulableAndUnresolvable."""
        return _LABELS[self]

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was rejected rather than broken."""
        return self in _REJECTED


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status(msgspec.Struct, frozen=True):
    """A code, its reasons, and the plugin that gave it ("" until the runtime fills it in)."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        """Whether nothing stands in the way."""
        return self.code is Code.SUCCESS

    @property
    def is_skip(self) -> bool:
        """Whether the plugin asked to be left out."""
        return self.code is Code.SKIP

    @property
    def is_rejected(self) -> bool:
        """Whether the pod was rejected rather than broken."""
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        """The reasons joined the way upstream joins them."""
        return ", ".join(self.reasons)

    def of(self, plugin: str) -> Self:
        """The same status, said by `plugin`."""
        return type(self)(self.code, self.reasons, plugin)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """A rejection that preemption may resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that preemption cannot resolve."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """A failure of the plugin itself."""
    return Status(Code.ERROR, reasons)
