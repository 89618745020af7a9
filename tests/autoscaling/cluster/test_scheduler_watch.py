"""Which pods the scheduler watches, and what it is told when the pod that it binds is another one by now."""

from __future__ import annotations

from msgspec.structs import replace

from autoscaling.cluster.small_world import World, make_pod
from autoscaling.cluster.test_scheduling import Scheduled, node, pod
from stowplan_autoscaling.cluster.feed import Change
from stowplan_autoscaling.cluster.pods import SUCCEEDED
from stowplan_autoscaling.kernel import MILLISECOND
from stowplan_scheduler.effects import AttemptFailed


def test_a_watcher_sees_what_it_selects() -> None:
    """As with a field selector; another watcher of the kind sees everything."""
    world = World()
    seen: list[tuple[str, str]] = []

    def watch(name: str) -> None:
        def note(change: Change) -> None:
            seen.append((name, change.key))

        only = name == "some"
        world.feed.watch(
            name, frozenset({"Pod"}), note, selects=(lambda kind, old, new: "b" in new.metadata.name) if only else None
        )

    watch("all")
    watch("some")
    for name in ("a", "b"):
        world.server.create("Pod", make_pod(name))
    world.run(1)
    assert seen == [("all", "default/a"), ("all", "default/b"), ("some", "default/b")]


def test_the_end_of_a_pod_is_news_for_the_scheduler_and_nothing_after_it() -> None:
    """Its room is free when it has succeeded: b fits then. That a is taken away later, nobody needs to tell it."""
    one = Scheduled(node("n1", cpu="1"))
    one.add(pod("a", cpu="1"), pod("b", cpu="1"))
    one.world.run(1)
    assert [name for _, name, _ in one.bound] == ["a"]
    stored = one.world.pod("a")
    one.world.change("a", status=replace(stored.status, phase=SUCCEEDED))
    one.world.run(20)
    assert [name for _, name, _ in one.bound] == ["a", "b"]
    before = one.world.kernel.now
    one.world.server.remove("Pod", "default/a")
    assert one.world.feed.due is None
    assert one.world.kernel.now == before


def test_a_pod_that_has_taken_the_place_of_another_is_named_in_the_failure() -> None:
    """The words of the API server, behind those of the plugin: v1.37.2 gives them as the message of the attempt."""
    one = Scheduled(node("n1"), latency=50 * MILLISECOND)
    one.add(pod("a"))
    one.world.run(0.051)
    first = one.world.pod("a").metadata.uid
    one.world.server.remove("Pod", "default/a")
    second = pod("a")
    one.add(replace(second, metadata=replace(second.metadata, uid="second")))
    one.world.run(10)
    expected = (
        'running Bind plugin "DefaultBinder": Operation cannot be fulfilled on pods "a": StorageError: invalid object, '
        "Code: 4, Key: /registry/pods/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {first}, UID in object meta: second"
    )
    assert [effect.message for effect in one.effects if isinstance(effect, AttemptFailed)] == [expected]
