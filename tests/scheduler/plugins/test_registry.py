"""Tests of the registry of plugins."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace

import pytest

from stowplan_scheduler.config import DEFAULT_PLUGINS, REGISTRY
from stowplan_scheduler.config.plugin_args import ARGS_TYPES, default_args
from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.interface import FilterPlugin, PermitPlugin, ScorePlugin
from stowplan_scheduler.plugins import registry
from stowplan_scheduler.plugins.registry import (
    IN_TREE,
    PluginHandle,
    PluginLoadError,
    extension_points,
    load_third_party,
)

# Plugins that other files of the tests look at as a whole: they need counters and a queue around them.
ELSEWHERE = {"NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "DefaultPreemption"}
HERE = sorted(IN_TREE.keys() - ELSEWHERE)

# What upstream implements and Stowplan leaves out: deallocating claims in PostFilter, as no pod with claims is decided.
LEFT_OUT = {"DynamicResources": {"podGroupPostFilter"}}


def test_every_default_plugin_is_there_in_order() -> None:
    """A default configuration must be constructible."""
    assert list(IN_TREE) == [plugin.name for plugin in DEFAULT_PLUGINS]


@pytest.mark.parametrize("name", HERE)
def test_plugin_is_made_with_its_name_and_its_extension_points(name: str) -> None:
    """The configuration's table says which points a plugin has: the class must agree."""
    args = default_args(f"{name}Args") if f"{name}Args" in ARGS_TYPES else None
    plugin = IN_TREE[name](args, PluginHandle(Stores()))
    assert plugin.name == name
    points = extension_points(type(plugin)) - ({"preScore"} if name == "ImageLocality" else set())
    assert points == REGISTRY[name].points - LEFT_OUT.get(name, set())


class Mine(FilterPlugin):
    """A plugin of somebody else."""

    name = "Mine"

    def __init__(self, args: object, handle: PluginHandle) -> None:
        super().__init__()
        self.handle = handle

    def filter(self, state: object, view: object) -> object:  # type: ignore[override]
        raise NotImplementedError


def install(monkeypatch: pytest.MonkeyPatch, **found: object) -> None:
    """Pretend that distributions registered these."""
    entries = [SimpleNamespace(name=name, value=f"pkg:{name}", load=lambda o=o: o) for name, o in found.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == "stowplan.plugins" else [])


def test_third_party_plugin_is_its_own_factory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made as the in-tree ones are, with args and handle."""
    install(monkeypatch, Mine=Mine)
    handle = PluginHandle(Stores())
    plugin = load_third_party()["Mine"](None, handle)
    assert isinstance(plugin, Mine)
    assert plugin.handle is handle
    assert extension_points(Mine) == {"preFilter", "filter"}


def test_real_entry_points_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group and the form `module:Class` of pyproject.toml."""
    entry = EntryPoint("NodeName2", "stowplan_scheduler.plugins.node_name:NodeName", "stowplan.plugins")
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints([entry]).select(group=group))
    with pytest.raises(PluginLoadError, match="calls itself NodeName"):
        load_third_party()


@pytest.mark.parametrize(
    ("name", "found", "message"),
    [
        ("NodeName", Mine, "a plugin named NodeName already exists"),
        ("Mine", 7, "no subclass of Plugin"),
        ("Other", Mine, "calls itself Mine"),
    ],
)
def test_unusable_plugins_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, found: object, message: str) -> None:
    """An author learns what is wrong when the scheduler starts, not in a cycle."""
    install(monkeypatch, **{name: found})
    with pytest.raises(PluginLoadError, match=message):
        load_third_party()


def test_pre_score_is_a_point_only_if_it_is_written() -> None:
    """A score rule without it has none upstream either."""

    class Plain(ScorePlugin, PermitPlugin):
        name = "Plain"

    class Prepared(Plain):
        def pre_score(self, pod: object, cluster: object, feasible: object) -> object:  # type: ignore[override]
            raise NotImplementedError

    assert extension_points(Plain) == {"score", "permit"}
    assert extension_points(Prepared) == {"score", "permit", "preScore"}
