"""Who leads: one Lease, many contenders, at most one of which believes at any moment that it leads.

The elector is pure: it says what to send and is told what came of it. Times are nanoseconds of a monotonic clock of its
own; clocks of contenders and server need not agree, only run equally fast within a third. What keeps two from leading:

- The holder believes for `renew_deadline` after it *began* a request that succeeded. Others count `lease_duration`,
  which is longer, from when they *saw* the answer to that request, or later.
- Every write names the resource version that it is based on, so only one of several wins.
- Without an answer nothing is believed: the old deadline stays, and the lease is read before the next write.

Follows client-go's tools/leaderelection (v0.37.2), with a fence that the holder can ask before every write, with an
epoch, and with a release that others see at once.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .backoff import Chance
from .call import Reply
from .micro_time import micro_time

SECOND: Final = 1_000_000_000
JITTER: Final = 0.2
"""Attempts come up to a fifth later than asked for, by chance, so that contenders do not stay in step."""


class ElectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One contender for one Lease. `identity` must be unique to the process.

    kube-scheduler's durations: a dead holder is replaced after `lease_duration_seconds`; a holder that cannot renew
    stops after `renew_deadline_seconds`; attempts come every `retry_period_seconds`, or up to a fifth later.
    """

    namespace: str
    name: str
    identity: str
    lease_duration_seconds: float = 15
    renew_deadline_seconds: float = 10
    retry_period_seconds: float = 2

    def __post_init__(self) -> None:
        if not self.namespace or not self.name or not self.identity:
            raise ValueError("namespace, name and identity must not be empty")
        if self.lease_duration_seconds < 1 or self.lease_duration_seconds != int(self.lease_duration_seconds):
            raise ValueError(f"leaseDurationSeconds {self.lease_duration_seconds}: must be a whole number, at least 1")
        if not self.lease_duration_seconds > self.renew_deadline_seconds:
            raise ValueError(
                f"leaseDurationSeconds {self.lease_duration_seconds}: must be greater than renewDeadlineSeconds "
                f"({self.renew_deadline_seconds})"
            )
        if not self.renew_deadline_seconds > (1 + JITTER) * self.retry_period_seconds:
            raise ValueError(
                f"renewDeadlineSeconds {self.renew_deadline_seconds}: must be greater than {1 + JITTER:g} times "
                f"retryPeriodSeconds ({self.retry_period_seconds})"
            )
        if self.retry_period_seconds <= 0:
            raise ValueError(f"retryPeriodSeconds {self.retry_period_seconds}: must be greater than 0")


class LeaseRead(msgspec.Struct, frozen=True):
    """GET the Lease."""


class LeaseCreate(msgspec.Struct, frozen=True):
    """POST this Lease."""

    body: dict[str, Any]


class LeaseUpdate(msgspec.Struct, frozen=True):
    """PUT this Lease; its resource version is the precondition."""

    body: dict[str, Any]


LeaseRequest = LeaseRead | LeaseCreate | LeaseUpdate


class Lease(msgspec.Struct, frozen=True):
    """What a contender has to know of a coordination.k8s.io/v1 Lease; `raw` is the whole of it."""

    version: str
    holder: str
    duration: int
    transitions: int
    raw: dict[str, Any]


class Elector:
    """One contender. One request at a time: after `step` returned one, `answered` must follow.

    `rng` spreads the attempts.
    """

    def __init__(self, settings: ElectionSettings, rng: Chance) -> None:
        self._settings = settings
        self._rng = rng
        self._lease: Lease | None = None
        """The lease as the server answered last; None: it must be read before anything is written."""
        self._may_create = False
        """Whether the server answered last that there is none, and nobody can believe in one that there was."""
        self._seen_version = ""
        self._seen_at = 0
        self._seen_duration = 0
        """In nanoseconds, as its holder wrote it; 0: the lease was never seen, or is free."""
        self._transitions = -1
        """The highest number of transitions that was seen."""
        self._holder = ""
        self._next_at = 0
        self._asked: LeaseRequest | None = None
        self._asked_at = 0
        self._has_written = False
        """Whether the lease may be ours, known or not."""
        self._valid_until = 0
        self._epoch = -1
        self._version = ""
        self._releasing = False
        self._released = False

    # ---- what is known -----------------------------------------------------------------------

    @property
    def settings(self) -> ElectionSettings:
        """What it contends for, and how."""
        return self._settings

    def leading(self, now: int) -> bool:
        """Whether we lead at this moment. Ask directly before every write."""
        return now < self._valid_until

    @property
    def valid_until(self) -> int:
        """Until when we lead without another renewal; 0, or a time gone by: we do not."""
        return self._valid_until

    @property
    def epoch(self) -> int:
        """spec.leaseTransitions of the last lease that was ours: grows with every change of the holder; -1 before."""
        return self._epoch

    @property
    def version(self) -> str:
        """The resource version of the last write that made or kept us the holder."""
        return self._version

    @property
    def holder(self) -> str:
        """Who holds the lease, as last seen; "" if nobody, or if that is not known."""
        return self._holder

    @property
    def is_released(self) -> bool:
        """Whether `release` has come to its end."""
        return self._released

    def wake_at(self) -> int | None:
        """When `step` has something to do next; None while an answer is awaited, or at the end."""
        return None if self._asked is not None or self._released else self._next_at

    # ---- what to do --------------------------------------------------------------------------

    def step(self, now: int, wall: int) -> LeaseRequest | None:
        """What to send now, if anything. `wall`: nanoseconds since 1970, for the times in the lease."""
        if self._asked is not None or self._released or now < self._next_at:
            return None
        period = self._settings.retry_period_seconds * (1 + JITTER * self._rng.random())
        self._next_at = now + int(period * SECOND)
        self._asked = self._give_up(wall) if self._releasing else self._contend(now, wall)
        self._asked_at = now
        self._has_written |= isinstance(self._asked, (LeaseCreate, LeaseUpdate))
        return self._asked

    def _contend(self, now: int, wall: int) -> LeaseRequest:
        lease, may_create = self._lease, self._may_create
        # Whatever is sent now, what is known is not good for a second write.
        self._lease, self._may_create = None, False
        if may_create:
            return LeaseCreate(self._created(wall))
        if lease is not None and (lease.holder == self._settings.identity or self._is_free(lease, now)):
            return LeaseUpdate(self._held(lease, wall))
        return LeaseRead()

    def release(self) -> None:
        """Give the lease up, so that another contender can lead at once. From now on we do not lead.

        Steps go on until `is_released`.
        """
        self._valid_until = 0
        self._releasing = True
        self._next_at = 0
        if not self._has_written and self._asked is None:
            self._released = True

    def _give_up(self, wall: int) -> LeaseRequest | None:
        lease, self._lease = self._lease, None
        if lease is None:
            return LeaseRead()
        if lease.holder != self._settings.identity:
            self._released = True
            return None
        return LeaseUpdate(self._given_up(lease, wall))

    # ---- what came of it ---------------------------------------------------------------------

    def answered(self, reply: Reply, now: int) -> None:
        """The reply to the request that `step` returned last. Raises ValueError if there was none."""
        request, self._asked = self._asked, None
        if request is None:
            raise ValueError("nothing was asked for")
        if isinstance(request, LeaseRead):
            self._read(reply, now)
        elif (lease := _lease_in(reply)) is not None:
            self._written(lease, now)
        elif reply.status in {404, 409}:
            self._refused(request)
        # Any other answer leaves open what happened: the fence stays, and the lease is read next.

    def _read(self, reply: Reply, now: int) -> None:
        if reply.status == 404:
            self._is_absent(now)
        elif (lease := _lease_in(reply)) is not None:
            self._see(lease, now)
            ours = lease.holder == self._settings.identity
            if not ours:
                self._valid_until = 0
            if ours or self._releasing or self._is_free(lease, now):
                # At once: between the look and the write nobody else should come.
                self._next_at = now

    def _is_absent(self, now: int) -> None:
        """There is no lease. If there was one, its holder may believe in it for a while yet."""
        self._holder = ""
        self._valid_until = 0
        if self._releasing:
            self._released = True
        elif now >= self._seen_at + self._seen_duration:
            self._may_create = True
            self._next_at = now

    def _written(self, lease: Lease, now: int) -> None:
        self._see(lease, now)
        if lease.holder != self._settings.identity:
            self._released = True  # our own giving up
            return
        self._epoch, self._version = lease.transitions, lease.version
        if self._releasing:
            self._next_at = now
        else:
            # Counted from before the request: others count from after it, and longer.
            self._valid_until = self._asked_at + int(self._settings.renew_deadline_seconds * SECOND)

    def _refused(self, request: LeaseRequest) -> None:
        """Somebody else wrote first, or took the lease away: from now on anybody may lead."""
        if self._valid_until > self._asked_at or self._releasing:
            self._next_at = self._asked_at
        self._valid_until = 0

    def _see(self, lease: Lease, now: int) -> None:
        self._lease, self._holder = lease, lease.holder
        if lease.version != self._seen_version:
            self._seen_version, self._seen_at = lease.version, now
        self._seen_duration = lease.duration * SECOND if lease.holder else 0
        self._transitions = max(self._transitions, lease.transitions)

    def _is_free(self, lease: Lease, now: int) -> bool:
        return not lease.holder or now >= self._seen_at + self._seen_duration

    # ---- leases ------------------------------------------------------------------------------

    def _created(self, wall: int) -> dict[str, Any]:
        # After one that was deleted the count goes on: epochs never repeat.
        spec = self._spec(wall, micro_time(wall), self._transitions + 1)
        metadata = {"name": self._settings.name, "namespace": self._settings.namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    def _held(self, lease: Lease, wall: int) -> dict[str, Any]:
        """The lease as ours: renewed if it is, else taken over."""
        old = lease.raw.get("spec") or {}
        if lease.holder == self._settings.identity:
            spec = self._spec(wall, old.get("acquireTime") or micro_time(wall), lease.transitions)
        else:
            spec = self._spec(wall, micro_time(wall), max(lease.transitions, self._transitions) + 1)
        return {**lease.raw, "spec": {**old, **spec}}

    def _given_up(self, lease: Lease, wall: int) -> dict[str, Any]:
        spec = self._spec(wall, micro_time(wall), lease.transitions)
        spec |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        return {**lease.raw, "spec": {**(lease.raw.get("spec") or {}), **spec}}

    def _spec(self, wall: int, acquired: str, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": int(self._settings.lease_duration_seconds),
            "acquireTime": acquired,
            "renewTime": micro_time(wall),
            "leaseTransitions": transitions,
        }


def _lease_in(reply: Reply) -> Lease | None:
    """The lease in a success; None for a refusal, and for an answer that is no lease, as a proxy may give it."""
    if not reply.is_success:
        return None
    try:
        raw: dict[str, Any] = reply.json()
        metadata = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
        spec: dict[str, Any] = raw.get("spec") or {}
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
        return None
    return Lease(
        version=metadata["resourceVersion"],
        holder=spec.get("holderIdentity") or "",
        # A holder that names no duration has one of a second, the least that is valid.
        duration=spec.get("leaseDurationSeconds") or 1,
        transitions=spec.get("leaseTransitions") or 0,
        raw={**raw, "metadata": metadata},
    )
