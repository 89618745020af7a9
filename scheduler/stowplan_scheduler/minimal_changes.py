"""What is the least that would have to change for a pending pod to fit?

Only single changes are named: those of nodes that exactly one filter plugin rejects, so that the change alone opens the
node. Where every node is rejected by several plugins, the node with the fewest is named with all of them. Whether a
change is wise is not for the scheduler to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stowplan_scheduler.objects import Taint
from stowplan_scheduler.quantity import format_quantity
from stowplan_scheduler.resources import Resource
from stowplan_scheduler.tolerations import HARD_EFFECTS, is_tolerated

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_info import NodeInfo
    from stowplan_scheduler.framework.pod_info import PodInfo

MOST_CHANGES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A filter plugin's verdict about one node. `code` is upstream's name of the status code."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    for_nominated: bool = False
    """The node has room now, but not together with the pods that are nominated to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change and the nodes that it alone would open, in snapshot order; none where a single change does not do."""

    text: str
    nodes: tuple[str, ...]


def minimal_changes(
    pod: PodInfo, infos: Sequence[NodeInfo], rejections: Sequence[Sequence[Rejection]]
) -> tuple[Change, ...]:
    """The smallest single changes; `rejections[i]` holds all that stands against `infos[i]`.

    Changes that open most nodes come first, at most MOST_CHANGES. Of the nodes that lack room only the one that lacks
    least is named, relative to its size.
    """
    short: list[_Short] = []
    groups: dict[str, list[str]] = {}
    for info, found in zip(infos, rejections, strict=True):
        if len(found) != 1:
            continue
        rejection = found[0]
        if rejection.for_nominated:
            text = _other(pod, info, rejection)
        elif rejection.plugin == "NodeResourcesFit":
            short.append(_short(pod, info, rejection))
            continue
        else:
            text = _TEXTS.get(rejection.plugin, _other)(pod, info, rejection)
        groups.setdefault(text, []).append(info.name)
    changes = [Change(text=text, nodes=tuple(names)) for text, names in groups.items()]
    changes.sort(key=lambda change: -len(change.nodes))
    if short:
        changes.insert(0, _least_room(pod.shape.fit, short))
    if not changes:
        return _no_single_change(infos, rejections)
    return tuple(changes[:MOST_CHANGES])


def _no_single_change(infos: Sequence[NodeInfo], rejections: Sequence[Sequence[Rejection]]) -> tuple[Change, ...]:
    if not infos:
        return ()
    best = min(range(len(infos)), key=lambda index: len(rejections[index]))
    plugins = [rejection.plugin for rejection in rejections[best]]
    if not plugins:
        return ()
    listed = f"{', '.join(plugins[:-1])} and {plugins[-1]}"
    return (Change(text=f"no single change: {infos[best].name}, the nearest, is rejected by {listed}", nodes=()),)


# ---- room ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Short:
    """A node with the resources that it is short of, and by how much."""

    info: NodeInfo
    lacking: tuple[tuple[str, int], ...]


def _short(pod: PodInfo, info: NodeInfo, rejection: Rejection) -> _Short:
    """Only what the plugin complains about: a configuration may tell it to ignore a resource."""
    asked = pod.shape.fit
    lacking = []
    for reason in rejection.reasons:
        name = reason.removeprefix("Insufficient ")
        if name == reason:
            lacking.append(("pods", len(info.pods) + 1 - info.allocatable.allowed_pod_number))
        else:
            lacking.append((name, asked.get(name) - info.allocatable.get(name) + info.requested.get(name)))
    return _Short(info, tuple(lacking))


def _least_room(asked: Resource, nodes: Sequence[_Short]) -> Change:
    def shortfall(short: _Short) -> tuple[bool, float]:
        """Nodes that would do if they were emptier come before nodes that are too small."""
        allocatable = short.info.allocatable
        too_small = any(_is_too_small(asked, short.info, name) for name, _ in short.lacking)
        return too_small, max(missing / max(1, allocatable.get(name)) for name, missing in short.lacking)

    nearest = min(nodes, key=shortfall)
    parts = [_shortage(asked, nearest.info, name, missing) for name, missing in nearest.lacking]
    return Change(text=f"{nearest.info.name} lacks {' and '.join(parts)}", nodes=(nearest.info.name,))


def _is_too_small(asked: Resource, info: NodeInfo, name: str) -> bool:
    return name != "pods" and asked.get(name) > info.allocatable.get(name)


def _shortage(asked: Resource, info: NodeInfo, name: str, missing: int) -> str:
    if name == "pods":
        return f"room for {missing} more pods (it takes {info.allocatable.allowed_pod_number})"
    total = info.allocatable.get(name)
    if _is_too_small(asked, info, name):
        has = f"even empty it has only {format_quantity(name, total)}" if total else "it has none"
        return f"{format_quantity(name, missing)} {name} ({has})"
    free = total - info.requested.get(name)
    return f"{format_quantity(name, missing)} {name} ({format_quantity(name, free)} free)"


# ---- everything else -----------------------------------------------------------------------------------------------


def _taints(pod: PodInfo, info: NodeInfo, rejection: Rejection) -> str:
    taints = () if info.node is None else info.node.spec.taints
    tolerations = pod.pod.spec.tolerations
    missing = [_taint_text(t) for t in taints if t.effect in HARD_EFFECTS and not is_tolerated(t, tolerations)]
    return f"tolerate {' and '.join(missing)}"


def _taint_text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _labels(pod: PodInfo, info: NodeInfo, rejection: Rejection) -> str:
    """The labels that the node selector misses; a required affinity has too many ways out to name one."""
    labels = {} if info.node is None else info.node.metadata.labels
    missing = [f"{key}={value}" for key, value in pod.pod.spec.node_selector.items() if labels.get(key) != value]
    if missing:
        return f"take {' and '.join(sorted(missing))} out of the node selector, or label the node so"
    return "relax the required node affinity"


def _cordon(pod: PodInfo, info: NodeInfo, rejection: Rejection) -> str:
    return "uncordon the node"


def _ports(pod: PodInfo, info: NodeInfo, rejection: Rejection) -> str:
    taken = [
        f"{port.port}/{port.protocol}"
        for port in pod.shape.host_ports
        if info.used_ports is not None and info.used_ports.conflicts(port.ip, port.protocol, port.port)
    ]
    return f"free the host port {' and '.join(taken)}"


def _other(pod: PodInfo, info: NodeInfo, rejection: Rejection) -> str:
    return f"lift what {rejection.plugin} has against it: {', '.join(rejection.reasons)}"


_TEXTS: Final[dict[str, Callable[[PodInfo, NodeInfo, Rejection], str]]] = {
    "TaintToleration": _taints,
    "NodeAffinity": _labels,
    "NodeUnschedulable": _cordon,
    "NodePorts": _ports,
}
