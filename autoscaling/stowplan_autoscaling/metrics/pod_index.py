"""Which pods a label query means, without looking at all pods: what the metrics APIs' pod listers do.

An entry is made when a pod appears in the API and taken out when it is gone. Queries are answered from the smallest
set of pods that share a label which the query wants, and remembered until that set changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stowplan_scheduler.objects import Pod
from stowplan_scheduler.selectors import LabelQuery

_Key = tuple[str, ...]  # (namespace,) or (namespace, label, value)


@dataclass(frozen=True, slots=True)
class Members:
    """Pods of one namespace, in the order of their names. uids[i] belongs to names[i]."""

    names: tuple[str, ...] = ()
    uids: tuple[str, ...] = ()


class _Bucket:
    """Pods that share a label, and how often that set changed."""

    __slots__ = ("pods", "version")

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.version = 0


_EMPTY = _Bucket()


class PodIndex:
    """Pods by namespace and label."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._buckets: dict[_Key, _Bucket] = {}
        self._answers: dict[tuple[str, LabelQuery], tuple[_Key, int, Members]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add(self, pod: Pod) -> None:
        """A pod appeared, or its labels may have changed."""
        uid = pod.metadata.uid
        known = self._pods.get(uid)
        if known is not None:
            if known.metadata.labels == pod.metadata.labels:
                return
            self.remove(uid)
        self._pods[uid] = pod
        for key in _keys(pod.metadata.namespace, pod.metadata.labels):
            bucket = self._buckets.get(key)
            if bucket is None:
                bucket = self._buckets[key] = _Bucket()
            bucket.pods[uid] = pod
            bucket.version += 1

    def remove(self, uid: str) -> None:
        """A pod is gone from the API. Unknown pods are none of our business."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        for key in _keys(pod.metadata.namespace, pod.metadata.labels):
            bucket = self._buckets[key]
            del bucket.pods[uid]
            bucket.version += 1

    def members(self, namespace: str, query: LabelQuery) -> Members:
        """The pods of a namespace that the query means."""
        answer = self._answers.get((namespace, query))
        if answer is not None and self._bucket(answer[0]).version == answer[1]:
            return answer[2]
        key = self._smallest(namespace, query)
        bucket = self._bucket(key)
        found = sorted((p.metadata.name, uid) for uid, p in bucket.pods.items() if query.matches(p.metadata.labels))
        members = Members(tuple(name for name, _ in found), tuple(uid for _, uid in found))
        self._answers[namespace, query] = (key, bucket.version, members)
        return members

    def _bucket(self, key: _Key) -> _Bucket:
        return self._buckets.get(key, _EMPTY)

    def _smallest(self, namespace: str, query: LabelQuery) -> _Key:
        keys: list[_Key] = [(namespace, *pair) for pair in query.wanted]
        return min(keys, key=lambda key: len(self._bucket(key).pods), default=(namespace,))


def _keys(namespace: str, labels: Mapping[str, str]) -> list[_Key]:
    return [(namespace,), *((namespace, key, text) for key, text in labels.items())]
