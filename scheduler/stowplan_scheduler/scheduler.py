"""The scheduler as a state machine: events in, effects out. No clock, no threads, no I/O.

    scheduler = Scheduler(config, rng)
    effects = scheduler.receive(ObjectAdded(node), now)
    effects = scheduler.run_cycle(now)          # at most one pod
    effects = scheduler.receive(EffectDone(effect.id), now)

The live worker and the simulator are two interpreters of the same effects. Every call carries `now`, in nanoseconds
of the caller's clock; the same calls give the same effects.

What changes of the cluster do is in event_handlers.py, one attempt in attempt.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stowplan_scheduler.cache.cache import Cache
from stowplan_scheduler.cache.errors import CacheError
from stowplan_scheduler.config import ConfigurationError
from stowplan_scheduler.effects import Effect, Observe, SetTimer
from stowplan_scheduler.events import (
    EffectDone,
    Event,
    ObjectAdded,
    ObjectDeleted,
    ObjectUpdated,
    PermitDecided,
    TimerFired,
)
from stowplan_scheduler.framework.cluster import Cluster, Stores
from stowplan_scheduler.framework.cluster_event import ClusterEvent, EventRegistration
from stowplan_scheduler.framework.handle import PluginFactory, PluginHandle
from stowplan_scheduler.framework.interface import Plugin
from stowplan_scheduler.framework.memo import MAX_MEMO_BYTES, Memo
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.runtime import Profile
from stowplan_scheduler.framework.selection import Rng, TieBreak
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.profiles import build_profiles
from stowplan_scheduler.queue import (
    SECOND,
    HintMap,
    MeasuredGates,
    PreEnqueueGates,
    QueuedPodInfo,
    SchedulingQueue,
    earlier,
)

from .attempt import Attempts
from .event_handlers import EventHandlers
from .known_pods import KnownPods
from .measured_attempts import MeasuredAttempts

if TYPE_CHECKING:
    from stowplan_scheduler.config import KubeSchedulerConfiguration
    from stowplan_scheduler.framework.timing import Hooks


class Scheduler:
    """All profiles of one configuration over one cluster."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        rng: Rng,
        *,
        start: int = 0,
        tie_break: TieBreak = TieBreak.HEAP,
        third_party: Mapping[str, PluginFactory] | None = None,
        memo: bool = True,
        max_memo_bytes: int = MAX_MEMO_BYTES,
        hooks: Hooks | None = None,
        metrics: bool = True,
        on_plugin_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        """An empty cluster. `start`: when the queue's 30-second flush begins.

        Raises ConfigurationError, also for a valid configuration with extenders: they are not asked yet, and a decision
        without them would be another one.

        `metrics=False` leaves out the Observe effects, which a simulation has no use for. `hooks` hear how long things
        take; decisions are the same without.

        `on_plugin_failure` is told of what a plugin raises that is asked outside of the choice of a node (PreEnqueue,
        Unreserve, PreBind, Bind, PostBind): the pod goes on its way as after an error that the plugin returns. Without
        it the call raises that once everything is in order; the next call hands out the effects.

        `memo=False` computes everything anew in each cycle; decisions are the same.
        """
        self.rng = rng
        self.tie_break = tie_break
        self.stores = Stores()
        self.cluster = Cluster(self.stores)
        self.cache = Cache()
        self.pods = KnownPods()
        """The newest of every pod. Not to be changed."""
        self._third_party = third_party
        self._make_memo: Callable[[], Memo] = lambda: Memo(enabled=memo, max_bytes=max_memo_bytes)
        self._hooks = hooks
        self._on_plugin_failure = on_plugin_failure
        self._plugin_failures: list[Exception] = []
        self.profiles: Mapping[str, Profile] = self._built(config, {})
        self.queue = SchedulingQueue(
            *self._for_queue(self.profiles),
            _sort_key(self.profiles),
            initial_backoff_ns=config.pod_initial_backoff_seconds * SECOND,
            max_backoff_ns=config.pod_max_backoff_seconds * SECOND,
            lister=self.pods.of_uid,
            start_ns=start,
            on_hint_error=self._hint_failed,
            hooks=hooks,
        )
        self._observes = metrics
        self._effects: list[Effect] = []
        self._next_id = 0
        self._timer: int | None = None
        self._handlers = EventHandlers(self)
        self.attempts = Attempts(self) if hooks is None else MeasuredAttempts(self, hooks)

    def _built(self, config: KubeSchedulerConfiguration, running: Mapping[str, Profile]) -> Mapping[str, Profile]:
        """The profiles of a configuration; see `build_profiles`."""
        if config.extenders:
            raise ConfigurationError(["extenders: not decided yet; a configuration must come without them"], "build")
        handle = PluginHandle(self.stores)
        profiles = build_profiles(
            config,
            handle,
            third_party=self._third_party,
            make_memo=self._make_memo,
            hooks=self._hooks,
            running=running,
        )
        for profile in profiles.values():
            if profile.preemption is not None:
                profile.preemption.pod_lister = self.pods.of_key
        return profiles

    def _for_queue(self, profiles: Mapping[str, Profile]) -> tuple[Mapping[str, HintMap], PreEnqueueGates]:
        """What the queue needs to know of profiles: who listens to what, and who holds back pods."""
        plugins, hooks = {name: profile.pre_enqueue for name, profile in profiles.items()}, self._hooks
        return (
            {name: _hint_map(profile) for name, profile in profiles.items()},
            PreEnqueueGates(plugins, self.plugin_broke)
            if hooks is None
            else MeasuredGates(plugins, self.plugin_broke, hooks),
        )

    def reconfigure(self, config: KubeSchedulerConfiguration, now: int) -> list[Effect]:
        """Decide by another configuration from now on; returns what is to be done.

        Raises ConfigurationError; nothing has changed then. What is known of the cluster stays, and so do pods that
        wait, with their attempts and back-offs. Bindings and preemptions that are under way go on as they began.
        Profiles that are configured as before keep all they remember. Pods of a profile that has changed are tried
        again where its plugins of before had rejected them; those of a new one enter the queue, and those of one that
        is gone leave it.
        """
        old = self.profiles
        profiles = self._built(config, old)
        hints, gates = self._for_queue(profiles)
        sort_changed = _queue_sort(old) != _queue_sort(profiles)
        for name, profile in profiles.items():
            before = old.get(name)
            if before is not None and before is not profile and profile.preemption is not None:
                profile.preemption.take_over(before.preemption)
        self.profiles = profiles
        self.queue.reconfigure(
            hints,
            gates,
            _sort_key(profiles) if sort_changed else None,
            initial_backoff_ns=config.pod_initial_backoff_seconds * SECOND,
            max_backoff_ns=config.pod_max_backoff_seconds * SECOND,
            changed=frozenset(name for name, profile in profiles.items() if name in old and old[name] is not profile),
            now=now,
        )
        entering = [
            info
            for info in self.pods.by_uid.values()
            if (name := info.pod.spec.scheduler_name) in profiles
            and name not in old
            and not info.pod.spec.node_name
            and not self._is_under_way(info)
        ]
        for number, info in enumerate(entering):
            # A nanosecond apart: pods of one instant would leave in the order of a heap, not in that of their coming.
            self.queue.add(info, now + number)
        return self._taken(now)

    def _is_under_way(self, info: PodInfo) -> bool:
        """Whether the pod is being tried, or being bound."""
        return self.cache.is_assumed_pod(info) or self.queue.place_of(info) is not None

    # ---- the two doors -----------------------------------------------------------------------

    def receive(self, event: Event, now: int) -> list[Effect]:
        """Take an event; returns what is to be done about it.

        Events may come twice, late, or about what is not known. Raises QuantityError for an object with an amount that
        no API server lets pass; nothing has changed then.
        """
        handlers = self._handlers
        match event:
            case ObjectAdded(Pod() as pod) | ObjectUpdated(Pod() as pod):
                handlers.pod_set(pod, now)
            case ObjectDeleted(Pod() as pod):
                handlers.pod_deleted(pod, now)
            case EffectDone():
                self.attempts.effect_done(event.effect_id, event.outcome, now)
            case ObjectAdded(Node() as node) | ObjectUpdated(Node() as node):
                handlers.node_set(node, now)
            case ObjectDeleted(Node() as node):
                handlers.node_deleted(node, now)
            case TimerFired():
                self._timer = None
                self.queue.run_timers(now)
                self.attempts.run_timers(now)
            case PermitDecided():
                self.attempts.permit_decided(event.uid, event.plugin, event.reason, now)
            case ObjectAdded(other) | ObjectUpdated(other):
                handlers.other_set(other, now)
            case ObjectDeleted(other):
                handlers.other_deleted(other)
        return self._taken(now)

    def run_cycle(self, now: int) -> list[Effect]:
        """Try the next pod, if there is one; returns what is to be done.

        Raises what a plugin raises that breaks its contract. The pod is then tried again after its back-off, and the
        next call hands out the effects; whoever calls decides whether to go on.
        """
        pod = self.begin_cycle(now)
        return [] if pod is None else self.finish_cycle(pod, now)

    def begin_cycle(self, now: int) -> QueuedPodInfo | None:
        """Take the next pod out of the queue; None if there is none.

        For callers in whose time a cycle takes some: changes up to `finish_cycle` are seen by the decision, and heard
        of by the pod if it fails.
        """
        return self.queue.pop(now)

    def finish_cycle(self, pod: QueuedPodInfo, now: int) -> list[Effect]:
        """Try the pod that `begin_cycle` took; returns what is to be done. Raises as `run_cycle`."""
        try:
            self.attempts.attempt(pod, now)
        except Exception as failure:
            self.attempts.abandon(pod, failure, now)
            raise
        return self._taken(now)

    def has_work(self) -> bool:
        """Whether `run_cycle` would try a pod."""
        return self.queue.has_poppable()

    def next_timer(self, now: int) -> int | None:
        """When TimerFired is due next; None if nothing waits for time to pass."""
        return earlier(self.queue.next_timer(now), self.attempts.next_timer())

    def emit(self, effect: Effect) -> None:
        """Have an effect carried out."""
        self._effects.append(effect)

    def next_id(self) -> int:
        """A new effect id."""
        self._next_id += 1
        return self._next_id

    def observe(self, metric: str, value: float, **labels: str) -> None:
        """A metric sample."""
        if not self._observes:
            return
        self._effects.append(Observe(id=self.next_id(), metric=metric, value=value, labels=tuple(labels.items())))

    def plugin_broke(self, failure: Exception) -> None:
        """A plugin raised where others go on without it."""
        if self._on_plugin_failure is None:
            self._plugin_failures.append(failure)
        else:
            self._on_plugin_failure(failure)

    def _taken(self, now: int) -> list[Effect]:
        if self._plugin_failures:
            raise self._plugin_failures.pop(0)
        if not (self.queue.is_idle() and self.attempts.next_timer() is None):
            timer = self.next_timer(now)
            if timer is not None and (self._timer is None or timer < self._timer):
                self._timer = timer
                self._effects.append(SetTimer(id=self.next_id(), at=timer))
        effects = self._effects
        self._effects = []
        return effects

    def _hint_failed(self, plugin: str, event: ClusterEvent, pod: PodInfo, failure: Exception) -> None:
        """A hint that fails wakes its pod, as upstream; a rule that does so all the time is a mistake worth seeing."""
        kind = type(failure).__name__
        self.observe("queueing_hint_errors_total", 1, plugin=plugin, event=event.label, error=kind)

    # ---- look-ups ----------------------------------------------------------------------------

    def nominated_nodes(self) -> tuple[str, ...]:
        """Names of the nodes that pods are nominated to."""
        return self.queue.nominated_nodes() if self.queue.has_nominated_pods() else ()

    def nominated_pods_for_node(self, node: str) -> tuple[PodInfo, ...]:
        """The pods nominated to a node, in order of nomination."""
        return self.queue.nominated_pods_for_node(node)

    def update_snapshot(self) -> None:
        """Bring snapshot and node table up to date. Raises CacheError after a repair; the next call is fine."""
        cluster = self.cluster
        try:
            delta = self.cache.update_snapshot(cluster.snapshot)
        except CacheError as failure:
            repaired = getattr(failure, "delta", None)
            if repaired is not None:
                cluster.table.apply(cluster.snapshot, repaired)
            raise
        if delta.relaid or delta.changes:
            cluster.table.apply(cluster.snapshot, delta)


def _hint_map(profile: Profile) -> HintMap:
    return HintMap({name: _events_of(plugin) for name, plugin in profile.plugins.items()})


def _events_of(plugin: Plugin) -> tuple[EventRegistration, ...] | None:
    try:
        return plugin.events()
    except Exception as failure:
        text = f'plugin "{plugin.name}": events: {type(failure).__name__}: {failure}'
        raise ConfigurationError([text], "build") from failure


def _sort_key(profiles: Mapping[str, Profile]) -> Callable[[QueuedPodInfo], tuple[int, ...]]:
    """All profiles have the same order."""
    sort = next(iter(profiles.values())).queue_sort.sort_key
    return lambda waiting: sort(waiting.info, waiting.timestamp)


def _queue_sort(profiles: Mapping[str, Profile]) -> object:
    """What the order of the queue comes from: the plugin and its args, the same in all profiles."""
    profile = next(iter(profiles.values()))
    name = profile.queue_sort.name
    return name, None if profile.made_of is None else profile.made_of.args.get(name)
