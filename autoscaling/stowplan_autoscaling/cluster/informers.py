"""What controllers see: a copy of the objects as of the changes delivered to them, with indexes and handlers.

All controllers of one manager share it (client-go's shared informers). Handlers are called in the order in which they
were registered, after the copy and its indexes have been brought up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .feed import Change, ChangeType
from .pods import FAILED, SUCCEEDED, TRUE, ClusterPod

if TYPE_CHECKING:
    from .api_server import ApiServer
    from .feed import ChangeFeed

Handler = Callable[[Any, Any], None]
"""Told (old, new): (None, object) for an addition, (object, None) for a deletion."""

_NONE: dict[str, ClusterPod] = {}


class PodGroup:
    """The pods of one owner, sorted out as they change; `version` grows with each change."""

    __slots__ = ("active_pods", "pods", "ready", "terminating", "version")

    def __init__(self) -> None:
        self.pods: dict[str, ClusterPod] = {}
        """All of them by key, in order of creation."""
        self.active_pods: dict[str, ClusterPod] = {}
        """Those that are neither finished nor being deleted."""
        self.version = 0
        self.ready = 0
        """Ready ones among the active."""
        self.terminating = 0

    @property
    def active(self) -> int:
        """How many are active."""
        return len(self.active_pods)

    def set(self, key: str, old: ClusterPod | None, new: ClusterPod | None) -> None:
        """Take a change in."""
        self.version += 1
        if old is not None:
            if key in self.active_pods:
                if old.ready == TRUE:
                    self.ready -= 1
            elif _is_terminating(old):
                self.terminating -= 1
        if new is None:
            self.pods.pop(key, None)
            self.active_pods.pop(key, None)
            return
        self.pods[key] = new
        if new.is_active:
            self.active_pods[key] = new
            if new.ready == TRUE:
                self.ready += 1
        else:
            self.active_pods.pop(key, None)
            if _is_terminating(new):
                self.terminating += 1


def _is_terminating(pod: ClusterPod) -> bool:
    return pod.deleted is not None and pod.status.phase not in {SUCCEEDED, FAILED}


class Informers:
    """The shared copy of one controller manager."""

    def __init__(self, kinds: Iterable[str], latency: int = 0) -> None:
        self._latency = latency
        self._cache: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
        self._handlers: dict[str, list[Handler]] = {kind: [] for kind in self._cache}
        self.seen: dict[str, int] = dict.fromkeys(self._cache, 0)
        """Version of the last change seen, by kind."""
        self.groups: dict[str, PodGroup] = {}
        """Pods by uid of their owner."""
        self.on_node: dict[str, dict[str, ClusterPod]] = {}
        """Pods by node."""
        self.owned: dict[str, dict[str, Any]] = {}
        """Other objects by uid of their controller: {uid: {key: object}}."""

    def start(self, server: ApiServer, feed: ChangeFeed) -> None:
        """Take what is there, sorted by key as a list request returns it, and watch from now on."""
        for kind in self._cache:
            for key in sorted(server.all(kind)):
                obj = server.all(kind)[key]
                self._apply(kind, key, None, obj)
            self.seen[kind] = server.version
        feed.watch("controllers", frozenset(self._cache), self._changed, self._latency)
        for kind, handlers in self._handlers.items():
            for obj in list(self._cache[kind].values()):
                for handler in handlers:
                    handler(None, obj)

    # ---- reading -----------------------------------------------------------------------------

    def get(self, kind: str, key: str) -> Any | None:
        """The object as last seen."""
        return self._cache[kind].get(key)

    def all(self, kind: str) -> dict[str, Any]:
        """Every object of the kind by key. Not to be changed."""
        return self._cache[kind]

    def group(self, owner_uid: str) -> PodGroup:
        """The pods of an owner."""
        found = self.groups.get(owner_uid)
        if found is None:
            found = self.groups[owner_uid] = PodGroup()
        return found

    def children(self, owner_uid: str) -> dict[str, Any]:
        """The objects other than pods that an object controls, by key. Not to be changed."""
        return self.owned.get(owner_uid, {})

    def pods_on(self, node: str) -> dict[str, ClusterPod]:
        """The pods of a node by key. Not to be changed."""
        return self.on_node.get(node, _NONE)

    def handle(self, kind: str, handler: Handler) -> None:
        """Have the handler told of every change of the kind."""
        self._handlers[kind].append(handler)

    # ---- taking changes ----------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        kind, old = change.kind, change.old
        new = None if change.type is ChangeType.DELETED else change.new
        self._apply(kind, change.key, old, new)
        self.seen[kind] = change.version
        for handler in self._handlers[kind]:
            handler(old, new)

    def _apply(self, kind: str, key: str, old: Any, new: Any) -> None:
        if new is None:
            self._cache[kind].pop(key, None)
        else:
            self._cache[kind][key] = new
        if kind == "Pod":
            self._index_pod(key, old, new)
        elif (new if new is not None else old).metadata.owner_references:
            self._index_owned(key, old, new)

    def _index_pod(self, key: str, old: ClusterPod | None, new: ClusterPod | None) -> None:
        pod = new or old
        if pod is None:
            return
        uid = pod.owner_uid
        if old is not None and old.owner_uid != uid:
            if old.owner_uid:
                self.group(old.owner_uid).set(key, old, None)
            if uid:
                self.group(uid).set(key, None, new)
        elif uid:
            self.group(uid).set(key, old, new)
        node = pod.spec.node_name
        if not node:
            return
        held = self.on_node.setdefault(node, {})
        if new is None:
            held.pop(key, None)
            if not held:
                del self.on_node[node]
        else:
            held[key] = new

    def _index_owned(self, key: str, old: Any, new: Any) -> None:
        obj = new if new is not None else old
        for owner in obj.metadata.owner_references:
            if owner.controller:
                held = self.owned.setdefault(owner.uid, {})
                if new is None:
                    held.pop(key, None)
                else:
                    held[key] = new
