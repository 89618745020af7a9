"""Which autoscalers select the same pods: two that do are both refused.

Follows pkg/controller/podautoscaler/hpa_selector_store.go of Kubernetes v1.37.2. An autoscaler is known from the moment
it appears and selects nothing until its first sync has read its target's selector.

Upstream asks every selector of the namespace about every set of labels. Here a selector that wants some label to have
one value is found by that label.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan_scheduler.selectors import NOTHING, LabelQuery

from .metric_proposal import PodLister

_MOST_KNOWN: Final = 65_536


class _Namespace:
    """Selectors of one namespace: all by name, and names by a label that the selector wants (None: by none)."""

    __slots__ = ("_by_label", "_known", "selectors")

    def __init__(self) -> None:
        self.selectors: dict[str, LabelQuery] = {}
        self._by_label: dict[tuple[str, str] | None, dict[str, None]] = {}
        # Pods of one workload mostly share their labels object; an entry keeps it alive, so its id stays its own.
        self._known: dict[int, tuple[Mapping[str, str], tuple[str, ...]]] = {}

    def put(self, name: str, selector: LabelQuery) -> None:
        old = self.selectors.get(name)
        if old is selector:
            return
        self.drop(name)
        self.selectors[name] = selector
        if not selector.nothing:
            self._by_label.setdefault(_label(selector), {})[name] = None
            self._known.clear()

    def drop(self, name: str) -> None:
        old = self.selectors.pop(name, None)
        if old is not None and not old.nothing:
            self._by_label[_label(old)].pop(name)
            self._known.clear()

    def matching(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The names of those that select pods with these labels."""
        known = self._known.get(id(labels))
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[id(labels)] = (labels, self._search(labels))
        return known[1]

    def _search(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        found: list[str] = []
        for label in (None, *labels.items()):
            for name in self._by_label.get(label, ()):
                if self.selectors[name].matches(labels):
                    found.append(name)
        return tuple(found)


def _label(selector: LabelQuery) -> tuple[str, str] | None:
    wanted = selector.wanted
    return wanted[0] if wanted else None


class SelectorStore:
    """Selectors of all autoscalers, by namespace and name."""

    def __init__(self) -> None:
        """Knows none."""
        self._namespaces: dict[str, _Namespace] = {}

    def add(self, namespace: str, name: str) -> None:
        """An autoscaler has appeared."""
        known = self._of(namespace)
        if name not in known.selectors:
            known.put(name, NOTHING)

    def update(self, namespace: str, name: str, selector: LabelQuery) -> None:
        """A sync has read the selector."""
        self._of(namespace).put(name, selector)

    def remove(self, namespace: str, name: str) -> None:
        """The autoscaler is gone."""
        self._of(namespace).drop(name)

    def rivals(self, namespace: str, selector: LabelQuery, pods: PodLister) -> list[str]:
        """The autoscalers that select one of the pods of `selector`; stops at two, because one alone is fine."""
        known = self._of(namespace)
        if len(known.selectors) < 2:
            return []
        found: list[str] = []
        before: Mapping[str, str] | None = None
        for pod in pods(namespace, selector):
            labels = pod.metadata.labels
            if labels is before:
                continue
            before = labels
            for name in known.matching(labels):
                if name not in found:
                    found.append(name)
                    if len(found) == 2:
                        return found
        return found

    def _of(self, namespace: str) -> _Namespace:
        found = self._namespaces.get(namespace)
        if found is None:
            found = self._namespaces[namespace] = _Namespace()
        return found
