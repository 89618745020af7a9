"""What a plugin is given when it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .cluster import Stores
from .interface import Plugin

if TYPE_CHECKING:
    from stowplan_scheduler.objects import Pod


@dataclass(frozen=True, slots=True)
class PluginHandle:
    """The scheduler around a plugin. `stores` are live: hints may read them, rules see them through the cluster.

    `pod_lister` gives the newest object of the pod "namespace/name", None for one that is gone; it is absent where a
    profile is used without a scheduler.
    """

    stores: Stores
    pod_lister: Callable[[str], Pod | None] | None = None


PluginFactory = Callable[[object, PluginHandle], Plugin]
"""(args of the configuration or None, handle) -> plugin."""
