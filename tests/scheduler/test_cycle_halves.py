"""A cycle in two halves, for callers in whose time it takes some; and a scheduler that makes no metric samples."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import AttemptFailed, Bind, Effect, Observe
from stowplan_scheduler.events import ApiObject, ObjectAdded, ObjectDeleted
from stowplan_scheduler.scheduler import Scheduler
from support.builders import node, pod
from support.histories import History, Play, histories, scheduler_of


def scheduler(*objects: ApiObject, **options: Any) -> Scheduler:
    """With these objects."""
    made = Scheduler(load_configuration(None), First(), **options)
    for each in objects:
        made.receive(ObjectAdded(each), 0)
    return made


def test_a_cycle_begins_with_a_pod_or_not_at_all() -> None:
    """An empty queue gives None, and a whole cycle then has no effects."""
    one = scheduler(node("n").build())
    assert one.begin_cycle(0) is None
    assert one.run_cycle(0) == []
    one.receive(ObjectAdded(pod("p").build()), 0)
    taken = one.begin_cycle(0)
    assert taken is not None
    assert taken.info.pod.metadata.name == "p"
    assert one.begin_cycle(0) is None, "it is taken"


def test_the_decision_sees_what_changed_between_the_halves() -> None:
    """The node that was there at the beginning goes, another one comes."""
    one = scheduler(node("first").build(), pod("p").build())
    taken = one.begin_cycle(0)
    assert taken is not None
    one.receive(ObjectDeleted(node("first").build()), 1)
    one.receive(ObjectAdded(node("second").build()), 1)
    (bind,) = [effect for effect in one.finish_cycle(taken, 2) if isinstance(effect, Bind)]
    assert bind.node_name == "second"


def test_a_pod_that_fails_hears_of_what_came_between_the_halves() -> None:
    """A node that came too late for the decision, or would have: the pod is not put aside to wait for it, but tried
    again after its back-off of a second.
    """
    one = scheduler(node("small").capacity(cpu="1").build(), pod("p").req(cpu="2").build())
    taken = one.begin_cycle(0)
    assert taken is not None
    one.receive(ObjectAdded(node("other").capacity(cpu="1").build()), 1)
    effects = one.finish_cycle(taken, 2)
    assert [effect.pod.metadata.name for effect in effects if isinstance(effect, AttemptFailed)] == ["p"]
    assert one.begin_cycle(2) is None
    one.receive(ObjectAdded(node("big").capacity(cpu="4").build()), 3)
    again = one.begin_cycle(2_000_000_000)
    assert again is taken


def test_a_whole_cycle_is_its_halves() -> None:
    """The same effects, ids included."""
    whole, halves = (scheduler(node("n").build(), pod("a").build(), pod("b").req(cpu="99").build()) for _ in range(2))
    for now in (1, 2, 3):
        taken = halves.begin_cycle(now)
        found = [] if taken is None else halves.finish_cycle(taken, now)
        assert found == whole.run_cycle(now)


def unnumbered(effects: list[Effect]) -> list[str]:
    """Less the samples, and less the ids, which count them."""
    return [repr(replace(effect, id=0)) for effect in effects if not isinstance(effect, Observe)]


@given(histories(steps=40))
@settings(max_examples=20, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))
def test_without_metrics_all_other_effects_are_the_same(history: History) -> None:
    """And there is no sample among them."""
    with_samples = Play(history, scheduler_of(history)).run()
    without = Play(history, scheduler_of(history, metrics=False)).run()
    assert not [effect for effect in without if isinstance(effect, Observe)]
    assert unnumbered(without) == unnumbered(with_samples)
