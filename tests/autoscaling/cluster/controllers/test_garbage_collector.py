"""The garbage collector: dependents of removed objects."""

from __future__ import annotations

from autoscaling.cluster.controllers.lab import TEMPLATE, Lab
from stowplan_autoscaling.cluster.controllers.cron_job import CronJobController
from stowplan_autoscaling.cluster.controllers.garbage_collector import GarbageCollector
from stowplan_autoscaling.cluster.controllers.job import JobController, TtlAfterFinishedController
from stowplan_autoscaling.cluster.objects.batch import CronJob, CronJobSpec, JobSpec, JobTemplateSpec
from stowplan_scheduler.objects import ObjectMeta

KINDS = ("Job", "CronJob", "StatefulSet", "DaemonSet")


def lab_with(run: float) -> Lab:
    lab = Lab(run=run)
    JobController(lab.kernel, lab.informers, lab.client)
    TtlAfterFinishedController(lab.kernel, lab.informers, lab.client)
    CronJobController(lab.kernel, lab.informers, lab.client)
    GarbageCollector(lab.kernel, lab.informers, lab.client, kinds=KINDS)
    return lab


def test_pods_go_with_their_job() -> None:
    """A Job whose time to live is over takes its finished pods along."""
    lab = lab_with(run=5)
    lab.add_job(completions=2, parallelism=2, ttl_seconds_after_finished=10)
    lab.begin()
    lab.run(15)
    assert len(lab.pods()) == 2
    lab.run(20)
    assert lab.pods() == []


def test_running_pods_get_their_grace_and_are_not_kept_by_their_finalizer() -> None:
    """Deleted at 5 s, stopped 2 s later."""
    lab = lab_with(run=0)
    lab.add_job()
    lab.begin()
    lab.run(5)
    lab.server.delete("Job", "default/work")
    lab.run(6)
    assert [pod.deleted is not None for pod in lab.pods()] == [True]
    lab.run(8)
    assert lab.pods() == []


def test_removal_goes_down_the_whole_chain() -> None:
    """CronJob, its Jobs, their pods."""
    lab = lab_with(run=100)
    template = JobTemplateSpec(spec=JobSpec(template=TEMPLATE))
    lab.server.create(
        "CronJob",
        CronJob(
            metadata=ObjectMeta(name="c", namespace="default"),
            spec=CronJobSpec(schedule="* * * * *", job_template=template),
        ),
    )
    lab.begin()
    lab.run(130)
    assert len(lab.server.all("Job")) == 2
    lab.server.delete("CronJob", "default/c")
    lab.run(140)
    assert (len(lab.server.all("Job")), lab.pods()) == (0, [])
