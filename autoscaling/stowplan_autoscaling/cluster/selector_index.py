"""Pods by label query, kept as pods come and go, so that nobody lists all pods to find a workload's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pods import ClusterPod

if TYPE_CHECKING:
    from stowplan_scheduler.selectors import LabelQuery

    from .informers import Informers

_Query = tuple[str, "LabelQuery"]


class _Alike:
    """The pods that share one mapping of labels, and the mappings of the queries that match it."""

    __slots__ = ("groups", "labels", "pods")

    def __init__(self, labels: dict[str, str], groups: tuple[dict[str, ClusterPod], ...]) -> None:
        self.labels = labels
        self.pods: dict[str, ClusterPod] = {}
        self.groups = groups


class SelectorIndex:
    """The pods of every query that was ever asked for. Labels that pods share are matched once per query."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._pods: dict[_Query, dict[str, ClusterPod]] = {}
        self._alike: dict[str, dict[int, _Alike]] = {}
        """By namespace and identity of the labels, which pods of one template share; those of a StatefulSet do not."""
        self._in_order = True
        """Whether pods that are alike stand in order of creation: none has changed its labels."""
        for pod in informers.all("Pod").values():
            self._changed(None, pod)
        informers.handle("Pod", self._changed)

    def pods(self, namespace: str, query: LabelQuery) -> tuple[ClusterPod, ...]:
        """The pods of a namespace that the query matches, in order of creation."""
        return tuple(self.mapping(namespace, query).values())

    def mapping(self, namespace: str, query: LabelQuery) -> dict[str, ClusterPod]:
        """The same by key, kept up to date. Not to be changed."""
        held = self._pods.get((namespace, query))
        if held is None:
            held = self._pods[namespace, query] = {}
            found = [alike for alike in self._alike.get(namespace, {}).values() if query.matches(alike.labels)]
            if len(found) == 1 and self._in_order:
                held.update(found[0].pods)
            elif found:
                keys = set().union(*(alike.pods for alike in found))
                held.update((key, pod) for key, pod in self._informers.all("Pod").items() if key in keys)
            for alike in found:
                alike.groups += (held,)
        return held

    def groups_of(self, pod: ClusterPod) -> tuple[dict[str, ClusterPod], ...]:
        """The mappings that the pod belongs to."""
        return self._of(pod).groups

    def _changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if old is not None and (new is None or new.metadata.labels is not old.metadata.labels):
            self._in_order = self._in_order and new is None
            self._remove(old)
        if new is not None:
            key, alike = new.key, self._of(new)
            alike.pods[key] = new
            for held in alike.groups:
                held[key] = new

    def _remove(self, pod: ClusterPod) -> None:
        alike, key = self._of(pod), pod.key
        alike.pods.pop(key, None)
        for held in alike.groups:
            held.pop(key, None)
        if not alike.pods:
            del self._alike[pod.metadata.namespace][id(alike.labels)]

    def _of(self, pod: ClusterPod) -> _Alike:
        labels, namespace = pod.metadata.labels, pod.metadata.namespace
        there = self._alike.setdefault(namespace, {})
        found = there.get(id(labels))
        if found is None:
            groups = tuple(
                [held for (where, q), held in self._pods.items() if where == namespace and q.matches(labels)]
            )
            # The labels are kept, so that no other object takes their identity.
            found = there[id(labels)] = _Alike(labels, groups)
        return found
