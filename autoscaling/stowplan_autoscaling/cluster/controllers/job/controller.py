"""The Job controller: what wakes it, and when.

Follows pkg/controller/job/job_controller.go of Kubernetes v1.37.2. Changes of a Job's spec are acted on at once; what
happens to its pods, and its own status writes, are batched for a second. Pods carry a finalizer until they are in the
Job's counters. Adoption of pods is left out, and so are pod groups (an alpha feature).

Of each Job the pods that can still matter are kept: those that have not ended, and those that have but hold their
finalizer. A sync looks at these only, so a Job's past costs nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.errors import NotFoundError
from stowplan_autoscaling.cluster.objects.batch import Job, finished_condition
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.kernel import MINUTE, SECOND, whole_seconds
from stowplan_scheduler.objects import controller_of, key_of

from .finalizers import has_finalizer, remove_finalizer
from .memory import JobMemory
from .state import SyncState
from .sync import sync_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel

KIND: Final = "Job"
BATCH_PERIOD: Final = SECOND
"""How long pod events and status writes are collected before a sync."""
RETRY_DELAY: Final = SECOND
MAX_RETRY_DELAY: Final = MINUTE
CONTROLLER_NAME: Final = "kubernetes.io/job-controller"

_NO_PODS: dict[str, ClusterPod] = {}


class JobController:
    """All Jobs of a cluster. `stamp`: how a time is stored in a status; a real API server keeps whole seconds."""

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        *,
        workers: int = 5,
        stamp: Callable[[int], int] = whole_seconds,
    ) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._stamp = stamp
        self._memory = JobMemory(informers)
        self._pods: dict[str, dict[str, ClusterPod]] = {}
        """Pods that can still matter, by uid of their Job and their key, in order of creation."""
        delays = {"base_delay": RETRY_DELAY, "max_delay": MAX_RETRY_DELAY}
        self.queue = WorkQueue(kernel, self.sync, workers=workers, **delays)
        self.orphans = WorkQueue(kernel, self._release_orphans, workers=workers, **delays)
        """Keys of pods, or uids of Jobs, whose finalizers nobody needs any more."""
        informers.handle(KIND, self._job_changed)
        informers.handle("Pod", self._pod_changed)

    # ---- Jobs --------------------------------------------------------------------------------

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        if new is None:
            if old is not None:
                self._job_deleted(old)
            return
        key = key_of(new.metadata)
        if old is None:
            self.queue.add(key)
        elif finished_condition(new) is not None:
            self.orphans.add(f"Job/{new.metadata.uid}")
        else:
            self._job_updated(key, old, new)

    def _job_updated(self, key: str, old: Job, new: Job) -> None:
        is_same = new.metadata.generation == old.metadata.generation
        self.queue.add_after(key, BATCH_PERIOD if is_same else 0)
        deadline, start = new.spec.active_deadline_seconds, new.status.start_time
        if deadline is not None and start is not None and deadline != old.spec.active_deadline_seconds:
            self.queue.add_after(key, start + deadline * SECOND - self._kernel.now)

    def _job_deleted(self, old: Job) -> None:
        key = key_of(old.metadata)
        self.queue.add(key)
        self._memory.written.clear(key)
        self._memory.ended.discard(old.metadata.uid)
        self.orphans.add(f"Job/{old.metadata.uid}")
        self._memory.expectations.forget(key)
        self._memory.backoffs.pop(key, None)

    # ---- pods --------------------------------------------------------------------------------

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        pod = new or old
        if pod is None:
            return
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != KIND:
            return
        self._keep(owner.uid, pod.key, new)
        key = f"{pod.metadata.namespace}/{owner.name}"
        job: Job | None = self._informers.get(KIND, key)
        if job is not None and job.metadata.uid != owner.uid:
            job = None
        if new is None or new.deleted is not None:
            self._pod_deleted(key, job, pod, is_gone=new is None)
        elif job is not None:
            if old is None:
                self._memory.expectations.lower(key, 1, 0)
            elif not has_finalizer(new):
                self._memory.release_seen(key, new.metadata.uid)
            self.queue.add_after(key, BATCH_PERIOD)

    def _pod_deleted(self, key: str, job: Job | None, pod: ClusterPod, *, is_gone: bool) -> None:
        """Deletion has begun, went on or is done; each event counts, as upstream."""
        tracked = has_finalizer(pod)
        if job is None or finished_condition(job) is not None:
            if tracked:
                self.orphans.add(pod.key)
            return
        self._memory.expectations.lower(key, 0, 1)
        if is_gone or not tracked:
            self._memory.release_seen(key, pod.metadata.uid)
        self.queue.add_after(key, BATCH_PERIOD)

    def _keep(self, uid: str, key: str, pod: ClusterPod | None) -> None:
        if pod is not None and not (pod.is_terminal and not has_finalizer(pod)):
            self._pods.setdefault(uid, {})[key] = pod
            return
        held = self._pods.get(uid)
        if held is not None:
            held.pop(key, None)
            if not held:
                del self._pods[uid]

    # ---- syncs -------------------------------------------------------------------------------

    def sync(self, key: str) -> Steps | None:
        """Bring one Job closer to its end. Raises ApiError to be called again."""
        memory = self._memory
        memory.written.check(key)
        job: Job | None = self._informers.get(KIND, key)
        if job is None:
            memory.forget(key)
            return None
        if job.spec.managed_by not in {None, CONTROLLER_NAME}:
            return None
        uid = job.metadata.uid
        if finished_condition(job) is not None:
            memory.backoffs.pop(key, None)
            memory.written.clear(key)
            memory.ended.discard(uid)
            return None
        if uid in memory.ended:
            return None
        pods = tuple(self._pods.get(uid, _NO_PODS).values())
        return sync_steps(SyncState(self._kernel, self._client, self.queue, memory, self._stamp, key, job, pods))

    def _release_orphans(self, key: str) -> Steps | None:
        """Take the finalizer away from a pod, or from all pods of a Job, unless the Job still counts them."""
        kind, _, name = key.partition("/")
        if kind == KIND and name in self._pods:
            pods = tuple(self._pods[name].values())
        else:
            found: ClusterPod | None = self._informers.get("Pod", key)
            pods = () if found is None else (found,)
        orphans = tuple(pod for pod in pods if has_finalizer(pod) and not self._is_counted(pod))
        return self._release(orphans) if orphans else None

    def _is_counted(self, pod: ClusterPod) -> bool:
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != KIND:
            return owner is not None
        job: Job | None = self._informers.get(KIND, f"{pod.metadata.namespace}/{owner.name}")
        return job is not None and job.metadata.uid == owner.uid and finished_condition(job) is None

    def _release(self, pods: tuple[ClusterPod, ...]) -> Steps:
        for pod in pods:
            yield from self._client.turn()
            with suppress(NotFoundError):
                remove_finalizer(self._client, pod)
