"""From binding to readiness: admission, sandbox, init containers, images, first readiness."""

from __future__ import annotations

from itertools import pairwise

import pytest

from autoscaling.cluster.kubelet.one_node import START, Cluster, asking, container
from stowplan_autoscaling.cluster.kubelet import (
    ApplicationModel,
    ContainerModel,
    ImageCatalog,
    Probe,
    fixed,
    uniform,
)
from stowplan_autoscaling.kernel import SECOND


def test_a_plain_pod_is_pending_at_once_and_running_and_ready_after_its_sandbox() -> None:
    """Without a readiness probe a container is ready when it is seen to run, which is when the pass is over."""
    cluster = Cluster().start()
    key = cluster.bind()
    cluster.run(60)
    assert cluster.log["web"] == [(0, "Pending", "False", 0), (1, "Running", "True", 0)]
    pod = cluster.pod(key)
    assert pod.status.start_time is not None
    assert pod.status.start_time.startswith("2000-01-01T00:00:00")
    assert (pod.started or 0) - START < 100
    assert (pod.ready_since - START) // SECOND == 1


def test_readiness_comes_with_the_first_probe_that_is_answered_counted_from_the_start() -> None:
    """Start at 1 s, answers after 12 s of work; probes at 1, 11 and 21 s."""
    model = ContainerModel(start=fixed(12), readiness_probe=Probe(period=10))
    cluster = Cluster(ApplicationModel(default=model)).start()
    cluster.bind()
    cluster.run(60)
    assert cluster.log["web"] == [
        (0, "Pending", "False", 0),
        (1, "Running", "False", 0),
        (21, "Running", "True", 0),
    ]


def test_an_application_that_answers_at_once_is_ready_at_the_probe_that_its_start_sets_off() -> None:
    """Not a period later: the first status with a running container asks for a probe."""
    cluster = Cluster(ApplicationModel(default=ContainerModel(readiness_probe=Probe(period=10)))).start()
    cluster.bind()
    cluster.run(60)
    assert cluster.last("web") == (1, "Running", "True", 0)


def test_the_initial_delay_holds_the_first_probe_back() -> None:
    """Start at 1 s, delay 15 s: probes at 1 and 11 s do not count, that at 21 s does."""
    model = ContainerModel(readiness_probe=Probe(period=10, initial_delay=15))
    cluster = Cluster(ApplicationModel(default=model)).start()
    cluster.bind()
    cluster.run(60)
    assert cluster.last("web") == (21, "Running", "True", 0)


def test_other_probes_wait_for_the_startup_probe_whose_period_counts_from_the_pods_first_sync() -> None:
    """Startup probes run at 0, 3, 6, ...; work ends at 1 + 4 s, so 6 s; readiness follows at once."""
    model = ContainerModel(start=fixed(4), startup_probe=Probe(period=3), readiness_probe=Probe(period=10))
    cluster = Cluster(ApplicationModel(default=model)).start()
    cluster.bind()
    cluster.run(60)
    assert cluster.last("web") == (6, "Running", "True", 0)


def test_a_pod_that_gets_ready_late_is_probed_when_it_is_synced_anyway() -> None:
    """After 60 to 90 s a pod is synced, which sets off a probe: with a period of 65 s, what answers after 70 s of work
    would be seen at 1 + 130 s, but is seen at that sync, or one period after it.
    """
    model = ContainerModel(start=fixed(70), readiness_probe=Probe(period=65))
    cluster = Cluster(ApplicationModel(default=model)).start()
    cluster.bind()
    cluster.run(300)
    assert 71 <= cluster.last("web")[0] <= 92 or 126 <= cluster.last("web")[0] < 131


def test_init_containers_run_one_after_the_other_and_their_end_is_seen_at_the_next_look() -> None:
    """Two tasks of 2.5 s, each seen within a second of its end: the main container starts after 6 to 8 s."""
    model = ApplicationModel(default_init=ContainerModel(run=fixed(2.5)))
    cluster = Cluster(model).start()
    cluster.bind("web", init_containers=(container("one"), container("two")))
    cluster.run(60)
    phases = [line[1:3] for line in cluster.log["web"]]
    assert phases == [("Pending", "False"), ("Running", "True")]
    started = cluster.last("web")[0]
    assert 6 <= started <= 8
    timeline = cluster.kubelets.timelines["d/web"]
    split = timeline.waiting_time()
    assert split is not None
    assert round(split.init / SECOND, 3) == round(started - 1, 3)


def test_a_sidecar_lets_the_next_container_start_as_soon_as_it_has_started() -> None:
    """It answers at 3.5 s, its startup probe succeeds at 4 s (0, 2, 4), and the main container follows at once."""
    sidecar = ContainerModel(start=fixed(2.5), startup_probe=Probe(period=2))
    cluster = Cluster(ApplicationModel(containers={"proxy": sidecar})).start()
    cluster.bind("web", init_containers=(container("proxy", restart_policy="Always"),))
    cluster.run(60)
    assert cluster.log["web"] == [(0, "Pending", "False", 0), (4, "Running", "True", 0)]


def test_an_init_container_that_fails_for_good_fails_the_pod() -> None:
    """restartPolicy Never: nothing is tried again, the main container never starts."""
    failing = ApplicationModel(default_init=ContainerModel(run=fixed(1), exit_code=3))
    cluster = Cluster(failing).start()
    key = cluster.bind("web", init_containers=(container("setup"),), restart_policy="Never")
    cluster.run(60)
    assert cluster.pod(key).status.phase == "Failed"
    assert cluster.kubelets.running(key) == {}
    assert cluster.kubelets.timelines[key].started is None


def test_images_are_pulled_one_at_a_time_and_stay_on_the_node() -> None:
    """10 MB and 5 MB at 1 MB/s: the first pod waits 10 s, the second for both, the third for nothing."""
    catalog = ImageCatalog(sizes={"a:1": 10_000_000, "b:1": 5_000_000})
    cluster = Cluster(catalog=catalog).start()
    cluster.bind("first", container(image="a:1"))
    cluster.bind("second", container(image="b:1"))
    cluster.run(30)
    cluster.bind("third", container(image="a:1"))
    cluster.run(60)
    assert [cluster.log[name][-1][0] for name in ("first", "second", "third")] == [11, 16, 31]
    waits = [cluster.kubelets.timelines[f"d/{name}"].image_wait / SECOND for name in ("first", "second", "third")]
    assert waits == pytest.approx([10, 15, 0], abs=1e-5)


def test_pulls_are_served_in_the_order_in_which_they_were_asked_for() -> None:
    """The second image of the first pod waits behind the image of the second pod: a to 4, c to 6, b to 9 s."""
    catalog = ImageCatalog(sizes={"a:1": 3_000_000, "b:1": 3_000_000, "c:1": 2_000_000})
    cluster = Cluster(catalog=catalog).start()
    cluster.bind("first", container("a", "a:1"), container("b", "b:1"))
    cluster.bind("second", container("c", "c:1"))
    cluster.run(60)
    assert [cluster.log[name][-1][0] for name in ("first", "second")] == [9, 6]


def test_parallel_pulls_do_not_wait_for_each_other_and_one_image_is_loaded_once() -> None:
    """Two pods of one image share its load; a third image runs beside it."""
    catalog = ImageCatalog(sizes={"a:1": 10_000_000, "b:1": 5_000_000})
    cluster = Cluster(catalog=catalog, serialize_image_pulls=False).start()
    for name, image in (("first", "a:1"), ("second", "a:1"), ("third", "b:1")):
        cluster.bind(name, container(image=image))
    cluster.run(60)
    assert [cluster.log[name][-1][0] for name in ("first", "second", "third")] == [11, 11, 6]


def test_pulls_beyond_the_limit_fail_and_back_off() -> None:
    """Burst 10 at 5 per second: of 12 images at one moment two fail at once and are tried again after 10 s or more."""
    sizes = {f"i:{i}": 1_000_000 for i in range(12)}
    cluster = Cluster(catalog=ImageCatalog(sizes=sizes), serialize_image_pulls=False).start()
    for i in range(12):
        cluster.bind(f"p{i}", container(image=f"i:{i}"))
    cluster.run(60)
    ends = [cluster.log[f"p{i}"][-1][0] for i in range(12)]
    assert ends[:10] == [2.0] * 10
    assert all(12 < end <= 18 for end in ends[10:])
    for i in range(12):
        timeline = cluster.kubelets.timelines[f"d/p{i}"]
        assert timeline.pulled is not None
        assert timeline.image_wait == timeline.pulled - (timeline.sandbox or 0), "a back-off is time for the image"


def test_an_image_that_cannot_be_pulled_is_tried_with_a_growing_back_off() -> None:
    """The back-off is 10, 20, 40, ... 300 s; a worker looks every 10 to 16 s, so each gap is that much longer."""
    cluster = Cluster(catalog=ImageCatalog(failing=frozenset({"gone:1"}))).start()
    cluster.bind("web", container(image="gone:1"))
    cluster.run(2000)
    tries = [time for time, reason, _ in cluster.events if reason == "Failed"]
    gaps = [b - a for a, b in pairwise(tries)]
    assert tries[0] == 1
    for gap, back_off in zip(gaps, [10, 20, 40, 80, 160, 300, 300], strict=False):
        assert back_off <= gap <= back_off + 16
    assert cluster.log["web"] == [(0, "Pending", "False", 0)]


def test_a_pod_that_the_node_cannot_hold_fails_with_upstreams_reason() -> None:
    """7 of 8 cores are taken: the second pod is OutOfcpu, with the numbers in milli cores, and never runs."""
    cluster = Cluster().start()
    cluster.bind("big", asking(cpu="7"))
    key = cluster.bind("more", asking(cpu="2"))
    cluster.run(10)
    assert cluster.pod(key).status.phase == "Failed"
    assert cluster.kubelets.timelines[key].reason == "OutOfcpu"
    message = "Node didn't have enough resource: cpu, requested: 2000, used: 7000, capacity: 8000"
    assert cluster.events == [(0, "OutOfcpu", message)]
    assert cluster.pod("d/big").ready == "True"


def test_the_number_of_pods_is_a_resource_and_comes_first() -> None:
    """Upstream looks at the number of pods before anything else, and needs no request for it."""
    cluster = Cluster(allocatable={"cpu": "1", "memory": "1Gi", "pods": "1"}).start()
    cluster.bind("one")
    key = cluster.bind("two", asking(cpu="4"))
    cluster.run(5)
    assert cluster.kubelets.timelines[key].reason == "OutOfpods"


def test_a_pod_that_has_ended_gives_its_room_back() -> None:
    """A finished task of 7 cores leaves them to the next pod."""
    cluster = Cluster(ApplicationModel(default=ContainerModel(run=fixed(2)))).start()
    cluster.bind("task", asking(cpu="7"), restart_policy="Never")
    cluster.run(10)
    key = cluster.bind("next", asking(cpu="7"), restart_policy="Never")
    cluster.run(12)
    assert cluster.kubelets.timelines[key].reason == ""
    assert cluster.pod(key).status.phase == "Running"


def test_the_same_seed_gives_the_same_times_and_another_seed_others() -> None:
    """Draws depend on seed and names only, so a pod's luck does not change with what else is started."""

    def times(seed: int, *, others: int) -> list[float]:
        model = ContainerModel(start=uniform(1, 9), readiness_probe=Probe(period=1))
        cluster = Cluster(ApplicationModel(default=model), seed=seed, nodes=2, sandbox=uniform(0.5, 2)).start()
        for i in range(others):
            cluster.bind(f"other{i}", node="n1")
        cluster.bind("web")
        cluster.run(60)
        return [line[0] for line in cluster.log["web"]]

    assert times(1, others=0) == pytest.approx(times(1, others=5), abs=1e-4)
    assert times(1, others=0) != times(2, others=0)
