"""Which plugins listen to which events, and what they say about a waiting pod.

A plugin registers events, each with an optional hint. When an event comes in, the hints of the plugins that rejected a
pod decide whether the pod is tried again.

Follows buildQueueingHintMap (pkg/scheduler/scheduler.go), isPodWorthRequeuing and isEventOfInterest
(backend/queue/scheduling_queue.go) and UnrollWildCardResource (framework/types.go) of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from stowplan_scheduler.framework.cluster_event import (
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
    HintFn,
    Resource,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Pod

from .queued_pod import QueuedPodInfo
from .unschedulable import Rejector


class Strategy(IntEnum):
    """What becomes of a waiting pod; a larger one wins."""

    SKIP = 0
    """It stays where it is."""
    AFTER_BACKOFF = 1
    """It is tried again when its back-off is over."""
    IMMEDIATELY = 2
    """It is tried again at once."""


EVERY_CHANGE: tuple[EventRegistration, ...] = tuple(
    EventRegistration(ClusterEvent(resource, Action.ALL))
    for resource in (
        Resource.ASSIGNED_POD,
        Resource.UNSCHEDULED_POD,
        Resource.TARGET_POD,
        Resource.NODE,
        Resource.PERSISTENT_VOLUME,
        Resource.PERSISTENT_VOLUME_CLAIM,
        Resource.CSI_NODE,
        Resource.CSI_DRIVER,
        Resource.CSI_STORAGE_CAPACITY,
        Resource.STORAGE_CLASS,
        Resource.RESOURCE_CLAIM,
        Resource.DEVICE_CLASS,
    )
)
"""What a plugin listens to that does not say. Volume attachments and resource slices are missing upstream, too."""

NamedHint = tuple[str, HintFn | None]
"""A plugin and its hint; None: always Queue."""

HintErrorHandler = Callable[[str, ClusterEvent, PodInfo, Exception], None]
"""Told about a hint that raised: plugin, event, pod, exception."""


class HintMap:
    """The registrations of one profile."""

    __slots__ = ("_listeners",)

    def __init__(self, registrations: Mapping[str, Sequence[EventRegistration] | None]) -> None:
        """`registrations` by plugin name. None: the plugin does not say, every change counts. (): no change does."""
        self._listeners: list[tuple[ClusterEvent, NamedHint]] = [
            (registration.event, (plugin, registration.hint))
            for plugin, registered in registrations.items()
            for registration in (EVERY_CHANGE if registered is None else registered)
        ]

    def hints_for(self, event: ClusterEvent) -> tuple[NamedHint, ...]:
        """The hints of the registrations that hear `event`, in order of registration."""
        return tuple(hint for registered, hint in self._listeners if registered.matches(event))

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        """What a plugin listens to."""
        return tuple(registered for registered, (name, _) in self._listeners if name == plugin)


@dataclass(frozen=True, slots=True)
class Interest:
    """Who listens to one event, over all profiles."""

    hints: Mapping[str, tuple[NamedHint, ...]]
    """By scheduler name, profiles with listeners only."""
    rejectors: tuple[Rejector, ...]
    """The same as keys of the index by rejector, without repetitions."""
    plugins: frozenset[str]
    """Names of the listeners in any profile: a gate opens for them in all profiles (upstream keeps one such table)."""


class HintIndex:
    """All profiles' registrations; the answer per event is kept, since few different events occur."""

    __slots__ = ("_interests", "_last", "_last_event", "_maps", "_on_error")

    def __init__(self, maps: Mapping[str, HintMap], on_error: HintErrorHandler | None = None) -> None:
        """`maps` by scheduler name. A hint that raises counts as Queue and is reported to `on_error`."""
        self._maps = dict(maps)
        self._on_error = on_error
        self._interests: dict[ClusterEvent, Interest] = {}
        self._last_event: ClusterEvent | None = None
        self._last = Interest({}, (), frozenset())

    def __contains__(self, scheduler_name: str) -> bool:
        return scheduler_name in self._maps

    def of(self, maps: Mapping[str, HintMap]) -> HintIndex:
        """An index of other profiles; mistakes of hints go to the same place."""
        return HintIndex(maps, self._on_error)

    def interest(self, event: ClusterEvent) -> Interest:
        """Who listens to `event`."""
        if event is self._last_event:  # one event is asked about for thousands of pods; its hash is the costly part
            return self._last
        found = self._interests.get(event)
        if found is None:
            hints = {name: heard for name, m in self._maps.items() if (heard := m.hints_for(event))}
            rejectors = dict.fromkeys((name, plugin) for name, heard in hints.items() for plugin, _ in heard)
            found = Interest(hints, tuple(rejectors), frozenset(plugin for _, plugin in rejectors))
            self._interests[event] = found
        self._last_event, self._last = event, found
        return found

    def is_of_interest(self, event: ClusterEvent) -> bool:
        """Whether any plugin of any profile listens; a wildcard always counts."""
        return event.is_wildcard or bool(self.interest(event).rejectors)

    def strategy(self, pod: QueuedPodInfo, event: ClusterEvent, old: object, new: object) -> Strategy:
        """What the event does for a pod that its rejectors keep waiting."""
        rejectors = pod.rejectors
        if not rejectors:
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            return Strategy.AFTER_BACKOFF if new is None or _uid(new) == pod.uid else Strategy.SKIP
        best = Strategy.SKIP
        for plugin, hint in self.interest(event).hints.get(pod.scheduler_name, ()):
            if plugin not in rejectors or not self._says_queue(plugin, hint, pod.info, event, old, new):
                continue
            if plugin in pod.pending_plugins:
                return Strategy.IMMEDIATELY
            best = Strategy.AFTER_BACKOFF
            if not pod.pending_plugins:
                break
        return best

    def _says_queue(
        self, plugin: str, hint: HintFn | None, info: PodInfo, event: ClusterEvent, old: object, new: object
    ) -> bool:
        if hint is None:
            return True
        try:
            return hint(info, old, new) is Hint.QUEUE
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises, its pod must not be left waiting
            if self._on_error is not None:
                self._on_error(plugin, event, info, error)
            return True


def _uid(subject: object) -> str | None:
    """The UID of the pod that a wildcard event is about; None for any other object."""
    if isinstance(subject, PodInfo):
        return subject.uid
    if isinstance(subject, Pod):
        return subject.metadata.uid or subject.key
    return None
