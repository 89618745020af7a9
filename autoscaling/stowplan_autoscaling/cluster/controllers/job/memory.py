"""What the Job controller remembers between syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_autoscaling.cluster.expectations import Expectations, WriteRecord

from .backoff import BackoffRecord

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.informers import Informers

NOTHING_FAILED = BackoffRecord()


class JobMemory:
    """By key of the Job, but for `ended`."""

    __slots__ = ("backoffs", "ended", "expectations", "released", "written")

    def __init__(self, informers: Informers) -> None:
        self.expectations = Expectations()
        self.written = WriteRecord(informers)
        self.backoffs: dict[str, BackoffRecord] = {}
        self.released: dict[str, set[str]] = {}
        """uids of pods whose finalizer was taken away, until that is seen."""
        self.ended: set[str] = set()
        """uids of Jobs that were written as finished, until that is seen."""

    def forget(self, key: str) -> None:
        """The Job is gone."""
        self.expectations.forget(key)
        self.written.clear(key)
        self.backoffs.pop(key, None)
        self.released.pop(key, None)

    def release_seen(self, key: str, uid: str) -> None:
        """A pod was seen without finalizer, or its end."""
        uids = self.released.get(key)
        if uids is not None:
            uids.discard(uid)
