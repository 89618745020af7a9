"""The configurations that workers run in a simulation, and the same for the scalar reference that checks decisions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from reference.profile import Profile, profiles_of
from stowplan_operator.worker.settings import MachineSettings, Mode, ProfileSettings
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.profiles import plugin_traits

from .breaking import NAME as BREAKING
from .breaking import Breaking

OURS = ("stowplan", "dense")
SHADE = "shade"
OTHER = "other-scheduler"

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def document(
    strategy: str, *, shade: bool, percentage: int, backoff: tuple[int, int], breaking: bool = False
) -> dict[str, Any]:
    """The configuration as a document. `dense` scores the other way round. `breaking`: with the plugin that breaks."""
    opposite = "MostAllocated" if strategy == "LeastAllocated" else "LeastAllocated"
    scoring = {"stowplan": strategy, "dense": opposite, SHADE: "MostAllocated"}
    names = (*OURS, SHADE) if shade else OURS
    plugins = {"plugins": _WITH_BREAKING} if breaking else {}
    return {
        **CONFIG,
        "percentageOfNodesToScore": percentage,
        "podInitialBackoffSeconds": backoff[0],
        "podMaxBackoffSeconds": backoff[1],
        "profiles": [
            {"schedulerName": name, "pluginConfig": [_scoring(scoring[name])]} | (plugins if name in OURS else {})
            for name in names
        ],
    }


_ENABLED = {"enabled": [{"name": BREAKING}]}
_WITH_BREAKING = {"multiPoint": _ENABLED, "bind": _ENABLED}
"""Named again at bind it comes first there: after the plugin that binds nobody is asked."""


def _scoring(strategy: str) -> dict[str, Any]:
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    args = {"scoringStrategy": {"type": strategy, "resources": resources}}
    return {"name": "NodeResourcesFit", "args": args}


@lru_cache(maxsize=256)
def settings(
    strategy: str,
    dense: Mode,
    shade: bool,
    breaking: bool,
    percentage: int,
    backoff: tuple[int, int],
    binds: int,
    generation: int,
) -> MachineSettings:
    """What a worker is given."""
    profiles = [
        ProfileSettings(scheduler_name="stowplan", generation=generation),
        ProfileSettings(scheduler_name="dense", generation=generation, mode=dense, shadow_of=OTHER),
    ]
    if shade:
        profiles.append(ProfileSettings(scheduler_name=SHADE, mode=Mode.SHADOW, shadow_of=OTHER))
    given = document(strategy, shade=shade, percentage=percentage, backoff=backoff, breaking=breaking)
    configuration = load_configuration(given, extra_plugins=plugin_traits({BREAKING: Breaking}))
    return MachineSettings(configuration=configuration, profiles=tuple(profiles), max_binds_in_flight=binds)


@lru_cache(maxsize=8)
def refused(binds: int) -> MachineSettings:
    """What no worker takes: extenders are not asked yet."""
    given = {
        **CONFIG,
        "profiles": [{"schedulerName": name} for name in OURS],
        "extenders": [{"urlPrefix": "http://extender", "filterVerb": "filter"}],
    }
    profiles = tuple(ProfileSettings(scheduler_name=name) for name in OURS)
    return MachineSettings(configuration=load_configuration(given), profiles=profiles, max_binds_in_flight=binds)


@lru_cache(maxsize=8)
def reference_profiles(strategy: str) -> dict[str, Profile]:
    """The same profiles for the scalar reference."""
    return profiles_of(document(strategy, shade=False, percentage=0, backoff=(1, 10)))
