"""Ends of containers: restart policies, crash loops, tasks, out-of-memory kills, speed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from autoscaling.cluster.kubelet.one_node import Cluster, container
from stowplan_autoscaling.cluster.kubelet import ApplicationModel, ContainerModel, Probe, fixed

CRASHING = ApplicationModel(default=ContainerModel(run=fixed(5), exit_code=1))
TASK = ApplicationModel(default=ContainerModel(run=fixed(10)))


def restarts(cluster: Cluster) -> list[float]:
    """When each restart was reported."""
    lines = cluster.log["web"]
    return [line[0] for before, line in pairwise(lines) if line[3] > before[3]]


def test_a_crash_is_seen_at_the_next_look_and_the_first_restart_does_not_wait() -> None:
    """Running 1 to 6 s; the look comes within a second; not ready is reported, then the restart at the same moment."""
    cluster = Cluster(CRASHING).start()
    cluster.bind()
    cluster.run(8)
    seen = cluster.log["web"][2][0]
    assert 6 <= seen <= 7
    assert cluster.log["web"][2:] == [(seen, "Running", "False", 0), (seen, "Running", "True", 1)]


def test_further_restarts_wait_ten_seconds_doubled_each_time_from_the_end_of_the_container() -> None:
    """10, 20, 40, 80, 160, 300 s from the end of the container, which runs for 5 s.

    The worker's wait is up to half longer than the rest of the back-off, at most 60 s at a time, and ends at a tick.
    """
    cluster = Cluster(CRASHING).start()
    cluster.bind()
    cluster.run(2500)
    times = restarts(cluster)
    waits = [round(b - a - 5, 3) for a, b in pairwise(times)]
    for wait, back_off in zip(waits, [10, 20, 40, 80, 160, 300, 300], strict=False):
        assert back_off <= wait <= back_off + 0.5 * min(back_off, 60) + 2
    assert cluster.reasons().count("BackOff") >= 6


def test_ten_minutes_without_a_crash_reset_the_back_off() -> None:
    """Each instance runs for 11 minutes: every restart follows at the next look, six of them within 4000 s."""
    cluster = Cluster(ApplicationModel(default=ContainerModel(run=fixed(660), exit_code=1))).start()
    cluster.bind()
    cluster.run(4000)
    times = restarts(cluster)
    assert len(times) == 6
    assert all(660 <= b - a <= 662 for a, b in pairwise(times))


@pytest.mark.parametrize(
    ("policy", "exit_code", "phase", "count"),
    [
        ("Never", 0, "Succeeded", 0),
        ("Never", 2, "Failed", 0),
        ("OnFailure", 0, "Succeeded", 0),
        ("OnFailure", 2, "Running", 1),
        ("Always", 0, "Running", 1),
    ],
)
def test_the_restart_policy_decides_what_an_end_means(policy: str, exit_code: int, phase: str, count: int) -> None:
    """One end within 14 s: the table of getPhase and ShouldContainerBeRestarted."""
    cluster = Cluster(ApplicationModel(default=ContainerModel(run=fixed(10), exit_code=exit_code))).start()
    key = cluster.bind(restart_policy=policy)
    cluster.run(14)
    pod = cluster.pod(key)
    assert (pod.status.phase, pod.restarts) == (phase, count)
    assert (pod.finished is not None) == (phase != "Running")
    if phase != "Running":
        assert pod.ready == "False"


def test_a_pod_ends_when_its_last_container_has_and_fails_if_one_did() -> None:
    """Tasks of 3 and 9 s, the first of which fails: Failed at the look after 1 + 9 s."""
    model = ApplicationModel(
        containers={"a": ContainerModel(run=fixed(3), exit_code=1), "b": ContainerModel(run=fixed(9))}
    )
    cluster = Cluster(model).start()
    cluster.bind("web", container("a"), container("b"), restart_policy="Never")
    cluster.run(30)
    assert cluster.last("web")[1] == "Failed"
    assert 10 <= cluster.last("web")[0] <= 11


def test_a_sidecar_is_stopped_when_the_task_is_over_and_only_then_the_pod_succeeds() -> None:
    """The task is over at 11 s, the sidecar takes 3 s to stop: Succeeded at 14 to 15 s."""
    model = ApplicationModel(containers={"task": ContainerModel(run=fixed(10)), "proxy": ContainerModel(stop=fixed(3))})
    cluster = Cluster(model).start()
    sidecar = container("proxy", restart_policy="Always")
    cluster.bind("web", container("task"), init_containers=(sidecar,), restart_policy="Never")
    cluster.run(30)
    assert cluster.last("web")[1] == "Succeeded"
    assert 14 <= cluster.last("web")[0] <= 15


def test_an_out_of_memory_kill_ends_the_container_with_137_and_restarts_it() -> None:
    """The kernel kills at 20 s; the look comes within a second, the restart with it."""
    cluster = Cluster().start()
    key = cluster.bind()
    cluster.run(20)
    assert cluster.kubelets.kill(key)
    cluster.run(25)
    assert cluster.last("web")[1:] == ("Running", "True", 1)
    assert 20 <= cluster.last("web")[0] <= 21
    assert cluster.kubelets.timelines[key].reason == "OOMKilled"


def test_nothing_is_killed_where_nothing_runs() -> None:
    """Contention may be a moment behind: the answer says whether the kill took place."""
    cluster = Cluster().start()
    key = cluster.bind()
    cluster.run(0.5)
    assert not cluster.kubelets.kill(key)
    assert not cluster.kubelets.kill("d/unknown")


def test_half_the_speed_doubles_what_is_left_of_a_task() -> None:
    """10 s of work from 1 s; at 6 s five are left and take ten: over at 16 s, seen within a second."""
    cluster = Cluster(TASK).start()
    key = cluster.bind(restart_policy="Never")
    cluster.run(6)
    cluster.kubelets.set_speed(key, 0.5)
    cluster.run(40)
    assert 16 <= cluster.last("web")[0] <= 17


def test_a_task_without_cpu_goes_on_when_it_gets_some() -> None:
    """At rest from 3 to 103 s: 2 s were done, 8 are left, so it is over at 111 s."""
    cluster = Cluster(TASK).start()
    key = cluster.bind(restart_policy="Never")
    cluster.run(3)
    cluster.kubelets.set_speed(key, 0)
    cluster.run(103)
    assert cluster.pod(key).status.phase == "Running"
    cluster.kubelets.set_speed(key, 1)
    cluster.run(130)
    assert 111 <= cluster.last("web")[0] <= 112


def test_contention_delays_readiness() -> None:
    """8 s of start-up work at a quarter of the speed: answers at 1 + 32 s, which the probe at 41 s sees."""
    model = ContainerModel(start=fixed(8), readiness_probe=Probe(period=10))
    cluster = Cluster(ApplicationModel(default=model)).start()
    key = cluster.bind()
    cluster.run(0.5)
    cluster.kubelets.set_speed(key, 0.25)
    cluster.run(60)
    assert cluster.last("web") == (41, "Running", "True", 0)


def test_an_overloaded_pod_gets_unready_after_three_probes_and_ready_with_the_first_that_is_answered() -> None:
    """Probes at 1, 11, 21, ...; overload from 25 to 75 s: 31, 41 and 51 fail, the last one 1 s later by its timeout.

    The status of 52 s sets off a probe and moves the period there: 62, 72, then 82, which is answered.
    """
    cluster = Cluster(ApplicationModel(default=ContainerModel(readiness_probe=Probe(period=10)))).start()
    key = cluster.bind()
    cluster.run(25)
    cluster.kubelets.set_answering(key, is_answering=False)
    cluster.run(75)
    cluster.kubelets.set_answering(key, is_answering=True)
    cluster.run(100)
    assert cluster.log["web"][-2:] == [(52, "Running", "False", 0), (82, "Running", "True", 0)]


def test_a_short_overload_goes_unnoticed() -> None:
    """Two failures are below the threshold, and the success after them starts the count anew."""
    cluster = Cluster(ApplicationModel(default=ContainerModel(readiness_probe=Probe(period=10)))).start()
    key = cluster.bind()
    for begin, end in ((25, 42), (55, 72)):
        cluster.run(begin)
        cluster.kubelets.set_answering(key, is_answering=False)
        cluster.run(end)
        cluster.kubelets.set_answering(key, is_answering=True)
    cluster.run(200)
    assert cluster.last("web") == (1, "Running", "True", 0)


def test_a_failed_liveness_probe_stops_and_restarts_the_container_in_one_go() -> None:
    """Probes at 0, 10, ...; overload from 15 s: those at 20, 30, 40 fail, known at 41 s; 4 s to stop: 45 s."""
    model = ContainerModel(stop=fixed(4), liveness_probe=Probe(period=10))
    cluster = Cluster(ApplicationModel(default=model)).start()
    key = cluster.bind()
    cluster.run(15)
    cluster.kubelets.set_answering(key, is_answering=False)
    cluster.run(70)
    assert restarts(cluster) == [45]
    assert cluster.pod(key).ready == "True"


def test_a_container_that_never_answers_its_startup_probe_is_restarted_again_and_again() -> None:
    """Probes at 0, 2, 4, ...: of the instance of 1 s three fail by 6 s, of the next one, started then, by 12 s."""
    model = ContainerModel(start=fixed(1000), startup_probe=Probe(period=2, failure_threshold=3))
    cluster = Cluster(ApplicationModel(default=model)).start()
    cluster.bind()
    cluster.run(11.9)
    assert restarts(cluster) == [6]
    assert cluster.last("web")[1:] == ("Running", "False", 1)


def test_a_share_of_the_runs_fails() -> None:
    """Of 200 tasks a fifth fails; 23 to 57 are three standard deviations, 5.66 each, around 40."""
    model = ContainerModel(run=fixed(1), failure_share=0.2)
    cluster = Cluster(ApplicationModel(default=model), nodes=2).start()
    for i in range(200):
        cluster.bind(f"t{i}", restart_policy="Never", node=f"n{i % 2}")
    cluster.run(30)
    failed = sum(cluster.log[f"t{i}"][-1][1] == "Failed" for i in range(200))
    assert 23 <= failed <= 57


def test_speed_must_be_a_number() -> None:
    """A negative speed would run time backwards."""
    with pytest.raises(ValueError, match="speed"):
        Cluster().kubelets.set_speed("d/web", -1)
