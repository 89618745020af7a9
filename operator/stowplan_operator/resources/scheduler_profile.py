"""The kind SchedulerProfile: one profile of a scheduler, in KubeSchedulerConfiguration's own words, and how it is run.

A profile of a kube-scheduler's configuration can be pasted as it is: `schedulerName`, `percentageOfNodesToScore`,
`plugins` and `pluginConfig` mean what they mean there. What is added: `scoringStrategy` (short for NodeResourcesFit's),
`extenders` (there a matter of the whole configuration), `takeOver`, `rollout` and `workers`.

The models hold types and ranges. What one field says about another is in `spec_checks`, and what the scheduler itself
says about plugins and their args in `plugin_checks` and `args_checks`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from stowplan_autoscaling.resources.base import FreeForm, FromList, Part, needed, option, parts

from .envelope import ObjectMeta
from .names import DNS_LABEL, DNS_SUBDOMAIN, check_label, check_subdomain
from .profile_status import SchedulerProfileStatus

KIND: Final = "SchedulerProfile"
DEFAULT_SCHEDULER: Final = "default-scheduler"
FIT: Final = "NodeResourcesFit"
RATIO: Final = "RequestedToCapacityRatio"
ALL: Final = "*"

MAX_INT32: Final = 2**31 - 1
MAX_PLUGINS: Final = 64
MAX_GROUP: Final = 40
"""Longest name of a group of workers: their Deployment is called stowplan-worker-<group>."""

# ---- names -----------------------------------------------------------------------------------------------------------

SchedulerName = Annotated[
    str,
    AfterValidator(check_subdomain),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 63, "pattern": DNS_SUBDOMAIN}),
    Field(max_length=63),
]
"""Pods may ask for any text; this is what names of schedulers look like, and what fits into a label."""

GroupName = Annotated[
    str,
    AfterValidator(check_label),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_GROUP, "pattern": DNS_LABEL}),
    Field(max_length=MAX_GROUP),
]

PluginName = Annotated[str, Field(min_length=1, max_length=128)]

# ---- plugins ---------------------------------------------------------------------------------------------------------


class PluginEntry(Part):
    """A plugin at an extension point (upstream: Plugin)."""

    name: PluginName = needed("Name of the plugin.")
    weight: int | None = option(
        None,
        "How much its score counts. Absent or 0: 1. It counts at score, placementScore and multiPoint only.",
        ge=0,
        le=MAX_INT32,
    )


class DisabledPlugin(Part):
    """A default plugin that is left out."""

    name: PluginName = needed("Name of the plugin; * stands for all default plugins.")
    weight: int | None = option(
        None, "Must be 0 or absent; configurations that kube-scheduler writes itself have it.", ge=0, le=0
    )


class PluginSet(Part):
    """What one extension point has beside, or instead of, the default plugins (upstream: PluginSet)."""

    enabled: Annotated[tuple[PluginEntry, ...], FromList] = parts(
        "Plugins that are added after the default ones, in this order. A default plugin that is named here takes this "
        "place and weight.",
        max_length=MAX_PLUGINS,
    )
    disabled: Annotated[tuple[DisabledPlugin, ...], FromList] = parts(
        "Default plugins that are left out.", max_length=MAX_PLUGINS
    )


def _point(description: str) -> PluginSet | None:
    made: PluginSet | None = option(None, description)
    return made


class Plugins(Part):
    """Plugins by extension point. Points that are left out have the default plugins (upstream: Plugins)."""

    pre_enqueue: PluginSet | None = _point("Before a pod enters the queue.")
    queue_sort: PluginSet | None = _point("The order of the queue: exactly one, and the same for a group of workers.")
    pre_filter: PluginSet | None = _point("What filter needs to know about the pod, once per attempt.")
    filter: PluginSet | None = _point("Which nodes a pod can run on.")
    post_filter: PluginSet | None = _point("What is tried if there is none: preemption.")
    pre_score: PluginSet | None = _point("What score needs to know about the pod, once per attempt.")
    score: PluginSet | None = _point("Which of the nodes is best.")
    reserve: PluginSet | None = _point("What is set aside before binding, and given back if that fails.")
    permit: PluginSet | None = _point("Whether binding begins, waits, or is denied.")
    pre_bind: PluginSet | None = _point("What must be done before binding.")
    bind: PluginSet | None = _point("How a pod is bound; at least one.")
    post_bind: PluginSet | None = _point("What is done after binding.")
    multi_point: PluginSet | None = _point("Plugins at every point that they implement.")
    placement_generate: PluginSet | None = _point("Placements of a group of pods; at most one.")
    placement_score: PluginSet | None = _point("Which of the placements is best.")
    pod_group_post_filter: PluginSet | None = _point("What is tried for a group of pods that fits nowhere.")


class PluginConfig(Part):
    """Arguments of one plugin (upstream: PluginConfig)."""

    name: PluginName = needed("Name of the plugin.")
    args: FreeForm | None = option(
        None,
        "Its arguments, of the kind <name>Args of kubescheduler.config.k8s.io/v1. apiVersion and kind may be left out. "
        "They are checked by the operator, as a configuration file is; the condition Accepted says what is wrong.",
    )


# ---- scoring strategy ------------------------------------------------------------------------------------------------


class ScoredResource(Part):
    """A resource and how much it counts (upstream: ResourceSpec)."""

    name: str = needed("Name of the resource, as in cpu or nvidia.com/gpu.", min_length=1, max_length=317)
    weight: int | None = option(None, "How much it counts beside the others. Absent: 1.", ge=1, le=100)


class ShapePoint(Part):
    """A point of a piecewise linear function (upstream: UtilizationShapePoint)."""

    utilization: int = needed("Percent of a node's allocatable that pods request.", ge=0, le=100)
    score: int = needed("Score there, 0 to 10.", ge=0, le=10)


class RatioShape(Part):
    """The function of the strategy RequestedToCapacityRatio (upstream: RequestedToCapacityRatioParam)."""

    shape: Annotated[tuple[ShapePoint, ...], FromList] = needed(
        "Its points by rising utilization; straight lines between them.", min_length=1, max_length=101
    )


class ScoringStrategy(Part):
    """How NodeResourcesFit ranks nodes (upstream: ScoringStrategy)."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = needed(
        "LeastAllocated prefers empty nodes and so spreads pods. MostAllocated prefers full nodes and so packs them. "
        "RequestedToCapacityRatio follows the function that is given."
    )
    resources: Annotated[tuple[ScoredResource, ...], FromList] = parts(
        "Resources that count. None: cpu and memory alike.", max_length=MAX_PLUGINS
    )
    requested_to_capacity_ratio: RatioShape | None = option(
        None, "The function; for RequestedToCapacityRatio, and for that only."
    )


# ---- extenders -------------------------------------------------------------------------------------------------------


class ManagedResource(Part):
    """A resource that an extender looks after (upstream: ExtenderManagedResource)."""

    name: str = needed("Name of the extended resource.", min_length=1, max_length=317)
    ignored_by_scheduler: bool = option(False, "Whether NodeResourcesFit leaves it to the extender.")


class ExtenderTLS(Part):
    """How to talk HTTPS to an extender (upstream: ExtenderTLSConfig)."""

    insecure: bool = option(False, "Do not verify its certificate.")
    server_name: str = option("", "Name that its certificate must have.", max_length=253)
    cert_file: str = option("", "File with the client's certificate.", max_length=4096)
    key_file: str = option("", "File with the client's key.", max_length=4096)
    ca_file: str = option("", "File with the authority's certificates.", max_length=4096)
    cert_data: str = option("", "The client's certificate, base64.", max_length=65536)
    key_data: str = option("", "The client's key, base64. Who may read the profile reads it.", max_length=65536)
    ca_data: str = option("", "The authority's certificates, base64.", max_length=65536)


class Extender(Part):
    """An HTTP endpoint that filters, ranks, preempts or binds (upstream: Extender)."""

    url_prefix: str = needed("URL at which it is reached, without the verb.", min_length=1, max_length=2048)
    filter_verb: str = option("", "Appended to the URL for filter. Empty: it does not filter.", max_length=253)
    preempt_verb: str = option("", "The same for preemption.", max_length=253)
    prioritize_verb: str = option("", "The same for scores.", max_length=253)
    weight: int = option(0, "How much its scores count.", ge=0, le=MAX_INT32)
    bind_verb: str = option("", "The same as the other verbs, for binding.", max_length=253)
    enable_https: bool = option(False, "Whether to talk HTTPS.", alias="enableHTTPS")
    tls_config: ExtenderTLS | None = option(None, "How to talk HTTPS.")
    http_timeout: str = option("", "Longest time for an answer, as in 5s. Empty: 5s.", max_length=64)
    node_cache_capable: bool = option(False, "Whether it knows the nodes, so that names are enough.")
    managed_resources: Annotated[tuple[ManagedResource, ...], FromList] = parts(
        "Resources that it looks after. None: it is asked about every pod.", max_length=MAX_PLUGINS
    )
    ignorable: bool = option(False, "Whether pods are scheduled if it does not answer.")


# ---- how it is run ---------------------------------------------------------------------------------------------------


class Rollout(Part):
    """What is done with the profile's decisions."""

    mode: Literal["Active", "Shadow", "Paused"] = option(
        "Active",
        "Active binds the pods that ask for schedulerName. Shadow decides about the pods of shadowOf, without binding "
        "any, and reports how often it agrees with what happened. Paused does nothing; pods wait.",
    )
    shadow_of: SchedulerName = option(DEFAULT_SCHEDULER, "The scheduler whose pods a shadow decides about.")


class Workers(Part):
    """The workers that run the profile. Profiles of the same group share them."""

    group: GroupName = option("default", "Name of the group. It cannot be changed.")
    replicas: int = option(
        1, "Workers of the group. One of them leads, the others stand by and take over from it.", ge=1, le=10
    )
    runtime: Literal["Child", "Deployment"] | None = option(
        None,
        "Child: a process beside the operator, without stand-by. Deployment: pods of their own. Absent: what the "
        "operator was started with.",
    )


class SchedulerProfileSpec(Part):
    """The profile, and how it is run."""

    scheduler_name: SchedulerName = needed(
        "The name that pods ask for with spec.schedulerName. It cannot be changed. Of two profiles with one name the "
        "older one counts."
    )
    take_over: bool = option(
        False,
        "Must be true for the name default-scheduler: its pods would otherwise be bound by two schedulers. Set it when "
        "kube-scheduler no longer runs, or no longer has this name.",
    )
    percentage_of_nodes_to_score: int | None = option(
        None,
        "The search ends when so many nodes, in percent of all, are found feasible; never before 100 are. Absent or 0: "
        "50 less the number of nodes divided by 125, at least 5.",
        ge=0,
        le=100,
    )
    plugins: Plugins | None = option(None, "Changes of the default plugins.")
    plugin_config: Annotated[tuple[PluginConfig, ...], FromList] = parts(
        "Arguments of plugins. Plugins that are not listed have their default ones.", max_length=MAX_PLUGINS
    )
    scoring_strategy: ScoringStrategy | None = option(
        None, "Short for scoringStrategy in the args of NodeResourcesFit; instead of an entry in pluginConfig."
    )
    extenders: Annotated[tuple[Extender, ...], FromList] = parts(
        "HTTP endpoints that take part in decisions. They are not asked yet: a profile with any is not accepted.",
        max_length=16,
    )
    rollout: Rollout = option({}, "What is done with the profile's decisions.")
    workers: Workers = option({}, "The workers that run it.")


class SchedulerProfile(Part):
    """A profile of a scheduler, and the workers that run it."""

    api_version: Literal["stowplan.io/v1alpha1"] = needed("stowplan.io/v1alpha1.")
    kind: Literal["SchedulerProfile"] = needed("SchedulerProfile.")
    metadata: ObjectMeta = needed("Name and other metadata of Kubernetes.")
    spec: SchedulerProfileSpec = needed("The profile, and how it is run.")
    status: SchedulerProfileStatus = option({}, "What runs.")

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.metadata.name

    @property
    def is_deleted(self) -> bool:
        """Whether its deletion was asked for."""
        return bool(self.metadata.deletion_timestamp)
