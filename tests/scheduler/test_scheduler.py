"""The state machine from outside: events in, effects out, step by step and by hand."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import (
    AttemptFailed,
    Bind,
    DeleteVictim,
    Effect,
    Observe,
    Outcome,
    PatchPodStatus,
    RecordEvent,
    Result,
    SetTimer,
)
from stowplan_scheduler.events import ApiObject, EffectDone, ObjectAdded, ObjectDeleted, ObjectUpdated, TimerFired
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.queue import Place
from stowplan_scheduler.scheduler import Scheduler
from support.builders import PodBuilder, node, pod

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SECOND = 1_000_000_000
FAILED = Outcome(Result.FAILED, "the API server said no")
E = TypeVar("E", bound=Effect)


class World:
    """A scheduler, a clock that the test moves, and a word per call."""

    def __init__(self, *objects: ApiObject, **config: Any) -> None:
        self.scheduler = Scheduler(load_configuration(CONFIG | config), First())
        self.now = 0
        self.versions = 0
        for made in objects:
            self.add(made)

    def add(self, made: ApiObject) -> list[Effect]:
        return self.scheduler.receive(ObjectAdded(made), self.now)

    def update(self, made: ApiObject) -> list[Effect]:
        """The object with a new resource version."""
        self.versions += 1
        metadata = replace(made.metadata, resource_version=str(self.versions))
        return self.scheduler.receive(ObjectUpdated(replace(made, metadata=metadata)), self.now)

    def delete(self, made: ApiObject) -> list[Effect]:
        return self.scheduler.receive(ObjectDeleted(made), self.now)

    def done(self, effect: Effect, outcome: Outcome = Outcome()) -> list[Effect]:  # noqa: B008 - frozen
        return self.scheduler.receive(EffectDone(effect.id, outcome), self.now)

    def cycle(self) -> list[Effect]:
        return self.scheduler.run_cycle(self.now)

    def wait(self, seconds: float) -> list[Effect]:
        self.now += round(seconds * SECOND)
        return self.scheduler.receive(TimerFired(), self.now)

    def start(self, made: PodBuilder) -> Bind:
        """Add a pod and decide; the binding is not answered."""
        self.add(made.build())
        return only(self.cycle(), Bind)

    def place_of(self, key: str) -> Place | None:
        info = self.scheduler.pods.by_key.get(key)
        return None if info is None else self.scheduler.queue.place_of(info)


def only(effects: list[Effect], kind: type[E]) -> E:
    """The one effect of that kind."""
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found


def kinds(effects: list[Effect]) -> list[str]:
    """Names of the effects, less the samples of metrics."""
    return [type(effect).__name__ for effect in effects if not isinstance(effect, Observe)]


def samples(effects: list[Effect]) -> dict[str, float]:
    return {effect.metric: effect.value for effect in effects if isinstance(effect, Observe)}


def bound(made: Pod, node_name: str) -> Pod:
    """What the API server has once a binding is done."""
    return replace(made, spec=replace(made.spec, node_name=node_name), status=replace(made.status, phase="Running"))


BIG = {"cpu": "3"}
"""Of four cores: two such pods do not fit on one node."""


# ---- a pod that fits -----------------------------------------------------------------------


def test_a_pod_is_bound_and_the_event_comes_with_the_answer() -> None:
    """Between both it is assumed: it has taken its room, but nobody has seen it there."""
    world = World(node("n").build())
    effects = world.add(pod("p").build())
    assert kinds(effects) == []
    effects = world.cycle()
    assert kinds(effects) == ["Bind"]
    bind = only(effects, Bind)
    assert (bind.pod.key, bind.pod.spec.node_name, bind.node_name) == ("default/p", "n", "n")
    assert world.scheduler.cache.assumed_count == 1
    effects = world.done(bind)
    event = only(effects, RecordEvent)
    assert (event.type, event.reason, event.note) == ("Normal", "Scheduled", "Successfully assigned default/p to n")
    assert samples(effects) == {
        "schedule_attempts_total": 1,
        "pod_scheduling_attempts": 1,
        "pod_scheduling_sli_duration_seconds": 0,
    }


def test_the_binding_may_be_seen_before_it_is_answered() -> None:
    """The watch is faster than the answer: the pod is confirmed once, and not counted twice."""
    world = World(node("n").build())
    bind = world.start(pod("p").req(**BIG))
    world.update(bound(pod("p").req(**BIG).build(), "n"))
    assert (world.scheduler.cache.pod_count, world.scheduler.cache.assumed_count) == (1, 0)
    assert kinds(world.done(bind)) == ["RecordEvent"]
    assert world.scheduler.cache.pod_count == 1


def test_nothing_to_do_gives_no_effects() -> None:
    """An idle scheduler asks for nothing, not even for a timer."""
    world = World(node("n").build())
    assert world.cycle() == []
    assert world.scheduler.next_timer(world.now) is None


def test_ids_of_effects_grow_and_never_repeat() -> None:
    """Whoever carries effects out keeps the open ones by id."""
    world = World(node("n").build())
    seen: list[int] = []
    for number in range(3):
        effects = world.add(pod(f"p{number}").req(**BIG).build()) + world.cycle()
        for bind in [effect for effect in effects if isinstance(effect, Bind)]:
            effects += world.done(bind)
        seen += [effect.id for effect in effects]
    assert len(seen) > 5
    assert seen == sorted(set(seen))


def test_a_finished_pod_is_gone() -> None:
    """Succeeded and Failed pods take no room, even if the object stays."""
    world = World(node("n").build(), pod("old").req(**BIG).on("n").build())
    world.add(pod("p").req(**BIG).build())
    assert only(world.cycle(), AttemptFailed).message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    world.update(pod("old").req(**BIG).on("n").phase("Succeeded").build())
    assert world.place_of("default/p") is Place.BACKOFF
    world.wait(2)
    assert only(world.cycle(), Bind).node_name == "n"


# ---- a binding that fails ------------------------------------------------------------------


def test_a_failed_binding_comes_back_after_its_back_off() -> None:
    """It is an error, so the pod waits in the error back-off for a second, and its room is free at once."""
    world = World(node("n").build())
    world.now = SECOND // 2
    bind = world.start(pod("p").req(**BIG))
    effects = world.done(bind, FAILED)
    failed = only(effects, AttemptFailed)
    assert (failed.rejected, failed.message, failed.attempt) == (False, "the API server said no", 1)
    assert only(effects, PatchPodStatus).reason == "SchedulerError"
    assert world.scheduler.cache.pod_count == 0
    assert world.place_of("default/p") is Place.BACKOFF
    # The back-off ends at 1.5 s, cut to 1 s; the flush at a whole second takes what expired before it.
    assert only(effects, SetTimer).at == 2 * SECOND
    assert not world.scheduler.has_work()
    world.wait(1.5)
    assert world.scheduler.has_work()
    assert only(world.done(only(world.cycle(), Bind)), RecordEvent).reason == "Scheduled"


def test_the_timer_is_asked_for_once_and_again_only_for_an_earlier_time() -> None:
    """A timer replaces the one before; asking for the same again would be noise."""
    world = World(node("n").build())
    world.now = SECOND // 2
    binds = [world.start(pod(name)) for name in ("a", "b")]
    first, second = (world.done(bind, FAILED) for bind in binds)
    assert only(first, SetTimer).at == 2 * SECOND
    assert "SetTimer" not in kinds(second)
    effects = world.wait(1.5)
    assert "SetTimer" not in kinds(effects)
    assert world.scheduler.next_timer(world.now) is None


def test_a_second_answer_means_nothing() -> None:
    """Effects are carried out by others, and networks repeat themselves."""
    world = World(node("n").build())
    bind = world.start(pod("p"))
    world.done(bind)
    assert world.done(bind, FAILED) == []
    assert world.scheduler.cache.pod_count == 1


def test_a_pod_made_anew_under_its_name_has_its_own_life() -> None:
    """The old pod's binding fails after the new one came: the new one stays where it is, with no failure of its own."""
    world = World(node("n").build())
    old = pod("p").build()
    world.add(old)
    bind = only(world.cycle(), Bind)
    new = replace(old, metadata=replace(old.metadata, uid="another"))
    world.delete(old)
    world.add(new)
    effects = world.done(bind, FAILED)
    assert "PatchPodStatus" not in kinds(effects)
    assert world.place_of("default/p") is Place.ACTIVE
    assert only(world.cycle(), Bind).pod.metadata.uid == "another"


def test_an_update_with_another_uid_is_a_new_pod() -> None:
    """A watch that was interrupted may show the new pod as a change of the old one."""
    world = World(node("n").build(), pod("p").req(**BIG).on("n").build())
    other = pod("p").req(**BIG).build()
    world.update(replace(other, metadata=replace(other.metadata, uid="another")))
    assert world.scheduler.cache.pod_count == 0
    assert only(world.cycle(), Bind).pod.metadata.uid == "another"


# ---- deleted at a bad moment ---------------------------------------------------------------


def test_a_late_deletion_does_not_touch_the_pod_made_anew() -> None:
    """The same deletion may be told twice, and the second time the name belongs to another pod."""
    first, second = pod("p").on("n").build(), pod("p").on("n").build()
    first = replace(first, metadata=replace(first.metadata, uid="first"))
    second = replace(second, metadata=replace(second.metadata, uid="second"))
    world = World(node("n").build())
    world.add(first)
    world.delete(first)
    world.add(second)
    world.delete(first)
    assert world.scheduler.pods.of_key("default/p") == second
    assert world.scheduler.cache.pod_count == 1
    world.delete(second)
    assert world.scheduler.cache.pod_count == 0


def test_a_pod_seen_on_another_node_leaves_the_first_one() -> None:
    """Watches that lost track show it; the room on the first node must not be lost for good."""
    world = World(node("a").build(), node("b").build())
    world.add(pod("p").req(**BIG).on("a").build())
    world.update(pod("p").req(**BIG).on("b").build())
    world.scheduler.update_snapshot()
    assert {info.name: len(info.pods) for info in world.scheduler.cluster.table.infos} == {"a": 0, "b": 1}
    assert world.start(pod("q").req(**BIG)).node_name == "a"
    world.delete(pod("p").on("b").build())
    assert world.start(pod("r").req(**BIG)).node_name == "b"


def test_a_pod_that_has_lost_its_node_is_placed_again() -> None:
    """It counts as a new one; nothing is left of it where it was."""
    world = World(node("a").build())
    world.add(pod("p").req(**BIG).on("a").build())
    world.update(pod("p").req(**BIG).build())
    bind = only(world.cycle(), Bind)
    assert (bind.pod.key, bind.node_name) == ("default/p", "a")


def test_a_pod_deleted_while_it_is_assumed_gives_its_room_to_others() -> None:
    """Nobody will confirm it; the pod that waits for the room hears of it."""
    world = World(node("n").build())
    bind = world.start(pod("p").req(**BIG))
    world.add(pod("q").req(**BIG).build())
    assert only(world.cycle(), AttemptFailed).plugins == ("NodeResourcesFit",)
    assert world.place_of("default/q") is Place.UNSCHEDULABLE
    world.delete(pod("p").req(**BIG).build())
    assert world.scheduler.cache.pod_count == 0
    assert world.place_of("default/q") is Place.BACKOFF
    world.done(bind, FAILED)
    assert world.scheduler.cache.pod_count == 0
    world.wait(2)
    assert only(world.cycle(), Bind).pod.key == "default/q"


def test_a_pod_deleted_before_its_turn_is_not_tried() -> None:
    """Its place in the queue goes with it."""
    world = World(node("n").build())
    made = pod("p").build()
    world.add(made)
    world.delete(made)
    assert not world.scheduler.has_work()
    assert world.cycle() == []


def test_a_pod_that_terminates_before_its_turn_is_skipped() -> None:
    """The attempt ends with an event and nothing else."""
    world = World(node("n").build())
    world.add(pod("p").build())
    world.update(pod("p").deleting().build())
    effects = world.cycle()
    assert [(type(e).__name__, getattr(e, "note", "")) for e in effects] == [
        ("RecordEvent", "skip schedule deleting pod: default/p")
    ]


def test_a_node_that_leaves_takes_its_pods_out_of_sight_until_it_is_back() -> None:
    """They are remembered as a ghost's, and count again when the node returns."""
    made = node("n").build()
    world = World(made, node("tiny").capacity(cpu="1").build(), pod("old").req(**BIG).on("n").build())
    world.delete(made)
    world.add(pod("p").req(**BIG).build())
    assert only(world.cycle(), AttemptFailed).message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    world.add(made)
    world.wait(2)
    assert only(world.cycle(), AttemptFailed).message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


# ---- no node -------------------------------------------------------------------------------


def test_without_nodes_a_pod_waits_for_one() -> None:
    """The text is upstream's; a new node wakes the pod."""
    world = World()
    world.add(pod("p").build())
    failed = only(world.cycle(), AttemptFailed)
    assert failed.message == "no nodes available to schedule pods"
    assert failed.rejected
    world.add(node("n").build())
    world.wait(3)
    assert only(world.cycle(), Bind).node_name == "n"


def test_a_long_message_is_cut_in_the_event_only() -> None:
    """Events take 1,024 bytes; the condition and reports have the whole text."""
    taints = [f"{i:02}-{'x' * 50}" for i in range(30)]
    nodes = [node(f"n{i}").capacity(**{f"example.com/{key}": "0"}).build() for i, key in enumerate(taints)]
    wanted = {f"example.com/{key}": "1" for key in taints}
    world = World(*nodes)
    world.add(pod("p").req(**wanted).build())
    effects = world.cycle()
    message, note = only(effects, AttemptFailed).message, only(effects, RecordEvent).note
    assert len(message) > 1024
    assert note == message[:1020] + " ..."
    assert only(effects, PatchPodStatus).message == message


# ---- profiles ------------------------------------------------------------------------------

FULL_FIRST = {
    "name": "NodeResourcesFit",
    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
}


def test_the_scheduler_name_of_a_pod_decides_which_profile_takes_it() -> None:
    """One spreads, one fills; a pod of neither is left to others, but its room on a node counts."""
    profiles = [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "filler",
            "pluginConfig": [FULL_FIRST],
            "plugins": {
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]},
            },
        },
    ]
    world = World(node("a").build(), node("b").build(), profiles=profiles)
    world.add(pod("old").scheduler("elsewhere").req(cpu="2").on("a").build())
    world.add(pod("foreign").scheduler("elsewhere").build())
    assert not world.scheduler.has_work()
    assert world.start(pod("spread").req(cpu="1")).node_name == "b"
    assert world.start(pod("fill").req(cpu="1").scheduler("filler")).node_name == "a"


# ---- preemption ----------------------------------------------------------------------------


def full_node() -> World:
    """Two pods of low priority fill the node; one of them has to go for the pod that comes."""
    world = World(node("n").build())
    world.add(pod("low").req(cpu="2").priority(1).on("n").build())
    world.add(pod("lowest").req(cpu="2").priority(0).on("n").build())
    return world


def test_a_preemption_asks_for_everything_in_order() -> None:
    """Failure, event, status with the nomination, then the victim: its condition names the cause."""
    world = full_node()
    world.add(pod("high").req(cpu="2").priority(9).build())
    effects = world.cycle()
    assert [kind for kind in kinds(effects) if kind != "SetTimer"] == [
        "AttemptFailed",
        "RecordEvent",
        "PatchPodStatus",
        "DeleteVictim",
    ]
    assert samples(effects) == {
        "preemption_victims": 1,
        "preemption_attempts_total": 1,
        "schedule_attempts_total": 1,
    }
    failed, patch, victim = only(effects, AttemptFailed), only(effects, PatchPodStatus), only(effects, DeleteVictim)
    assert failed.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node n, "
        "preempting 1 victims"
    )
    assert (failed.nominated_node, patch.nominated_node_name) == ("n", "n")
    assert (victim.victim.key, victim.preemptor.key, victim.node_name) == ("default/lowest", "default/high", "n")
    assert victim.message == "default-scheduler: preempting to accommodate a higher priority pod"


def test_the_preemptor_gets_the_room_once_its_victim_is_gone() -> None:
    """It is gated while the victim is being deleted; others see the room as taken."""
    world = full_node()
    world.add(pod("high").req(cpu="2").priority(9).build())
    victim = only(world.cycle(), DeleteVictim)
    assert world.place_of("default/high") is not Place.ACTIVE
    assert world.scheduler.nominated_nodes() == ("n",)
    world.add(pod("middle").req(cpu="2").priority(5).build())
    world.delete(victim.victim)
    assert only(world.done(victim), RecordEvent).reason == "Preempted"
    world.wait(2)
    by_pod = {}
    while world.scheduler.has_work():
        for effect in world.cycle():
            if isinstance(effect, Bind):
                by_pod[effect.pod.key] = effect.node_name
    assert by_pod == {"default/high": "n"}
    assert "default/high" not in [info.key for info in world.scheduler.nominated_pods_for_node("n")]


def test_a_preemption_whose_deletion_fails_lets_the_preemptor_try_again() -> None:
    """No event of a deletion will come, so the pod is activated at once."""
    world = full_node()
    world.add(pod("high").req(cpu="2").priority(9).build())
    victim = only(world.cycle(), DeleteVictim)
    assert not world.scheduler.has_work()
    world.done(victim, FAILED)
    assert world.place_of("default/high") is Place.ACTIVE
    assert only(world.cycle(), DeleteVictim).victim.key == "default/lowest"


def test_several_victims_are_deleted_all_but_one_first() -> None:
    """The last one's deletion is what wakes the preemptor: the others must be gone by then."""
    world = full_node()
    world.add(pod("high").req(cpu="4").priority(9).build())
    first = only(world.cycle(), DeleteVictim)
    assert first.victim.key == "default/low"
    effects = world.done(first)
    assert kinds(effects) == ["RecordEvent", "DeleteVictim"]
    assert only(effects, DeleteVictim).victim.key == "default/lowest"
    assert kinds(world.done(only(effects, DeleteVictim))) == ["RecordEvent"]


def test_a_pod_that_must_not_preempt_only_waits() -> None:
    """preemptionPolicy Never."""
    world = full_node()
    world.add(pod("high").req(cpu="2").priority(9, policy="Never").build())
    effects = world.cycle()
    assert "DeleteVictim" not in kinds(effects)
    assert only(effects, AttemptFailed).message.endswith("preemption: not eligible due to preemptionPolicy=Never.")
