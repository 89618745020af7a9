"""NodeInfo: a node, its pods, and what they add up to.

The cache and the snapshot hold one each per node. Parts that change rarely (ports, claims, pods with affinity) are
replaced rather than changed, so that both sides share them.

Follows NodeInfo in pkg/scheduler/framework/types.go and HostPortInfo in
staging/src/k8s.io/kube-scheduler/framework/types.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeVar

from stowplan_scheduler.framework.pod_info import HostPort, PodInfo, PodShape
from stowplan_scheduler.objects import Node
from stowplan_scheduler.resources import Resource

from .errors import CacheError
from .image_states import NO_IMAGES, FrozenStates, ImageSet

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - a wildcard key, no socket

JournalEntry = tuple[PodInfo, int]
"""A pod that came (+1) or went (-1)."""

MAX_JOURNAL: Final = 256
"""A longer journal is dropped: an idle scheduler takes no snapshot for hours, and comparing two lists is cheap."""

NO_PODS: Final[tuple[PodInfo, ...]] = ()

K = TypeVar("K", bound=Hashable)

Amounts = tuple[Hashable, ...]
"""What a node has, and what its pods ask for, as one value to compare."""


class HostPortInfo:
    """The ports that are taken on a node. A set, as upstream's: the first release of a port frees it."""

    __slots__ = ("_taken",)

    def __init__(self, ports: Iterable[HostPort] = ()) -> None:
        """Start with `ports` taken."""
        self._taken: dict[str, set[tuple[str, int]]] = {}
        for port in ports:
            self.add(port.ip, port.protocol, port.port)

    def add(self, ip: str, protocol: str, port: int) -> None:
        """Take a port; an empty address stands for every address, an empty protocol for TCP."""
        if port > 0:
            self._taken.setdefault(ip or ANY_ADDRESS, set()).add((protocol or "TCP", port))

    def remove(self, ip: str, protocol: str, port: int) -> None:
        """Free a port, whoever took it."""
        taken = self._taken.get(ip or ANY_ADDRESS)
        if port > 0 and taken is not None:
            taken.discard((protocol or "TCP", port))
            if not taken:
                del self._taken[ip or ANY_ADDRESS]

    def conflicts(self, ip: str, protocol: str, port: int) -> bool:
        """Whether a port cannot be taken: every address conflicts with each one, an address with itself too."""
        wanted = (protocol or "TCP", port)
        if not ip or ip == ANY_ADDRESS:
            return any(wanted in taken for taken in self._taken.values())
        return wanted in self._taken.get(ANY_ADDRESS, ()) or wanted in self._taken.get(ip, ())

    def copy(self) -> HostPortInfo:
        """An independent copy."""
        copied = HostPortInfo()
        copied._taken = {ip: set(taken) for ip, taken in self._taken.items()}
        return copied

    def __len__(self) -> int:
        return sum(map(len, self._taken.values()))

    def __iter__(self) -> Iterator[HostPort]:
        """The ports in order of address, protocol and number."""
        for ip in sorted(self._taken):
            for protocol, port in sorted(self._taken[ip]):
                yield HostPort(ip, protocol, port)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostPortInfo) and self._taken == other._taken

    __hash__ = None  # type: ignore[assignment]


def claim_keys(shape: PodShape) -> tuple[str, ...]:
    """namespace/name of each claim that the pod's volumes name; a claim named twice counts twice."""
    volumes = shape.pod.spec.volumes
    if not volumes:
        return ()
    claims = [v.persistent_volume_claim.claim_name for v in volumes if v.persistent_volume_claim is not None]
    return tuple(f"{shape.namespace}/{claim}" for claim in claims)


@lru_cache(maxsize=1024)
def _feature_set(features: tuple[str, ...]) -> frozenset[str]:
    return frozenset(features)


class NodeInfo:
    """A node and its pods. Without a node object it is a ghost: a deleted node that still has pods.

    `requested`, `allocatable`: milli cores and bytes. `row` is the position in the snapshot's list, -1 outside one.
    `allocatable`, `image_states`, `used_ports` and `pvc_ref_counts` may be shared with other NodeInfos: replace them,
    never change them. `generation` is set by the cache alone.

    `journal` is the cache's: the pods that came and went since the NodeInfo was last copied into the snapshot. None
    means that this was not written down; `pod_changes` then tells it from the two lists of pods.
    """

    __slots__ = (
        "allocatable",
        "declared_features",
        "generation",
        "image_set",
        "image_states",
        "journal",
        "node",
        "non_zero_cpu",
        "non_zero_memory",
        "pods",
        "pods_with_affinity",
        "pods_with_required_anti_affinity",
        "pvc_ref_counts",
        "requested",
        "row",
        "used_ports",
    )

    def __init__(self) -> None:
        """A ghost without pods."""
        self.node: Node | None = None
        self.pods: list[PodInfo] = []
        self.pods_with_affinity: tuple[PodInfo, ...] = NO_PODS
        self.pods_with_required_anti_affinity: tuple[PodInfo, ...] = NO_PODS
        self.requested = Resource()
        self.non_zero_cpu = 0
        self.non_zero_memory = 0
        self.allocatable = Resource()
        self.used_ports: HostPortInfo | None = None
        self.pvc_ref_counts: dict[str, int] | None = None
        self.image_set: ImageSet | None = None
        self.image_states: FrozenStates = NO_IMAGES
        self.declared_features: frozenset[str] = frozenset()
        self.generation = 0
        self.row = -1
        self.journal: list[JournalEntry] | tuple[()] | None = None

    @property
    def name(self) -> str:
        """The node's name, "" for a ghost."""
        return "" if self.node is None else self.node.metadata.name

    @property
    def amounts(self) -> Amounts:
        """All amounts that a rule may compare: allocatable, requested in both ways of counting, number of pods."""
        has, used = self.allocatable, self.requested
        return (
            used.milli_cpu,
            used.memory,
            self.non_zero_cpu,
            self.non_zero_memory,
            len(self.pods),
            has.milli_cpu,
            has.memory,
            has.allowed_pod_number,
            has.ephemeral_storage,
            used.ephemeral_storage,
            tuple(sorted(has.scalar.items())) if has.scalar else (),
            tuple(sorted(used.scalar.items())) if used.scalar else (),
        )

    def add_pod(self, info: PodInfo) -> None:
        """Put a pod at the end of the list."""
        shape = info.shape
        self.pods.append(info)
        if shape.has_affinity:
            self.pods_with_affinity += (info,)
        if shape.has_required_anti_affinity:
            self.pods_with_required_anti_affinity += (info,)
        self.requested.add(shape.node_requested)
        self.non_zero_cpu += shape.non_zero_cpu
        self.non_zero_memory += shape.non_zero_memory
        if shape.host_ports:
            self._take_ports(shape)
        if shape.pod.spec.volumes:
            self._count_claims(shape, 1)
        if self.journal is not None:
            self._note(info, 1)

    def remove_pod(self, info: PodInfo) -> PodInfo:
        """Take the pod with this uid out; the last pod of the list takes its place. Returns the pod that was held.

        Raises CacheError if the node has no such pod.
        """
        at = self._index(info)
        pods = self.pods
        held = pods[at]
        pods[at] = pods[-1]
        pods.pop()
        shape = held.shape
        if shape.has_affinity:
            self.pods_with_affinity = _without(self.pods_with_affinity, held)
        if shape.has_required_anti_affinity:
            self.pods_with_required_anti_affinity = _without(self.pods_with_required_anti_affinity, held)
        self.requested.sub(shape.node_requested)
        self.non_zero_cpu -= shape.non_zero_cpu
        self.non_zero_memory -= shape.non_zero_memory
        if shape.host_ports:
            self._free_ports(shape)
        if shape.pod.spec.volumes:
            self._count_claims(shape, -1)
        if self.journal is not None:
            self._note(held, -1)
        return held

    def replace_pod(self, old: PodInfo, new: PodInfo) -> None:
        """What removing `old` and adding `new` of the same uid and shape would leave.

        Only the order and the object change: nothing is added up again, and the journal hears of it only if the pod
        began to terminate.
        """
        at = self._index(old)
        pods = self.pods
        held = pods[at]
        pods[at] = pods[-1]
        pods[-1] = new
        shape = new.shape
        if shape.has_affinity:
            self.pods_with_affinity = (*_without(self.pods_with_affinity, held), new)
        if shape.has_required_anti_affinity:
            self.pods_with_required_anti_affinity = (*_without(self.pods_with_required_anti_affinity, held), new)
        if shape.host_ports:
            # Taken again, in case another pod's release freed a port that both have.
            self._take_ports(shape)
        if self.journal is not None and held.terminating != new.terminating:
            self._note(held, -1)
            self._note(new, 1)

    def set_node(self, node: Node) -> None:
        """Take over the node object. Raises QuantityError for an allocatable amount that cannot be read."""
        old = self.node
        if old is None or old.status.allocatable != node.status.allocatable:
            self.allocatable = Resource.from_map(node.status.allocatable)
        if old is None or old.status.declared_features != node.status.declared_features:
            self.declared_features = _feature_set(node.status.declared_features)
        self.node = node

    def remove_node(self) -> None:
        """Become a ghost."""
        self.node = None
        self.image_set = None
        self.image_states = NO_IMAGES

    def copy_into(self, target: NodeInfo) -> None:
        """Make `target` equal to this NodeInfo; it keeps its identity, its row and its journal."""
        target.node = self.node
        target.pods = self.pods.copy()
        target.pods_with_affinity = self.pods_with_affinity
        target.pods_with_required_anti_affinity = self.pods_with_required_anti_affinity
        target.requested = self.requested.clone()
        target.non_zero_cpu = self.non_zero_cpu
        target.non_zero_memory = self.non_zero_memory
        target.allocatable = self.allocatable
        target.used_ports = self.used_ports
        target.pvc_ref_counts = self.pvc_ref_counts
        target.image_set = self.image_set
        target.image_states = self.image_states
        target.declared_features = self.declared_features
        target.generation = self.generation

    def clone(self) -> NodeInfo:
        """An independent copy with the same row, for a hypothesis."""
        copied = NodeInfo.__new__(NodeInfo)
        self.copy_into(copied)
        copied.row = self.row
        copied.journal = None
        return copied

    def _index(self, info: PodInfo) -> int:
        """Where the pod of this uid stands: most often it is the very object."""
        try:
            return self.pods.index(info)
        except ValueError:
            pass
        for at, held in enumerate(self.pods):
            if held.uid == info.uid:
                return at
        name = info.pod.metadata.name
        raise CacheError(f"no corresponding pod {name} in pods of node {self.name or info.pod.spec.node_name}")

    def _take_ports(self, shape: PodShape) -> None:
        ports = HostPortInfo() if self.used_ports is None else self.used_ports.copy()
        for port in shape.host_ports:
            ports.add(port.ip, port.protocol, port.port)
        self.used_ports = ports

    def _free_ports(self, shape: PodShape) -> None:
        if self.used_ports is not None:
            ports = self.used_ports.copy()
            for port in shape.host_ports:
                ports.remove(port.ip, port.protocol, port.port)
            self.used_ports = ports if len(ports) else None

    def _count_claims(self, shape: PodShape, sign: int) -> None:
        keys = claim_keys(shape)
        if keys:
            counts = dict(self.pvc_ref_counts or {})
            add_counts(counts, keys, sign)
            self.pvc_ref_counts = counts or None

    def _note(self, info: PodInfo, sign: int) -> None:
        journal = self.journal
        if not journal:
            self.journal = [(info, sign)]
        elif len(journal) < MAX_JOURNAL:
            journal.append((info, sign))
        else:
            self.journal = None

    def __repr__(self) -> str:
        """For messages of failed checks."""
        return f"NodeInfo({self.name or 'ghost'}, row={self.row}, pods={self.pods})"


def add_counts(counts: dict[K, int], keys: Iterable[K], amount: int) -> None:
    """Add `amount` for each key; a key that comes to nothing is forgotten."""
    for key in keys:
        counts[key] = counts.get(key, 0) + amount
        if counts[key] == 0:
            del counts[key]


def pod_changes(before: list[PodInfo], after: list[PodInfo]) -> list[JournalEntry]:
    """What turns one list of pods into the other: went, then came; a pod counts as changed if a rule can tell."""
    if not before:
        return [(pod, 1) for pod in after]
    left = {pod.uid: pod for pod in before}
    came: list[JournalEntry] = []
    for pod in after:
        held = left.get(pod.uid)
        if held is not None and held.shape is pod.shape and held.terminating == pod.terminating:
            del left[pod.uid]
        else:
            came.append((pod, 1))
    return [(pod, -1) for pod in left.values()] + came


def _without(pods: tuple[PodInfo, ...], pod: PodInfo) -> tuple[PodInfo, ...]:
    """`pods` without `pod`, whose place the last one takes."""
    rest = list(pods)
    rest[rest.index(pod)] = rest[-1]
    rest.pop()
    return tuple(rest)
