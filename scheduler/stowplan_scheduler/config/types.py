"""KubeSchedulerConfiguration as the scheduler uses it: defaulted, frozen, hashable.

Follows `pkg/scheduler/apis/config/types.go` (the internal types). Fields carry upstream's JSON names as aliases.
Durations are integers in nanoseconds. Decoding and defaulting come before (decode.py, defaults.py): these models check
nothing that upstream's decoder would word otherwise.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class ConfigModel(BaseModel):
    """Frozen, closed, with camelCase aliases; both spellings are accepted."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", arbitrary_types_allowed=True
    )


class Plugin(ConfigModel):
    """An entry of a plugin set; the weight counts for Score and PlacementScore only, 0 stands for "not given"."""

    name: str = ""
    weight: int = 0


class PluginSet(ConfigModel):
    """What one extension point enables and disables; "*" in `disabled` means every default plugin."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(ConfigModel):
    """The plugin sets of a profile, after the merge with the defaults (which populate multi_point only)."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()


class PluginConfig(ConfigModel):
    """Args of one plugin: a model of plugin_args.py, `RawArgs` for plugins of others, or None."""

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(ConfigModel):
    """A scheduler name with its plugins. Its percentage overrides the global one unless None, even as 0."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ExtenderManagedResource(ConfigModel):
    """An extended resource that an extender looks after; the scheduler itself may be told to ignore it."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(ConfigModel):
    """How to talk HTTPS to an extender; data take precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(ConfigModel):
    """An HTTP endpoint that filters, ranks, preempts or binds. An empty verb means: not supported."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: int = 0
    """Nanoseconds; 0 means DEFAULT_EXTENDER_TIMEOUT."""
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


DEFAULT_EXTENDER_TIMEOUT = 5_000_000_000
"""Nanoseconds that a call to an extender may take where the configuration says 0 (extender.go)."""


class LeaderElectionConfiguration(ConfigModel):
    """Lease-based election; durations in nanoseconds."""

    leader_elect: bool = False
    lease_duration: int = 0
    renew_deadline: int = 0
    retry_period: int = 0
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnectionConfiguration(ConfigModel):
    """How the live scheduler talks to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: int = 0


class KubeSchedulerConfiguration(ConfigModel):
    """A whole configuration. `percentage_of_nodes_to_score` 0 means adaptive."""

    api_version: str = ""
    kind: str = ""
    parallelism: int = 0
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = False
    enable_contention_profiling: bool = False
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int = 0
    pod_max_backoff_seconds: int = 0
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
