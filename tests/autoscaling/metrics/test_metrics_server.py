"""metrics-server round by round.

Housekeeping without jitter makes the numbers easy: every 10 s from a millisecond after a pod's start.
"""

from __future__ import annotations

import pytest

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.hpa.metrics import MetricsError, PodMetric
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_autoscaling.metrics import (
    EachPod,
    Housekeeping,
    MetricsServer,
    MetricsServerConfig,
    Outage,
    PodIndex,
    ScrapeFaults,
)
from stowplan_autoscaling.streams import Streams
from stowplan_scheduler.objects import Container, ObjectMeta, PodSpec, ResourceRequirements
from stowplan_scheduler.selectors import EVERYTHING, LabelQuery

MIB = 1 << 20
FIRST_WINDOW = 10 * SECOND + MILLISECOND
"""From a pod's start to the second look."""


class Constant:
    """Every pod uses so many cores and bytes, except those that are named."""

    def __init__(self, cores: float = 0.25, size: int = 100 * MIB, **cores_of: float) -> None:
        self.cores, self.size, self.cores_of = cores, size, cores_of
        self.asked: list[str] = []

    def cpu_seconds(self, pod_uid: str, a: int, b: int) -> float:
        self.asked.append(pod_uid)
        return self.cores_of.get(pod_uid, self.cores) * (b - a) / SECOND

    def memory(self, pod_uid: str, t: int) -> int:
        return self.size


def make(name: str, node: str = "n1", **cpu_of_containers: str) -> ClusterPod:
    containers = tuple(
        Container(name=c, image="app", resources=ResourceRequirements(requests={"cpu": cpu}))
        for c, cpu in (cpu_of_containers or {"app": "1"}).items()
    )
    meta = ObjectMeta(name=name, namespace="default", uid=name, labels={"app": "web"})
    return ClusterPod(metadata=meta, spec=PodSpec(node_name=node, containers=containers))


class World:
    """A server whose first round begins at 0."""

    def __init__(self, usage: Constant | None = None, nodes: int = 1, seed: int = 1, **config: object) -> None:
        settings = {"phase": 0, "housekeeping": Housekeeping(jitter=0), **config}
        self.usage = usage or Constant()
        self.index = PodIndex()
        self.server = MetricsServer(
            MetricsServerConfig(**settings),  # type: ignore[arg-type]
            usage=EachPod(self.usage),
            index=self.index,
            streams=Streams(seed),
            start=0,
        )
        for number in range(1, nodes + 1):
            self.server.node_added(f"n{number}")

    def start(self, pod: ClusterPod, seconds: float) -> None:
        self.index.add(pod)
        self.server.pod_started(pod, int(seconds * SECOND))

    def at(self, seconds: float, resource: str = "cpu", container: str | None = None) -> dict[str, PodMetric]:
        """The answer some time after a round of one node or few (8 ms at most per node)."""
        now = int(seconds * SECOND)
        self.server.advance(now)
        query = LabelQuery.of_map({"app": "web"})
        return dict(self.server.resource(resource, "default", query, container, now)[0])

    def nothing_at(self, seconds: float) -> bool:
        try:
            self.at(seconds)
        except MetricsError as error:
            return str(error) == "no metrics returned from resource metrics API"
        return False


def test_a_new_pod_is_seen_after_the_first_round_that_finds_it_ten_seconds_old() -> None:
    """Started at 1 s, looked at at 1, 11, 21, 31, 41 s and 1 ms: the rounds of 15, 30 and 45 s see 11, 21 and 41."""
    world = World()
    world.start(make("a"), 1)
    assert world.nothing_at(14)
    assert world.at(15.1) == {"a": PodMetric(11 * SECOND, FIRST_WINDOW, 250)}
    assert world.at(30.1) == {"a": PodMetric(21 * SECOND, 10 * SECOND, 250)}
    assert world.at(45.1) == {"a": PodMetric(41 * SECOND, 20 * SECOND, 250)}


def test_a_pod_that_the_first_round_finds_too_young_waits_for_the_second() -> None:
    """Started at 7 s: the round of 15 s sees 7 s (age 0), that of 30 s sees 27 s, over 20 s."""
    world = World()
    world.start(make("a"), 7)
    assert world.nothing_at(15.1)
    assert world.at(30.1) == {"a": PodMetric(27 * SECOND, 20 * SECOND, 250)}


def test_memory_is_the_working_set_of_the_newest_look() -> None:
    """In thousandths of a byte, as the controller counts."""
    world = World()
    world.start(make("a"), 1)
    assert world.at(15.1, "memory")["a"].value == 100 * MIB * 1000


def test_time_stamps_lose_their_fractions_and_windows_do_not() -> None:
    """Started at 1.4 s: looked at at 11.401 s. metav1.Time is whole seconds on the wire."""
    world = World()
    world.start(make("a"), 1.4)
    assert world.at(15.1)["a"] == PodMetric(11 * SECOND, FIRST_WINDOW, 250)


def test_containers_share_the_pods_use_by_their_requests() -> None:
    """0.4 cores, requests 3:1: 300 m and 100 m; the pod is their sum."""
    world = World(Constant(cores=0.4))
    world.start(make("a", app="300m", proxy="100m"), 1)
    assert world.at(15.1)["a"].value == 400
    assert world.at(15.1, container="app")["a"].value == 300
    assert world.at(15.1, container="proxy")["a"].value == 100
    assert world.at(15.1, container="other") == {}


def test_a_container_without_two_points_hides_its_pod() -> None:
    """The proxy restarts at 32 s: the round of 45 s sees it at 42 s (10 s old, seen), that of a restart at 44 s not."""
    world = World(Constant(cores=0.4))
    world.start(make("a", app="300m", proxy="100m"), 1)
    world.at(30.1)
    world.server.container_restarted("a", "proxy", 44 * SECOND)
    assert world.nothing_at(45.1)
    # Both seen twice: the app at 51 s, the proxy at 54 s; the earliest time stamp speaks for the pod.
    assert world.at(60.1)["a"].timestamp == 51 * SECOND


def test_a_lost_node_keeps_everybody_waiting_and_its_pods_start_over() -> None:
    """Its kubelet times out 10 s after it was asked; until then the round before is what there is."""
    world = World(nodes=2)
    world.start(make("a", "n1"), 1)
    world.start(make("b", "n2"), 1)
    assert set(world.at(30.1)) == {"a", "b"}
    world.server.node_lost("n2")
    assert world.at(54.9)["a"].timestamp == 21 * SECOND
    assert set(world.at(55.1)) == {"a"}
    assert world.at(55.1)["a"].timestamp == 41 * SECOND
    world.server.node_added("n2")
    assert set(world.at(60.1)) == {"a"}
    assert set(world.at(75.1)) == {"a", "b"}


def test_nobody_waits_for_a_node_that_is_gone() -> None:
    """Without its object the node is not asked."""
    world = World(nodes=2)
    world.start(make("a", "n1"), 1)
    world.server.node_lost("n2")
    world.server.node_removed("n2")
    assert world.at(30.1)["a"].timestamp == 21 * SECOND


def test_pods_that_end_or_are_deleted_disappear_at_once() -> None:
    """The API lists existing pods; a container that is gone is not measured any more."""
    world = World()
    for name in "abc":
        world.start(make(name), 1)
    world.at(15.1)
    world.server.pod_ended("a")
    world.index.remove("b")
    assert set(world.at(15.1)) == {"c"}


def test_a_pod_in_the_place_of_another_does_not_inherit_its_numbers() -> None:
    """Rows are used again."""
    world = World(Constant(b=0.5))
    world.start(make("a"), 1)
    world.at(30.1)
    world.server.pod_ended("a")
    world.index.remove("a")
    world.start(make("b"), 31)
    assert world.nothing_at(31)
    assert world.at(45.1) == {"b": PodMetric(41 * SECOND, FIRST_WINDOW, 500)}


def test_reads_are_spread_over_eight_milliseconds_per_node() -> None:
    """100 nodes: within 0.8 s; 1000 nodes would take 4 s."""
    world = World(nodes=100)
    world.server.advance(0)
    published = world.server.next_event()
    assert 600 * MILLISECOND < published < 800 * MILLISECOND


def test_a_reading_that_fails_by_chance_hides_the_nodes_pods() -> None:
    """Every reading fails: nothing is ever published about anybody."""
    world = World(faults=ScrapeFaults(missing=1.0))
    world.start(make("a"), 1)
    assert world.nothing_at(300)


def test_a_round_that_is_late_shows_later() -> None:
    """By 3 s: at 17 s nothing yet, at 18.1 s the round of 15 s."""
    world = World(faults=ScrapeFaults(late=1.0, late_by=3 * SECOND))
    world.start(make("a"), 1)
    assert world.nothing_at(17.9)
    assert world.at(18.1)["a"].timestamp == 11 * SECOND


def test_planned_faults_of_the_api() -> None:
    """An error, an empty list, a pod that is lacking."""
    world = World(
        outages=(
            Outage(start=16 * SECOND, end=17 * SECOND),
            Outage(start=17 * SECOND, end=18 * SECOND, kind="empty"),
            Outage(start=18 * SECOND, end=19 * SECOND, kind="pods", pods=frozenset({"a"})),
        )
    )
    world.start(make("a"), 1)
    world.start(make("b"), 1)
    assert set(world.at(15.9)) == {"a", "b"}
    with pytest.raises(MetricsError, match=r"^unable to fetch metrics from resource metrics API: the server is "):
        world.at(16)
    assert world.nothing_at(17)
    assert set(world.at(18)) == {"b"}
    assert set(world.at(19)) == {"a", "b"}


def test_a_resource_that_nobody_measures_leaves_all_pods_without_a_sample() -> None:
    """The list is not empty, so this is no error; the time of the answer is the first pod's."""
    world = World()
    world.start(make("a"), 1)
    world.at(15.1)
    assert world.server.resource("nvidia.com/gpu", "default", EVERYTHING, None, 16 * SECOND) == ({}, 11 * SECOND)


def test_no_pod_is_asked_about_between_rounds() -> None:
    """Housekeeping is computed when a kubelet is read: one question per pod and round at most."""
    world = World()
    world.start(make("a"), 1)
    world.server.advance(14 * SECOND)
    assert world.usage.asked == []
    world.server.advance(100 * SECOND)
    assert len(world.usage.asked) == 6


def test_the_same_seed_gives_the_same_answers() -> None:
    """With cAdvisor's jitter, and two pods in either order."""

    def answer(names: str) -> dict[str, PodMetric]:
        world = World(housekeeping=Housekeeping(), phase=None, seed=5)
        for name in names:
            world.start(make(name), 1)
        return world.at(120)

    assert answer("ab") == answer("ba")


@pytest.mark.parametrize(
    ("resolution", "message"),
    [
        (9, "resolution: must be at least 10 s, got 9 s"),
        (10, "must be larger than the kubelet request timeout of 10 s"),
    ],
)
def test_resolutions_that_metrics_server_refuses(resolution: int, message: str) -> None:
    """As its flags do."""
    with pytest.raises(ValueError, match=message):
        MetricsServerConfig(resolution=resolution * SECOND)
