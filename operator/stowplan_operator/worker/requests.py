"""What the machine asks the shell to do, and how the shell answers. Data only: no IO, no clock.

A request leaves the machine once, with an `id` of its own, and is answered once by an `Answer` with that id, in any
order and as late as the network likes. `EmitEvent` alone needs no answer. The shell looks at the fence (does it still
lead?) directly before it sends anything but a read, and answers `NOT_SENT` for what it held back.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from stowplan_scheduler.objects import Pod, PodCondition

UNKNOWN: Final = 0
"""Status of an answer that never came: the request may have been carried out, may not, or may still be."""

NOT_SENT: Final = -1
"""Status of a request that certainly never left this process."""


class Change(Protocol):
    """One difference between two views of the cluster, in the order in which the watch told them.

    `type` is ADDED, MODIFIED or DELETED. A deletion carries the last known object in `old` or `new`.
    """

    @property
    def type(self) -> str:
        """ADDED, MODIFIED or DELETED."""

    @property
    def old(self) -> Any:
        """The object before, None if there was none."""

    @property
    def new(self) -> Any:
        """The object now, None if it is gone."""


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", tag=True):
    """Base of all requests. `id` is unique within one machine and grows."""

    id: int


class ObjectReference(msgspec.Struct, frozen=True):
    """What an event is about. All objects here are pods."""

    namespace: str
    name: str
    uid: str


class BindPod(Request, frozen=True, kw_only=True):
    """POST pods/{name}/binding with the UID as a precondition. `epoch` is that of the lease, for the log line."""

    key: str
    uid: str
    node: str
    epoch: int


class ReadPod(Request, frozen=True, kw_only=True):
    """GET the pod, consistently (no resourceVersion): was it bound? The answer's `pod` is the object."""

    key: str


class PatchPod(Request, frozen=True, kw_only=True):
    """Strategic merge patch of pods/{name}/status, with metadata.uid as a precondition.

    `condition`: None leaves the conditions as they are. Its `last_transition_time` is the one to keep; None: the shell
    puts its wall clock's time there, for the status flipped. `nominated_node_name`: None leaves the field as it is, ""
    takes it away.
    """

    key: str
    uid: str
    condition: PodCondition | None
    nominated_node_name: str | None


class DeletePod(Request, frozen=True, kw_only=True):
    """DELETE the pod gracefully (its own grace period), with the UID as a precondition."""

    key: str
    uid: str


class EmitEvent(Request, frozen=True, kw_only=True):
    """Write an event of events.k8s.io/v1 sometime; no answer. `note` has at most 1024 bytes."""

    regarding: ObjectReference
    related: ObjectReference | None
    scheduler_name: str
    """The profile that reports: reportingController."""
    type: str
    reason: str
    action: str
    note: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How a request went.

    `status`: the HTTP status code, UNKNOWN or NOT_SENT. `message`: what the API server said, as text. `pod`: the object
    that a read found. `retry_after`: seconds, from the header of that name; 0 if it was absent.
    """

    id: int
    status: int
    message: str = ""
    pod: Pod | None = None
    retry_after: int = 0

    @property
    def is_success(self) -> bool:
        """Whether the API server did what it was asked."""
        return 200 <= self.status < 300

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may well work in a moment, and certainly has not been carried out.

        403 is: for about a second after a restart the API server's authoriser knows nobody.
        """
        return self.status in {NOT_SENT, 403, 429} or self.status >= 500


def reference(pod: Pod) -> ObjectReference:
    """A pod as what an event is about."""
    return ObjectReference(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
