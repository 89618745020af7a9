"""What the autoscaler makes of the difference between what it asked for and what is there.

Nodes are sorted by readiness, instances that did not register are timed, requests for nodes are kept until they are
fulfilled or time out, and failures put groups into back-off.

Follows pkg/clusterstate/clusterstate.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .backoff import BackoffInfo, ExponentialBackoff
from .node_groups import CREATING, DELETING, GroupConfig, GroupTable, Instance, InstanceError, NodeGroup
from .observation import ObservedNode
from .options import AutoscalingOptions
from .readiness import is_suspended


@dataclass(slots=True)
class ScaleUpRequest:
    """An increase that is not fulfilled yet; `expected`: when it should be."""

    increase: int
    time: int
    expected: int


@dataclass(slots=True)
class Readiness:
    """Names of nodes, and of instances that did not register, by state."""

    ready: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    not_started: list[str] = field(default_factory=list)
    suspended: list[str] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)
    unregistered: list[str] = field(default_factory=list)
    long_unregistered: list[str] = field(default_factory=list)


class AcceptableRange(NamedTuple):
    """How many nodes a group may have at present."""

    least: int
    most: int
    target: int


class IncorrectSize(NamedTuple):
    """A group has another number of registered nodes than its target says."""

    expected: int
    current: int
    since: int


class ScalingSafety(NamedTuple):
    """Whether a group may be scaled up. `backoff`: the back-off that forbids it."""

    healthy: bool
    backoff: BackoffInfo | None

    @property
    def is_safe(self) -> bool:
        """Healthy and not in back-off."""
        return self.healthy and self.backoff is None


@dataclass(frozen=True, slots=True)
class Failure:
    """A scale-up that failed: by so many nodes, and why. `until`: end of the group's back-off."""

    group: str
    count: int
    error: InstanceError
    until: int


class FailedCreation(NamedTuple):
    """Instances of a group that the cloud could not make."""

    group: str
    instances: tuple[str, ...]


_NO_READINESS = Readiness()
TIMEOUT = "timeout"


class ClusterStateRegistry:
    """See the module.

    `failures`: those of the present loop. `reverts`: (group, amount) to be taken back from targets after a timeout.
    """

    def __init__(self, options: AutoscalingOptions, table: GroupTable, config: GroupConfig) -> None:
        self._options = options
        self._table = table
        self._config = config
        self.backoff = ExponentialBackoff(options)
        self.requests: dict[str, ScaleUpRequest] = {}
        self.per_group: dict[str, Readiness] = {}
        self.total = Readiness()
        self.failures: list[Failure] = []
        self.reverts: list[tuple[str, int]] = []
        self._node_count = 0
        self._ranges: dict[str, AcceptableRange] = {}
        self._incorrect: dict[str, IncorrectSize] = {}
        self._unregistered: dict[str, tuple[str, int]] = {}
        self._previous: dict[str, tuple[Instance, ...]] = {}
        self._scale_downs: list[tuple[str, int]] = []
        self._seen: list[tuple[str, int, tuple[Instance, ...]]] = []

    # ---- requests ----------------------------------------------------------------------------

    def register_scale_up(self, group: NodeGroup, delta: int, now: int) -> None:
        """More nodes were asked for, or (delta < 0) some of them will not come."""
        request = self.requests.get(group.id)
        expected = now + self._config.provision_time(group)
        if request is None:
            if delta > 0:
                self.requests[group.id] = ScaleUpRequest(delta, now, expected)
            return
        if request.increase + delta <= 0:
            del self.requests[group.id]
            return
        request.increase += delta
        if delta > 0:
            request.time, request.expected = now, expected

    def register_failed_scale_up(self, group_id: str, count: int, error: InstanceError, now: int) -> None:
        """The cloud refused, or did not deliver: the group goes into back-off."""
        until = self.backoff.back_off(group_id, error, now)
        self.failures.append(Failure(group_id, count, error, until))

    def register_scale_down(self, group_id: str, expected_gone: int) -> None:
        """A node of a group was deleted; until `expected_gone` it may still be seen."""
        self._scale_downs.append((group_id, expected_gone))

    # ---- one loop ----------------------------------------------------------------------------

    def update(self, nodes: Sequence[ObservedNode], now: int, *, changed: bool = True) -> None:
        """Take in the nodes, in order of name, and the groups' states. `changed`: whether the nodes may have."""
        seen = [(group_id, state.target_size, state.instances) for group_id, state in self._table.states.items()]
        if not changed and self._seen and self._is_settled and seen == self._seen:
            self.backoff.remove_stale(now)
            return
        self._seen = seen
        self.failures, self.reverts = [], []
        self._node_count = len(nodes)
        instances = {group_id: state.instances for group_id, state in self._table.states.items()}
        self._update_unregistered(nodes, instances, now)
        self._update_readiness(nodes, now)
        self.recalculate()
        self._update_requests(now)
        self._handle_creation_errors(instances, now)
        self.recalculate()
        self._update_incorrect(now)
        self._previous = instances

    def forget_findings(self) -> None:
        """Look at all nodes in the next update."""
        self._seen = []

    def _update_unregistered(
        self, nodes: Iterable[ObservedNode], instances: Mapping[str, Sequence[Instance]], now: int
    ) -> None:
        known = set()
        for seen in nodes:
            known.add(seen.node.spec.provider_id or seen.node.metadata.name)
        found: dict[str, tuple[str, int]] = {}
        for group_id, listed in instances.items():
            for instance in listed:
                if instance.id not in known and instance.state != DELETING and instance.error is None:
                    held = self._unregistered.get(instance.id)
                    found[instance.id] = (group_id, now) if held is None else held
        self._unregistered = found

    def _update_readiness(self, nodes: Iterable[ObservedNode], now: int) -> None:
        groups, per_group, total = self._table.groups, dict[str, Readiness](), Readiness()
        startup = self._options.max_node_startup_time
        for seen in nodes:
            group = groups.get(seen.group) if seen.group is not None else None
            if group is not None:
                # A node of no group is judged by the time of the group before it, as upstream judges it.
                startup = self._config.startup_time(group)
                _sort_in(per_group.setdefault(group.id, Readiness()), seen, startup, now)
            _sort_in(total, seen, startup, now)
        for name, (group_id, since) in self._unregistered.items():
            late = since + self._config.provision_time(groups[group_id]) < now
            for readiness in (per_group.setdefault(group_id, Readiness()), total):
                (readiness.long_unregistered if late else readiness.unregistered).append(name)
        self.per_group, self.total = per_group, total

    def recalculate(self) -> None:
        """Work out anew how many nodes each group may have; after target sizes or requests changed."""
        ranges: dict[str, AcceptableRange] = {}
        for group_id in self._table.groups:
            target = self._table.target(group_id)
            missing = len(self.per_group.get(group_id, _NO_READINESS).long_unregistered)
            request = self.requests.get(group_id)
            least = target - missing - (request.increase if request is not None else 0)
            ranges[group_id] = AcceptableRange(least, target, target)
        for group_id, _ in self._scale_downs:
            held = ranges[group_id]
            ranges[group_id] = held._replace(most=held.most + 1)
        self._ranges = ranges

    def _update_requests(self, now: int) -> None:
        self.backoff.remove_stale(now)
        for group_id, request in [*self.requests.items()]:
            if self.upcoming(group_id) <= 0:
                del self.requests[group_id]
            elif request.expected < now:
                error = InstanceError(
                    code=TIMEOUT,
                    message=f"Scale-up timed out for node group {group_id} after {(now - request.time) / 1e9:g}s",
                )
                self.register_failed_scale_up(group_id, request.increase, error, now)
                if self._table.can_decrease(group_id, request.increase):
                    self.reverts.append((group_id, request.increase))
                    self._table.change_target(group_id, -request.increase)
                del self.requests[group_id]
        self._scale_downs = [each for each in self._scale_downs if each[1] > now]

    def _handle_creation_errors(self, instances: Mapping[str, Sequence[Instance]], now: int) -> None:
        for group_id, listed in instances.items():
            before = {instance.id for instance in self._previous.get(group_id, ()) if _failed(instance)}
            fresh: dict[tuple[str, str], list[Instance]] = {}
            for instance in listed:
                if _failed(instance) and instance.id not in before:
                    assert instance.error is not None
                    fresh.setdefault((instance.error.error_class, instance.error.code), []).append(instance)
            for (error_class, code), failed in fresh.items():
                if self.upcoming(group_id) > 0 and group_id in self.requests:
                    texts = dict.fromkeys(each.error.message for each in failed if each.error is not None)
                    self.register_scale_up(self._table.groups[group_id], -len(failed), now)
                    error = InstanceError(error_class, code, ", ".join(texts))
                    self.register_failed_scale_up(group_id, len(failed), error, now)

    def _update_incorrect(self, now: int) -> None:
        found: dict[str, IncorrectSize] = {}
        for group_id, acceptable in self._ranges.items():
            readiness = self.per_group.get(group_id)
            if readiness is None:
                continue
            current, target = len(readiness.registered), acceptable.target
            waiting = len(readiness.unregistered) + len(readiness.long_unregistered)
            if target - waiting <= current <= target:
                continue
            held = self._incorrect.get(group_id)
            if held is None or (held.current, held.expected) != (current, target):
                held = IncorrectSize(target, current, now)
            found[group_id] = held
        self._incorrect = found

    # ---- answers -----------------------------------------------------------------------------

    def is_cluster_healthy(self) -> bool:
        """Not too many nodes have broken down."""
        unready = len(self.total.unready)
        share = self._options.max_total_unready_percentage / 100.0
        return unready <= self._options.ok_total_unready_count or unready <= share * self._node_count

    def is_group_healthy(self, group_id: str) -> bool:
        """Not too many of a group's nodes are missing."""
        acceptable = self._ranges.get(group_id)
        if acceptable is None:
            return False
        readiness = self.per_group.get(group_id)
        if readiness is None:
            return acceptable.target == 0 or (acceptable.least == 0 and acceptable.target > 0)
        there = len(readiness.ready) + len(readiness.suspended)
        missing = max(0, acceptable.least - there)
        nodes = there + len(readiness.unready) + len(readiness.not_started)
        share = self._options.max_total_unready_percentage / 100.0
        return missing <= self._options.ok_total_unready_count or missing <= share * nodes

    def scale_up_safety(self, group_id: str, now: int) -> ScalingSafety:
        """Whether a group may be scaled up."""
        return ScalingSafety(self.is_group_healthy(group_id), self.backoff.status(group_id, now))

    def upcoming(self, group_id: str) -> int:
        """Nodes that the target says should be ready and are not."""
        readiness = self.per_group.get(group_id, _NO_READINESS)
        there = len(readiness.ready) + len(readiness.unready) + len(readiness.suspended)
        return self._ranges[group_id].target - there - len(readiness.long_unregistered)

    def upcoming_nodes(self, now: int) -> tuple[dict[str, int], list[str]]:
        """(group -> nodes that will come or become ready soon, names of those that have registered already)."""
        counts: dict[str, int] = {}
        registered: list[str] = []
        for group_id in self._table.groups:
            count = self.upcoming(group_id)
            if count <= 0 or group_id not in self.requests or self.backoff.status(group_id, now) is not None:
                continue
            counts[group_id] = count
            registered.extend(self.per_group.get(group_id, _NO_READINESS).not_started)
        return counts, registered

    def old_unregistered(self, now: int) -> dict[str, list[str]]:
        """Group -> instances that have had more than enough time to register."""
        found: dict[str, list[str]] = {}
        for instance, (group_id, since) in self._unregistered.items():
            if since + self._config.provision_time(self._table.groups[group_id]) < now:
                found.setdefault(group_id, []).append(instance)
        return found

    def failed_creations(self) -> list[FailedCreation]:
        """Instances that could not be made, to be deleted."""
        found = []
        for group_id, listed in self._previous.items():
            failed = tuple(instance.id for instance in listed if _failed(instance))
            if failed:
                found.append(FailedCreation(group_id, failed))
        return found

    def incorrect_size(self, group_id: str) -> IncorrectSize | None:
        """How a group's number of registered nodes differs from its target, and since when."""
        return self._incorrect.get(group_id)

    @property
    def _is_settled(self) -> bool:
        """Whether nothing is being waited for: time alone changes nothing then."""
        waiting = self.requests or self._unregistered or self._incorrect or self._scale_downs
        return not (waiting or self.failures or self.reverts or self.total.not_started)


def _sort_in(readiness: Readiness, seen: ObservedNode, startup: int, now: int) -> None:
    name = seen.node.metadata.name
    readiness.registered.append(name)
    if not seen.has_instance:
        readiness.deleted.append(name)
    elif is_suspended(seen.node):
        readiness.suspended.append(name)
    elif seen.ready:
        readiness.ready.append(name)
    elif seen.created + startup > now:
        readiness.not_started.append(name)
    else:
        readiness.unready.append(name)


def _failed(instance: Instance) -> bool:
    return instance.state == CREATING and instance.error is not None
