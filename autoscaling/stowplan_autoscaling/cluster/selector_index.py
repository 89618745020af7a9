"""Pods by label query, kept as pods come and go, so that nobody lists all pods to find a workload's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .pods import ClusterPod

if TYPE_CHECKING:
    from stowplan_scheduler.selectors import LabelQuery

    from .informers import Informers

_MOST_KNOWN: Final = 65_536
"""Labels whose matches are remembered; pods of one template share theirs, those of a StatefulSet do not."""

_Query = tuple[str, "LabelQuery"]


class SelectorIndex:
    """The pods of every query that was ever asked for. Labels that pods share are matched once."""

    def __init__(self, informers: Informers) -> None:
        self._informers = informers
        self._pods: dict[_Query, dict[str, ClusterPod]] = {}
        self._matches: dict[tuple[str, int], tuple[dict[str, str], tuple[dict[str, ClusterPod], ...]]] = {}
        """By namespace and identity of the labels: the labels, and where pods with them belong."""
        informers.handle("Pod", self._changed)

    def pods(self, namespace: str, query: LabelQuery) -> tuple[ClusterPod, ...]:
        """The pods of a namespace that the query matches, in order of creation."""
        return tuple(self.mapping(namespace, query).values())

    def mapping(self, namespace: str, query: LabelQuery) -> dict[str, ClusterPod]:
        """The same by key, kept up to date. Not to be changed."""
        held = self._pods.get((namespace, query))
        if held is None:
            held = self._pods[namespace, query] = self._matching(namespace, query)
            self._matches.clear()
        return held

    def _matching(self, namespace: str, query: LabelQuery) -> dict[str, ClusterPod]:
        held: dict[str, ClusterPod] = {}
        known: dict[int, bool] = {}
        for key, pod in self._informers.all("Pod").items():
            meta = pod.metadata
            if meta.namespace != namespace:
                continue
            labels = meta.labels
            matches = known.get(id(labels))
            if matches is None:
                matches = known[id(labels)] = query.matches(labels)
            if matches:
                held[key] = pod
        return held

    def groups_of(self, pod: ClusterPod) -> tuple[dict[str, ClusterPod], ...]:
        """The mappings that the pod belongs to."""
        return self._groups(pod)

    def _changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if old is not None and (new is None or new.metadata.labels is not old.metadata.labels):
            for held in self._groups(old):
                held.pop(old.key, None)
        if new is not None:
            key = new.key
            for held in self._groups(new):
                held[key] = new

    def _groups(self, pod: ClusterPod) -> tuple[dict[str, ClusterPod], ...]:
        labels, namespace = pod.metadata.labels, pod.metadata.namespace
        found = self._matches.get((namespace, id(labels)))
        if found is None:
            if len(self._matches) >= _MOST_KNOWN:
                self._matches.clear()
            groups = tuple(
                held for (where, query), held in self._pods.items() if where == namespace and query.matches(labels)
            )
            # The labels are kept so that no other object takes their identity.
            found = self._matches[namespace, id(labels)] = labels, groups
        return found[1]
