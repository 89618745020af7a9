"""Pods that do not start from nothing: those that ran before the model did, and those of a machine that was off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_autoscaling.cluster.pods import RUNNING, TRUE, ClusterPod

from .containers import KILLED, ContainerState

if TYPE_CHECKING:
    from .application import ApplicationModel
    from .pod_worker import PodWorker


def adopt(worker: PodWorker, pod: ClusterPod, application: ApplicationModel) -> None:
    """The pod ran before the model began: its containers are taken as running, and as ready as it says."""
    _take(worker, pod, application)
    timeline, started = worker.timeline, worker.status.started
    timeline.admitted = timeline.sandbox = timeline.pulled = timeline.started = started
    for each in worker.init:
        if each.is_init:
            each.starts, each.exited = 1, started
            each.see()
        else:
            _adopt_container(worker, each)
    for each in worker.main:
        _adopt_container(worker, each)
    _count_restarts(worker, pod)
    timeline.restarts = pod.restarts
    worker.sync()
    if pod.deleted is not None:
        worker.delete(pod)


def resume(worker: PodWorker, pod: ClusterPod, application: ApplicationModel) -> None:
    """The machine was started again: what ran on it is dead, and a new sandbox is made."""
    _take(worker, pod, application)
    now, timeline = worker.env.kernel.now, worker.timeline
    if pod.status.phase == RUNNING:
        for each in (*worker.init, *worker.main):
            each.starts, each.exited = 1, now
            each.exit_code = 0 if each.is_init else KILLED
            worker.node.images.use(each.image)
        _count_restarts(worker, pod)
    worker.report()
    if pod.deleted is not None:
        worker.take_deletion(pod)
        worker.sync()
        return
    if timeline.started is None:
        timeline.sandbox = timeline.pulled = None
        timeline.image_wait = 0
    worker.make_sandbox()


def _take(worker: PodWorker, pod: ClusterPod, application: ApplicationModel) -> None:
    """Give the pod its room, which it has had before, and know its containers."""
    worker.request = worker.env.requests.request(pod)
    worker.node.budget.take(worker.request)
    worker.status.take_over(pod)
    worker.make_containers(pod, application)


def _count_restarts(worker: PodWorker, pod: ClusterPod) -> None:
    """The status has one number for all containers: it goes to the first."""
    if worker.main:
        worker.main[0].starts += pod.restarts
    worker.see()


def _adopt_container(worker: PodWorker, each: ContainerState) -> None:
    now = worker.env.kernel.now
    worker.node.images.adopt(each.image)
    worker.node.images.use(each.image)
    worker.launch(each, now)
    if worker.env.listener is not None:
        worker.env.listener.container_started(worker.key, each.name, now)
    if worker.status.ready == TRUE:
        each.start_work = 0
        for probe in each.probes:
            probe.answers_from = now
            probe.result = True
