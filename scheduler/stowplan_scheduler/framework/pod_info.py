"""PodInfo: a pod with everything the rules need, computed once per shape of pod.

Pods of one template differ in their name only. What rules read (requests, affinity terms, ports, tolerations) is
computed once per *shape*, the pod without its identity, and shared by all pods of that shape. Memo tables and
counters are keyed by shapes, or by parts of them, too.

PodInfo follows pkg/scheduler/framework/types.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from weakref import WeakValueDictionary

import msgspec

from stowplan_scheduler.objects import (
    Container,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    PodStatus,
    Volume,
    controller_of,
)
from stowplan_scheduler.resources import (
    CPU,
    MEMORY,
    Resource,
    balanced_request,
    fit_request,
    node_requested,
    non_zero_requested,
    score_request,
)
from stowplan_scheduler.selectors import LabelQuery, SelectorError

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A pod (anti-)affinity term, compiled. `weight` is 0 for required terms.

    `namespace_query` is None where the term has no namespaceSelector. Upstream: framework.AffinityTerm.
    """

    topology_key: str
    namespaces: frozenset[str]
    query: LabelQuery
    namespace_query: LabelQuery | None
    weight: int = 0

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str] | None) -> bool:
        """Whether a pod with `labels` in `namespace` is meant (upstream AffinityTerm.Matches)."""
        in_scope = namespace in self.namespaces or (
            self.namespace_query is not None and self.namespace_query.matches(namespace_labels or {})
        )
        return in_scope and self.query.matches(labels)


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port that a pod takes on its node; "0.0.0.0" stands for every address."""

    ip: str
    protocol: str
    port: int


class PodTemplate:
    """What pods that differ only in identity and in amounts of resources have in common; interned like shapes."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int) -> None:
        """`number` is unique within an interner."""
        self.number = number


class PodShape:
    """What pods that differ only in identity have in common. Compared and hashed by identity: shapes are interned."""

    __slots__ = (
        "__weakref__",
        "affinity_error",
        "balanced",
        "directed",
        "fit",
        "has_affinity",
        "has_required_anti_affinity",
        "host_ports",
        "labels",
        "namespace",
        "node_requested",
        "non_zero_cpu",
        "non_zero_memory",
        "number",
        "owner",
        "pod",
        "preferred_affinity",
        "preferred_anti_affinity",
        "required_affinity",
        "required_anti_affinity",
        "score",
        "template",
        "unparsed",
    )

    def __init__(self, pod: Pod, number: int, template: PodTemplate) -> None:
        """Derive everything from one pod of the shape; `number` is unique within an interner."""
        self.pod = pod
        self.number = number
        self.template = template
        self.namespace = pod.metadata.namespace
        self.labels = pod.metadata.labels
        self.owner: OwnerReference | None = controller_of(pod.metadata)
        self._add_up(pod)
        self.host_ports: tuple[HostPort, ...] = _host_ports(pod)
        affinity = pod.spec.affinity
        own = affinity.pod_affinity if affinity else None
        anti = affinity.pod_anti_affinity if affinity else None
        # Upstream counts a pod as "with affinity" if either block is present, even an empty one.
        self.has_affinity = own is not None or anti is not None
        self.has_required_anti_affinity = bool(anti and anti.required_during_scheduling_ignored_during_execution)
        lists = _TermLists(pod)
        self.required_affinity = lists.required(_AFFINITY, own)
        self.required_anti_affinity = lists.required(_ANTI_AFFINITY, anti)
        self.preferred_affinity = lists.preferred("preferredAffinityTerms", own)
        self.preferred_anti_affinity = lists.preferred("preferredAntiAffinityTerms", anti)
        terms = self.required_affinity + self.required_anti_affinity
        terms += self.preferred_affinity + self.preferred_anti_affinity
        self.directed: tuple[tuple[str, str] | None, ...] = tuple(_last(t.query.wanted) for t in terms)
        """A label of the pods that each term means; None for a term that names none."""
        self.affinity_error: str = lists.error_text()
        self.unparsed = frozenset(lists.errors)
        """Names of the lists of terms that do not parse; they count as empty."""

    def _add_up(self, pod: Pod) -> None:
        """The views of the requests (see resources.py): what to fit, what a node counts, what the scorers see."""
        spec, status = pod.spec, pod.status
        self.fit: Resource = fit_request(pod)
        self.node_requested: Resource
        self.balanced: Resource
        self.score: Resource
        if (
            spec.resources is None
            and not status.container_statuses
            and not status.init_container_statuses
            and status.resources is None
            and status.allocated_resources is None
        ):
            # Without pod-level requests and without a resize in progress all views are one of two, and one of one if
            # every container names its cpu and memory.
            self.node_requested = self.balanced = self.fit
            self.score = self.fit if _all_explicit(pod) else score_request(pod)
            self.non_zero_cpu, self.non_zero_memory = self.score.milli_cpu, self.score.memory
            return
        self.score = score_request(pod)
        self.node_requested = node_requested(pod)
        self.non_zero_cpu, self.non_zero_memory = non_zero_requested(pod)
        self.balanced = balanced_request(pod)

    @property
    def required_terms_unparsed(self) -> bool:
        """Whether one of the pod's lists of required terms does not parse."""
        return not self.unparsed.isdisjoint((_AFFINITY, _ANTI_AFFINITY))

    @property
    def anti_terms_unparsed(self) -> bool:
        """Whether the pod's required anti-affinity terms do not parse."""
        return _ANTI_AFFINITY in self.unparsed


_AFFINITY = "requiredAffinityTerms"
_ANTI_AFFINITY = "requiredAntiAffinityTerms"


class _TermLists:
    """The lists of affinity terms of a pod. One that does not parse is empty, and does not keep the others from it."""

    __slots__ = ("_pod", "errors")

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self.errors: dict[str, str] = {}

    def required(self, name: str, block: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        terms = block.required_during_scheduling_ignored_during_execution if block else ()
        return self._compiled(name, [(term, 0) for term in terms])

    def preferred(self, name: str, block: PodAffinity | None) -> tuple[AffinityTerm, ...]:
        terms = block.preferred_during_scheduling_ignored_during_execution if block else ()
        return self._compiled(name, [(term.pod_affinity_term, term.weight) for term in terms])

    def _compiled(self, name: str, terms: Iterable[tuple[PodAffinityTerm, int]]) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(_compile(term, self._pod, weight) for term, weight in terms)
        except SelectorError as failure:
            self.errors[name] = str(failure)
            return ()

    def error_text(self) -> str:
        texts = [f"{name}: {text}" for name, text in self.errors.items()]
        return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)


class PodInfo:
    """A pod and its shape. `key` is "namespace/name"; `uid` falls back to the key."""

    __slots__ = ("key", "pod", "shape", "terminating", "uid")

    def __init__(self, pod: Pod, shape: PodShape) -> None:
        """Join a pod with its shape."""
        self.pod = pod
        self.shape = shape
        meta = pod.metadata
        self.key = f"{meta.namespace}/{meta.name}"
        self.uid = meta.uid or self.key
        self.terminating = meta.deletion_timestamp is not None

    @property
    def priority(self) -> int:
        """spec.priority, 0 where it is absent."""
        return self.pod.spec.priority or 0

    def __repr__(self) -> str:
        """For messages of failed checks."""
        return f"PodInfo({self.key})"


class PodInterner:
    """Makes PodInfos whose equal shapes are one object. One interner per scheduler; shapes die with their last pod."""

    __slots__ = ("_count", "_recent", "_shapes", "_templates")

    def __init__(self) -> None:
        """Start without any shape."""
        self._recent: WeakValueDictionary[tuple[int, int], PodShape] = WeakValueDictionary()
        """A shape by identity of its pod's containers and labels, which pods of a template may share. The shape holds
        both, so no other objects have these identities while it lives.
        """
        self._shapes: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self._templates: WeakValueDictionary[bytes, PodTemplate] = WeakValueDictionary()
        self._count = 0

    def info(self, pod: Pod, *, with_node_name: bool = False) -> PodInfo:
        """The PodInfo of `pod`.

        A pod that waits has no spec.nodeName, and where a bound pod runs is no part of its shape. A caller that
        evaluates a pod that names its node asks for `with_node_name`.
        """
        name = pod.spec.node_name if with_node_name else ""
        parts = (id(pod.spec.containers), id(pod.metadata.labels))
        if not name:
            recent = self._recent.get(parts)
            if recent is not None and _is_of_shape(pod, recent):
                return PodInfo(pod, recent)
        signature = _digest(shape_signature(pod))
        if name:
            signature += name.encode()
        shape = self._shapes.get(signature)
        if shape is None:
            self._count += 1
            shape = PodShape(pod, self._count, self._template(pod, name))
            self._shapes[signature] = shape
            if not name:
                self._recent[parts] = shape
        return PodInfo(pod, shape)

    def info_like(self, pod: Pod, known: PodInfo) -> PodInfo:
        """The PodInfo of a newer version of a pod; the shape is kept without a look inside where its parts are kept."""
        return PodInfo(pod, known.shape) if _keeps_shape(known.pod, pod) else self.info(pod)

    def _template(self, pod: Pod, node_name: str) -> PodTemplate:
        signature = _digest(template_signature(pod)) + node_name.encode()
        template = self._templates.get(signature)
        if template is None:
            self._count += 1
            template = PodTemplate(self._count)
            self._templates[signature] = template
        return template


def _keeps_shape(old: Pod, new: Pod) -> bool:
    """Whether all that `shape_signature` reads is the same object in both. False does not mean that it differs."""
    a, b = old.metadata, new.metadata
    if a is not b and not (a.labels is b.labels and a.owner_references is b.owner_references):
        return False
    return _keeps_spec(old.spec, new.spec) and _keeps_status(old.status, new.status)


def _is_of_shape(pod: Pod, shape: PodShape) -> bool:
    """Whether all that `shape_signature` reads is the same as in the shape's pod, most of it the very object.

    Owners may be other objects: each batch of new pods has one of its own.
    """
    a, b = shape.pod.metadata, pod.metadata
    return (
        a.namespace == b.namespace
        and a.labels is b.labels
        and (a.owner_references is b.owner_references or a.owner_references == b.owner_references)
        and _keeps_spec(shape.pod.spec, pod.spec)
        and _keeps_status(shape.pod.status, pod.status)
    )


def _keeps_status(was: PodStatus, now: PodStatus) -> bool:
    return was is now or (
        was.container_statuses is now.container_statuses
        and was.init_container_statuses is now.init_container_statuses
        and was.allocated_resources is now.allocated_resources
        and was.resources is now.resources
        and not (was.conditions and _is_resizing(was.conditions))
        and not (now.conditions and _is_resizing(now.conditions))
    )


def _is_resizing(conditions: tuple[PodCondition, ...]) -> bool:
    for condition in conditions:  # noqa: SIM110 - most updates come by here, and a generator costs most of it
        if condition.type == "PodResizePending":
            return True
    return False


def _keeps_spec(old: PodSpec, new: PodSpec) -> bool:
    return old is new or (
        old.containers is new.containers
        and old.init_containers is new.init_containers
        and old.node_selector is new.node_selector
        and old.affinity is new.affinity
        and old.tolerations is new.tolerations
        and old.topology_spread_constraints is new.topology_spread_constraints
        and old.priority is new.priority
        and old.overhead is new.overhead
        and old.resources is new.resources
        and old.host_network is new.host_network
        and old.host_users is new.host_users
        and old.volumes is new.volumes
        and old.resource_claims is new.resource_claims
    )


def _all_explicit(pod: Pod) -> bool:
    """Whether no container leaves cpu or memory to the defaults of the scorers."""
    return all(
        requests is not None and CPU in requests and MEMORY in requests
        for requests in (c.resources.requests for c in (*pod.spec.containers, *pod.spec.init_containers))
    )


def _digest(signature: bytes) -> bytes:
    """A signature is some hundred bytes and kept as long as its shape; 16 bytes tell as many apart as there can be."""
    return blake2b(signature, digest_size=16).digest()


def template_signature(pod: Pod) -> bytes:
    """As `shape_signature`, without the amounts of resources."""
    spec, meta = pod.spec, pod.metadata
    owner = controller_of(meta) if meta.owner_references else None
    return _encode(
        (
            meta.namespace,
            meta.labels,
            (owner.kind, owner.name, owner.api_version) if owner else None,
            [_without_amounts(container) for container in spec.containers],
            [_without_amounts(container) for container in spec.init_containers],
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.priority,
            spec.host_network,
            spec.host_users,
            [v for v in spec.volumes if _is_relevant(v)] if spec.volumes else None,
            spec.resource_claims,
        )
    )


def _without_amounts(container: Container) -> tuple[object, ...]:
    return (
        container.image,
        container.ports,
        container.restart_policy,
        container.restart_policy_rules,
        container.volume_mounts,
    )


def shape_signature(pod: Pod) -> bytes:
    """Everything of a pod that a rule may read, as bytes; equal for pods that no rule can tell apart.

    The volumes are left out unless one of them has a source that scheduling reads. spec.nodeName,
    status.nominatedNodeName and the phase are no part of it: they belong to the pod, not to its shape.
    """
    spec, meta, status = pod.spec, pod.metadata, pod.status
    owner = controller_of(meta) if meta.owner_references else None
    return _encode(
        (
            meta.namespace,
            meta.labels,
            (owner.kind, owner.name, owner.api_version) if owner else None,
            spec.containers,
            spec.init_containers,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.priority,
            spec.overhead,
            spec.resources,
            spec.host_network,
            spec.host_users,
            [v for v in spec.volumes if _is_relevant(v)] if spec.volumes else None,
            spec.resource_claims,
            status.container_statuses,
            status.init_container_statuses,
            status.allocated_resources,
            status.resources,
            [c.reason for c in status.conditions if c.type == "PodResizePending"] if status.conditions else None,
        )
    )


def _is_relevant(volume: Volume) -> bool:
    """Whether the volume has a source that scheduling reads; config maps, secrets and the like decode to none."""
    return volume != Volume(name=volume.name)


def _host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Ports > 0 of containers and of sidecars (pkg/scheduler/util, GetHostPorts)."""
    found: list[HostPort] = []
    for container in (*pod.spec.containers, *filter(_is_sidecar, pod.spec.init_containers)):
        found.extend(
            HostPort(p.host_ip or "0.0.0.0", p.protocol or "TCP", p.host_port)  # noqa: S104 - a wildcard key, no socket
            for p in container.ports
            if p.host_port > 0
        )
    return tuple(found)


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _compile(term: PodAffinityTerm, pod: Pod, weight: int) -> AffinityTerm:
    """Namespaces default to the pod's own if the term has neither list nor selector (upstream newAffinityTerm)."""
    names = frozenset(term.namespaces)
    if not names and term.namespace_selector is None:
        names = frozenset((pod.metadata.namespace,))
    selector = None if term.namespace_selector is None else LabelQuery.of(term.namespace_selector)
    return AffinityTerm(term.topology_key, names, LabelQuery.of(term.label_selector), selector, weight)


def _last(labels: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    return labels[-1] if labels else None
