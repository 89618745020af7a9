"""Another configuration for a scheduler that is at work: nothing that waits or is under way is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.test_scheduler import BIG, CONFIG, FAILED, SECOND, World, only
from stowplan_scheduler.config import ConfigurationError, load_configuration
from stowplan_scheduler.effects import AttemptFailed, Bind, DeleteVictim, Effect, RecordEvent
from stowplan_scheduler.queue import Place
from support.builders import PodBuilder, node, pod

Document = dict[str, Any]


def profile(name: str = "default-scheduler", **rest: Any) -> Document:
    return {"schedulerName": name, **rest}


def packing(name: str = "default-scheduler") -> Document:
    """Prefers the fullest node."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    balanced = {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}
    return profile(name, plugins={"score": balanced}, pluginConfig=[fit])


def without(plugin: str, name: str = "default-scheduler") -> Document:
    return profile(name, plugins={"multiPoint": {"disabled": [{"name": plugin}]}})


class Running(World):
    """A world whose scheduler may be told to decide by other profiles."""

    def by(self, *profiles: Document, **rest: Any) -> list[Effect]:
        config = load_configuration(CONFIG | {"profiles": list(profiles)} | rest)
        return self.scheduler.reconfigure(config, self.now)


def nodes() -> tuple[Any, ...]:
    """One that is half full, and one that is empty."""
    return node("full").build(), node("free").build(), pod("old").req(cpu="1").on("full").build()


def test_a_pod_that_waits_is_placed_by_the_new_weights() -> None:
    world = Running(*nodes())
    assert world.start(pod("before").req(cpu="1")).node_name == "free"
    world.add(pod("a").req(cpu="500m").build())
    world.by(packing())
    assert only(world.cycle(), Bind).node_name == "full"


def test_a_binding_under_way_keeps_its_room_and_is_reported() -> None:
    world = Running(node("n").build())
    bind = world.start(pod("p").req(**BIG))
    world.by(packing())
    assert world.scheduler.cache.pod_count == 1
    world.add(pod("q").req(**BIG).build())
    assert only(world.cycle(), AttemptFailed).plugins == ("NodeResourcesFit",)
    assert only(world.done(bind), RecordEvent).reason == "Scheduled"


def test_the_same_configuration_changes_nothing() -> None:
    """What profiles remember stays, too."""
    world = Running(node("n").build())
    world.add(pod("p").req(cpu="100").build())
    world.cycle()
    before = world.scheduler.profiles["default-scheduler"]
    assert world.by(profile()) == []
    assert world.scheduler.profiles["default-scheduler"] is before
    assert world.place_of("default/p") is Place.UNSCHEDULABLE


def test_only_pods_of_the_changed_profile_are_tried_again() -> None:
    """After their back-off of a second, which ends at a whole one."""
    world = Running(node("n").taint("key", "", "NoSchedule").build())
    world.by(profile(), profile("other"))
    world.add(pod("p").build())
    world.add(pod("q").scheduler("other").build())
    for _ in range(2):
        assert only(world.cycle(), AttemptFailed).plugins == ("TaintToleration",)
    world.by(without("TaintToleration"), profile("other"))
    assert (world.place_of("default/p"), world.place_of("default/q")) == (Place.BACKOFF, Place.UNSCHEDULABLE)
    world.wait(2)
    assert only(world.cycle(), Bind).pod.key == "default/p"
    assert world.scheduler.queue.incoming["backoff", "ConfigurationChange"] == 1


def test_a_pod_that_is_being_tried_meanwhile_is_tried_again() -> None:
    world = Running(node("n").taint("key", "", "NoSchedule").build())
    world.add(pod("p").build())
    popped = world.scheduler.begin_cycle(world.now)
    assert popped is not None
    world.by(packing())
    world.scheduler.finish_cycle(popped, world.now)
    assert world.place_of("default/p") is Place.BACKOFF


def test_a_gate_that_is_gone_holds_nobody_back() -> None:
    world = Running(node("n").build())
    world.add(pod("p").gated("wait").build())
    assert world.place_of("default/p") is Place.GATED
    world.by(without("SchedulingGates"))
    assert only(world.cycle(), Bind).pod.key == "default/p"


def test_a_new_gate_holds_back_who_waits_already() -> None:
    world = Running(node("n").build())
    world.by(without("SchedulingGates"))
    world.add(pod("p").gated("wait").build())
    assert world.place_of("default/p") is Place.ACTIVE
    world.by(profile())
    assert world.place_of("default/p") is Place.GATED
    world.scheduler.queue.check_invariants()


def test_pods_of_a_new_profile_enter_in_the_order_in_which_they_came() -> None:
    world = Running(node("n").build())
    names = "h b c a e f g d".split()
    for name in names:
        world.add(pod(name).scheduler("late").build())
    assert not world.scheduler.has_work()
    world.by(profile("late"))
    assert [only(world.cycle(), Bind).pod.metadata.name for _ in names] == names


def test_pods_of_a_profile_that_is_gone_wait_until_it_is_back() -> None:
    world = Running(node("n").build())
    world.add(pod("p").build())
    world.by(profile("other"))
    assert world.place_of("default/p") is None
    assert not world.scheduler.has_work()
    world.by(profile())
    assert only(world.cycle(), Bind).pod.key == "default/p"


def test_a_binding_that_fails_without_its_profile_waits_for_it() -> None:
    world = Running(node("n").build())
    bind = world.start(pod("p").req(**BIG))
    world.by(profile("other"))
    world.done(bind, FAILED)
    assert (world.place_of("default/p"), world.scheduler.cache.pod_count) == (None, 0)
    world.by(profile())
    assert only(world.cycle(), Bind).pod.key == "default/p"


def test_a_profile_that_is_back_does_not_try_a_pod_that_is_being_bound() -> None:
    world = Running(node("n").build())
    bind = world.start(pod("p"))
    world.by(profile("other"))
    world.by(profile())
    assert not world.scheduler.has_work()
    assert only(world.done(bind), RecordEvent).reason == "Scheduled"


def test_a_pod_that_is_deleted_while_it_is_bound_gives_back_its_room_without_its_profile() -> None:
    world = Running(node("n").build())
    world.start(pod("p").req(**BIG))
    world.by(profile("other"))
    world.delete(pod("p").req(**BIG).build())
    assert world.scheduler.cache.pod_count == 0


def test_a_preemption_under_way_still_gates_its_pod() -> None:
    """Of two victims the first is being deleted; the gate opens with the answer about the second."""
    victims = [pod(name).req(cpu="2").on("n").priority(0) for name in ("v", "w")]
    world = Running(node("n").capacity(cpu="4").build(), *(victim.build() for victim in victims))
    world.add(pod("p").req(cpu="4").priority(10).build())
    first = only(world.cycle(), DeleteVictim)
    world.by(packing())
    assert world.place_of("default/p") is Place.GATED
    second = only(world.done(first), DeleteVictim)
    world.done(second)
    for victim in victims:
        world.delete(victim.build())
    world.wait(2)
    assert only(world.cycle(), Bind).pod.key == "default/p"


def test_other_back_offs_count_from_the_next_failure_on() -> None:
    world = Running(node("n").taint("key", "", "NoSchedule").build())
    bind = world.start(pod("p").tolerate(operator="Exists"))
    world.done(bind, FAILED)
    world.by(profile(), podInitialBackoffSeconds=4)
    world.wait(1.5)
    assert not world.scheduler.has_work()
    world.wait(0.5)
    world.done(only(world.cycle(), Bind), FAILED)
    # The second failure: 4 s doubled.
    world.wait(8)
    assert not world.scheduler.has_work()
    world.wait(1)
    assert world.scheduler.has_work()


def test_a_configuration_that_cannot_be_built_changes_nothing() -> None:
    world = Running(node("n").build())
    world.add(pod("p").build())
    before = world.scheduler.profiles
    with pytest.raises(ConfigurationError, match="extenders: not decided yet"):
        world.by(packing(), extenders=[{"urlPrefix": "http://example.com", "filterVerb": "filter"}])
    assert world.scheduler.profiles is before
    assert only(world.cycle(), Bind).pod.key == "default/p"


CONFIGURATIONS = [
    [profile()],
    [packing()],
    [profile(), packing("other")],
    [profile("other")],
    [without("TaintToleration"), without("SchedulingGates", "other")],
]


def drawn_pod(number: int, kind: int) -> PodBuilder:
    made = pod(f"p{number}").scheduler("other" if kind % 2 else "default-scheduler").req(cpu="1")
    return made.gated("wait") if kind > 4 else made.req(cpu="100") if kind > 2 else made


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 6)), max_size=40))
def test_whatever_happens_every_pod_is_where_it_belongs(steps: list[tuple[int, int]]) -> None:
    """Pods with a profile are in one place of the queue or being bound; those without are in none."""
    world = Running(node("n").capacity(cpu="8").build(), node("t").taint("key", "", "NoSchedule").build())
    binds: list[Bind] = []
    known: dict[str, Any] = {}
    for number, (step, kind) in enumerate(steps):
        if step < 2:
            made = drawn_pod(number, kind).build()
            known[made.key] = made
            world.add(made)
        elif step == 2:
            binds += [effect for effect in world.cycle() if isinstance(effect, Bind)]
        elif step == 3 and binds:
            bind = binds.pop(kind % len(binds))
            if kind % 3:
                spec = replace(bind.pod.spec, node_name=bind.node_name)
                known[bind.pod.key] = replace(bind.pod, spec=spec)
                world.update(known[bind.pod.key])
            world.done(bind) if kind % 3 else world.done(bind, FAILED)
        elif step == 4:
            world.wait(kind)
        elif step == 5 and known:
            world.delete(known.pop(sorted(known)[kind % len(known)]))
        else:
            world.by(*CONFIGURATIONS[kind % len(CONFIGURATIONS)])
        scheduler = world.scheduler
        scheduler.queue.check_invariants()
        for key, made in known.items():
            is_waiting = world.place_of(key) is not None
            info = scheduler.pods.by_key.get(key)
            assert info is not None
            has_profile = made.spec.scheduler_name in scheduler.profiles
            is_placed = bool(made.spec.node_name) or scheduler.cache.is_assumed_pod(info)
            assert is_waiting == (has_profile and not is_placed), key
    assert world.now < 1000 * SECOND
