"""Which pods have been promised room on which node.

A pod that preempted others is *nominated* to their node: until it is placed, pods of lower priority see the node as if
it were there. The promise is kept here, beside `status.nominatedNodeName`, because the object lags behind.

Follows pkg/scheduler/backend/queue/nominator.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Pod


class NominatingMode(Enum):
    """Where the node of a nomination comes from."""

    NOOP = "noop"
    """The pod's own status.nominatedNodeName, whatever it is."""
    OVERRIDE = "override"
    """The node name given; an empty one takes the nomination away."""


class Nominator:
    """Nominated pods by node, in order of nomination. The empty name is never a node."""

    __slots__ = ("_by_node", "_lister", "_node_of")

    def __init__(self, lister: Callable[[str], Pod | None]) -> None:
        """`lister` finds the newest object of a pod by UID; None if the pod is gone."""
        self._lister = lister
        self._by_node: dict[str, tuple[PodInfo, ...]] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Whether any pod is nominated."""
        return bool(self._by_node)

    def pods_for(self, node_name: str) -> tuple[PodInfo, ...]:
        """The pods nominated to a node, in order of nomination."""
        return self._by_node.get(node_name, ())

    def nodes(self) -> tuple[str, ...]:
        """The nodes that pods are nominated to, in order of their first nomination."""
        return tuple(self._by_node)

    def node_of(self, uid: str) -> str:
        """The node that a pod is nominated to, "" if none."""
        return self._node_of.get(uid, "")

    def add(self, info: PodInfo, node_name: str | None = None, mode: NominatingMode = NominatingMode.NOOP) -> None:
        """Record the nomination of a pod in place of the one it had.

        Nothing is recorded for a pod that is gone or has a node by now.
        """
        self.delete(info.uid)
        name = (node_name or "") if mode is NominatingMode.OVERRIDE else info.pod.status.nominated_node_name
        if not name:
            return
        newest = self._lister(info.uid)
        if newest is None or newest.spec.node_name:
            return
        self._node_of[info.uid] = name
        self._by_node[name] = (*self._by_node.get(name, ()), info)

    def update(self, old: Pod | None, info: PodInfo) -> None:
        """A pod's object changed.

        Without a nominated node in either object the nomination stays: such an update may have been on its way when the
        room was promised.
        """
        kept = self._node_of.get(info.uid, "")
        was_nominated = old is not None and old.status.nominated_node_name
        if kept and not was_nominated and not info.pod.status.nominated_node_name:
            self.add(info, kept, NominatingMode.OVERRIDE)
        else:
            self.add(info)

    def delete(self, uid: str) -> None:
        """Forget the nomination of a pod, if it has one."""
        name = self._node_of.pop(uid, None)
        if name is None:
            return
        others = tuple(info for info in self._by_node[name] if info.uid != uid)
        if others:
            self._by_node[name] = others
        else:
            del self._by_node[name]

    def problems(self) -> list[str]:
        """What is inconsistent between the two directions."""
        listed = {info.uid: node for node, infos in self._by_node.items() for info in infos}
        count = sum(len(infos) for infos in self._by_node.values())
        if listed != self._node_of or count != len(listed) or "" in self._by_node:
            return ["the nominator's two tables disagree"]
        return []
