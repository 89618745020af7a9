"""What a scheduler with hooks tells them: the points of an attempt in order, who is asked how often, hints, waits.

The clock moves by one with every look, so a duration of 1 means: two looks, one directly after the other.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import Bind, DeleteVictim, Effect, Observe, Outcome, PreBind, Result
from stowplan_scheduler.events import EffectDone, ObjectAdded, ObjectDeleted, ObjectUpdated, PermitDecided, TimerFired
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    PreFilterResult,
    ReasonIds,
    ReservePlugin,
    ScorePlugin,
    Scores,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SUCCESS, Code, Status, error, unschedulable
from stowplan_scheduler.objects import Node, Pod, PodResourceClaim
from stowplan_scheduler.profiles import plugin_traits
from stowplan_scheduler.scheduler import Scheduler
from support.builders import PodBuilder, node, pod
from support.histories import BINDINGS, COMMON, RARE, History, Play, histories, scheduler_of
from support.stopwatch import Stopwatch

SECOND = 1_000_000_000
PLACED = [
    ("PreEnqueue", "Success"),
    ("PreFilter", "Success"),
    ("Filter", "Success"),
    ("PreScore", "Success"),
    ("Score", "Success"),
    ("Reserve", "Success"),
    ("Permit", "Success"),
    ("PreBindPreFlight", "Skip"),
    ("PreBind", "Success"),
]
"""What kube-scheduler observes for a pod with a choice of nodes, up to its binding."""


class World:
    """A scheduler with hooks. `classes`: plugins beside the default ones, at every point."""

    def __init__(self, *nodes: Node, classes: tuple[type[Plugin], ...] = (), sampling: bool = True) -> None:
        self.watch = Stopwatch(sampling=sampling)
        third_party = {kind.name: kind for kind in classes}
        enabled = [{"name": name} for name in third_party]
        profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}}
        raw = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
        config = load_configuration(raw, extra_plugins=plugin_traits(third_party))
        self.scheduler = Scheduler(config, First(), third_party=third_party, hooks=self.watch)
        self.now = 0
        for made in nodes:
            self.add(made)

    def add(self, made: Node | Pod | PodBuilder) -> list[Effect]:
        built = made.build() if isinstance(made, PodBuilder) else made
        return self.scheduler.receive(ObjectAdded(built), self.now)

    def cycle(self) -> list[Effect]:
        return self.scheduler.run_cycle(self.now)

    def answer(
        self, effects: list[Effect], kind: type[Bind | PreBind | DeleteVictim], failed: str = ""
    ) -> list[Effect]:
        """The only effect of that kind is carried out, or fails."""
        (effect,) = [each for each in effects if isinstance(each, kind)]
        outcome = Outcome(Result.FAILED, failed) if failed else Outcome()
        return self.scheduler.receive(EffectDone(effect.id, outcome), self.now)

    def asked(self) -> dict[str, dict[str, int]]:
        """Extension point -> plugin -> how often it was asked; plugins that were not are left out."""
        found: dict[str, dict[str, int]] = {}
        for (plugin, point, _), times in self.watch.evaluations.totals().items():
            if times:
                found.setdefault(point, {})[plugin] = times
        return found


def observed(effects: list[Effect], metric: str) -> list[tuple[float, dict[str, str]]]:
    return [(e.value, dict(e.labels)) for e in effects if isinstance(e, Observe) and e.metric == metric]


# ---- extension points --------------------------------------------------------------------


def test_a_pod_that_is_placed_passes_every_point_in_order() -> None:
    world = World(node("a").build(), node("b").build())
    world.add(pod("p"))
    effects = world.cycle()
    assert world.watch.take_points() == PLACED
    world.answer(effects, Bind)
    assert world.watch.take_points() == [("Bind", "Success"), ("PostBind", "Success")]


def test_bind_lasts_until_it_is_answered() -> None:
    """Looks at the clock between asking and answer belong to it, as upstream waits for the API server."""
    world = World(node("n").build())
    world.add(pod("p"))
    effects = world.cycle()
    world.watch.time += 1000
    world.watch.take_points()
    world.answer(effects, Bind)
    profile, point, status, taken = world.watch.points[0]
    assert (profile, point, status) == ("default-scheduler", "Bind", "Success")
    assert 1000 < taken < 1010
    (call,) = [call for call in world.watch.calls if call[0] == "DefaultBinder" and call[1] == "Bind"]
    assert (call[2], 1000 < call[3] < 1010) == ("Success", True)


def test_a_binding_that_fails_is_given_back() -> None:
    world = World(node("n").build())
    world.add(pod("p"))
    effects = world.cycle()
    world.watch.take_points()
    world.answer(effects, Bind, failed="conflict")
    assert world.watch.take_points() == [("Bind", "Error"), ("Unreserve", "Success"), ("PreEnqueue", "Success")]
    assert world.scheduler.attempts._steps == {}  # type: ignore[attr-defined]


def test_one_feasible_node_is_not_scored() -> None:
    world = World(node("n").build())
    world.add(pod("p"))
    world.cycle()
    assert world.watch.take_points() == [each for each in PLACED if "Score" not in each[0]]


def test_a_pod_that_fits_nowhere_ends_in_post_filter() -> None:
    world = World(node("n").build())
    world.add(pod("p").req(cpu="64"))
    world.cycle()
    assert world.watch.take_points() == [
        ("PreEnqueue", "Success"),
        ("PreFilter", "Success"),
        ("Filter", "Success"),
        ("PostFilter", "Unschedulable"),
    ]


def test_a_pod_that_pre_filter_refuses_visits_no_node() -> None:
    """Claims of devices are not decided here."""
    world = World(node("n").build())
    plain = pod("p").build()
    world.add(replace(plain, spec=replace(plain.spec, resource_claims=(PodResourceClaim(name="gpu"),))))
    world.cycle()
    assert world.watch.take_points()[1:] == [
        ("PreFilter", "UnschedulableAndUnresolvable"),
        ("PostFilter", "UnschedulableAndUnresolvable"),
    ]


def test_a_nominated_node_that_does_not_fit_is_a_search_of_its_own() -> None:
    world = World(node("a").build(), node("b").unschedulable().build())
    world.add(pod("p").nominated("b"))
    world.cycle()
    assert [point for point, _ in world.watch.take_points()][:4] == ["PreEnqueue", "PreFilter", "Filter", "Filter"]


class Broken(FilterPlugin, ScorePlugin):
    """Breaks at the point that a class variable names."""

    name = "Broken"
    point: ClassVar[str] = ""

    def __init__(self, args: object, handle: PluginHandle) -> None:
        super().__init__()

    def pre_filter(self, pod: PodInfo, cluster: Any) -> PreFilterResult:
        return PreFilterResult(error("broken") if self.point == "PreFilter" else SUCCESS)

    def filter(self, state: object, view: Any) -> ReasonIds:
        code = self.reasons.id(Code.ERROR, "broken") if self.point == "Filter" else 0
        found: ReasonIds = view.row_numbers().astype("int16") * 0 + code
        return found

    def score(self, state: object, view: Any) -> Scores:
        found: Scores = view.row_numbers() * 0 + (101 if self.point == "Score" else 1)
        return found


@pytest.mark.parametrize("point", ["PreFilter", "Filter", "Score"])
def test_a_point_that_a_plugin_breaks_ends_with_an_error(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broken, "point", point)
    world = World(node("a").build(), node("b").build(), classes=(Broken,))
    world.add(pod("p"))
    world.cycle()
    points = world.watch.take_points()
    assert (point, "Error") in points
    assert [status for _, status in points].count("Error") == 1
    assert points[-1] == ("PreEnqueue", "Success")  # back in the queue


# ---- Reserve, Permit, PreBind ------------------------------------------------------------


class Waits(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Lets pods wait in Permit if a class variable says so, and has something to prepare."""

    name = "Waits"
    permits: ClassVar[Status] = Status(Code.WAIT)

    def __init__(self, args: object, handle: PluginHandle) -> None:
        pass

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        pass

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, int]:
        return self.permits, 10 * SECOND

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS


def waiting_world(sampling: bool = True) -> World:
    """A pod that waits in Permit."""
    world = World(node("n").build(), classes=(Waits,), sampling=sampling)
    world.add(pod("p"))
    world.cycle()
    assert world.watch.take_points()[-2:] == [("Reserve", "Success"), ("Permit", "Wait")]
    return world


def test_a_wait_that_is_allowed_is_measured_and_so_is_what_follows() -> None:
    world = waiting_world()
    world.now += 3 * SECOND
    effects = world.scheduler.receive(PermitDecided("default/p", "Waits"), world.now)
    assert observed(effects, "permit_wait_duration_seconds") == [(3.0, {"result": "Success"})]
    assert world.watch.take_points() == [("PreBindPreFlight", "Success")]
    effects = world.answer(effects, PreBind)
    assert world.watch.take_points() == [("PreBind", "Success")]
    world.answer(effects, Bind)
    assert world.watch.take_points() == [("Bind", "Success"), ("PostBind", "Success")]
    calls = {(point, status) for plugin, point, status, _ in world.watch.calls if plugin == "Waits"}
    assert {("Permit", "Wait"), ("PreBindPreFlight", "Success"), ("PreBind", "Success")} <= calls
    assert not world.watch.sampled


@pytest.mark.parametrize("how", ["rejected", "timeout"])
def test_a_wait_that_is_refused_is_measured(how: str) -> None:
    world = waiting_world()
    world.now += 10 * SECOND
    event = TimerFired() if how == "timeout" else PermitDecided("default/p", "Waits", "not now")
    effects = world.scheduler.receive(event, world.now)
    assert observed(effects, "permit_wait_duration_seconds") == [(10.0, {"result": "Unschedulable"})]
    assert world.watch.take_points() == [("Unreserve", "Success")]


def test_a_preparation_that_fails_ends_prebind() -> None:
    world = waiting_world()
    effects = world.scheduler.receive(PermitDecided("default/p", "Waits"), world.now)
    world.watch.take_points()
    world.answer(effects, PreBind, failed="no disk")
    assert world.watch.take_points() == [("PreBind", "Error"), ("Unreserve", "Success"), ("PreEnqueue", "Success")]


def test_permit_says_why_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waits, "permits", unschedulable("no"))
    world = World(node("n").build(), classes=(Waits,))
    world.add(pod("p"))
    world.cycle()
    assert world.watch.take_points()[-2:] == [("Permit", "Unschedulable"), ("Unreserve", "Success")]


# ---- sampling ----------------------------------------------------------------------------


def test_calls_are_measured_in_sampled_attempts_only() -> None:
    world = World(node("a").build(), node("b").build(), sampling=False)
    world.add(pod("p"))
    world.answer(world.cycle(), Bind)
    assert world.watch.calls == []
    assert len(world.watch.points) == len(PLACED) + 2


def test_an_attempt_stays_sampled_until_its_end() -> None:
    """PostBind comes long after the cycle; other attempts in between draw for themselves."""
    world = World(node("a").build(), classes=(Waits,))
    world.add(pod("p"))
    world.cycle()
    world.watch.sampling = False
    world.add(pod("q"))
    world.cycle()
    world.watch.calls.clear()
    for name, sampled in (("q", False), ("p", True)):
        effects = world.scheduler.receive(PermitDecided(f"default/{name}", "Waits"), world.now)
        effects = world.answer(effects, PreBind)
        world.answer(effects, Bind)
        assert bool(world.watch.calls) is sampled


@given(histories(kinds=(*COMMON, *COMMON, *RARE, *BINDINGS), steps=40))
@settings(max_examples=20, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))
def test_hooks_change_no_effect(history: History) -> None:
    """Nothing is decided otherwise, and no random number is drawn more, whether attempts are sampled or not."""
    plain = Play(history, scheduler_of(history)).run()
    for sampling in (True, False):
        assert repr(Play(history, scheduler_of(history, hooks=Stopwatch(sampling=sampling))).run()) == repr(plain)


# ---- evaluations -------------------------------------------------------------------------


def test_every_plugin_counts_from_nothing() -> None:
    """As upstream's: the series are there before the first pod."""
    totals = World().watch.evaluations.totals()
    assert set(totals.values()) == {0}
    points = {(plugin, point) for plugin, point, profile in totals if profile == "default-scheduler"}
    assert {("NodeName", "PreFilter"), ("NodeResourcesFit", "Filter"), ("ImageLocality", "Score")} <= points
    assert ("VolumeBinding", "PreScore") in points
    assert ("ImageLocality", "PreScore") not in points


def test_plugins_count_for_a_plain_pod_as_kube_scheduler_counts() -> None:
    """Two nodes that fit. Numbers: one attempt of the 80 in tests/integration/test_worker_metrics.py."""
    world = World(node("a").build(), node("b").build())
    world.add(pod("p").req(cpu="1m", memory="1Mi"))
    world.cycle()
    once = {"NodeName": 1, "NodeUnschedulable": 1, "TaintToleration": 1, "NodeResourcesFit": 1}
    assert world.asked() == {
        "PreFilter": once,
        "Filter": dict.fromkeys(once, 2),
        "PreScore": {
            "TaintToleration": 1,
            "NodeResourcesFit": 1,
            "VolumeBinding": 1,
            "NodeResourcesBalancedAllocation": 1,
        },
        "Score": {
            "TaintToleration": 2,
            "NodeResourcesFit": 2,
            "VolumeBinding": 2,
            "DynamicResources": 2,
            "NodeResourcesBalancedAllocation": 2,
            "ImageLocality": 2,
        },
    }


def test_a_node_counts_up_to_the_filter_that_rejects_it() -> None:
    """Of four nodes one is cordoned, one tainted, one full: NodeName sees 4, the next 4, then 3, then 2."""
    world = World(
        node("a").unschedulable().build(),
        node("b").taint("k").build(),
        node("c").capacity(cpu="1").build(),
        node("d").build(),
    )
    world.add(pod("p").req(cpu="2"))
    world.cycle()
    assert world.asked()["Filter"] == {
        "NodeName": 4,
        "NodeUnschedulable": 4,
        "TaintToleration": 3,
        "NodeResourcesFit": 2,
    }
    assert "Score" not in world.asked()


def test_a_search_that_ends_early_has_seen_one_node_too_many() -> None:
    """Of 200 nodes 48 % are wanted and 100 at least; the hundred-and-first ends the search."""
    world = World(*(node(f"n{number}").build() for number in range(200)))
    world.add(pod("p"))
    world.cycle()
    assert world.asked()["Filter"]["NodeName"] == 101
    assert world.asked()["Score"]["ImageLocality"] == 100


def test_dry_runs_of_preemption_count() -> None:
    """The search: 1. Without the two others: 1, fits. Each comes back: 2, of which the second does not fit."""
    world = World(node("n").capacity(cpu="4").build())
    world.add(pod("a").req(cpu="2").on("n"))
    world.add(pod("b").req(cpu="2").on("n"))
    world.add(pod("p").req(cpu="2").priority(9))
    world.cycle()
    assert world.asked()["Filter"] == dict.fromkeys(
        ("NodeName", "NodeUnschedulable", "TaintToleration", "NodeResourcesFit"), 4
    )


def test_a_node_is_asked_about_twice_where_somebody_is_nominated() -> None:
    """A pod of the same priority waits for its room on a: with it and without it the new pod fits."""
    world = World(node("a").build(), node("b").build())
    world.add(pod("first").nominated("a").gated("wait"))
    world.add(pod("p"))
    world.cycle()
    assert world.asked()["Filter"]["NodeName"] == 3


# ---- preemption --------------------------------------------------------------------------


def test_every_call_of_preemption_is_an_attempt_and_each_end_a_run() -> None:
    """Also one that finds nobody to evict; upstream counts when its PostFilter returns."""
    world = World(node("n").capacity(cpu="2").build())
    world.add(pod("hopeless").req(cpu="64"))
    effects = world.cycle()
    assert observed(effects, "preemption_attempts_total") == [(1, {})]
    assert observed(effects, "preemption_victims") == []
    world.add(pod("low").req(cpu="2").on("n"))
    world.add(pod("high").req(cpu="2").priority(9))
    effects = world.cycle()
    assert observed(effects, "preemption_attempts_total") == [(1, {})]
    assert observed(effects, "preemption_victims") == [(1, {})]
    ended = world.answer(effects, DeleteVictim)
    assert observed(ended, "preemption_goroutines_execution_total") == [(1, {"result": "success"})]


def test_a_preemption_whose_victim_cannot_be_deleted_has_failed() -> None:
    world = World(node("n").capacity(cpu="2").build())
    world.add(pod("low").req(cpu="2").on("n"))
    world.add(pod("high").req(cpu="2").priority(9))
    ended = world.answer(world.cycle(), DeleteVictim, failed="forbidden")
    assert observed(ended, "preemption_goroutines_execution_total") == [(1, {"result": "error"})]


# ---- hints and gates ---------------------------------------------------------------------


class Listens(FilterPlugin):
    """Rejects every node, and has three opinions about changes of nodes."""

    name = "Listens"

    def __init__(self, args: object, handle: PluginHandle) -> None:
        super().__init__()

    def filter(self, state: object, view: Any) -> ReasonIds:
        found: ReasonIds = view.row_numbers().astype("int16") * 0 + self.reasons.id(Code.UNSCHEDULABLE, "no")
        return found

    def events(self) -> tuple[EventRegistration, ...]:
        return (
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD), _opinion),
            EventRegistration(ClusterEvent(Resource.NODE, Action.DELETE)),
        )


def _opinion(pod: PodInfo, old: object, new: object) -> Hint:
    assert isinstance(new, Node)
    if new.metadata.name == "bad":
        raise KeyError(new.metadata.name)
    return Hint.QUEUE if new.metadata.name == "good" else Hint.SKIP


def test_hints_are_measured_by_what_they_say() -> None:
    """A hint that fails says Error; a plugin without a hint says Queue."""
    for name, said in (("good", "Queue"), ("dull", "QueueSkip"), ("bad", "Error")):
        world = World(node("n").build(), classes=(Listens,))
        world.add(pod("p"))
        world.cycle()
        effects = world.add(node(name).build())
        assert world.watch.hints == [("Listens", "NodeAdd", said, 1)]
        assert len(observed(effects, "queueing_hint_errors_total")) == (said == "Error")
    world = World(node("n").build(), classes=(Listens,))
    world.add(pod("p"))
    world.cycle()
    world.scheduler.receive(ObjectDeleted(node("n").build()), world.now)
    assert world.watch.hints == [("Listens", "NodeDelete", "Queue", 1)]


def test_hints_are_measured_after_a_change_of_the_configuration() -> None:
    world = World(node("n").build())
    config = load_configuration(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}],
        }
    )
    world.scheduler.reconfigure(config, world.now)
    world.add(pod("p").scheduler("other").req(cpu="64"))
    world.cycle()
    world.add(node("m").build())
    assert [(plugin, event) for plugin, event, _, _ in world.watch.hints] == [("NodeResourcesFit", "NodeAdd")]
    assert ("NodeName", "Filter", "other") in world.watch.evaluations.totals()


def test_gates_are_measured_as_upstream_measures_them() -> None:
    """The point's status is always Success there; the plugin's own tells the truth."""
    world = World(node("n").build())
    gated = pod("p").gated("wait").build()
    world.add(gated)
    assert world.watch.take_points() == [("PreEnqueue", "Success")]
    assert ("SchedulingGates", "PreEnqueue", "UnschedulableAndUnresolvable", 1) in world.watch.calls
    open_now = replace(
        gated, spec=replace(gated.spec, scheduling_gates=()), metadata=replace(gated.metadata, resource_version="2")
    )
    world.scheduler.receive(ObjectUpdated(open_now), world.now)
    assert world.watch.take_points() == [("PreEnqueue", "Success")]
    assert not world.watch.sampled
