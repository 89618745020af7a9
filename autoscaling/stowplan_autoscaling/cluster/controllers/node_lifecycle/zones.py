"""Zones: how disturbed they are, and how fast their nodes may be tainted for eviction.

Follows ComputeZoneState and setLimiterInZone of pkg/controller/nodelifecycle/node_lifecycle_controller.go, and
pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go of Kubernetes v1.37.2. Upstream marks the nodes of a zone
anew at each pass, in no certain order, so that of those that wait any may come first; here it is the one that has
waited longest, and of several the first by name.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import Node

ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class ZoneState(Enum):
    """How much of a zone is ready."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    FULL = "FullDisruption"
    PARTIAL = "PartialDisruption"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRates:
    """Flags of kube-controller-manager; rates in nodes per second."""

    normal: float = 0.1
    secondary: float = 0.01
    large_cluster: int = 50
    """A zone with more nodes than this is slowed down rather than stopped."""
    unhealthy: float = 0.55
    """Share of nodes that are not ready from which a zone counts as partially disrupted."""

    def of(self, state: ZoneState, size: int) -> float:
        """The rate for a zone of `size` nodes."""
        if state is ZoneState.PARTIAL:
            return self.secondary if size > self.large_cluster else 0.0
        return self.normal

    def state(self, ready: int, not_ready: int) -> ZoneState:
        """The state of a zone with so many nodes."""
        if ready == 0 and not_ready > 0:
            return ZoneState.FULL
        if not_ready > 2 and not_ready / (not_ready + ready) >= self.unhealthy:
            return ZoneState.PARTIAL
        return ZoneState.NORMAL


def zone_of(node: Node) -> str:
    """Region and zone of a node as one text; "" for a node without both."""
    labels = node.metadata.labels
    zone = next((labels[label] for label in ZONE_LABELS if label in labels), "")
    region = next((labels[label] for label in REGION_LABELS if label in labels), "")
    return f"{region}:\x00:{zone}" if region or zone else ""


class ZoneQueue:
    """The nodes of a zone that wait for their NoExecute taint, one every so often.

    A node that was taken out of the queue stays known, and is not added a second time, until it is removed.
    """

    __slots__ = ("_known", "_rate", "_waiting", "state", "token_at")

    def __init__(self, rate: float) -> None:
        self.state = ZoneState.INITIAL
        self._rate = rate
        self._waiting: dict[str, int] = {}
        self._known: set[str] = set()
        self.token_at: int | None = 0
        """When the next node may be taken; None while none may."""

    def add(self, name: str, now: int) -> bool:
        """Put a node in line; returns whether it was not known."""
        if name in self._known:
            return False
        self._known.add(name)
        self._waiting[name] = now
        return True

    def remove(self, name: str) -> None:
        """Forget a node."""
        self._known.discard(name)
        self._waiting.pop(name, None)

    def put_back(self, name: str, until: int) -> None:
        """A node for which nothing could be done: again, not before `until`."""
        if name in self._known:
            self._waiting[name] = until

    def next_at(self) -> int | None:
        """When the next node can be taken; None if none can."""
        if not self._waiting or self.token_at is None:
            return None
        return max(self.token_at, min(self._waiting.values()))

    def take(self, now: int) -> str | None:
        """The node whose turn it is; it costs a token even if its time has not come."""
        if not self._waiting or self.token_at is None or now < self.token_at:
            return None
        self.token_at = now + _interval(self._rate)
        when, name = min((when, name) for name, when in self._waiting.items())
        if now < when:
            return None
        del self._waiting[name]
        return name

    def set_rate(self, rate: float, now: int) -> None:
        """Change the rate; a queue that had to wait for a token has to wait for a new one."""
        if rate == self._rate:
            return
        had_token = self.token_at is not None and now >= self.token_at
        self._rate = rate
        if rate <= 0:
            self.token_at = None
        else:
            self.token_at = now if had_token else now + _interval(rate)


def _interval(rate: float) -> int:
    """Time between two tokens. Rates have 32 bits upstream, so that 0.01/s takes a little longer than 100 s."""
    narrow: float = struct.unpack("f", struct.pack("f", rate))[0]
    return math.ceil(SECOND / narrow)
