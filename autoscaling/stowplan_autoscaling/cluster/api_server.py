"""The API server: every object, every write in one order, and what a request may be refused for.

Objects are frozen and carry `version`, the resource version as a number (those that nobody updates may do without). A
read returns the stored object; a write makes a new one and goes to the change feed. Writes happen at once: what a
request costs in time is the client's affair (`client.py`), how long a change takes to be seen is the watcher's
(`feed.py`).

Status updates and updates of the rest leave each other's half alone; an update with an old version is a conflict; one
that changes nothing makes no version; a deleted pod that has a node stays, with the end of its grace period, until its
kubelet has stopped it (staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go and
pkg/registry/core/pod/strategy.go of Kubernetes v1.37.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.kernel import SECOND, whole_seconds
from stowplan_scheduler.objects import key_of
from stowplan_scheduler.timestamps import format_time

from .errors import AlreadyExistsError, ConflictError, NotFoundError
from .feed import ChangeFeed, ChangeType
from .pods import FAILED, SUCCEEDED, ClusterPod

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel

NO_OLD_VERSION: Final = "the object has been modified; please apply your changes to the latest version and try again"

Observer = Callable[[str, Any, Any], None]
"""Told (kind, old, new) of each write, at once; old is None for a creation, new for a removal."""


class ApiServer:
    """All objects by kind and key.

    `admit(kind, object)` completes an object before it is created, or raises ApiError. `stamp(now)` makes the times
    that go into objects. `uid(kind, key)` names an object for its life. `keeps_annotations`: whether a status update
    may change annotations, as that of a real server may.
    """

    def __init__(
        self,
        kernel: Kernel,
        feed: ChangeFeed,
        *,
        admit: Callable[[str, Any], Any] = lambda _, obj: obj,
        uid: Callable[[str, str], str] = lambda kind, key: f"{kind}/{key}",
        keeps_annotations: bool = True,
    ) -> None:
        self._kernel = kernel
        self._feed = feed
        self._admit = admit
        self._uid = uid
        self._keeps_annotations = keeps_annotations
        self._suffixes: dict[str, int] = {}
        self.stamp: Callable[[int], int] = whole_seconds
        self.grace_of: Callable[[ClusterPod], int] = _grace_of
        self.patched: Callable[[ClusterPod], ClusterPod] = _unchanged
        """What a patch does to a pod beyond what it says."""
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.observers: list[Observer] = []
        """Told of every write."""
        self._observers_of: dict[str, list[Observer]] = {}

    def observe(self, observer: Observer, *kinds: str) -> None:
        """Have it told of the writes of some kinds, before `observers` are."""
        for kind in kinds:
            self._observers_of.setdefault(kind, []).append(observer)

    # ---- reading -----------------------------------------------------------------------------

    def get(self, kind: str, key: str) -> Any:
        """The object. Raises NotFoundError."""
        found = self.objects.get(kind, {}).get(key)
        if found is None:
            raise NotFoundError(f'{kind} "{key}" not found')
        return found

    def find(self, kind: str, key: str) -> Any | None:
        """The object, or None."""
        held = self.objects.get(kind)
        return None if held is None else held.get(key)

    def all(self, kind: str) -> dict[str, Any]:
        """Every object of a kind by key, in order of creation. Not to be changed."""
        return self.objects.setdefault(kind, {})

    # ---- writing -----------------------------------------------------------------------------

    def create(self, kind: str, obj: Any) -> Any:
        """Store a new object; returns it as stored. Raises AlreadyExistsError and what admission raises."""
        meta = obj.metadata
        if not meta.name:
            number = self._suffixes[meta.generate_name] = self._suffixes.get(meta.generate_name, 0) + 1
            meta = replace(meta, name=f"{meta.generate_name}{number:05d}")
        key = key_of(meta)
        held = self.objects.setdefault(kind, {})
        if key in held:
            raise AlreadyExistsError(f'{kind} "{key}" already exists')
        obj = self._admit(
            kind, replace(obj, metadata=replace(meta, uid=meta.uid or self._uid(kind, key), generation=1))
        )
        if hasattr(obj, "created") and not obj.created:
            stamped = replace(obj, created=self.stamp(self._kernel.now), version=self.version + 1)
            return self._store(kind, key, ChangeType.ADDED, None, stamped)
        return self._put(kind, key, ChangeType.ADDED, None, obj)

    def update(self, kind: str, obj: Any) -> Any:
        """Replace all but the status; `obj.version` 0 overwrites. Raises NotFoundError, ConflictError."""
        key = key_of(obj.metadata)
        old = self._checked(kind, key, obj.version)
        meta = replace(obj.metadata, uid=old.metadata.uid, generation=old.metadata.generation)
        if obj.spec != old.spec:
            meta = replace(meta, generation=old.metadata.generation + 1)
        new = replace(obj, metadata=meta, status=old.status, version=old.version)
        return old if new == old else self._put(kind, key, ChangeType.MODIFIED, old, new)

    def update_status(self, kind: str, obj: Any) -> Any:
        """Replace the status only. Raises NotFoundError, ConflictError."""
        key = key_of(obj.metadata)
        old = self._checked(kind, key, obj.version)
        meta = old.metadata
        if self._keeps_annotations and obj.metadata.annotations != meta.annotations:
            meta = replace(meta, annotations=obj.metadata.annotations)
        elif old.status == obj.status:
            return old
        new = replace(old, metadata=meta, status=obj.status, version=self.version + 1)
        return self._store(kind, key, ChangeType.MODIFIED, old, new)

    def write_status(self, kind: str, seen: Any, status: Any) -> Any:
        """Replace the status of an object that the writer has `seen`. Raises NotFoundError, ConflictError."""
        key = key_of(seen.metadata)
        is_the_last = self.find(kind, key) is seen
        if not is_the_last:
            return self.update_status(kind, replace(seen, status=status))
        new = replace(seen, status=status, version=self.version + 1)
        return self._store(kind, key, ChangeType.MODIFIED, seen, new)

    def put(self, kind: str, new: Any) -> Any:
        """Store the object as it is over the one of its name: for those who own every half of it, as a kubelet does.

        A pod that only its finalizers kept goes with the last of them. Raises NotFoundError.
        """
        key = key_of(new.metadata)
        old = self.get(kind, key)
        meta = new.metadata
        if meta.deletion_grace_period_seconds == 0 and meta.deletion_timestamp and not meta.finalizers:
            self.remove(kind, key)
            return new
        return self._put(kind, key, ChangeType.MODIFIED, old, new)

    def patch(self, pod: ClusterPod) -> ClusterPod:
        """Store a pod as a patch of its status leaves it. Raises NotFoundError."""
        stored: ClusterPod = self.put("Pod", self.patched(pod))
        return stored

    def scale(self, kind: str, key: str, replicas: int) -> Any:
        """Write the scale subresource. Raises NotFoundError."""
        obj = self.get(kind, key)
        return self.update(kind, replace(obj, spec=replace(obj.spec, replicas=replicas)))

    def bind(self, key: str, node_name: str) -> ClusterPod:
        """Bind a pod to a node. Raises NotFoundError, ConflictError."""
        old: ClusterPod = self.get("Pod", key)
        if old.spec.node_name:
            raise ConflictError(f'pod {old.metadata.name} is already assigned to node "{old.spec.node_name}"')
        status = old.status
        if status.nominated_node_name or status.conditions:
            status = replace(status, nominated_node_name="", conditions=())
        new = replace(
            old,
            spec=replace(old.spec, node_name=node_name),
            status=status,
            scheduled=whole_seconds(self._kernel.now),
            unschedulable=False,
            version=self.version + 1,
        )
        stored: ClusterPod = self._store("Pod", key, ChangeType.MODIFIED, old, new)
        return stored

    def delete(self, kind: str, key: str, *, uid: str = "", grace: int | None = None) -> None:
        """Delete an object; a pod on a node gets its grace period (`grace` seconds, by default its own).

        A pod with finalizers stays until they have been taken away. Raises NotFoundError, and ConflictError if the
        object of that name is not `uid`.
        """
        old = self.get(kind, key)
        if uid and old.metadata.uid != uid:
            raise ConflictError(f'{kind} "{key}": uid precondition failed')
        if not isinstance(old, ClusterPod):
            self.remove(kind, key)
            return
        seconds = self.grace_of(old) if grace is None else grace
        if seconds < 0:
            seconds = 1
        if not old.spec.node_name or seconds == 0 or old.status.phase in {SUCCEEDED, FAILED}:
            if old.metadata.finalizers:
                self._end_grace(key, old)
            else:
                self.remove(kind, key)
        elif old.deleted is None:
            self._mark_deleted(key, old, whole_seconds(self._kernel.now + seconds * SECOND), seconds)

    def _end_grace(self, key: str, old: ClusterPod) -> None:
        """Nothing but finalizers keeps the pod from now on."""
        seconds = old.metadata.deletion_grace_period_seconds
        if old.deleted is None:
            self._mark_deleted(key, old, whole_seconds(self._kernel.now), 0)
        elif seconds:
            self._mark_deleted(key, old, old.deleted - seconds * SECOND, 0)

    def _mark_deleted(self, key: str, old: ClusterPod, end: int, seconds: int) -> None:
        meta = replace(old.metadata, deletion_timestamp=format_time(end), deletion_grace_period_seconds=seconds)
        new = replace(old, metadata=meta, deleted=end, version=self.version + 1)
        self._store("Pod", key, ChangeType.MODIFIED, old, new)

    def remove(self, kind: str, key: str) -> bool:
        """Take an object out at once; returns whether it was there."""
        old = self.objects.get(kind, {}).pop(key, None)
        if old is None:
            return False
        self.version += 1
        self._feed.publish(self.version, ChangeType.DELETED, kind, key, old, old)
        self._tell(kind, old, None)
        return True

    # ---- inside ------------------------------------------------------------------------------

    def _checked(self, kind: str, key: str, version: int) -> Any:
        old = self.get(kind, key)
        if version and version != old.version:
            raise ConflictError(f'Operation cannot be fulfilled on {kind} "{key}": {NO_OLD_VERSION}')
        return old

    def _put(self, kind: str, key: str, change: ChangeType, old: Any, new: Any) -> Any:
        if hasattr(new, "version"):
            new = replace(new, version=self.version + 1)
        return self._store(kind, key, change, old, new)

    def _store(self, kind: str, key: str, change: ChangeType, old: Any, new: Any) -> Any:
        """Write an object that has its new version, the next one, already: most writes make it in one go."""
        self.version += 1
        self.objects[kind][key] = new
        self._feed.publish(self.version, change, kind, key, old, new)
        self._tell(kind, old, new)
        return new

    def _tell(self, kind: str, old: Any, new: Any) -> None:
        for observer in self._observers_of.get(kind, ()):
            observer(kind, old, new)
        for observer in self.observers:
            observer(kind, old, new)


def _unchanged(pod: ClusterPod) -> ClusterPod:
    return pod


def _grace_of(pod: ClusterPod) -> int:
    seconds = pod.spec.termination_grace_period_seconds
    return 30 if seconds is None else seconds
