"""The pods that a scheduler has heard of and that have not finished, whatever their scheduler."""

from __future__ import annotations

from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.objects import Pod


class KnownPods:
    """The newest PodInfo of each, by uid and by namespace/name."""

    __slots__ = ("by_key", "by_uid", "interner")

    def __init__(self) -> None:
        self.interner = PodInterner()
        self.by_uid: dict[str, PodInfo] = {}
        self.by_key: dict[str, PodInfo] = {}

    def put(self, info: PodInfo) -> None:
        """A pod is there, or has changed."""
        self.by_uid[info.uid] = self.by_key[info.key] = info

    def remove(self, info: PodInfo) -> None:
        """It is gone."""
        self.by_uid.pop(info.uid, None)
        self.by_key.pop(info.key, None)

    def holds(self, pod: Pod) -> bool:
        """Whether this very pod is known, not one of the same name that was made after it: deletions may come late."""
        held = self.by_key.get(pod.key)
        return held is not None and pod.metadata.uid in {"", held.pod.metadata.uid}

    def of_uid(self, uid: str) -> Pod | None:
        """The newest object of the pod with this uid."""
        info = self.by_uid.get(uid)
        return None if info is None else info.pod

    def of_key(self, key: str) -> Pod | None:
        """The newest object of the pod with this namespace/name."""
        info = self.by_key.get(key)
        return None if info is None else info.pod

    def objects(self) -> list[Pod]:
        """The newest objects of all pods."""
        return [info.pod for info in self.by_uid.values()]
