"""When a pod reached which stage, in one small record per pod: what the split of a waiting time is made from."""

from __future__ import annotations

from typing import NamedTuple


class WaitingTime(NamedTuple):
    """Where the time from binding to the first readiness went, in nanoseconds."""

    watch: int
    """Until the kubelet had the pod."""
    sandbox: int
    image: int
    """Waiting for images: the queue of pulls, the pulls, back-off after failed ones."""
    init: int
    """Init containers and starting, without their images."""
    readiness: int
    """From the start of the last container until the pod was seen to be ready."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self)


class PodTimeline:
    """Stages of one pod, in nanoseconds since 1970; None: not reached.

    `created` is the object's creation, `bound` its binding, both in whole seconds as the API shows them if the API
    server stamps so; the others are exact. `started`: the last of the main containers ran for the first time. `ready`:
    Ready was reported for the first time. `deleted`: the kubelet learned of the deletion. `gone`: the object was.
    """

    __slots__ = (
        "admitted",
        "bound",
        "created",
        "deleted",
        "finished",
        "gone",
        "image_wait",
        "key",
        "node",
        "owner_uid",
        "pulled",
        "ready",
        "reason",
        "restarts",
        "sandbox",
        "started",
        "uid",
    )

    def __init__(self, key: str, uid: str, owner_uid: str, node: str, created: int, bound: int) -> None:
        self.key = key
        self.uid = uid
        self.owner_uid = owner_uid
        self.node = node
        self.created = created
        self.bound = bound
        self.admitted: int | None = None
        self.sandbox: int | None = None
        self.pulled: int | None = None
        self.started: int | None = None
        self.ready: int | None = None
        self.finished: int | None = None
        self.deleted: int | None = None
        self.gone: int | None = None
        self.image_wait = 0
        """Nanoseconds spent waiting for images before the first start of all containers."""
        self.restarts = 0
        self.reason = ""
        """Why it failed: "OutOfcpu", "Evicted"; or the last reason for which a container was killed: "OOMKilled"."""

    def waiting_time(self) -> WaitingTime | None:
        """The split; None for a pod that has never been ready."""
        if self.admitted is None or self.sandbox is None or self.started is None or self.ready is None:
            return None
        return WaitingTime(
            watch=self.admitted - self.bound,
            sandbox=self.sandbox - self.admitted,
            image=self.image_wait,
            init=self.started - self.sandbox - self.image_wait,
            readiness=self.ready - self.started,
        )
