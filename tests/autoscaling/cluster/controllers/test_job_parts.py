"""Parts of the Job controller: index sets, order of removal, back-off, defaults."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.cluster.controllers.job import indexes
from stowplan_autoscaling.cluster.controllers.job.backoff import BackoffRecord, remaining_delay
from stowplan_autoscaling.cluster.controllers.job.removal import pods_to_remove
from stowplan_autoscaling.cluster.objects.batch import COMPLETION_INDEX, Job, JobSpec, PodFailurePolicy, complete_job
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import ObjectMeta, PodSpec, PodStatus

SETS = st.sets(st.integers(0, 60))


def as_set(intervals: indexes.Intervals) -> set[int]:
    return {index for first, last in intervals for index in range(first, last + 1)}


@given(SETS, SETS)
def test_intervals_behave_like_sets(mine: set[int], other: set[int]) -> None:
    """Union, size, membership, overlap and the text agree with Python's sets."""
    a, b = indexes.with_indexes((), mine), indexes.with_indexes((), other)
    assert as_set(indexes.merged(a, b)) == mine | other
    assert as_set(indexes.with_indexes(a, other)) == mine | other
    assert indexes.total(a) == len(mine)
    assert indexes.overlap(a, b) == len(mine & other)
    assert {index for index in range(61) if indexes.contains(a, index)} == mine
    assert indexes.parse(indexes.to_text(a), 61) == a


@given(SETS, st.integers(0, 70), st.integers(0, 80))
def test_first_missing_indexes_are_the_lowest_free_ones(taken: set[int], count: int, completions: int) -> None:
    """As many as asked for, if there are so many."""
    free = [index for index in range(completions) if index not in taken]
    assert list(indexes.first_missing(indexes.with_indexes((), taken), count, completions)) == free[:count]


def test_texts_of_indexes_join_two_neighbours_by_a_comma() -> None:
    """pkg/controller/job/indexed_job_utils.go, String: a hyphen only from three on; parsing stops at completions."""
    intervals = indexes.with_indexes((), [0, 2, 3, 5, 6, 7, 9])
    assert indexes.to_text(intervals) == "0,2,3,5-7,9"
    assert indexes.parse("0,2-9,12", 6) == ((0, 0), (2, 5))
    assert indexes.parse("0,x,3", 9) == ((0, 0), (3, 3))


def test_delays_double_from_ten_seconds_to_ten_minutes() -> None:
    """reference, 5.6: 0, 10, 20, 40, 80, 160, 320, 600, 600 s."""
    delays = [remaining_delay(failures, 0, 0) // SECOND for failures in range(9)]
    assert delays == [0, 10, 20, 40, 80, 160, 320, 600, 600]
    assert remaining_delay(2, 5 * SECOND, 20 * SECOND) == 5 * SECOND


def ended(name: str, at: int, phase: str) -> ClusterPod:
    return ClusterPod(metadata=ObjectMeta(name=name), status=PodStatus(phase=phase), finished=at * SECOND)


def test_only_failures_after_the_last_success_count() -> None:
    """Of failures at 5, 8 and 12 s and a success at 8 s, one is left: a failure of the same second is before it."""
    failed = [ended(str(at), at, "Failed") for at in (5, 12, 8)]
    record = BackoffRecord(4, 1).after([ended("s", 8, "Succeeded")], failed)
    assert record == BackoffRecord(1, 12 * SECOND)
    assert BackoffRecord(4, 1).after([], failed) == BackoffRecord(7, 12 * SECOND)
    assert BackoffRecord(4, 1).after([ended("s", 8, "Succeeded")], []) == BackoffRecord(0, 0)


def pod(
    name: str, *, node: str = "n", phase: str = "Running", ready: int = 0, created: int = 0, index: str = ""
) -> ClusterPod:
    return ClusterPod(
        metadata=ObjectMeta(name=name, uid=name, annotations={COMPLETION_INDEX: index} if index else {}),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase),
        ready="True" if ready else "False",
        ready_since=ready,
        created=created,
    )


def test_pods_are_given_up_from_the_least_useful() -> None:
    """No node, pending, not ready, ready for a shorter time, younger."""
    pods = [
        pod("long-ready", ready=10),
        pod("just-ready", ready=20),
        pod("old", created=1),
        pod("young", created=2),
        pod("pending", phase="Pending"),
        pod("unbound", node="", phase="Pending"),
    ]
    order = [each.metadata.name for each in pods_to_remove(pods, 6, None)]
    assert order == ["unbound", "pending", "young", "old", "just-ready", "long-ready"]


def test_duplicates_and_invalid_indexes_go_even_if_none_is_too_many() -> None:
    """Of two pods of index 1 the better one stays; one without index and one beyond the completions go."""
    pods = [pod("a", index="1", ready=5), pod("b", index="1"), pod("c", index="0"), pod("d"), pod("e", index="7")]
    assert [each.metadata.name for each in pods_to_remove(pods, 0, 3)] == ["d", "b", "e"]


def test_defaults_depend_on_one_another() -> None:
    """pkg/apis/batch/v1/defaults.go."""

    def completed(**spec: object) -> JobSpec:
        return complete_job(Job(metadata=ObjectMeta(name="j", uid="u"), spec=JobSpec(**spec))).spec  # type: ignore[arg-type]

    plain = completed()
    assert (plain.completions, plain.parallelism, plain.backoff_limit) == (1, 1, 6)
    assert plain.pod_replacement_policy == "TerminatingOrFailed"
    assert completed(parallelism=4).completions is None
    assert completed(completions=4).parallelism == 1
    assert completed(backoff_limit_per_index=1).backoff_limit == 2**31 - 1
    assert completed(pod_failure_policy=PodFailurePolicy()).pod_replacement_policy == "Failed"
    labels = plain.template.metadata.labels
    assert labels["job-name"] == "j"
    assert plain.selector is not None
    assert plain.selector.match_labels == {"batch.kubernetes.io/controller-uid": "u"}
