"""Metrics that fail, by configuration: samples that are lost or late by chance, and outages that are planned.

Chance comes from named streams, so a sample that is lost is lost in every candidate of a comparison. Everything is off
by default: no source gives rates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from stowplan_autoscaling.streams import Streams

UNABLE: Final = "the server is currently unable to handle the request"
"""The API server's text for an aggregated API that does not answer (apimachinery, NewServiceUnavailable and 503)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeFaults:
    """What goes wrong by chance with each scrape of one source (a node's kubelet, a target)."""

    missing: float = 0.0
    """The part of scrapes that fail, 0 to 1."""
    late: float = 0.0
    """The part of the others whose samples arrive late, 0 to 1."""
    late_by: int = 0
    """How late, in nanoseconds."""

    def __post_init__(self) -> None:
        for name, part in (("missing", self.missing), ("late", self.late)):
            if not 0 <= part <= 1:
                raise ValueError(f"{name}: must be between 0 and 1, got {part}")
        if self.late_by < 0:
            raise ValueError(f"late_by: must not be negative, got {self.late_by}")

    def is_missing(self, streams: Streams, purpose: str, key: str) -> bool:
        """Whether the scrape `key` fails."""
        return self.missing > 0 and streams.uniform(f"{purpose}/missing", key) < self.missing

    def delay(self, streams: Streams, purpose: str, key: str) -> int:
        """How late the samples of the scrape `key` are."""
        return self.late_by if self.late > 0 and streams.uniform(f"{purpose}/late", key) < self.late else 0


NO_FAULTS: Final = ScrapeFaults()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A planned fault of an API, in start <= t < end (nanoseconds)."""

    start: int
    end: int
    kind: Literal["error", "empty", "pods"] = "error"
    """The API fails; it answers with nothing; it lacks the pods in `pods`."""
    pods: frozenset[str] = frozenset()
    reason: str = UNABLE
    """The text of an error."""


def outage_at(outages: Iterable[Outage], kind: str, now: int) -> Outage | None:
    """The first outage of a kind that is on."""
    for outage in outages:
        if outage.kind == kind and outage.start <= now < outage.end:
            return outage
    return None


def lacking(outages: Iterable[Outage], now: int) -> frozenset[str]:
    """The pods that an API lacks by plan."""
    found = [o.pods for o in outages if o.kind == "pods" and o.start <= now < o.end]
    return frozenset().union(*found)
