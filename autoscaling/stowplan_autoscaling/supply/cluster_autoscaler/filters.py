"""The scheduler's PreFilter and Filter, and nothing else of it: that is all that Cluster Autoscaler runs.

Scores, extenders and every profile but one are unknown to it. Follows pkg/simulator/framework/handle.go of
kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan_scheduler.config import KubeSchedulerConfiguration, default_configuration, effective_profiles
from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import Plugin
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.runtime import Profile
from stowplan_scheduler.plugins.registry import IN_TREE

_POINTS: Final = ("queueSort", "preFilter", "filter")


class ProfileCountError(ValueError):
    """The configuration does not have exactly one profile."""


class NoNominations:
    """Nominated pods are placed in the snapshot like others, so none is left to be minded while filtering."""

    def nominated_nodes(self) -> Sequence[str]:
        """None."""
        return ()

    def nominated_pods_for_node(self, node: str) -> Sequence[PodInfo]:
        """None."""
        return ()


def filter_profile(config: KubeSchedulerConfiguration | None, stores: Stores) -> Profile:
    """A profile that only filters, with the plugins of the one profile of `config` (None: the default one).

    Raises ProfileCountError for several profiles, ConfigurationError for plugins that do not exist in-tree.
    """
    effective = effective_profiles(config or default_configuration())
    if len(effective) != 1:
        raise ProfileCountError(f"unexpected number of scheduler profiles: expected 1, got {len(effective)}")
    found = effective[0]
    points = {point: found.points.get(point, ()) for point in _POINTS}
    handle = PluginHandle(stores)
    plugins: dict[str, Plugin] = {}
    for name in dict.fromkeys(name for listed in points.values() for name in listed):
        plugins[name] = IN_TREE[name](found.args.get(name), handle)
    return Profile(found.scheduler_name, points, plugins, {}, 100)
