"""The Job controller: counts, limits, back-off, indexes, policies and their timing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from autoscaling.cluster.controllers.lab import START, TEMPLATE, Lab
from stowplan_autoscaling.cluster.controllers.job import JobController, TtlAfterFinishedController
from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.objects.batch import (
    OnExitCodes,
    PodFailurePolicy,
    PodFailureRule,
    SuccessPolicy,
    SuccessRule,
)
from stowplan_autoscaling.kernel import SECOND


def lab_with(**settings: float | bool) -> Lab:
    lab = Lab(**settings)  # type: ignore[arg-type]
    JobController(lab.kernel, lab.informers, lab.client)
    TtlAfterFinishedController(lab.kernel, lab.informers, lab.client)
    return lab


def types(lab: Lab, name: str = "work") -> list[tuple[str, str]]:
    return [(each.type, each.reason) for each in lab.stored("Job", name).status.conditions]


def test_job_with_completions_keeps_its_parallelism_busy_and_completes() -> None:
    """5 pods, 2 at a time, 1 s to start and 10 s to run; a sync comes 1 s after an end: starts at 0, 12 and 24 s."""
    lab = lab_with(run=10)
    lab.add_job(completions=5, parallelism=2)
    lab.begin()
    lab.run(60)
    status = lab.stored("Job", "work").status
    assert [at for at, _ in lab.created] == [0, 0, 12, 12, 24]
    assert (status.succeeded, status.failed, status.active, status.ready) == (5, 0, 0, 0)
    assert types(lab) == [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]
    assert status.completion_time == START + 36 * SECOND
    assert lab.reasons("Job")[-1] == "Completed"


def test_ended_pods_lose_their_finalizer_and_stay() -> None:
    """The Job has counted them; removing them is pod garbage collection's business."""
    lab = lab_with(run=5)
    lab.add_job(completions=3, parallelism=3)
    lab.begin()
    lab.run(3)
    assert all(pod.metadata.finalizers for pod in lab.pods())
    lab.run(30)
    assert [pod.status.phase for pod in lab.pods()] == ["Succeeded"] * 3
    assert not any(pod.metadata.finalizers for pod in lab.pods())


def test_failures_back_off_exponentially_and_end_at_the_limit() -> None:
    """reference, 5.6: limit 6 gives 7 pods, apart by the run time plus 10, 20, 40, 80, 160 and 320 s."""
    lab = lab_with(startup=1, run=9)
    lab.fails = lambda pod: True
    lab.add_job()
    lab.begin()
    lab.run(900)
    times = [at for at, _ in lab.created]
    gaps = [round(later - earlier) for earlier, later in pairwise(times)]
    assert gaps == [20, 30, 50, 90, 170, 330]
    assert types(lab) == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
    assert lab.stored("Job", "work").status.failed == 7


def test_success_resets_the_back_off() -> None:
    """Pods 1 and 2 fail, pod 3 succeeds, pod 4 fails: its successor waits 10 s again, not 40."""
    lab = lab_with(startup=1, run=9)
    lab.fails = lambda pod: pod.metadata.name[-1] in "124"
    lab.add_job(completions=3, parallelism=1)
    lab.begin()
    lab.run(300)
    times = [at for at, _ in lab.created]
    assert [round(later - earlier) for earlier, later in pairwise(times)] == [20, 30, 11, 20, 11]


def test_deadline_ends_the_job_and_its_pods_count_as_failed() -> None:
    """Active for 20 s at most; the pods that then run are deleted and counted, the Job ends when they are gone."""
    lab = lab_with(terminate=5)
    lab.add_job(parallelism=3, completions=3, active_deadline_seconds=20)
    lab.begin()
    lab.run(21)
    status = lab.stored("Job", "work").status
    assert types(lab) == [("FailureTarget", "DeadlineExceeded")]
    assert (status.active, status.terminating, status.failed) == (0, 3, 3)
    lab.run(40)
    assert types(lab)[-1] == ("Failed", "DeadlineExceeded")
    assert lab.stored("Job", "work").status.conditions[-1].last_transition_time == START + 26 * SECOND


def test_suspended_job_has_no_pods_and_starts_its_clock_anew() -> None:
    """Suspension deletes pods without counting them as failures; resuming resets the start time."""
    lab = lab_with()
    lab.add_job(parallelism=2, completions=2)
    lab.begin()
    lab.run(10)
    job = lab.stored("Job", "work")
    lab.server.update("Job", replace(job, spec=replace(job.spec, suspend=True)))
    lab.run(20)
    status = lab.stored("Job", "work").status
    assert (lab.names(), status.active, status.failed, status.start_time) == ([], 0, 0, None)
    job = lab.stored("Job", "work")
    lab.server.update("Job", replace(job, spec=replace(job.spec, suspend=False)))
    lab.run(25)
    assert len(lab.names()) == 2
    assert lab.stored("Job", "work").status.start_time == START + 20 * SECOND
    assert [each for each in lab.reasons("Job") if each in {"Suspended", "Resumed"}] == ["Suspended", "Resumed"]


def test_fewer_parallel_pods_delete_the_least_useful() -> None:
    """Of three pods the youngest that is not ready goes first."""
    lab = lab_with(startup=2)
    lab.add_job(parallelism=2, completions=9)
    lab.begin()
    lab.run(10)
    job = lab.stored("Job", "work")
    lab.server.update("Job", replace(job, spec=replace(job.spec, parallelism=3)))
    lab.run(10.5)
    job = lab.stored("Job", "work")
    lab.server.update("Job", replace(job, spec=replace(job.spec, parallelism=2)))
    lab.run(13)
    assert lab.names() == ["work-00001", "work-00002"]
    assert lab.stored("Job", "work").status.failed == 0


@pytest.mark.parametrize(("policy", "second"), [("TerminatingOrFailed", 11.0), ("Failed", 16.0)])
def test_pod_that_is_deleted_counts_as_failed_when_the_policy_says(policy: str, second: float) -> None:
    """Deleted at 10 s with 5 s to stop: it counts a batch period after its deletion began, or after its end."""
    lab = lab_with(terminate=5)
    lab.add_job(parallelism=1, completions=1, pod_replacement_policy=policy)
    lab.begin()
    lab.run(10)
    lab.server.delete("Pod", "default/work-00001")
    lab.run(second - 0.5)
    assert lab.stored("Job", "work").status.failed == 0
    lab.run(second + 0.5)
    assert lab.stored("Job", "work").status.failed == 1


def test_indexed_job_gives_each_pod_its_index_and_lists_completed_ones() -> None:
    """Indexes are handed out from the lowest; the status shows them as ranges."""
    lab = lab_with(run=5)
    lab.add_job(completion_mode="Indexed", completions=6, parallelism=4)
    lab.begin()
    lab.run(5)
    assert lab.names() == [f"work-{index}-00001" for index in range(4)]
    lab.run(60)
    status = lab.stored("Job", "work").status
    assert (status.completed_indexes, status.succeeded) == ("0-5", 6)


def test_limit_per_index_fails_indexes_and_then_the_job() -> None:
    """Index 1 fails twice (limit 1), the others succeed: the Job fails as FailedIndexes when all are decided."""
    lab = lab_with(run=5)
    lab.fails = lambda pod: "-1-" in pod.metadata.name
    lab.add_job(completion_mode="Indexed", completions=3, parallelism=3, backoff_limit_per_index=1)
    lab.begin()
    lab.run(60)
    status = lab.stored("Job", "work").status
    assert (status.completed_indexes, status.failed_indexes, status.failed) == ("0,2", "1", 2)
    assert types(lab)[-1] == ("Failed", "FailedIndexes")
    assert lab.names()[-2:] == ["work-1-00002", "work-2-00001"]
    count = lab.server.get("Pod", "default/work-1-00002").metadata.annotations
    assert count["batch.kubernetes.io/job-index-failure-count"] == "1"


def test_too_many_failed_indexes_end_the_job_early() -> None:
    """With maxFailedIndexes 1 the second failed index ends it, though others still run."""
    lab = lab_with(run=5)
    lab.fails = lambda pod: True
    lab.add_job(
        completion_mode="Indexed", completions=9, parallelism=2, backoff_limit_per_index=0, max_failed_indexes=1
    )
    lab.begin()
    lab.run(60)
    assert types(lab)[-1] == ("Failed", "MaxFailedIndexesExceeded")


def test_success_policy_ends_the_job_with_the_rest_unfinished() -> None:
    """Two of the indexes 0 to 2 are enough; pods that still run are deleted."""
    lab = lab_with(run=5)
    lab.fails = lambda pod: "-2-" in pod.metadata.name
    rule = SuccessRule(succeeded_indexes="0-2", succeeded_count=2)
    lab.add_job(completion_mode="Indexed", completions=10, parallelism=3, success_policy=SuccessPolicy(rules=(rule,)))
    lab.begin()
    lab.run(60)
    assert types(lab) == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
    assert lab.stored("Job", "work").status.conditions[0].message == "Matched rules at index 0"


@pytest.mark.parametrize(
    ("action", "failed", "end"),
    [("Ignore", 0, None), ("Count", 1, None), ("FailJob", 1, ("Failed", "PodFailurePolicy"))],
)
def test_pod_failure_policy_decides_by_exit_code(action: str, failed: int, end: tuple[str, str] | None) -> None:
    """Exit code 42 is ignored, counted, or ends the Job."""
    lab = lab_with()
    rule = PodFailureRule(action=action, on_exit_codes=OnExitCodes(operator="In", values=(42,)))
    lab.add_job(pod_failure_policy=PodFailurePolicy(rules=(rule,)))
    lab.begin()
    lab.run(5)
    lab.end("default/work-00001", code=42)
    lab.run(8)
    assert lab.stored("Job", "work").status.failed == failed
    assert (types(lab)[-1] if types(lab) else None) == end
    if end is not None:
        message = lab.stored("Job", "work").status.conditions[-1].message
        assert message == (
            "Container app for pod default/work-00001 failed with exit code 42 matching FailJob rule at index 0"
        )


def test_restarts_in_place_count_towards_the_limit() -> None:
    """restartPolicy OnFailure: no pod fails, but the restarts of a running one reach the limit of 3."""
    lab = lab_with()
    template = replace(TEMPLATE, spec=replace(TEMPLATE.spec, restart_policy="OnFailure"))
    lab.add_job(template=template, backoff_limit=3)
    lab.begin()
    lab.run(5)
    lab.server.put("Pod", replace(lab.server.get("Pod", "default/work-00001"), restarts=3))
    lab.run(20)
    assert types(lab)[-1] == ("Failed", "BackoffLimitExceeded")


def test_work_queue_job_is_done_with_the_first_success_and_the_end_of_the_rest() -> None:
    """Without completions the first success means that no pod is made any more."""
    lab = lab_with()
    lab.add_job(parallelism=3)
    lab.begin()
    lab.run(5)
    lab.end("default/work-00001", code=0)
    lab.run(10)
    assert (len(lab.created), types(lab)) == (3, [])
    lab.end("default/work-00002", code=0)
    lab.end("default/work-00003", code=0)
    lab.run(15)
    assert types(lab)[-1] == ("Complete", "CompletionsReached")


def test_refused_pods_are_tried_again_with_growing_pauses() -> None:
    """A used-up quota: a sync that fails is repeated after 1, 2, 4, ... s; a batch with a failure is the last."""
    lab = lab_with()
    lab.refuse = lambda pod: ForbiddenError("exceeded quota")
    lab.add_job(parallelism=4, completions=4)
    lab.begin()
    lab.run(7.5)
    failures = [at for at, _, reason, _ in lab.events if reason == "FailedCreate"]
    assert failures == [0, 1, 3, 7]
    lab.refuse = lambda pod: None
    lab.run(20)
    assert len(lab.names()) == 4


def test_requests_wait_for_the_client_limit() -> None:
    """Burst 30, then 20 a second: 100 creations and the 25 events about them end after (125 - 30) / 20 = 4.75 s."""
    lab = lab_with(limited=True)
    lab.add_job(parallelism=100, completions=100)
    lab.begin()
    lab.run(10)
    times = [at for at, _ in lab.created]
    assert (len(times), times[14], times[-1]) == (100, 0, 4.75)


def test_finished_job_is_deleted_after_its_time_to_live() -> None:
    """Complete at 7 s (6 s of work, 1 s of batching), deleted 30 s later."""
    lab = lab_with(run=5)
    lab.add_job(ttl_seconds_after_finished=30)
    lab.begin()
    lab.run(36.9)
    assert lab.server.find("Job", "default/work") is not None
    lab.run(37.1)
    assert lab.server.find("Job", "default/work") is None


def test_pods_of_a_deleted_job_do_not_hang_on_their_finalizer() -> None:
    """Nobody will count them, so the controller gives them free."""
    lab = lab_with()
    lab.add_job(parallelism=2, completions=2)
    lab.begin()
    lab.run(5)
    lab.server.delete("Job", "default/work")
    lab.run(6)
    assert not any(pod.metadata.finalizers for pod in lab.pods())


def test_past_of_a_job_costs_nothing() -> None:
    """Ended and counted pods are not looked at again: what is kept of them is bounded by the parallelism."""
    lab = Lab(run=1)
    controller = JobController(lab.kernel, lab.informers, lab.client)
    lab.add_job(completions=60, parallelism=3)
    lab.begin()
    lab.run(30)
    assert len(lab.pods()) > 20
    assert all(len(pods) <= 6 for pods in controller._pods.values())
    lab.run(120)
    assert lab.stored("Job", "work").status.succeeded == 60
    assert not controller._pods
