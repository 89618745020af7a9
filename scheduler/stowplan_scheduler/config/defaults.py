"""From decoded fields to a complete configuration: every absent field gets upstream's default.

Follows `apis/config/v1/defaults.go` and component-base `config/v1alpha1/defaults.go`. Empty texts, zero durations and a
zero qps or burst count as absent, because the external types cannot tell them apart.
"""

from __future__ import annotations

from typing import Any

from .decode import TypedArgs
from .decoder import Fields
from .gotext import SECOND
from .merge import enabled_names, merge_plugins
from .plugin_args import ARGS_TYPES, build_args, default_args
from .schema import API_VERSION, CONFIGURATION_KIND
from .types import KubeSchedulerConfiguration, KubeSchedulerProfile, PluginConfig, Plugins

DEFAULT_SCHEDULER_NAME = "default-scheduler"

_LEADER_ELECTION: Fields = {
    "leaseDuration": 15 * SECOND,
    "renewDeadline": 10 * SECOND,
    "retryPeriod": 2 * SECOND,
    "resourceLock": "leases",
    "resourceNamespace": "kube-system",
    "resourceName": "kube-scheduler",
}
_CLIENT_CONNECTION: Fields = {"contentType": "application/vnd.kubernetes.protobuf", "qps": 50.0, "burst": 100}
_CONFIGURATION: Fields = {
    "parallelism": 16,
    "percentageOfNodesToScore": 0,
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 10,
    "enableProfiling": True,
}

# Upstream forgets podGroupPostFilter when it looks for plugins that need args.
_POINTS_WITH_DEFAULT_ARGS = tuple(
    field for field in Plugins.model_fields if field not in {"multi_point", "pod_group_post_filter"}
)


def default_configuration() -> KubeSchedulerConfiguration:
    """What kube-scheduler runs with when it is given no configuration."""
    return apply_defaults({"apiVersion": API_VERSION, "kind": CONFIGURATION_KIND})


def apply_defaults(fields: Fields) -> KubeSchedulerConfiguration:
    """The configuration of decoded fields (decode.py); the fields are used up."""
    for name, value in _CONFIGURATION.items():
        fields.setdefault(name, value)
    fields.setdefault("enableContentionProfiling", fields["enableProfiling"])
    fields["leaderElection"] = {"leaderElect": True, **_filled(fields.get("leaderElection"), _LEADER_ELECTION)}
    fields["clientConnection"] = _filled(fields.get("clientConnection"), _CLIENT_CONNECTION)
    fields["profiles"] = _profiles(fields.get("profiles"))
    return KubeSchedulerConfiguration.model_validate(fields)


def _filled(given: Any, defaults: Fields) -> dict[str, Any]:
    fields = dict(given or {})
    for name, value in defaults.items():
        fields[name] = fields.get(name) or value
    return fields


def _profiles(given: Any) -> list[KubeSchedulerProfile]:
    profiles: list[Fields] = list(given or [{}])
    if len(profiles) == 1:
        # Several profiles must be named, and validation says so.
        profiles[0].setdefault("schedulerName", DEFAULT_SCHEDULER_NAME)
    return [_profile(profile) for profile in profiles]


def _profile(fields: Fields) -> KubeSchedulerProfile:
    custom = fields.get("plugins")
    plugins = merge_plugins(None if custom is None else Plugins.model_validate(custom))
    given: Any = fields.get("pluginConfig") or []
    configs = [PluginConfig(name=config.get("name", ""), args=_args(config.get("args"))) for config in given]
    configs += _missing_configs({config.name for config in configs}, plugins)
    return KubeSchedulerProfile.model_validate({**fields, "plugins": plugins, "pluginConfig": configs})


def _args(given: object) -> object:
    return build_args(given) if isinstance(given, TypedArgs) else given


def _missing_configs(configured: set[str], plugins: Plugins) -> list[PluginConfig]:
    names = sorted(enabled_names(plugins, _POINTS_WITH_DEFAULT_ARGS) - configured)
    return [PluginConfig(name=name, args=default_args(f"{name}Args")) for name in names if f"{name}Args" in ARGS_TYPES]
