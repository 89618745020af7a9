"""Tests of what one attempt leaves behind for the next ones: the start of the search, nominations, shared counters.

Each case is a history that the real scheduler was seen to decide this way.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import AttemptFailed, Bind, DeleteVictim, Effect, PatchPodStatus
from stowplan_scheduler.events import EffectDone, ObjectAdded, ObjectUpdated
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.queue import Place
from stowplan_scheduler.scheduler import Scheduler
from support.builders import PodBuilder, node, node_term, pod, selector

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
MILLISECOND = 1_000_000


class World:
    """A scheduler, its objects, and a clock that moves with each call."""

    def __init__(self, nodes: list[Node], **config: Any) -> None:
        self.scheduler = Scheduler(load_configuration(CONFIG | config), First())
        self.now = 0
        self.version = 0
        for made in nodes:
            self.scheduler.receive(ObjectAdded(made), self.now)

    def put(self, made: Pod) -> list[Effect]:
        """Add or change a pod."""
        self.now += MILLISECOND
        self.version += 1
        made = replace(made, metadata=replace(made.metadata, resource_version=str(self.version)))
        known = self.scheduler.pods.of_key(made.key) is not None
        return self.scheduler.receive(ObjectUpdated(made) if known else ObjectAdded(made), self.now)

    def cycle(self) -> list[Effect]:
        """One attempt; a binding succeeds at once."""
        self.now += MILLISECOND
        effects = self.scheduler.run_cycle(self.now)
        for bind in (effect for effect in effects if isinstance(effect, Bind)):
            self.put(replace(bind.pod, spec=replace(bind.pod.spec, node_name=bind.node_name)))
            self.scheduler.receive(EffectDone(bind.id), self.now)
        return effects

    def place(self, made: PodBuilder) -> str:
        """Where a new pod goes, or why it goes nowhere."""
        self.put(made.build())
        effects = self.cycle()
        said = [
            e.node_name if isinstance(e, Bind) else e.message for e in effects if isinstance(e, Bind | AttemptFailed)
        ]
        return said[0]


# ---- where the next search starts ----------------------------------------------------------


def test_search_goes_on_behind_the_visited_nodes_after_a_failed_prescore() -> None:
    """110 nodes, 100 are enough: the searches begin at 0, 100 and 90. The second fails only when nodes are scored."""
    world = World([node(f"n{i:03}").capacity(cpu="4", memory="8Gi").build() for i in range(110)])
    assert world.place(pod("first").req(cpu="1")) == "n000"
    assert "values set can't be empty" in world.place(pod("broken").prefer_node(5, node_term("disk", "In")))
    assert world.place(pod("third").req(cpu="1")) == "n090"


# ---- counters are shared by profiles -------------------------------------------------------


def test_hard_affinity_weight_of_one_profile_does_not_count_in_another() -> None:
    """On `far` a pod wants company like the incoming one: weight 1 in one profile, 100 in the other.

    `near` is preferred with weight 10 by a pod there. 100 > 10 > 1, whichever profile is asked first.
    """
    both = [
        {
            "schedulerName": name,
            "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": weight}}],
        }
        for name, weight in (("strong", 100), ("weak", 1))
    ]
    web = selector(app="web")
    nodes = [node(name).labels(hostname=name).capacity(cpu="4", memory="8Gi").build() for name in ("near", "far")]
    for order in (("strong", "weak"), ("weak", "strong")):
        world = World(nodes, profiles=both)
        world.put(pod("a").affinity("hostname", web).on("far").build())
        world.put(pod("b").affinity("hostname", web, weight=10).on("near").build())
        placed = {name: world.place(pod(f"p-{name}").labels(app="web").scheduler(name)) for name in order}
        assert placed == {"strong": "far", "weak": "near"}


# ---- preemption ----------------------------------------------------------------------------


def test_preemptor_hears_of_its_own_new_nomination_while_its_gate_is_closed() -> None:
    """The status of the preemptor is written first, then its victims are deleted.

    A pod that was nominated elsewhere counts as gone from there. That would wake the pod itself, but it has just begun
    a preemption, and while that runs it waits behind its gate.
    """
    world = World([node(name).capacity(cpu="2", memory="8Gi").build() for name in ("n1", "n2")])
    world.put(pod("old").req(cpu="2").on("n1").build())
    world.put(pod("low").req(cpu="2").on("n2").priority(5).build())
    waiting = pod("high").req(cpu="2").priority(9).nominated("gone").build()
    world.put(waiting)
    effects = world.cycle()
    order = [type(effect) for effect in effects if isinstance(effect, PatchPodStatus | DeleteVictim)]
    assert order == [PatchPodStatus, DeleteVictim]
    (patch,) = (effect for effect in effects if isinstance(effect, PatchPodStatus))
    assert patch.nominated_node_name == "n1"
    world.put(replace(waiting, status=replace(waiting.status, nominated_node_name="n1")))
    info = world.scheduler.pods.by_key.get("default/high")
    assert info is not None
    assert world.scheduler.queue.place_of(info) is Place.GATED
    assert not world.scheduler.has_work()
