"""Timing hooks: how long plugins, extension points and queueing hints take, and how often plugins are asked.

The core reads no clock. Whoever wants durations passes hooks with a clock of its own to the Scheduler; it is then made
of parts that measure (`measured.py` here, in `queue` and beside `attempt.py`). Without hooks nothing is wrapped and
nothing is paid. Hooks see decisions and change none: they get no random numbers of the core's.

Names and moments are those of pkg/scheduler/metrics and framework/runtime/framework.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .interface import Plugin, ScorePlugin
from .status import Code, Status

if TYPE_CHECKING:
    from .evaluations import Evaluations

POINTS: Mapping[str, tuple[str, str]] = {
    "pre_enqueue": ("PreEnqueue", "preEnqueue"),
    "pre_filter": ("PreFilter", "preFilter"),
    "filter": ("Filter", "filter"),
    "post_filter": ("PostFilter", "postFilter"),
    "pre_score": ("PreScore", "preScore"),
    "score": ("Score", "score"),
    "reserve": ("Reserve", "reserve"),
    "unreserve": ("Unreserve", "reserve"),
    "permit": ("Permit", "permit"),
    "pre_bind": ("PreBindPreFlight", "preBind"),
    "bind": ("Bind", "bind"),
    "post_bind": ("PostBind", "postBind"),
}
"""Plugin methods: the extension point's name in upstream's metrics, and where a configuration lists the plugin.

`pre_bind` says whether there is something to prepare, which is upstream's PreBindPreFlight; the preparation itself and
the binding are effects, whose durations last until they are answered (see `measured_attempts.py`).
"""


class Hooks(Protocol):
    """A clock, a sampler and an ear. Durations are nanoseconds."""

    sampled: bool
    """Whether single calls of plugins are measured just now. Written by the core alone; False at the start."""

    @property
    def evaluations(self) -> Evaluations:
        """Where the core counts how often plugins are asked."""

    def clock(self) -> int:
        """Nanoseconds of any monotonic clock."""

    def sample(self) -> bool:
        """Whether to measure the plugins of the attempt, or of the run of PreEnqueue, that begins."""

    def observe(self, plugin: str, point: str, status: str, nanoseconds: int) -> None:
        """A call of `plugin` at `point` took that long. Vector rules answer for many nodes per call.

        `status`: upstream's word for the code that it returned; of a vector rule, and of anything else without a code,
        Success.
        """

    def observe_point(self, profile: str, point: str, status: str, nanoseconds: int) -> None:
        """All plugins of an extension point together took that long."""

    def observe_hint(self, plugin: str, event: str, hint: str, nanoseconds: int) -> None:
        """A queueing hint took that long; `hint`: Queue, QueueSkip or Error."""


def time_plugin(plugin: Plugin, points: Mapping[str, Sequence[str]], hooks: Hooks) -> None:
    """Measure one plugin instance at every extension point where the configuration's `points` have it."""
    for method, (point, listed) in POINTS.items():
        function = getattr(plugin, method, None)
        if function is not None and plugin.name in points.get(listed, ()):
            # What a successful bind asks for takes most of its time: it is measured when that is answered.
            but = Code.SUCCESS.label if method == "bind" else ""
            setattr(plugin, method, _timed(function, plugin.name, lambda *_, point=point: point, hooks, but=but))
    if isinstance(plugin, ScorePlugin) and plugin.normalizes:
        _wrap(plugin, "normalize", _normalizing, hooks)
    if plugin.name in points.get("preFilter", ()) and hasattr(plugin, "with_pods"):
        _wrap(plugin, "with_pods", _adding_or_removing, hooks)


def _wrap(plugin: Plugin, method: str, named: Callable[..., str], hooks: Hooks) -> None:
    setattr(plugin, method, _timed(getattr(plugin, method), plugin.name, named, hooks))


def _normalizing(*_: Any) -> str:
    return "ScoreExtensionNormalize"


def _adding_or_removing(state: object, pod: object, added: Sequence[object], *_: Any) -> str:
    return "PreFilterExtensionAddPod" if added else "PreFilterExtensionRemovePod"


def _timed(
    function: Callable[..., Any], plugin: str, named: Callable[..., str], hooks: Hooks, *, but: str = ""
) -> Callable[..., Any]:
    """`function`, measured while `hooks.sampled`. `but`: a status that somebody else tells the hooks of."""

    def measured(*args: Any) -> Any:
        if not hooks.sampled:
            return function(*args)
        began = hooks.clock()
        status = Code.ERROR.label
        try:
            result = function(*args)
            status = _status(result)
            return result
        finally:
            if status != but:
                hooks.observe(plugin, named(*args), status, hooks.clock() - began)

    return measured


def _status(result: object) -> str:
    if isinstance(result, tuple) and result:
        result = result[0]  # Permit: the status and how long to wait
    status = result if isinstance(result, Status) else getattr(result, "status", None)
    return status.code.label if isinstance(status, Status) else Code.SUCCESS.label
