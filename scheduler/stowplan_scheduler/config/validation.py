"""What is wrong with a defaulted configuration, in upstream's words and order.

Follows `apis/config/validation/validation.go` and component-base `config/validation`. Where upstream iterates over a
map the order here is that of the declaration.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan_scheduler.names import is_extended_resource, label_key_errors

from .args_validation import args_errors
from .field_error import DurationValue, JsonText, Path, Typed, distinct, duplicate, invalid, required
from .gotext import json_value, quote
from .plugin_args import ARGS_TYPES, args_json
from .schema import API_VERSION, EXTENSION_POINTS
from .types import (
    ClientConnectionConfiguration,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugins,
    PluginSet,
)

REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Plugins that may not be named any more."""

# Upstream's table has the key NodeResourcesFitArgs instead, so Fit's args are checked only when the plugin is built.
_ARGS_CHECKED_LATER = frozenset({"NodeResourcesFit"})
_SETS_NOT_SEARCHED = frozenset({"multiPoint", "placementGenerate", "placementScore"})
_FIELD_OF_POINT = {info.alias or name: name for name, info in Plugins.model_fields.items()}


def validate_configuration(config: KubeSchedulerConfiguration) -> list[str]:
    """All errors of a configuration, empty if it is valid."""
    return [
        *_client_connection_errors(Path("clientConnection"), config.client_connection),
        *_leader_election_errors(Path("leaderElection"), config.leader_election),
        *_positive(Path("parallelism"), config.parallelism, "should be an integer value greater than zero"),
        *_profiles_errors(Path("profiles"), config.profiles),
        *_percentage_errors(Path("percentageOfNodesToScore"), config.percentage_of_nodes_to_score),
        *_positive(Path("podInitialBackoffSeconds"), config.pod_initial_backoff_seconds, "must be greater than 0"),
        *_backoff_errors(config),
        *_extenders_errors(Path("extenders"), config.extenders),
    ]


def _positive(path: Path, value: int, detail: str) -> list[str]:
    return [] if value > 0 else [invalid(path, value, detail)]


def _backoff_errors(config: KubeSchedulerConfiguration) -> list[str]:
    if config.pod_max_backoff_seconds >= config.pod_initial_backoff_seconds:
        return []
    detail = "must be greater than or equal to PodInitialBackoffSeconds"
    return [invalid(Path("podMaxBackoffSeconds"), config.pod_max_backoff_seconds, detail)]


def _client_connection_errors(path: Path, connection: ClientConnectionConfiguration) -> list[str]:
    return [invalid(path.child("burst"), connection.burst, "must be non-negative")] if connection.burst < 0 else []


def _leader_election_errors(path: Path, election: LeaderElectionConfiguration) -> list[str]:
    if not election.leader_elect:
        return []
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    errors = [
        invalid(path.child(name), DurationValue(value), "must be greater than zero")
        for name, value in durations.items()
        if value <= 0
    ]
    if election.lease_duration <= election.renew_deadline:
        # The value that upstream prints is the other one.
        value = DurationValue(election.renew_deadline)
        errors.append(invalid(path.child("leaseDuration"), value, "must be greater than `RenewDeadline`"))
    texts = {
        "resourceLock": election.resource_lock,
        "resourceNamespace": election.resource_namespace,
        "resourceName": election.resource_name,
    }
    errors += [required(path.child(name)) for name, text in texts.items() if not text]
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        errors.append(invalid(path.child("resourceLock"), election.resource_lock, detail))
    return distinct(errors)


def _percentage_errors(path: Path, percentage: int | None) -> list[str]:
    if percentage is None or 0 <= percentage <= 100:
        return []
    return [invalid(path, percentage, "not in valid range [0-100]")]


# ---- profiles --------------------------------------------------------------------------------------------------------


def _profiles_errors(path: Path, profiles: Sequence[KubeSchedulerProfile]) -> list[str]:
    if not profiles:
        return [required(path)]
    errors: list[str] = []
    names: set[str] = set()
    for i, profile in enumerate(profiles):
        here = path.index(i)
        errors += _profile_errors(here, profile)
        if profile.scheduler_name in names:
            # Upstream passes a path as the value, and a path has nothing to show as JSON.
            errors.append(duplicate(here.child("schedulerName"), JsonText("{}")))
        names.add(profile.scheduler_name)
    return errors + _queue_sort_errors(path, profiles)


def _profile_errors(path: Path, profile: KubeSchedulerProfile) -> list[str]:
    errors = [] if profile.scheduler_name else [required(path.child("schedulerName"))]
    errors += _percentage_errors(path.child("percentageOfNodesToScore"), profile.percentage_of_nodes_to_score)
    for point in EXTENSION_POINTS:
        if point not in _SETS_NOT_SEARCHED:
            plugin_set: PluginSet = getattr(profile.plugins, _FIELD_OF_POINT[point])
            errors += _removed_plugin_errors(path.child("plugins", point, "enabled"), plugin_set)
    return errors + _plugin_config_errors(path.child("pluginConfig"), profile)


def _removed_plugin_errors(path: Path, plugin_set: PluginSet) -> list[str]:
    return [
        _removed_plugin(path.index(i), plugin.name)
        for i, plugin in enumerate(plugin_set.enabled)
        if plugin.name in REMOVED_PLUGINS
    ]


def _removed_plugin(path: Path, name: str) -> str:
    # Upstream's first version is that of core/v1, a slip that the text preserves.
    return invalid(
        path, name, f'was invalid in version "v1" (KubeSchedulerConfiguration is version {quote(API_VERSION)})'
    )


def _plugin_config_errors(path: Path, profile: KubeSchedulerProfile) -> list[str]:
    errors: list[str] = []
    names: set[str] = set()
    for i, config in enumerate(profile.plugin_config):
        here = path.index(i)
        if config.name in names:
            errors.append(duplicate(here, config.name))
        names.add(config.name)
        if config.name in REMOVED_PLUGINS:
            errors.append(_removed_plugin(here, config.name))
        elif config.name not in _ARGS_CHECKED_LATER:
            errors += _plugin_args_errors(here.child("args"), config.name, config.args)
    return errors


def _plugin_args_errors(path: Path, name: str, args: object) -> list[str]:
    model = ARGS_TYPES.get(f"{name}Args")
    if model is None:
        return []
    if isinstance(args, model):
        return args_errors(path, args)
    return [invalid(path, args_json(args), "has to match plugin args")]


def _queue_sort_errors(path: Path, profiles: Sequence[KubeSchedulerProfile]) -> list[str]:
    """Explicit queueSort sets and their args must agree, since there is one queue; multiPoint is not looked at."""
    first = profiles[0]
    queue_sort = first.plugins.queue_sort
    errors: list[str] = []
    if len(queue_sort.enabled) > 1:
        where = path.index(0).child("plugins", "queueSort", "Enabled")
        errors.append(invalid(where, len(queue_sort.enabled), "only one queue sort plugin can be enabled"))
    name = queue_sort.enabled[0].name if queue_sort.enabled else ""
    args: object = None
    for config in first.plugin_config:
        if name and config.name == name:
            args = config.args
    for i, profile in enumerate(profiles[1:], 1):
        here = path.index(i)
        if profile.plugins.queue_sort != queue_sort:
            where, value = here.child("plugins", "queueSort"), _set_json(profile.plugins.queue_sort)
            errors.append(invalid(where, value, "must be the same for all profiles"))
        errors += [
            invalid(
                here.child("pluginConfig", "args"),
                args_json(config.args),
                "queueSort must be the same for all profiles",
            )
            for config in profile.plugin_config
            if config.name == name and config.args != args
        ]
    return errors


def _set_json(plugin_set: PluginSet) -> JsonText:
    def entries(name: str) -> object:
        return [{"Name": plugin.name, "Weight": plugin.weight} for plugin in getattr(plugin_set, name)] or None

    return JsonText(json_value({"Enabled": entries("enabled"), "Disabled": entries("disabled")}))


# ---- extenders -------------------------------------------------------------------------------------------------------


def _extenders_errors(path: Path, extenders: Sequence[Extender]) -> list[str]:
    errors: list[str] = []
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        here = path.index(i)
        if extender.prioritize_verb and extender.weight <= 0:
            errors.append(invalid(here.child("weight"), extender.weight, "must have a positive weight applied to it"))
        for j, resource in enumerate(extender.managed_resources):
            where = here.child("managedResources").index(j).child("name")
            errors += _managed_resource_errors(where, resource.name)
            if resource.name in managed:
                errors.append(invalid(where, resource.name, "duplicate extender managed resource name"))
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        value = f"found {binders} extenders implementing bind"
        errors.append(invalid(path, value, "only one extender can implement bind"))
    return errors


def _managed_resource_errors(path: Path, name: str) -> list[str]:
    errors = [invalid(path, Typed(name), error) for error in label_key_errors(name)]
    if errors or is_extended_resource(name):
        return errors
    return [invalid(path, name, "is an invalid extended resource name")]
