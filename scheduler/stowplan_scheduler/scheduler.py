"""The scheduler as a state machine: events in, effects out. No clock, no threads, no I/O.

    scheduler = Scheduler(config, rng)
    effects = scheduler.receive(ObjectAdded(node), now)
    effects = scheduler.run_cycle(now)          # at most one pod
    effects = scheduler.receive(EffectDone(effect.id), now)

The live worker and the simulator are two interpreters of the same effects. Every call carries `now`, in nanoseconds
of the caller's clock; the same calls give the same effects.

Event handling follows pkg/scheduler/eventhandlers.go of Kubernetes v1.37.2, one attempt is in attempt.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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
from stowplan_scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    EventRegistration,
    Resource,
)
from stowplan_scheduler.framework.handle import PluginFactory, PluginHandle
from stowplan_scheduler.framework.interface import Plugin
from stowplan_scheduler.framework.memo import MAX_MEMO_BYTES, Memo
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.framework.runtime import Profile
from stowplan_scheduler.framework.selection import Rng, TieBreak
from stowplan_scheduler.objects import DeviceClass, Namespace, Node, Pod, ResourceSlice, key_of
from stowplan_scheduler.profiles import build_profiles
from stowplan_scheduler.queue import (
    SECOND,
    HintMap,
    MeasuredGates,
    PreEnqueueGates,
    QueuedPodInfo,
    SchedulingQueue,
    earlier,
    node_update_events,
    pod_update_events,
)

from .attempt import Attempts
from .measured_attempts import MeasuredAttempts

if TYPE_CHECKING:
    from stowplan_scheduler.config import KubeSchedulerConfiguration
    from stowplan_scheduler.framework.timing import Hooks

WATCHED_RESOURCES: Mapping[type, Resource] = {
    DeviceClass: Resource.DEVICE_CLASS,
    ResourceSlice: Resource.RESOURCE_SLICE,
}
"""Kinds other than pods and nodes whose changes may let a waiting pod fit."""


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
        self.interner = PodInterner()
        self._pods: dict[str, PodInfo] = {}
        """Newest PodInfo by uid."""
        self._by_key: dict[str, PodInfo] = {}
        """The same by namespace/name."""
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
            lister=self.pod_of_uid,
            start_ns=start,
            on_hint_error=self._hint_failed,
            hooks=hooks,
        )
        self._observes = metrics
        self._effects: list[Effect] = []
        self._next_id = 0
        self._timer: int | None = None
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
                profile.preemption.pod_lister = self.pod_of_key
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
            for info in self._pods.values()
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
        match event:
            case ObjectAdded(Pod() as pod) | ObjectUpdated(Pod() as pod):
                self._pod_set(pod, now)
            case ObjectDeleted(Pod() as pod):
                if self._is_held(pod):
                    self._pod_gone(pod, now)
            case EffectDone():
                self.attempts.effect_done(event.effect_id, event.outcome, now)
            case ObjectAdded(Node() as node) | ObjectUpdated(Node() as node):
                self._node_set(node, now)
            case ObjectDeleted(Node() as node):
                self._node_gone(node, now)
            case TimerFired():
                self._timer = None
                self.queue.run_timers(now)
                self.attempts.run_timers(now)
            case PermitDecided():
                self.attempts.permit_decided(event.uid, event.plugin, event.reason, now)
            case ObjectAdded(other) | ObjectUpdated(other):
                self._other_set(other, now)
            case ObjectDeleted(other):
                self._other_gone(other)
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

    def pod_of_uid(self, uid: str) -> Pod | None:
        """The newest object of a pod."""
        info = self._pods.get(uid)
        return None if info is None else info.pod

    def known_pods(self) -> list[Pod]:
        """The newest objects of all pods that have not finished, whatever their scheduler."""
        return [info.pod for info in self._pods.values()]

    def pod_of_key(self, key: str) -> Pod | None:
        """The newest object of the pod with this namespace/name."""
        info = self._by_key.get(key)
        return None if info is None else info.pod

    def info_of_key(self, key: str) -> PodInfo | None:
        """The newest PodInfo of the pod with this namespace/name."""
        return self._by_key.get(key)

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

    # ---- pods --------------------------------------------------------------------------------

    def _pod_set(self, pod: Pod, now: int) -> None:
        """A pod was added or changed; finished pods count as gone."""
        if pod.is_terminal:
            self._pod_gone(pod, now)
            return
        key = pod.key
        old = self._by_key.get(key)
        new = self.interner.info(pod) if old is None else self.interner.info_like(pod, old)
        if old is not None and (old.uid != new.uid or _left_its_node(old.pod, pod)):
            self._pod_gone(old.pod, now)
            old = None
        self._pods[new.uid] = new
        self._by_key[key] = new
        if old is None:
            if pod.spec.node_name:
                self._assigned_added(new, now)
            elif pod.spec.scheduler_name in self.profiles:
                self.queue.add(new, now)
        elif old.pod.spec.node_name:
            self._assigned_updated(old, new, now)
        elif pod.spec.node_name:
            self._assigned_added(new, now)
            self.queue.delete(old.pod, now)
        elif self._is_ours(old):
            self._pending_updated(old, new, now)

    def _is_held(self, pod: Pod) -> bool:
        """Whether this very pod is known, not one of the same name that was made after it: deletions may come late."""
        held = self.info_of_key(pod.key)
        return held is not None and pod.metadata.uid in {"", held.pod.metadata.uid}

    def _is_ours(self, info: PodInfo) -> bool:
        """Whether a pending pod has a profile here, or had one when it was given a node."""
        return info.pod.spec.scheduler_name in self.profiles or self.cache.is_assumed_pod(info)

    def _pod_gone(self, pod: Pod, now: int) -> None:
        key = pod.key
        old = self.info_of_key(key)
        if old is None:
            return
        self._pods.pop(old.uid, None)
        self._by_key.pop(key, None)
        last = old.pod
        if last.spec.node_name:
            self.cache.remove_pod(old)
            self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, last, None, now)
            return
        if not self._is_ours(old):
            return
        self.queue.delete(last, now)
        if self.cache.is_assumed_pod(old):
            self._assumed_deleted(old, now)
        elif last.status.nominated_node_name:
            self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, last, None, now, _at_most(last.priority))

    def _assigned_added(self, info: PodInfo, now: int) -> None:
        self.cache.add_pod(info)
        self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, info.pod, now)

    def _assigned_updated(self, before: PodInfo, new: PodInfo, now: int) -> None:
        self.cache.update_pod(new)
        if not self.queue.listens():
            return
        old = before.pod
        for event in pod_update_events(old, new.pod, Resource.ASSIGNED_POD, alike=before.shape is new.shape):
            self.queue.move_all_to_active_or_backoff(event, old, new.pod, now)

    def _pending_updated(self, before: PodInfo, new: PodInfo, now: int) -> None:
        old, version = before.pod, new.pod.metadata.resource_version
        if version and version == old.metadata.resource_version:
            return
        if self.cache.is_assumed_pod(new):
            if new.terminating and old.metadata.deletion_timestamp is None:
                self._assumed_deleted(new, now)
            return
        self.queue.update(old, new, now, alike=before.shape is new.shape)
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.pod.status.nominated_node_name:
            self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, old, None, now, _at_most(old.priority))

    def _assumed_deleted(self, info: PodInfo, now: int) -> None:
        """A pod is deleted between assume and the confirmation of its binding."""
        assumed = self.cache.get_pod(info)
        if assumed is None:
            return
        if not self.attempts.reject_waiting(info.uid, "", "removed", now):
            self.cache.forget_pod(assumed)
        self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, assumed.pod, None, now)

    # ---- nodes and the rest ------------------------------------------------------------------

    def _node_set(self, node: Node, now: int) -> None:
        name = node.metadata.name
        held = self.cache.get_node(name)
        old = None if held is None else held.node
        if old is None:
            self.cache.add_node(node)
            self.queue.move_all_to_active_or_backoff(NODE_ADD, None, node, now)
            return
        self.cache.update_node(node)
        for event in node_update_events(old, node):
            self.queue.move_all_to_active_or_backoff(event, old, node, now)

    def _node_gone(self, node: Node, now: int) -> None:
        held = self.cache.get_node(node.metadata.name)
        if held is None or held.node is None:
            return
        self.queue.move_all_to_active_or_backoff(NODE_DELETE, held.node, None, now)
        self.cache.remove_node(held.node)

    def _other_set(self, other: Any, now: int) -> None:
        store = self._store_of(other)
        if store is None:
            return
        key = key_of(other.metadata)
        old = store.get(key)
        store[key] = other
        self._stores_changed(other)
        if isinstance(other, DeviceClass):
            self.stores.served.put(other, old if isinstance(old, DeviceClass) else None)
        resource = WATCHED_RESOURCES.get(type(other))
        if resource is not None:
            event = ClusterEvent(resource, Action.ADD if old is None else Action.UPDATE)
            self.queue.move_all_to_active_or_backoff(event, old, other, now)

    def _other_gone(self, other: Any) -> None:
        store = self._store_of(other)
        gone = None if store is None else store.pop(key_of(other.metadata), None)
        if gone is None:
            return
        self._stores_changed(other)
        if isinstance(gone, DeviceClass):
            self.stores.served.remove(gone)

    def _stores_changed(self, other: object) -> None:
        self.stores.version += 1
        if isinstance(other, Namespace):
            self.stores.namespace_version += 1

    def _store_of(self, other: object) -> dict[str, object] | None:
        return getattr(self.stores, _STORE_NAMES.get(type(other).__name__, ""), None)


_STORE_NAMES = {
    "Namespace": "namespaces",
    "Service": "services",
    "ReplicationController": "replication_controllers",
    "ReplicaSet": "replica_sets",
    "StatefulSet": "stateful_sets",
    "PodDisruptionBudget": "pod_disruption_budgets",
    "DeviceClass": "device_classes",
    "ResourceSlice": "resource_slices",
}


def _left_its_node(old: Pod, new: Pod) -> bool:
    """An API server never moves a pod. Where a watch has lost track, the pod is taken for a new one.

    Upstream ends the process here; a core that went on with the pod on both nodes would be wrong for good.
    """
    return bool(old.spec.node_name) and old.spec.node_name != new.spec.node_name


def _at_most(priority: int) -> Callable[[QueuedPodInfo], bool]:
    return lambda waiting: waiting.info.priority <= priority


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
