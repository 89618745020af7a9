"""Plugins of other distributions that break their contract: whatever they raise, pods and room stay in order."""

from __future__ import annotations

from typing import ClassVar

import pytest

from scheduler.third_party_world import CALLS, RECORDERS, SECOND, Classes, World, configured, of_kind
from stowplan_scheduler.config import ConfigurationError, RawArgs, load_configuration
from stowplan_scheduler.effects import AttemptFailed, Bind, Outcome, Result
from stowplan_scheduler.events import EffectDone, TimerFired
from stowplan_scheduler.framework.cluster_event import EventRegistration
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.profiles import plugin_traits
from stowplan_scheduler.queue import Place
from support.builders import node, pod
from support.plugin_at_every_point import PluginAtEveryPoint


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


class BreaksAt(PluginAtEveryPoint):
    """Breaks its contract at one point, `left` times."""

    name = "BreaksAt"
    point: ClassVar[str]
    left: ClassVar[int]

    def called(self, point: str) -> None:
        if point == self.point and self.left:
            type(self).left -= 1
            raise KeyError("a mistake of the author's")


BREAKS_AT: Classes = {**RECORDERS, "BreaksAt": BreaksAt}
MISTAKE = 'KeyError: "a mistake of the author\'s"'


def breaking(monkeypatch: pytest.MonkeyPatch, point: str, failures: list[Exception] | None) -> World:
    """A world with one node, and a plugin that breaks once at that point, among others that do not."""
    monkeypatch.setattr(BreaksAt, "point", point, raising=False)
    monkeypatch.setattr(BreaksAt, "left", 1, raising=False)
    first = {"enabled": [{"name": "BreaksAt"}]}
    raw = configured("First", "BreaksAt", "Third", bind=first)
    return World(BREAKS_AT, [node("n").build()], raw, on_plugin_failure=None if failures is None else failures.append)


@pytest.mark.parametrize("point", ["Reserve", "Permit"])
def test_a_plugin_that_raises_takes_neither_the_pod_nor_its_room(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller sees the exception; a worker that goes on finds the pod in back-off and places it later."""
    world = breaking(monkeypatch, point, None)
    scheduler = world.scheduler
    world.tell(pod("p").req(cpu="3").build())
    with pytest.raises(KeyError, match="a mistake of the author's"):
        world.cycle()
    assert (scheduler.cache.pod_count, scheduler.queue.counts()[Place.IN_FLIGHT]) == (0, 0)
    assert [call for call in CALLS if "unreserve" in call] == ["Third unreserve n", "First unreserve n"]
    world.now += 2 * SECOND
    effects = scheduler.receive(TimerFired(), world.now)
    assert [failed.message for failed in of_kind(effects, AttemptFailed)] == [MISTAKE]
    assert [bind.node_name for bind in of_kind(world.cycle(), Bind)] == ["n"]


def test_a_plugin_that_raises_at_the_door_keeps_its_pod_out_until_something_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[Exception] = []
    world = breaking(monkeypatch, "PreEnqueue", failures)
    world.tell(pod("p").build())
    assert [str(failure) for failure in failures] == ['"a mistake of the author\'s"']
    assert world.scheduler.queue.counts()[Place.GATED] == 1
    assert world.place(pod("other")) == "n"
    world.tell(node("more").build())
    assert [bind.pod.key for bind in of_kind(world.cycle(), Bind)] == ["default/p"]


@pytest.mark.parametrize("point", ["PreBind", "Bind"])
def test_a_plugin_that_raises_before_the_bind_gives_the_room_back(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    failures: list[Exception] = []
    world = breaking(monkeypatch, point, failures)
    assert world.place(pod("p")) == f'running {point} plugin "BreaksAt": {MISTAKE}'
    assert len(failures) == 1
    assert world.scheduler.cache.pod_count == 0
    assert [call for call in CALLS if "unreserve" in call] == ["Third unreserve n", "First unreserve n"]
    assert world.place(pod("other")) == "n"


def test_a_plugin_that_raises_in_unreserve_neither_keeps_the_room_nor_spares_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[Exception] = []
    world = breaking(monkeypatch, "Unreserve", failures)
    world.tell(pod("p").build())
    (bind,) = of_kind(world.cycle(), Bind)
    effects = world.scheduler.receive(EffectDone(bind.id, Outcome(Result.FAILED, "no")), world.now)
    assert [failed.message for failed in of_kind(effects, AttemptFailed)] == ["no"]
    assert len(failures) == 1
    assert world.scheduler.cache.pod_count == 0
    assert [call for call in CALLS if "unreserve" in call] == ["Third unreserve n", "First unreserve n"]


def test_a_plugin_that_raises_after_the_bind_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Exception] = []
    world = breaking(monkeypatch, "PostBind", failures)
    assert world.place(pod("p")) == "n"
    assert len(failures) == 1
    assert world.scheduler.cache.pod_count == 1
    assert [call for call in CALLS if "postbind" in call] == ["First postbind n", "Third postbind n"]


@pytest.mark.parametrize("point", ["PreEnqueue", "PreBind", "PostBind"])
def test_what_nobody_listens_to_is_raised_once_everything_is_in_order(
    monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """And the next call hands out what was to be done."""
    world = breaking(monkeypatch, point, None)
    with pytest.raises(KeyError, match="a mistake of the author's"):
        world.place(pod("p"))
    effects = world.scheduler.receive(TimerFired(), world.now)
    said = [effect.message for effect in of_kind(effects, AttemptFailed)]
    assert said == ([f'running PreBind plugin "BreaksAt": {MISTAKE}'] if point == "PreBind" else [])
    assert world.scheduler.queue.counts()[Place.IN_FLIGHT] == 0


class Unmakeable(BreaksAt):
    """Cannot be made, or does not know what it listens to."""

    point = "nowhere"
    left = 0

    def __init__(self, args: object, handle: PluginHandle) -> None:
        self._broken = args.value.get("broken") if isinstance(args, RawArgs) and isinstance(args.value, dict) else ""
        if self._broken == "init":
            raise KeyError("init")

    def events(self) -> tuple[EventRegistration, ...]:
        if self._broken == "events":
            raise KeyError("events")
        return ()


@pytest.mark.parametrize("where", ["init", "events"])
def test_a_plugin_that_cannot_be_made_is_a_mistake_of_the_configuration(where: str) -> None:
    """One that is taken while a scheduler runs leaves the one before running."""
    classes: Classes = {"BreaksAt": Unmakeable}
    raw = configured("BreaksAt")
    world = World(classes, [node("n").build()], raw)
    raw["profiles"][0]["pluginConfig"] = [{"name": "BreaksAt", "args": {"broken": where}}]
    bad = load_configuration(raw, extra_plugins=plugin_traits(classes))
    with pytest.raises(ConfigurationError, match=f"plugin \"BreaksAt\": .*KeyError: '{where}'"):
        world.scheduler.reconfigure(bad, world.now)
    assert world.place(pod("p")) == "n"
