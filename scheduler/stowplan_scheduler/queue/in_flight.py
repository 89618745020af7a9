"""Pods that are being tried, and the events that they may have missed meanwhile.

A pod that was popped does not hear events: it is in no queue. When it comes back rejected, every event since its pop is
replayed for it. One log serves all pods in flight: each remembers how long the log was when it was popped, and what is
older than every pod in flight is forgotten.

Follows inFlightPods and inFlightEvents of pkg/scheduler/backend/queue/active_queue.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice
from typing import NamedTuple

from stowplan_scheduler.framework.cluster_event import ClusterEvent
from stowplan_scheduler.framework.pod_info import PodInfo


class LoggedEvent(NamedTuple):
    """An event and the objects that it is about, either of which may be absent."""

    event: ClusterEvent
    old: object
    new: object


class _Marker(NamedTuple):
    info: PodInfo
    start: int
    """Number of the first event that the pod missed."""


class InFlight:
    """The pods in flight by UID, oldest first, and the log of events."""

    __slots__ = ("_events", "_first", "_markers")

    def __init__(self) -> None:
        """Nothing is in flight."""
        self._events: deque[LoggedEvent] = deque()
        self._first = 0
        """Number of the oldest event in the log; events are numbered without end."""
        self._markers: OrderedDict[str, _Marker] = OrderedDict()

    def __len__(self) -> int:
        """How many pods are in flight."""
        return len(self._markers)

    def __contains__(self, uid: str) -> bool:
        return uid in self._markers

    @property
    def pods(self) -> tuple[PodInfo, ...]:
        """The pods as they were popped, oldest first."""
        return tuple(marker.info for marker in self._markers.values())

    @property
    def events(self) -> tuple[LoggedEvent, ...]:
        """The log, oldest event first."""
        return tuple(self._events)

    def start(self, info: PodInfo) -> bool:
        """A pod was popped. False if a pod with this UID is in flight already; nothing changes then."""
        if info.uid in self._markers:
            return False
        self._markers[info.uid] = _Marker(info, self._first + len(self._events))
        return True

    def log(self, event: ClusterEvent, old: object, new: object) -> None:
        """Remember an event, if any pod is in flight."""
        if self._markers:
            self._events.append(LoggedEvent(event, old, new))

    def missed(self, uid: str) -> tuple[LoggedEvent, ...] | None:
        """The events since the pod was popped; None if it is not in flight."""
        marker = self._markers.get(uid)
        return None if marker is None else tuple(islice(self._events, marker.start - self._first, None))

    def done(self, uid: str) -> None:
        """The attempt has ended; events that no other pod needs go. Does nothing for a pod that is not in flight."""
        if self._markers.pop(uid, None) is None:
            return
        if not self._markers:
            self._first += len(self._events)
            self._events.clear()
            return
        oldest = next(iter(self._markers.values())).start
        while self._first < oldest:
            self._events.popleft()
            self._first += 1

    def problems(self) -> list[str]:
        """What is inconsistent: markers out of order or outside the log, events that nobody needs."""
        starts = [marker.start for marker in self._markers.values()]
        found = []
        if starts != sorted(starts):
            found.append("pods in flight are out of order")
        if starts and starts[-1] > self._first + len(self._events):
            found.append("a pod in flight points behind the log of events")
        if self._events and (not starts or starts[0] != self._first):
            found.append("the log holds events that no pod in flight needs")
        return found
