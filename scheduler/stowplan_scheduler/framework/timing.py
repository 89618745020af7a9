"""Timing hooks: how long each plugin takes at each extension point.

The core reads no clock. Whoever wants durations passes hooks with a clock of its own; without hooks nothing is
wrapped and nothing is paid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .interface import Plugin
from .status import Code, Status

POINTS = {
    "pre_enqueue": "PreEnqueue",
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "with_pods": "PreFilterExtensionAddPod",
    "pre_score": "PreScore",
    "score": "Score",
    "normalize": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}
"""Plugin methods and the extension point names of upstream's metrics."""


class Hooks(Protocol):
    """A clock and an ear."""

    def clock(self) -> int:
        """Nanoseconds of any monotonic clock."""

    def observe(self, plugin: str, point: str, status: str, nanoseconds: int) -> None:
        """A call of `plugin` at `point` took that long. Vector rules answer for many nodes per call.

        `status`: upstream's word for the code that it returned; of a vector rule, and of anything else without a code,
        Success.
        """


def time_plugin(plugin: Plugin, hooks: Hooks) -> None:
    """Measure every extension point method of one plugin instance."""
    for method, point in POINTS.items():
        function = getattr(plugin, method, None)
        if function is not None:
            setattr(plugin, method, _timed(function, plugin.name, point, hooks))


def _timed(function: Callable[..., Any], plugin: str, point: str, hooks: Hooks) -> Callable[..., Any]:
    def measured(*args: Any, **kwargs: Any) -> Any:
        began = hooks.clock()
        status = Code.ERROR.label
        try:
            result = function(*args, **kwargs)
            status = _status(result)
            return result
        finally:
            hooks.observe(plugin, point, status, hooks.clock() - began)

    return measured


def _status(result: object) -> str:
    if isinstance(result, tuple) and result:
        result = result[0]  # Permit: the status and how long to wait
    status = result if isinstance(result, Status) else getattr(result, "status", None)
    return status.code.label if isinstance(status, Status) else Code.SUCCESS.label
