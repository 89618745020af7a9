"""Shadow profiles: they decide on the state before the real bind, change nothing, and count in whole numbers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from stowplan_operator.worker.machine import WorkerMachine
from stowplan_operator.worker.requests import BindPod
from stowplan_operator.worker.settings import MachineSettings, Mode
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import ScorePlugin, Scores
from stowplan_scheduler.objects import PersistentVolumeClaimVolumeSource, Pod, PodCondition, Volume
from stowplan_scheduler.profiles import plugin_traits
from support.builders import pod
from support.machines import CONFIG, SECOND, Desk, of, profile, small, the, waiting

REAL = "default-scheduler"


def packing(shadow: Mode = Mode.SHADOW, weight: int = 1) -> MachineSettings:
    """A profile that packs by cpu and memory and scores by nothing else, beside an active one."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
    plugins = {
        "multiPoint": {
            "disabled": [
                {"name": name}
                for name in (
                    "NodeResourcesBalancedAllocation", "ImageLocality", "PodTopologySpread", "InterPodAffinity",
                    "NodeAffinity", "TaintToleration",
                )
            ],
            "enabled": [{"name": "NodeResourcesFit", "weight": weight}],
        }
    }  # fmt: skip
    args = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]
    configuration = load_configuration(
        {
            **CONFIG,
            "profiles": [
                {"schedulerName": "dense", "plugins": plugins, "pluginConfig": args},
                {"schedulerName": "stowplan"},
            ],
        }
    )
    return MachineSettings(configuration=configuration, profiles=(profile("dense", shadow), profile("stowplan")))


def other(name: str, cpu: str = "400m", owner: str = "web") -> Pod:
    """A pod of the real scheduler."""
    return pod(name).req(cpu=cpu, memory="1Gi").scheduler(REAL).owner("ReplicaSet", owner).build()


def bound_by_it(desk: Desk, made: Pod, node: str) -> None:
    """The real scheduler binds a pod that was seen before."""
    if ("Pod", made.key) not in desk.objects:
        desk.see(made)
    desk.show_bound(BindPod(id=0, key=made.key, uid="", node=node, epoch=0))


def figures(desk: Desk) -> dict[str, int]:
    return {name: count for name, count in desk.machine.shadow_reports()["dense"].as_dict().items() if count}


def test_it_decides_from_the_state_before_the_real_bind() -> None:
    """One node has room for one pod of 800m: with the bind taken in first, the pod would fit nowhere."""
    desk = Desk(small(), given=packing())
    bound_by_it(desk, other("p1", "800m"), "n1")
    counted = figures(desk)
    assert (counted["decided"], counted["placed"], counted["agreed"]) == (1, 1, 1)


def test_packing_and_spreading_are_compared_decision_by_decision() -> None:
    """Nodes of 1 core and 4 GiB. The real scheduler spreads three pods of 400m and 1 GiB over two nodes.

    p1: both nodes are empty, the shadow takes the first one as well. p2 goes to n2, the shadow packs it to n1. p3: the
    shadow has no preference and takes n1, too. With one pod on it a node is 400 and 250 permille full, the mean is 325;
    with two it is 650.
    """
    desk = Desk(small("n1"), small("n2"), given=packing())
    for name, node in (("p1", "n1"), ("p2", "n2"), ("p3", "n1")):
        bound_by_it(desk, other(name), node)
    counted = figures(desk)
    assert counted == {
        "decided": 3,
        "placed": 3,
        "agreed": 2,
        "different": 1,
        "fullness": 325 + 650 + 650,
        "realFullness": 325 + 325 + 650,
        "opened": 1,
        "realOpened": 2,
        "together": 0 + 1 + 1,
        "realTogether": 0 + 0 + 1,
    }


def test_another_node_with_the_same_total_is_a_tie_and_not_a_difference() -> None:
    desk = Desk(small("n1"), small("n2"), given=packing())
    bound_by_it(desk, other("p1"), "n2")
    counted = figures(desk)
    assert (counted["placed"], counted["tied"]) == (1, 1)
    assert not counted.keys() & {"agreed", "different"}


def test_a_pod_that_it_would_not_have_placed_counts_as_pending() -> None:
    """The real scheduler binds to a node that is full by the requests."""
    desk = Desk(small(), given=packing())
    bound_by_it(desk, other("p1", "800m"), "n1")
    bound_by_it(desk, other("p2", "800m"), "n1")
    assert figures(desk)["wouldNotFit"] == 1


def test_a_pod_that_the_real_scheduler_refuses_and_it_would_place_is_counted_once() -> None:
    desk = Desk(small(), given=packing())
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
    made = other("p1")
    desk.see(made)
    for message in ("0/1 nodes", "0/2 nodes"):
        desk.see(replace(made, status=replace(made.status, conditions=(replace(condition, message=message),))))
    assert figures(desk) == {"wouldFit": 1}


def test_what_it_cannot_decide_is_counted_as_failed_and_not_as_pending() -> None:
    desk = Desk(small(), given=packing())
    volume = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
    bound_by_it(desk, replace(other("p1"), spec=replace(other("p1").spec, volumes=(volume,))), "n1")
    bound_by_it(desk, other("p2"), "not-known")
    assert figures(desk) == {"decided": 2, "failed": 2}


class BreaksLater(ScorePlugin):
    """Raises from the second call on: where a shadow looks whether the real node was as good."""

    name = "BreaksLater"
    calls: ClassVar[int]

    def __init__(self, args: object, handle: PluginHandle) -> None:
        type(self).calls = 0

    def score(self, state: object, view: NodeView) -> Scores:
        type(self).calls += 1
        if self.calls > 1:
            raise ZeroDivisionError("as plugins do")
        return np.zeros(view.size, np.int64)


def test_a_plugin_that_breaks_while_a_tie_is_looked_for_ends_no_worker() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "BreaksLater"}]}}
    configuration = load_configuration(
        {**CONFIG, "profiles": [{"schedulerName": "dense", "plugins": plugins}, {"schedulerName": "stowplan"}]},
        extra_plugins=plugin_traits({"BreaksLater": BreaksLater}),
    )
    given = MachineSettings(configuration=configuration, profiles=(profile("dense", Mode.SHADOW), profile("stowplan")))
    desk = Desk(small("n1"), small("n2"), given=given, third_party={"BreaksLater": BreaksLater})
    bound_by_it(desk, other("p1"), "n2")
    assert BreaksLater.calls == 2
    assert figures(desk) == {"decided": 1, "failed": 1}


def test_pods_that_are_first_seen_on_their_node_are_missed() -> None:
    desk = Desk(small(), given=packing())
    made = other("p1")
    desk.see(replace(made, spec=replace(made.spec, node_name="n1")))
    assert figures(desk) == {"missed": 1}


def test_it_never_asks_for_anything_and_pods_that_name_it_wait() -> None:
    desk = Desk(small(), waiting("p1", scheduler="dense"), given=packing())
    bound_by_it(desk, other("p2"), "n1")
    assert desk.settle(600 * SECOND) == []
    assert desk.machine.pending()["held"] == 1
    desk.machine.reconfigure(packing(Mode.ACTIVE), desk.now)
    assert the(BindPod, desk.tick()).key == "default/p1"
    assert desk.machine.shadow_reports() == {}


def test_it_goes_on_counting_while_it_stays_the_same_and_begins_anew_when_it_changes() -> None:
    desk = Desk(small(), given=packing())
    bound_by_it(desk, other("p1"), "n1")
    desk.machine.reconfigure(packing(), desk.now)
    assert figures(desk)["decided"] == 1
    desk.machine.reconfigure(packing(weight=3), desk.now)
    assert figures(desk) == {}


def test_decisions_of_the_active_profiles_are_the_same_with_and_without_it() -> None:
    binds = []
    for shadow in (Mode.SHADOW, Mode.PAUSED):
        desk = Desk(*(small(f"n{i}", cpu="2") for i in range(4)), given=packing(shadow))
        chosen = []
        for number in range(12):
            bound_by_it(desk, other(f"o{number}", "100m"), f"n{number % 3}")
            desk.see(waiting(f"p{number}", cpu="200m"))
            chosen += [bind.node for bind in of(BindPod, desk.tick())]
        binds.append(chosen)
    assert binds[0] == binds[1]
    assert len(binds[0]) == 12


def test_without_a_shadow_profile_there_is_nothing_to_ask() -> None:
    assert not WorkerMachine(packing(Mode.PAUSED), Desk().machine.scheduler.rng, start=0)._shadows
