"""A node as Karpenter sees it: the Node, the NodeClaim behind it, and the pods on it.

What they add up to is kept and renewed only for the node that changed; `version` counts the changes.

Follows pkg/controllers/state/statenode.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan_autoscaling.cluster.controllers.node_lifecycle.conditions import ready_status
from stowplan_scheduler.objects import Node, Pod, Taint
from stowplan_scheduler.quantity import NANOS
from stowplan_scheduler.timestamps import parse_time

from .amounts import NODES, add, nano_amounts, subtracted
from .host_ports import PortUse
from .labels import HOSTNAME, INITIALIZED, NODE_POOL, REGISTERED, TRUE
from .node_claims import NodeClaim
from .pods import PENDING, is_daemon, is_reschedulable
from .requirements import Algebra, Requirements
from .shapes import Shape
from .taints import is_ephemeral, same_taint

_NONE: Final[Mapping[str, str]] = {}


class KnownPod:
    """A pod with its shape."""

    __slots__ = ("_turn", "has_begun", "is_daemon", "is_reschedulable", "key", "pod", "shape")

    def __init__(self, pod: Pod, shape: Shape) -> None:
        self.pod = pod
        self.key = pod.key
        self.shape = shape
        self.is_daemon = is_daemon(pod)
        self.is_reschedulable = not self.is_daemon and is_reschedulable(pod)
        self.has_begun = pod.status.phase != PENDING
        self._turn: tuple[int, int, int, str] | None = None

    @property
    def turn(self) -> tuple[int, int, int, str]:
        """When it is the pod's turn in a round: the most cpu first, then the most memory, the oldest, then by uid."""
        known = self._turn
        if known is None:
            meta, requests = self.pod.metadata, self.shape.requests
            when = parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0
            known = self._turn = -requests.get("cpu", 0), -requests.get("memory", 0), when, meta.uid
        return known


class StateNode:
    """A node, or a claim whose node is still to come: one of `node` and `claim` is there.

    `name`, `labels` and `annotations` are the claim's until the node is registered. `is_registered`: Karpenter has
    taken the node over; `is_initialized`: it is complete; both hold for nodes of others. `host`: the host name; `pool`:
    the name of the pool; `is_ready`: the Node is there and says so. `taints` are those that count: not those that
    vanish while the node starts. `marked`: a disruption command has chosen it.
    """

    __slots__ = (
        "_allocatable", "_available", "_capacity", "_daemons", "_full_labels", "_keeps_out", "_labels", "annotations",
        "bound", "claim", "host", "is_initialized", "is_ready", "is_registered", "labels", "marked", "name", "node",
        "nominated_until", "pool", "ports", "taints", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.node: Node | None = None
        self.claim: NodeClaim | None = None
        self.bound: dict[str, KnownPod] = {}
        self.ports = PortUse()
        self.marked = False
        self.nominated_until: int | None = None
        self.version = 0
        self.changed()

    def changed(self) -> None:
        """Node or claim are others now."""
        node, claim = self.node, self.claim
        own = node.metadata.labels if node is not None else _NONE
        self.is_registered = claim is None or own.get(REGISTERED) == TRUE
        self.is_initialized = claim is None or own.get(INITIALIZED) == TRUE
        self.is_ready = node is not None and ready_status(node) == "True"
        self.name, self.labels, self.annotations = "", _NONE, _NONE
        self.taints: tuple[Taint, ...] = ()
        if node is not None and self.is_registered:
            self.name, self.labels, self.annotations = node.metadata.name, own, node.metadata.annotations
            self.taints = node.spec.taints
        elif claim is not None:
            self.name, self.labels, self.annotations = claim.name, claim.labels, claim.annotations
            self.taints = claim.taints
        if claim is not None and not self.is_initialized:
            startup = claim.startup_taints
            self.taints = tuple(
                t for t in self.taints if not is_ephemeral(t) and not any(same_taint(t, s) for s in startup)
            )
        self.host: str = self.labels.get(HOSTNAME) or self.name
        self.pool: str | None = self.labels.get(NODE_POOL)
        self._capacity: dict[str, int] | None = None
        self._allocatable: dict[str, int] | None = None
        self._labels: Requirements | None = None
        self._full_labels: Requirements | None = None
        self._available: dict[str, int] | None = None
        self._daemons: dict[str, int] | None = None
        self._keeps_out: bool | None = None
        self.version += 1

    def set_claim(self, claim: NodeClaim) -> None:
        """The claim is this one now. What has become true of it, or false again, mostly changes nothing else."""
        before, self.claim = self.claim, claim
        if before is not None and _says_the_same(before, claim):
            self.version += 1
        else:
            self.changed()

    def _pods_changed(self, before: KnownPod | None, now: KnownPod | None) -> None:
        """A pod came, went, or is another one; what is known of the pods together is put right."""
        self.version += 1
        old, new = before.shape if before is not None else None, now.shape if now is not None else None
        if old is not new and self._available is not None:
            # A new object: whoever was given the old one keeps it.
            self._available = dict(self._available)
            for shape, sign in ((old, 1), (new, -1)):
                for name, nanos in shape.requests.items() if shape is not None else ():
                    if name in self._available:
                        self._available[name] += sign * nanos
        if (before is not None and before.is_daemon) or (now is not None and now.is_daemon):
            self._daemons = None
        if old is not new and any(shape is not None and shape.keeps_others_out for shape in (old, new)):
            self._keeps_out = None

    # ---- amounts ---------------------------------------------------------------------------------------------------

    def capacity(self) -> Mapping[str, int]:
        """What the node has, in nano units, one of "nodes"; a claim fills in what the node does not report yet."""
        if self._capacity is None:
            own = nano_amounts(self.node.status.capacity) if self.node is not None else {}
            if self.claim is not None and not self.is_initialized:
                own = _filled(own, self.claim.capacity)
            own[NODES] = NANOS
            self._capacity = own
        return self._capacity

    def allocatable(self) -> Mapping[str, int]:
        """What pods can have of it, in nano units."""
        if self._allocatable is None:
            own = nano_amounts(self.node.status.allocatable) if self.node is not None else {}
            if self.claim is not None and not self.is_initialized:
                own = _filled(own, self.claim.allocatable)
            self._allocatable = own
        return self._allocatable

    def available(self) -> Mapping[str, int]:
        """What its pods leave of that, in nano units."""
        if self._available is None:
            used: dict[str, int] = {}
            for known in self.bound.values():
                add(used, known.shape.requests)
            self._available = subtracted(self.allocatable(), used)
        return self._available

    def daemon_requests(self) -> Mapping[str, int]:
        """What the pods of daemon sets take, in nano units."""
        if self._daemons is None:
            self._daemons = {}
            for known in self.bound.values():
                if known.is_daemon:
                    add(self._daemons, known.shape.requests)
        return self._daemons

    # ---- labels ----------------------------------------------------------------------------------------------------

    def label_requirements(self, algebra: Algebra) -> Requirements:
        """The labels as requirements, but for the host name."""
        if self._labels is None:
            self._labels = algebra.shared(Requirements.of_labels(self.labels).without((HOSTNAME,)))
        return self._labels

    def node_requirements(self) -> Requirements:
        """The labels of the Node itself as requirements, host name and all."""
        if self._full_labels is None:
            labels = self.node.metadata.labels if self.node is not None else _NONE
            self._full_labels = Requirements.of_labels(labels)
        return self._full_labels

    # ---- pods ------------------------------------------------------------------------------------------------------

    def bind(self, known: KnownPod) -> None:
        """A pod is on the node, or has changed."""
        before = self.bound.get(known.key)
        self.bound[known.key] = known
        self.ports.add(known.key, known.shape.ports)
        self._pods_changed(before, known)

    @property
    def keeps_others_out(self) -> bool:
        """Whether a pod on the node has required anti-affinity."""
        if self._keeps_out is None:
            self._keeps_out = any(known.shape.keeps_others_out for known in self.bound.values())
        return self._keeps_out

    def unbind(self, key: str) -> None:
        """A pod is gone or done."""
        known = self.bound.pop(key, None)
        if known is not None and known.shape.ports:
            self.ports = PortUse((other.key, other.shape.ports) for other in self.bound.values())
        self._pods_changed(known, None)

    # ---- on its way out --------------------------------------------------------------------------------------------

    @property
    def is_deleting(self) -> bool:
        """Whether the node is on its way out, or a disruption command has chosen it."""
        if self.marked:
            return True
        if self.claim is not None:
            return self.claim.deleting or self.claim.terminating
        return self.node is not None and self.node.metadata.deletion_timestamp is not None

    def is_nominated(self, now: int) -> bool:
        """Whether a pending pod is expected on the node."""
        return self.nominated_until is not None and self.nominated_until > now


def _says_the_same(before: NodeClaim, claim: NodeClaim) -> bool:
    """Whether two claims are the same in all that a node without registration takes from them."""
    return (
        before.name == claim.name
        and before.labels is claim.labels
        and before.annotations is claim.annotations
        and before.taints is claim.taints
        and before.startup_taints is claim.startup_taints
        and before.capacity is claim.capacity
        and before.allocatable is claim.allocatable
    )


def _filled(own: dict[str, int], claimed: Mapping[str, int]) -> dict[str, int]:
    for name, nanos in claimed.items():
        if not own.get(name):
            own[name] = nanos
    return own
