"""What is seen, when, and in which order: the change feed and the informers with their indexes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.small_world import World, make_node, make_pod
from stowplan_autoscaling.cluster.feed import Change, ChangeType
from stowplan_autoscaling.cluster.informers import Informers
from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, RUNNING, SUCCEEDED, TRUE, ClusterPod
from stowplan_autoscaling.cluster.selector_index import SelectorIndex
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_scheduler.objects import LabelSelector, ObjectMeta, OwnerReference, PodStatus
from stowplan_scheduler.selectors import LabelQuery

# ---- the feed ----------------------------------------------------------------------------------------------------


def test_changes_come_by_time_due_then_by_version_then_by_watcher() -> None:
    """`slow` hears 5 ms later; of two that hear at one moment the one that watched first is told first."""
    world = World()
    heard: list[tuple[str, str, float]] = []

    def note(name: str, change: Change) -> None:
        heard.append((name, change.key, (world.kernel.elapsed * 1000) // 1))

    world.feed.watch("slow", frozenset({"Pod"}), lambda change: note("slow", change), 5 * MILLISECOND)
    world.feed.watch("a", frozenset({"Pod", "Node"}), lambda change: note("a", change))
    world.feed.watch("b", frozenset({"Pod"}), lambda change: note("b", change))
    world.server.create("Pod", make_pod("p"))
    world.server.create("Node", make_node("n"))
    world.run(1)
    assert heard == [("a", "default/p", 0), ("b", "default/p", 0), ("a", "n", 0), ("slow", "default/p", 5)]


def test_a_change_says_what_was_and_what_is() -> None:
    """For a deletion the last state is told in both places."""
    world = World()
    changes: list[Change] = []
    world.feed.watch("w", frozenset({"Pod"}), changes.append)
    first = world.server.create("Pod", make_pod("p"))
    second = world.change("p", restarts=1)
    world.server.remove("Pod", "default/p")
    world.run(1)
    assert [(change.type, change.version) for change in changes] == [
        (ChangeType.ADDED, 1),
        (ChangeType.MODIFIED, 2),
        (ChangeType.DELETED, 3),
    ]
    assert [(change.old, change.new) for change in changes] == [(None, first), (first, second), (second, second)]


def test_a_watcher_sees_only_what_is_written_after_it_began() -> None:
    """What was there before it has to list."""
    world = World()
    world.server.create("Pod", make_pod("p"))
    changes: list[Change] = []
    world.feed.watch("w", frozenset({"Pod"}), changes.append)
    world.run(1)
    assert changes == []


def test_of_one_moment_the_older_change_comes_first_whoever_watches() -> None:
    """The slow watcher, though it came last, is told of version 1 before the quick one hears of version 2."""
    world = World()
    told: list[tuple[str, int]] = []
    world.feed.watch("quick", frozenset({"Pod"}), lambda change: told.append(("quick", change.version)))
    world.feed.watch("slow", frozenset({"Pod"}), lambda change: told.append(("slow", change.version)), 5 * SECOND)
    first = world.kernel.now
    world.kernel.at(first, lambda: world.server.create("Pod", make_pod("p")))
    world.kernel.at(first + 5 * SECOND, lambda: world.server.create("Pod", make_pod("q")))
    world.run(20)
    assert told == [("quick", 1), ("slow", 1), ("quick", 2), ("slow", 2)]


# ---- informers ---------------------------------------------------------------------------------------------------


def test_informers_begin_with_what_is_there_sorted_by_key() -> None:
    """A list request returns keys in order, whatever the order of creation was."""
    world = World()
    for name in ("b", "a", "c"):
        world.server.create("Pod", make_pod(name))
    seen: list[tuple[Any, str]] = []
    world.informers.handle("Pod", lambda old, new: seen.append((old, new.key)))
    world.start()
    assert seen == [(None, "default/a"), (None, "default/b"), (None, "default/c")]
    assert world.informers.seen["Pod"] == 3


def test_controllers_see_a_change_after_the_latency() -> None:
    """Until then the copy is the old one, although the server has another."""
    world = World(latency=20 * MILLISECOND)
    world.start()
    world.server.create("Pod", make_pod("a"))
    world.run(0.015)
    assert world.informers.get("Pod", "default/a") is None
    world.run(0.025)
    assert world.informers.get("Pod", "default/a") is world.pod("a")
    assert world.informers.seen["Pod"] == 1


def test_handlers_find_the_copy_and_the_indexes_up_to_date() -> None:
    """They are called in the order of registration, with (old, new)."""
    world = World()
    log: list[tuple[str, bool, bool, int]] = []

    def handler(name: str) -> Any:
        return lambda old, new: log.append((name, old is None, new is None, len(world.informers.pods_on("n1"))))

    world.informers.handle("Pod", handler("first"))
    world.informers.handle("Pod", handler("second"))
    world.start()
    world.server.create("Pod", make_pod("a"))
    world.server.bind("default/a", "n1")
    world.server.remove("Pod", "default/a")
    world.run(1)
    assert log[::2] == [("first", True, False, 0), ("first", False, False, 1), ("first", False, True, 0)]
    assert [entry[0] for entry in log] == ["first", "second"] * 3


def test_objects_are_found_by_their_controller() -> None:
    """An owner that is no controller does not count; what is removed is gone from the index."""
    world = World()
    world.start()
    for name, controls in (("a", True), ("b", False)):
        owner = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="u", controller=controls)
        world.replica_set(1, name)
        stored = world.server.get("ReplicaSet", f"default/{name}")
        world.server.put("ReplicaSet", replace(stored, metadata=replace(stored.metadata, owner_references=(owner,))))
    world.run(1)
    assert list(world.informers.children("u")) == ["default/a"]
    assert world.informers.children("other") == {}
    world.server.remove("ReplicaSet", "default/a")
    world.run(2)
    assert world.informers.children("u") == {}


STATES = st.tuples(
    st.sampled_from(["", "o1", "o2"]),
    st.sampled_from([PENDING, RUNNING, RUNNING, SUCCEEDED, FAILED]),
    st.sampled_from([TRUE, FALSE, ""]),
    st.booleans(),
    st.sampled_from(["web", "db", "none"]),
)
HISTORIES = st.lists(st.tuples(st.integers(0, 4), st.booleans(), STATES), max_size=25)


def in_state(pod: ClusterPod, state: tuple[str, str, str, bool, str]) -> ClusterPod:
    owner, phase, ready, deleted, app = state
    labels = pod.metadata.labels if pod.metadata.labels.get("app") == app else {"app": app}
    return replace(
        pod,
        metadata=replace(pod.metadata, labels=labels),
        owner_uid=owner,
        status=PodStatus(phase=phase),
        ready=ready,
        deleted=5 if deleted else None,
    )


@given(HISTORIES)
def test_counts_and_indexes_equal_a_recount(history: list[tuple[int, bool, tuple[str, str, str, bool, str]]]) -> None:
    """Pods come, change in any way, change owners and labels, and go; queries are asked for half way through."""
    world = World()
    index = SelectorIndex(world.informers)
    queries = [LabelQuery.of(LabelSelector(match_labels={"app": app})) for app in ("web", "db")]
    queries.append(LabelQuery.of(LabelSelector()))
    world.start()
    for step, (number, removes, state) in enumerate(history):
        name = f"p{number}"
        held = world.server.find("Pod", f"default/{name}")
        if held is None:
            world.server.create("Pod", in_state(make_pod(name, node=f"n{number % 2}"), state))
        elif removes:
            world.server.remove("Pod", f"default/{name}")
        else:
            world.server.put("Pod", in_state(held, state))
        world.run(step + 1)
        if step == len(history) // 2:
            index.pods("default", queries[0])
    informers, stored = world.informers, world.server.all("Pod")
    for uid in ("o1", "o2"):
        pods = [pod for pod in stored.values() if pod.owner_uid == uid]
        active = [pod for pod in pods if pod.is_active]
        group = informers.group(uid)
        assert set(group.pods) == {pod.key for pod in pods}
        assert {key: pod.version for key, pod in group.active_pods.items()} == {pod.key: pod.version for pod in active}
        assert (group.active, group.ready) == (len(active), sum(pod.ready == TRUE for pod in active))
        going = [pod for pod in pods if pod.deleted is not None and pod.status.phase not in {SUCCEEDED, FAILED}]
        assert group.terminating == len(going)
    for node in ("n0", "n1"):
        assert set(informers.pods_on(node)) == {pod.key for pod in stored.values() if pod.spec.node_name == node}
    for query in queries:
        wanted = {pod.key: pod for pod in stored.values() if query.matches(pod.metadata.labels)}
        assert {pod.key: pod for pod in index.pods("default", query)} == wanted
        assert index.pods("elsewhere", query) == ()
        for pod in stored.values():
            assert (index.mapping("default", query) in index.groups_of(pod)) == (pod.key in wanted)


def test_every_change_of_a_group_has_a_version() -> None:
    """Who remembers a version knows whether something happened since."""
    world = World()
    owner = world.replica_set(2)
    world.start()
    group = world.informers.group(owner.uid)
    versions = [group.version]
    world.pods(1, owner=owner)
    world.run(1)
    versions.append(group.version)
    world.make_ready("web-0")
    world.run(2)
    versions.append(group.version)
    world.server.remove("Pod", "default/web-0")
    world.run(3)
    versions.append(group.version)
    assert versions == [0, 1, 2, 3]


def test_pods_of_a_query_stand_in_the_order_of_creation() -> None:
    """Also those that change; a query that is asked for late sees the same order."""
    world = World()
    index = SelectorIndex(world.informers)
    query = LabelQuery.of(LabelSelector(match_labels={"app": "web"}))
    world.start()
    assert index.pods("default", query) == ()
    world.pods(3)
    world.run(1)
    world.make_ready("web-0")
    world.run(2)
    assert [pod.metadata.name for pod in index.pods("default", query)] == ["web-0", "web-1", "web-2"]
    everything = index.pods("default", LabelQuery.of(LabelSelector()))
    assert [pod.metadata.name for pod in everything] == ["web-0", "web-1", "web-2"]


def test_an_index_does_not_keep_the_labels_of_all_pods_that_ever_were() -> None:
    """Pods of a StatefulSet or of Jobs have labels of their own; what is remembered about them goes with them."""
    informers = Informers(["Pod"])
    index = SelectorIndex(informers)
    query = LabelQuery.of(LabelSelector(match_labels={"app": "web"}))
    index.mapping("default", query)
    pods = [
        ClusterPod(metadata=ObjectMeta(name=f"p{n}", namespace="default", labels={"app": "web", "n": str(n)}))
        for n in range(25)
    ]
    for pod in pods:
        index._changed(None, pod)
    assert len(index.pods("default", query)) == len(index._alike["default"]) == 25
    for pod in pods:
        index._changed(pod, None)
    assert index.pods("default", query) == ()
    assert index._alike["default"] == {}


def test_a_query_that_comes_after_a_pod_has_changed_its_labels_still_sees_the_order_of_creation() -> None:
    """The pod that came first joins the others last."""
    world = World()
    index = SelectorIndex(world.informers)
    world.start()
    world.pods(3)
    world.run(1)
    stored = world.server.all("Pod")
    shared = {"app": "db"}
    for at, name in enumerate(("web-1", "web-2", "web-0")):
        held = stored[f"default/{name}"]
        world.server.put("Pod", replace(held, metadata=replace(held.metadata, labels=shared)))
        world.run(2 + at)
    found = index.pods("default", LabelQuery.of(LabelSelector(match_labels={"app": "db"})))
    assert [pod.metadata.name for pod in found] == ["web-0", "web-1", "web-2"]
