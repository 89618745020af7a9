"""SchedulerProfiles from a KubeSchedulerConfiguration, and the other way round.

A profile keeps its words. What one side has and the other has not is named in `notes`, one line each: a scheduler's own
settings (leader election, back-off) are no part of a profile, and a configuration knows no rollout and no workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from stowplan_autoscaling.inputs.decode import without_nulls
from stowplan_autoscaling.inputs.errors import shown
from stowplan_scheduler.config import (
    KubeSchedulerConfiguration,
    PluginTraits,
    default_configuration,
    load_configuration,
)

from .documents import configuration_of, extenders_of, profile_document
from .envelope import API_VERSION
from .problems import ProfileError, ProfileProblem, refuse
from .scheduler_profile import DEFAULT_SCHEDULER, KIND, SchedulerProfile, Workers
from .spec_checks import WEIGHTED

_KEPT: Final = frozenset({"api_version", "kind", "profiles", "extenders", "percentage_of_nodes_to_score"})
_LOST: Final[Mapping[str, str]] = {
    "leader_election": "workers elect their leader with a Lease of their group",
    "client_connection": "workers are told by their own flags how to reach the API server",
    "pod_initial_backoff_seconds": "all profiles of a worker share one back-off, which is the default one",
    "pod_max_backoff_seconds": "all profiles of a worker share one back-off, which is the default one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How profiles are called. `name`: schedulerName and name of the only profile. `take_over`: as in spec.takeOver."""

    name: str = ""
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class Converted:
    """Documents of the other kind, and what could not be taken along."""

    documents: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


# ---- to SchedulerProfiles --------------------------------------------------------------------------------------------


def to_profiles(
    configuration: Mapping[str, Any], naming: Naming, traits: Mapping[str, PluginTraits] | None = None
) -> Converted:
    """One SchedulerProfile for each profile of a configuration. Raises ConfigurationError, ProfileError.

    The result is not compiled: what the scheduler does not decide yet is still in it.
    """
    loaded = load_configuration(configuration, extra_plugins=traits)
    given = without_nulls(dict(configuration))
    profiles = given.get("profiles") or [{}]
    if naming.name and len(profiles) > 1:
        message = f"there are {len(profiles)} profiles: one name is not enough"
        raise ProfileError([ProfileProblem("profiles", message)])
    notes = list(_lost_settings(loaded))
    documents = []
    for index, profile in enumerate(profiles):
        spec, dropped = _spec(profile or {}, given)
        spec["schedulerName"] = naming.name or spec.get("schedulerName") or DEFAULT_SCHEDULER
        refuse(_name_problems(spec["schedulerName"], index, naming))
        if spec["schedulerName"] == DEFAULT_SCHEDULER:
            spec["takeOver"] = True
        notes += [f"profiles[{index}].{note}" for note in dropped]
        documents.append(_profile_object(spec))
    return Converted(tuple(documents), tuple(notes))


def _name_problems(name: str, index: int, naming: Naming) -> Iterator[ProfileProblem]:
    if name == DEFAULT_SCHEDULER and not naming.take_over:
        message = "kube-scheduler binds the pods of this name: give it another one, or say that it is taken over"
        yield ProfileProblem(f"profiles[{index}].schedulerName", f"{shown(name)}: {message}")


def _lost_settings(loaded: KubeSchedulerConfiguration) -> Iterator[str]:
    """Settings of the scheduler that are not the default ones."""
    defaults = default_configuration()
    for name, info in KubeSchedulerConfiguration.model_fields.items():
        if name not in _KEPT and getattr(loaded, name) != getattr(defaults, name):
            yield f"{info.alias or name}: is left out: {_LOST.get(name, 'it is no part of a profile')}"


def _spec(profile: Mapping[str, Any], configuration: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The spec without what has no effect, and what that was."""
    spec = deepcopy(dict(profile))
    whole = configuration.get("percentageOfNodesToScore")
    if whole and "percentageOfNodesToScore" not in spec:
        spec["percentageOfNodesToScore"] = whole
    dropped: list[str] = []
    for point, plugin_set in (spec.get("plugins") or {}).items():
        where = f"plugins.{point}"
        plugin_set["disabled"] = list(_named(plugin_set.get("disabled"), f"{where}.disabled", dropped))
        lists = ("disabled",) if point in WEIGHTED else ("enabled", "disabled")
        for name in lists:
            for index, entry in enumerate(plugin_set.get(name) or ()):
                if entry.pop("weight", 0):
                    dropped.append(f"{where}.{name}[{index}].weight: is left out: it has no effect there")
        if not plugin_set["disabled"]:
            del plugin_set["disabled"]
    if spec.get("pluginConfig"):
        spec["pluginConfig"] = list(_named(spec["pluginConfig"], "pluginConfig", dropped))
    if configuration.get("extenders"):
        spec["extenders"] = deepcopy(configuration["extenders"])
    return spec, dropped


def _named(entries: Sequence[Any] | None, where: str, dropped: list[str]) -> Iterator[Any]:
    """Those with a name; kube-scheduler takes others, too, and they mean nothing."""
    for index, entry in enumerate(entries or ()):
        if entry and entry.get("name"):
            yield entry
        else:
            dropped.append(f"{where}[{index}]: is left out: it names no plugin")


def _profile_object(spec: dict[str, Any]) -> dict[str, Any]:
    first = ("schedulerName", "takeOver")
    ordered = {name: spec[name] for name in first if name in spec} | spec
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": spec["schedulerName"]}, "spec": ordered}


# ---- to a KubeSchedulerConfiguration ---------------------------------------------------------------------------------


def to_configuration(profiles: Sequence[SchedulerProfile]) -> Converted:
    """One KubeSchedulerConfiguration with the profiles in their order. Raises ProfileError."""
    refuse(_shared_problems(profiles))
    documents = [profile_document(profile.spec) for profile in profiles]
    configuration = configuration_of(documents, extenders_of(profiles[0].spec))
    return Converted((configuration,), tuple(_lost_fields(profiles)))


def _shared_problems(profiles: Sequence[SchedulerProfile]) -> Iterator[ProfileProblem]:
    seen: dict[str, str] = {}
    for profile in profiles:
        name = profile.spec.scheduler_name
        if name in seen:
            yield ProfileProblem(f"{profile.name}: spec.schedulerName", f"{shown(name)}: is that of {seen[name]}, too")
        seen.setdefault(name, profile.name)
        if profile.spec.extenders != profiles[0].spec.extenders:
            message = f"must be those of {profiles[0].name}: a configuration has one list for all profiles"
            yield ProfileProblem(f"{profile.name}: spec.extenders", message)


def _lost_fields(profiles: Iterable[SchedulerProfile]) -> Iterator[str]:
    for profile in profiles:
        rollout, workers = profile.spec.rollout, profile.spec.workers
        if rollout.mode != "Active":
            yield f"{profile.name}: spec.rollout.mode: {rollout.mode} is left out: kube-scheduler binds the pods"
        if workers != Workers():
            yield f"{profile.name}: spec.workers: is left out: a configuration does not say who runs it"
