"""The quota controller: puts what is enforced and what is in use into the status of every ResourceQuota.

Admission charges what is created; this controller gives back what has ended, and counts everything anew every 5 min.
Pods are held as counts per kind of usage, so counting a namespace costs as much as it has templates; where there was
never a quota they are not counted at all. Follows
pkg/controller/resourcequota/{resource_quota_controller,resource_quota_monitor}.go,
pkg/quota/v1/install/update_filter.go and CalculateUsage of staging/src/k8s.io/apiserver/pkg/quota/v1/resources.go of
Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.admission.amounts import ONE, ZERO, Amounts, add, masked, parse_amounts, same, texts
from stowplan_autoscaling.cluster.admission.pod_usage import (
    ENDED,
    PodUsage,
    PodUsages,
    expires,
    has_ended,
    tracked_for_pods,
)
from stowplan_autoscaling.cluster.admission.resources import NAMESPACED, tracked_counts
from stowplan_autoscaling.cluster.objects.quota import ResourceQuota, ResourceQuotaStatus
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.kernel import MINUTE
from stowplan_scheduler.objects import key_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.kernel import Kernel

KIND: Final = "ResourceQuota"
FULL_SYNC_PERIOD: Final = 5 * MINUTE


class NamespaceUsage:
    """What the pods of one namespace use."""

    __slots__ = ("_held", "_live", "_terminating")

    def __init__(self) -> None:
        self._held: dict[str, tuple[PodUsage, bool]] = {}
        self._live: dict[tuple[PodUsage, bool], int] = {}
        self._terminating: dict[str, int] = {}

    def set(self, key: str, pod: ClusterPod | None, usages: PodUsages) -> None:
        """Take in what a pod has become; None: it is gone."""
        old = self._held.pop(key, None)
        self._terminating.pop(key, None)
        if old is not None:
            self._count(old, -1)
        if pod is None:
            return
        new = (usages.of(pod), pod.is_terminal)
        self._held[key] = new
        self._count(new, 1)
        expiry = expires(pod)
        if expiry is not None and not pod.is_terminal:
            self._terminating[key] = expiry

    def _count(self, what: tuple[PodUsage, bool], sign: int) -> None:
        count = self._live.get(what, 0) + sign
        if count:
            self._live[what] = count
        else:
            del self._live[what]

    def pods(self, quota: ResourceQuota, now: int) -> Amounts:
        """What the pods in the quota's scopes use."""
        counts = dict(self._live)
        for key, expiry in self._terminating.items():
            if now > expiry:
                usage, _ = self._held[key]
                counts[usage, False] -= 1
                counts[usage, True] = counts.get((usage, True), 0) + 1
        total: Amounts = {}
        for (usage, has_ended_), count in counts.items():
            if count and all(map(usage.matches, quota.spec.requirements)):
                add(total, dict(ENDED if has_ended_ else usage.amounts), count)
        return total


class ResourceQuotaController:
    """All quotas of a cluster.

    Needs an informer of ResourceQuota and Pod, and of the kinds whose objects are counted. `start` begins the full
    syncs.
    """

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        *,
        workers: int = 5,
        usages: PodUsages | None = None,
        full_sync_period: int = FULL_SYNC_PERIOD,
    ) -> None:
        """`usages`: those of the admission, to share what is known about pods."""
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._usages = usages or PodUsages()
        self._period = full_sync_period
        self._pods: dict[str, NamespaceUsage] = {}
        """By namespace that has, or had, a quota."""
        self._objects: dict[tuple[str, str], int] = {}
        """How many objects other than pods there are, by namespace and kind."""
        self._quotas: dict[str, dict[str, ResourceQuota]] = {}
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        self.missing_usage = WorkQueue(kernel, self.sync, workers=workers)
        """Quotas whose status is not known yet go first."""
        informers.handle("Pod", self._pod_changed)
        informers.handle(KIND, self._quota_changed)
        for kind in NAMESPACED:
            if kind in informers.seen and kind != "Pod":
                informers.handle(kind, self._object_handler(kind))

    def start(self) -> None:
        """Count everything now, and every 5 min."""
        self._kernel.at(self._kernel.now, self._full_sync)

    def _full_sync(self) -> None:
        for key in self._informers.all(KIND):
            self.queue.add(key)
        self._kernel.at(self._kernel.now + self._period, self._full_sync)

    # ---- what wakes it -----------------------------------------------------------------------

    def _quota_changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        if new is None:
            if old is not None:
                self._quotas[old.metadata.namespace].pop(key_of(old.metadata), None)
                self.queue.add(key_of(old.metadata))
            return
        key = key_of(new.metadata)
        self._quotas.setdefault(new.metadata.namespace, {})[key] = new
        self._usage(new.metadata.namespace)
        if old is not None and same(parse_amounts(old.spec.hard), parse_amounts(new.spec.hard)):
            return
        (self.missing_usage if self._is_missing_usage(new) else self.queue).add(key)

    def _is_missing_usage(self, quota: ResourceQuota) -> bool:
        hard, used = quota.status.hard or {}, quota.status.used or {}
        if not same(parse_amounts(quota.spec.hard), parse_amounts(hard)):
            return True
        return any(name not in used for name in self._tracked(hard))

    def _tracked(self, hard: Mapping[str, object]) -> set[str]:
        """Those of a quota's resources that this controller can count."""
        counted = (name for kind in NAMESPACED if kind != "Pod" for name in tracked_counts(kind, hard))
        return {*tracked_for_pods(hard), *counted}

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        pod = new or old
        if pod is None:
            return
        namespace = pod.metadata.namespace
        usage = self._pods.get(namespace)
        if usage is None:
            return
        usage.set(pod.key, new, self._usages)
        if namespace in self._quotas and (new is None or (old is not None and self._releases(old, new))):
            self._replenish(namespace, tracked_for_pods)

    def _releases(self, old: ClusterPod, new: ClusterPod) -> bool:
        if old.spec is not new.spec and self._usages.of(old).has_deadline != self._usages.of(new).has_deadline:
            return True
        if old.status.container_statuses != new.status.container_statuses:
            return True
        now = self._kernel.now
        return has_ended(new, now) and not has_ended(old, now)

    def _object_handler(self, kind: str) -> Callable[[Any, Any], None]:
        def changed(old: Any, new: Any) -> None:
            if old is not None and new is not None:
                return
            namespace = (new if new is not None else old).metadata.namespace
            counts = self._objects
            counts[namespace, kind] = counts.get((namespace, kind), 0) + (1 if new is not None else -1)
            if new is None and namespace in self._quotas:
                self._replenish(namespace, lambda hard: tracked_counts(kind, hard))

        return changed

    def _replenish(self, namespace: str, tracked: Callable[[Mapping[str, object]], list[str]]) -> None:
        """Have the quotas counted that limit what has just become less."""
        for key, quota in self._quotas[namespace].items():
            if tracked(quota.status.hard or {}):
                self.queue.add(key)

    def _usage(self, namespace: str) -> NamespaceUsage:
        """What the pods of a namespace use; from now on they are counted as they change."""
        found = self._pods.get(namespace)
        if found is None:
            found = self._pods[namespace] = NamespaceUsage()
            for key, pod in self._informers.all("Pod").items():
                if pod.metadata.namespace == namespace:
                    found.set(key, pod, self._usages)
        return found

    # ---- one sync ----------------------------------------------------------------------------

    def sync(self, key: str) -> Steps | None:
        """Bring the status of one quota up to date. Raises ApiError to be called again."""
        quota: ResourceQuota | None = self._informers.get(KIND, key)
        if quota is None:
            return None
        hard, old = parse_amounts(quota.spec.hard), quota.status
        used = parse_amounts(old.used)
        used.update(self._count(quota, hard))
        used = masked(used, hard)
        is_dirty = old.hard is None or old.used is None or not same(hard, parse_amounts(old.hard))
        if not is_dirty and same(used, parse_amounts(old.used)):
            return None
        return self._write(quota, ResourceQuotaStatus(hard=texts(hard), used=texts(used)))

    def _count(self, quota: ResourceQuota, hard: Amounts) -> Amounts:
        namespace = quota.metadata.namespace
        total: Amounts = {}
        tracked = tracked_for_pods(hard)
        if tracked:
            pods = self._usage(namespace).pods(quota, self._kernel.now)
            total = {**dict.fromkeys(tracked, ZERO), **masked(pods, tracked)}
        for kind in NAMESPACED:
            for name in tracked_counts(kind, hard) if kind != "Pod" else ():
                # Scopes are for pods: a scoped quota finds no other object.
                count = 0 if quota.spec.requirements else self._objects.get((namespace, kind), 0)
                total[name] = ZERO.plus(ONE, count)
        return total

    def _write(self, quota: ResourceQuota, status: ResourceQuotaStatus) -> Steps:
        yield from self._client.turn()
        self._client.server.update_status(KIND, replace(quota, status=status))
