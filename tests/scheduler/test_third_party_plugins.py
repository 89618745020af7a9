"""Plugins of other distributions: the worked example, and what every extension point promises to an author.

The example stands in examples/plugins. Its entry points are read from its own pyproject.toml, as an installer would.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.third_party_world import (
    CALLS,
    RECORDERS,
    SECOND,
    Classes,
    Recorder,
    SecondRecorder,
    ThirdRecorder,
    World,
    configured,
    of_kind,
)
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.config import ConfigurationError, load_configuration_text
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import AttemptFailed, Bind, Outcome, PreBind, Result, SetTimer
from stowplan_scheduler.events import EffectDone, ObjectUpdated, PermitDecided, TimerFired
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import (
    FilterPlugin,
    Inputs,
    PreEnqueuePlugin,
    ReasonIds,
    ScorePlugin,
    Scores,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unschedulable
from stowplan_scheduler.plugins.registry import ENTRY_POINT_GROUP, load_third_party
from stowplan_scheduler.profiles import plugin_traits
from stowplan_scheduler.queue import Place
from stowplan_scheduler.scheduler import Scheduler
from support.builders import node, pod
from support.stopwatch import Stopwatch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/plugins"


# ---- the worked example ------------------------------------------------------------------


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Classes]:
    """The example's plugins, found as if the distribution were installed."""
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))
    names = declared["project"]["entry-points"][ENTRY_POINT_GROUP]
    found = [EntryPoint(name, value, ENTRY_POINT_GROUP) for name, value in names.items()]
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    monkeypatch.setattr("stowplan_scheduler.plugins.registry.entry_points", lambda *, group: found)
    loaded = load_third_party()
    assert all(isinstance(plugin, type) for plugin in loaded.values())
    yield loaded  # type: ignore[misc]  # the factories are the classes themselves
    for module in [name for name in sys.modules if name.startswith("stowplan_example_plugins")]:
        del sys.modules[module]


def example_world(example: Classes) -> World:
    """The example's own configuration, and nodes that differ in price and owner only."""
    text = (EXAMPLE / "profile.yaml").read_text(encoding="utf-8")
    config = load_configuration_text(text, extra_plugins=plugin_traits(example))
    world = World.__new__(World)
    world.scheduler = Scheduler(config, First(), third_party=example)
    world.now = 0
    for name, price, team in (("dear", "300", ""), ("cheap", "100", "red"), ("unpriced", "", "")):
        made = node(name).capacity(cpu="100", memory="400Gi")
        if price:
            made.label("example.com/cents-per-hour", price)
        if team:
            made.label("example.com/team", team)
        world.tell(made.build())
    return world


def test_the_example_prefers_cheap_nodes_of_the_own_team(example: Classes) -> None:
    """A pod of the red team may use the cheap node; others take the cheaper of the rest (1000 is what is missing)."""
    world = example_world(example)
    assert world.place(pod("a").labels(**{"example.com/team": "red"})) == "cheap"
    assert world.place(pod("b")) == "dear"
    assert world.place(pod("c").node_selector(hostname="cheap")) == (
        "0/3 nodes are available: 1 node(s) belonged to another team, "
        "2 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are available: "
        "3 Preemption is not helpful for scheduling."
    )


def test_a_change_of_the_node_is_seen_although_answers_are_kept(example: Classes) -> None:
    """NODE rules are computed again for the nodes that changed: the price and the owner move to other nodes."""
    world = example_world(example)
    assert world.place(pod("a")) == "dear"
    cheaper = node("unpriced").capacity(cpu="100", memory="400Gi").label("example.com/cents-per-hour", "7")
    world.scheduler.receive(ObjectUpdated(cheaper.build()), world.now)
    assert world.place(pod("b")) == "unpriced"
    free = node("cheap").capacity(cpu="100", memory="400Gi").label("example.com/cents-per-hour", "0")
    world.scheduler.receive(ObjectUpdated(free.build()), world.now)
    assert world.place(pod("c")) == "cheap"


def test_a_node_that_becomes_open_wakes_the_pod_that_the_example_rejected(example: Classes) -> None:
    """The example's own queueing hint decides; a label of another team does not help."""
    world = example_world(example)
    world.place(pod("b").node_selector(hostname="cheap"))
    info = world.scheduler.pods.by_key.get("default/b")
    assert info is not None
    for team, place in (("blue", Place.UNSCHEDULABLE), ("", Place.BACKOFF)):
        made = node("cheap").label("example.com/team", team) if team else node("cheap")
        world.scheduler.receive(ObjectUpdated(made.build()), world.now)
        assert world.scheduler.queue.place_of(info) is place


@pytest.mark.parametrize("args", [{"price": 3}, {"missing": -1}, {"missing": "1"}, {"label": 5}, [1]])
def test_the_example_refuses_args_that_it_does_not_know(example: Classes, args: Any) -> None:
    """What an author should do with args: say which plugin they belong to, and what is allowed."""
    raw = configured(*example)
    raw["profiles"][0]["pluginConfig"] = [{"name": "CheapestNode", "args": args}]
    with pytest.raises(ValueError, match="CheapestNode: "):
        World(example, [], raw)


def test_a_name_that_nobody_registered_is_a_configuration_error(example: Classes) -> None:
    """Also one that differs in a letter."""
    with pytest.raises(ConfigurationError, match="CheapestNodes"):
        World(example, [], configured("CheapestNodes"))


# ---- filters and scores ------------------------------------------------------------------


class Judge(FilterPlugin):
    """Says of each node what a class variable says; 0 is "passes"."""

    name = "Judge"
    filter_inputs = Inputs.CLUSTER
    verdicts: ClassVar[dict[str, tuple[Code, str]]] = {}

    def __init__(self, args: object, handle: PluginHandle) -> None:
        super().__init__()

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        found = np.zeros(view.size, np.int16)
        for index in range(view.size):
            verdict = self.verdicts.get(view.info(index).name)
            if verdict is not None:
                found[index] = self.reasons.id(*verdict)
        return found


class NodeJudge(Judge):
    """The same as a rule whose answers are kept."""

    name = "NodeJudge"
    filter_inputs = Inputs.NODE
    verdicts: ClassVar[dict[str, tuple[Code, str]]] = {}


class Scorer(ScorePlugin):
    """Gives every node the same score."""

    name = "Scorer"
    value: ClassVar[int] = 0

    def __init__(self, args: object, handle: PluginHandle) -> None:
        pass

    def score(self, state: object, view: NodeView) -> Scores:
        return np.full(view.size, self.value, np.int64)


@pytest.mark.parametrize("rule", [Judge, NodeJudge])
def test_an_error_counts_only_if_no_earlier_plugin_rejects_the_node(
    monkeypatch: pytest.MonkeyPatch, rule: type[Judge]
) -> None:
    """Upstream asks the plugins in order and stops at the first that rejects; a later one cannot break then."""
    monkeypatch.setattr(rule, "verdicts", {"bad": (Code.ERROR, "out of order")})
    tainted = World({rule.name: rule}, [node("good").build(), node("bad").taint("spot").build()])
    assert tainted.place(pod("a")) == "good"
    plain = World({rule.name: rule}, [node("good").build(), node("bad").build()])
    assert plain.place(pod("a")) == f'running "{rule.name}" filter plugin: out of order'
    pending = plain.scheduler.pods.by_key.get("default/a")
    assert pending is not None
    assert plain.scheduler.queue.place_of(pending) is Place.BACKOFF


@pytest.mark.parametrize("rule", [Judge, NodeJudge])
def test_an_error_counts_only_if_the_node_is_visited(monkeypatch: pytest.MonkeyPatch, rule: type[Judge]) -> None:
    """Of 120 nodes the first 100 are enough, and the search ends with the hundred-and-first."""
    nodes = [node(f"n{i:03}").build() for i in range(120)]
    for broken, outcome in (("n101", "n000"), ("n100", "out of order"), ("n050", "out of order")):
        monkeypatch.setattr(rule, "verdicts", {broken: (Code.ERROR, "out of order")})
        raw = {**configured(rule.name), "percentageOfNodesToScore": 10}
        assert World({rule.name: rule}, nodes, raw).place(pod("a")).endswith(outcome)


def test_reasons_of_a_plugin_stand_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unschedulable nodes are looked at by preemption, unresolvable ones are not."""
    monkeypatch.setattr(
        Judge,
        "verdicts",
        {
            "a": (Code.UNSCHEDULABLE, "too loud"),
            "b": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "too far"),
        },
    )
    world = World({"Judge": Judge}, [node("a").build(), node("b").build()])
    assert world.place(pod("p")) == (
        "0/2 nodes are available: 1 too far, 1 too loud. preemption: 0/2 nodes are available: "
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize("inputs", list(Inputs))
@pytest.mark.parametrize("value", [-1, 101])
def test_a_score_out_of_range_fails_the_cycle(monkeypatch: pytest.MonkeyPatch, inputs: Inputs, value: int) -> None:
    """As upstream says it, however long answers are kept; with one feasible node nothing is scored."""
    monkeypatch.setattr(Scorer, "value", value)
    monkeypatch.setattr(Scorer, "score_inputs", inputs)
    world = World({"Scorer": Scorer}, [node("a").build(), node("b").build()])
    assert world.place(pod("p")) == (
        f'applying score defaultWeights on Score plugins: plugin "Scorer" returns an invalid score {value}, '
        "it should in the range of [0, 100] after normalizing"
    )
    assert World({"Scorer": Scorer}, [node("a").build()]).place(pod("p")) == "a"


def test_scores_that_are_no_whole_numbers_fail_the_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN compares with nothing: it would win by accident."""

    def nonsense(self: Scorer, state: object, view: NodeView) -> Scores:
        return np.full(view.size, np.nan)

    monkeypatch.setattr(Scorer, "score", nonsense)
    world = World({"Scorer": Scorer}, [node("a").build(), node("b").build()])
    said = 'plugin "Scorer" returns scores of type float64, they must be int64'
    assert world.place(pod("p")) == f"applying score defaultWeights on Score plugins: {said}"


# ---- Reserve, Permit, PreBind, PostBind -----------------------------------------------------


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def waiting(monkeypatch: pytest.MonkeyPatch, seconds: int = 10) -> World:
    """A pod that two plugins keep waiting."""
    for plugin in (Recorder, ThirdRecorder):
        monkeypatch.setattr(plugin, "permits", (Status(Code.WAIT), seconds * SECOND))
    monkeypatch.setattr(SecondRecorder, "permits", (SUCCESS, 0))
    world = World(RECORDERS, [node("n").build()])
    world.tell(pod("p").build())
    assert of_kind(world.cycle(), Bind) == []
    CALLS.clear()
    return world


UNRESERVED = ["Third unreserve n", "Second unreserve n", "First unreserve n"]


def test_plugins_are_called_in_the_order_of_the_configuration() -> None:
    """Point by point, each in the same order, and PostBind once the binding is confirmed."""
    world = World(RECORDERS, [node("n").build()])
    assert world.place(pod("p")) == "n"
    points = ("reserve", "permit", "prebind", "postbind")
    assert [f"{name} {point} n" for point in points for name in RECORDERS] == CALLS


def test_a_refused_reservation_is_given_back_by_all_in_reverse_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by those that were not asked and by the one that refused: Unreserve must be idempotent."""
    monkeypatch.setattr(SecondRecorder, "reserves", unschedulable("no room to reserve"))
    world = World(RECORDERS, [node("n").build()])
    assert world.place(pod("p")) == "0/1 nodes are available: 1 no room to reserve."
    assert ["First reserve n", "Second reserve n", *UNRESERVED] == CALLS
    assert world.scheduler.cache.pod_count == 0


def test_an_error_in_reserve_is_no_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod goes to the error back-off, with the plugin's text."""
    monkeypatch.setattr(SecondRecorder, "reserves", error("disk on fire"))
    world = World(RECORDERS, [node("n").build()])
    assert world.place(pod("p")) == 'running Reserve plugin "Second": disk on fire'
    info = world.scheduler.pods.by_key.get("default/p")
    assert info is not None
    assert world.scheduler.queue.place_of(info) is Place.BACKOFF


def test_a_refused_permit_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugins after the one that refused are not asked."""
    monkeypatch.setattr(SecondRecorder, "permits", (unschedulable("not today"), 0))
    world = World(RECORDERS, [node("n").build()])
    assert world.place(pod("p")) == "0/1 nodes are available: 1 not today."
    assert [call for call in CALLS if "permit" in call] == ["First permit n", "Second permit n"]
    assert CALLS[-3:] == UNRESERVED


def test_a_waiting_pod_is_bound_once_every_plugin_has_allowed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds its place on the node meanwhile. A plugin that did not say Wait has no say."""
    world = waiting(monkeypatch)
    uid = "default/p"
    for plugin in ("First", "Second", "Unknown"):
        assert of_kind(world.scheduler.receive(PermitDecided(uid, plugin), world.now), Bind) == []
    assert world.scheduler.cache.assumed_count == 1
    effects = world.scheduler.receive(PermitDecided(uid, "Third"), world.now)
    assert [bind.node_name for bind in of_kind(effects, Bind)] == ["n"]
    assert not any("unreserve" in call for call in CALLS)


def test_a_waiting_pod_that_is_rejected_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as rejected by that plugin and waits for events that concern it."""
    world = waiting(monkeypatch)
    effects = world.scheduler.receive(PermitDecided("default/p", "Third", "gang is incomplete"), world.now)
    (failed,) = of_kind(effects, AttemptFailed)
    assert (failed.message, failed.plugins) == ("0/1 nodes are available: 1 gang is incomplete.", ("Third",))
    assert UNRESERVED == CALLS
    assert world.scheduler.cache.assumed_count == 0


def test_a_wait_ends_with_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """SetTimer says when; a moment earlier nothing happens."""
    world = waiting(monkeypatch, seconds=10)
    world.now = 10 * SECOND - 1
    assert of_kind(world.scheduler.receive(TimerFired(), world.now), AttemptFailed) == []
    world.now = 10 * SECOND
    (failed,) = of_kind(world.scheduler.receive(TimerFired(), world.now), AttemptFailed)
    assert failed.message == ("0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin First.")
    assert UNRESERVED == CALLS


def test_no_wait_is_longer_than_fifteen_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the plugin asks for (upstream maxTimeout)."""
    world = waiting(monkeypatch, seconds=10**6)
    assert world.scheduler.attempts.next_timer() == 900 * SECOND


def test_a_timer_is_set_for_a_waiting_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else would wake the scheduler."""
    monkeypatch.setattr(Recorder, "permits", (Status(Code.WAIT), 3 * SECOND))
    world = World({"First": Recorder}, [node("n").build()])
    world.tell(pod("p").build())
    assert 3 * SECOND in [timer.at for timer in of_kind(world.cycle(), SetTimer)]


def test_what_a_prebind_plugin_asks_for_is_done_before_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """One effect at a time, in order; Skip asks for none. A failure gives back and is an error."""
    monkeypatch.setattr(Recorder, "pre_binds", SUCCESS)
    monkeypatch.setattr(SecondRecorder, "pre_binds", SKIP)
    monkeypatch.setattr(ThirdRecorder, "pre_binds", SUCCESS)
    world = World(RECORDERS, [node("n").build()])
    world.tell(pod("p").build())
    effects, asked = world.cycle(), []
    while step := of_kind(effects, PreBind):
        asked.append(step[0].plugin)
        effects = world.scheduler.receive(EffectDone(step[0].id), world.now)
    assert asked == ["First", "Third"]
    (bind,) = of_kind(effects, Bind)
    effects = world.scheduler.receive(EffectDone(bind.id, Outcome(Result.FAILED, "conflict")), world.now)
    assert [failed.message for failed in of_kind(effects, AttemptFailed)] == ["conflict"]
    assert CALLS[-3:] == UNRESERVED


# ---- PreEnqueue, timing ------------------------------------------------------------------


class Gate(PreEnqueuePlugin):
    """Keeps pods out that have no app."""

    name = "Gate"

    def __init__(self, args: object, handle: PluginHandle) -> None:
        pass

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return SUCCESS if "app" in pod.shape.labels else unschedulable("who are you?")


def test_a_pod_that_may_not_enter_is_let_in_when_it_changes() -> None:
    """A plugin without `events` listens to all of them."""
    world = World({"Gate": Gate}, [node("n").build()])
    nameless = pod("p").build()
    world.tell(nameless)
    assert not world.scheduler.has_work()
    named = replace(nameless, metadata=replace(nameless.metadata, labels={"app": "web"}, resource_version="2"))
    world.scheduler.receive(ObjectUpdated(named), world.now)
    assert world.scheduler.has_work()


def test_hooks_hear_of_every_call_of_a_plugin() -> None:
    """With the clock of whoever wants to know; a call that calls no other plugin takes one tick here."""
    watch = Stopwatch()
    classes: Classes = {**RECORDERS, "Judge": Judge, "Scorer": Scorer}
    world = World(classes, [node("a").build(), node("b").build()], hooks=watch)
    world.place(pod("p"))
    statuses = {(plugin, point, status) for plugin, point, status, _ in watch.calls}
    seen = {(plugin, point) for plugin, point, _ in statuses}
    assert {("Judge", "PreFilter"), ("Judge", "Filter"), ("Scorer", "Score"), ("TaintToleration", "Filter")} <= seen
    assert {("First", point) for point in ("Reserve", "Permit", "PreBindPreFlight", "PostBind")} <= seen
    assert {nanoseconds for _, point, _, nanoseconds in watch.calls if point not in {"PreBind", "Bind"}} == {1}
    assert {("NodePorts", "PreFilter", "Skip"), ("Judge", "Filter", "Success")} <= statuses
    assert ("DefaultBinder", "Bind", "Success") in statuses
