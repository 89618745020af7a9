"""The taints that the controller puts on nodes, and the requests with which it does.

Follows nodeConditionToTaintKeyStatusMap and doNoScheduleTaintingPass of
pkg/controller/nodelifecycle/node_lifecycle_controller.go, SwapNodeControllerTaint of
pkg/controller/util/node/controller_utils.go and AddOrUpdateTaintOnNode, RemoveTaintOffNode of
pkg/controller/controller_utils.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_scheduler.objects import Node, Taint
from stowplan_scheduler.timestamps import format_time
from stowplan_scheduler.tolerations import NO_EXECUTE, NO_SCHEDULE

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client

NOT_READY: Final = Taint(key="node.kubernetes.io/not-ready", effect=NO_EXECUTE)
UNREACHABLE: Final = Taint(key="node.kubernetes.io/unreachable", effect=NO_EXECUTE)
UNSCHEDULABLE_KEY: Final = "node.kubernetes.io/unschedulable"

_KEYS: Final = {
    ("Ready", "False"): NOT_READY.key,
    ("Ready", "Unknown"): UNREACHABLE.key,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED: Final = frozenset({*_KEYS.values(), UNSCHEDULABLE_KEY})

Outcome = Generator[int, None, bool]
"""Requests that take time, and whether they succeeded."""


def has_taint(taints: Sequence[Taint], taint: Taint) -> bool:
    """Whether a taint of the same key and effect is among them."""
    return any(each.key == taint.key and each.effect == taint.effect for each in taints)


def no_schedule_changes(node: Node) -> tuple[list[Taint], list[Taint]]:
    """The NoSchedule taints that the node's conditions demand and that it lacks, and those that it should not have."""
    conditions = ((condition.type, condition.status) for condition in node.status.conditions)
    wanted = [_KEYS[condition] for condition in conditions if condition in _KEYS]
    if node.spec.unschedulable:
        wanted.append(UNSCHEDULABLE_KEY)
    held = [taint.key for taint in node.spec.taints if taint.effect == NO_SCHEDULE and taint.key in _MANAGED]
    missing = [Taint(key=key, effect=NO_SCHEDULE) for key in wanted if key not in held]
    return missing, [Taint(key=key, effect=NO_SCHEDULE) for key in held if key not in wanted]


def swap(client: Client, seen: Node, added: Collection[Taint], removed: Collection[Taint]) -> Outcome:
    """Put taints on a node, then take others off it if it was seen with them; False if the node is gone."""
    if added:
        stamp = format_time(client.server.stamp(client.kernel.now))
        dated = [replace(taint, time_added=stamp) for taint in added]
        done = yield from _patch(client, seen.metadata.name, lambda taints: _with(taints, dated))
        if not done:
            return False
    return (yield from take_off(client, seen, removed))


def take_off(client: Client, seen: Node, removed: Collection[Taint]) -> Outcome:
    """Take taints off a node, without any request if it was seen without them; False if the node is gone."""
    if not any(has_taint(seen.spec.taints, taint) for taint in removed):
        return True
    done = yield from _patch(
        client,
        seen.metadata.name,
        lambda taints: tuple(taint for taint in taints if not has_taint(tuple(removed), taint)),
    )
    return done


def _with(taints: tuple[Taint, ...], added: Sequence[Taint]) -> tuple[Taint, ...]:
    for new in added:
        if has_taint(taints, new):
            taints = tuple(new if (each.key, each.effect) == (new.key, new.effect) else each for each in taints)
        else:
            taints = (*taints, new)
    return taints


def _patch(client: Client, name: str, change: Callable[[tuple[Taint, ...]], tuple[Taint, ...]]) -> Outcome:
    """Read the node, and write its taints if they change."""
    yield from client.turn()
    node: Node | None = client.server.find("Node", name)
    if node is None:
        return False
    taints = change(node.spec.taints)
    if taints != node.spec.taints:
        yield from client.turn()
        node = client.server.find("Node", name)
        if node is None:
            return False
        client.server.update("Node", replace(node, spec=replace(node.spec, taints=change(node.spec.taints))))
    return True
