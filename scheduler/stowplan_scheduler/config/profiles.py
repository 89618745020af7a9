"""Building profiles: which plugin runs at which extension point, and why a profile cannot be built.

Follows `framework/plugins/registry.go`, `framework/runtime/framework.go` (NewFramework), `profile/profile.go` and
`scheduler.go` (buildExtenders). Nothing is instantiated here; the table says which extension points each in-tree plugin
implements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .args_validation import args_errors, wrong_type_text
from .errors import ConfigurationError
from .field_error import Path, aggregate_text
from .gotext import quote
from .merge import EXPANSION_ORDER, Implements, PluginSetError, enabled_names, expand_plugins, score_weights
from .plugin_args import ARGS_TYPES, NodeResourcesFitArgs
from .types import Extender, KubeSchedulerConfiguration, KubeSchedulerProfile


@dataclass(frozen=True, slots=True)
class PluginTraits:
    """The extension points that a plugin implements, by their JSON names."""

    points: frozenset[str]

    @classmethod
    def of(cls, *points: str) -> PluginTraits:
        """Traits from point names."""
        return cls(frozenset(points))


_of = PluginTraits.of

REGISTRY: Mapping[str, PluginTraits] = MappingProxyType(
    {
        "DefaultBinder": _of("bind"),
        "DefaultPreemption": _of("preEnqueue", "postFilter", "podGroupPostFilter"),
        "DeferredPodScheduling": _of("preFilter", "filter", "permit"),
        "DynamicResources": _of(
            "preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind", "podGroupPostFilter"
        ),
        "GangScheduling": _of("preEnqueue", "permit"),
        "ImageLocality": _of("score"),
        "InterPodAffinity": _of("preFilter", "filter", "preScore", "score"),
        "NodeAffinity": _of("preFilter", "filter", "preScore", "score"),
        "NodeDeclaredFeatures": _of("preFilter", "filter"),
        "NodeName": _of("preFilter", "filter"),
        "NodePorts": _of("preFilter", "filter"),
        "NodeResourcesBalancedAllocation": _of("preScore", "score"),
        "NodeResourcesFit": _of("preFilter", "filter", "preScore", "score", "placementScore"),
        "NodeUnschedulable": _of("preFilter", "filter"),
        "NodeVolumeLimits": _of("preFilter", "filter"),
        "PodGroupPodsCount": _of("placementScore"),
        "PodTopologySpread": _of("preFilter", "filter", "preScore", "score"),
        "PrioritySort": _of("queueSort"),
        "SchedulingGates": _of("preEnqueue"),
        "TaintToleration": _of("preFilter", "filter", "preScore", "score"),
        "TopologyPlacementGenerator": _of("placementGenerate"),
        "VolumeBinding": _of("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
        "VolumeRestrictions": _of("preFilter", "filter"),
        "VolumeZone": _of("preFilter", "filter"),
    }
)
"""Every in-tree plugin of v1.37.2. Those behind gates that are off exist as well and may be enabled by name."""

POINTS = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit", "preBind",
    "bind", "postBind",
)  # fmt: skip
"""The extension points of an EffectiveProfile, in the order in which a pod meets them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveProfile:
    """A profile after merge and expansion.

    `points` maps each of POINTS to the plugins in the order in which they run. `args` maps the name of every needed
    plugin that has args to them: a model of plugin_args.py, or RawArgs for plugins of others.
    `percentage_of_nodes_to_score` is the profile's own; None means that the global one counts.
    """

    scheduler_name: str
    points: Mapping[str, tuple[str, ...]]
    score_weights: Mapping[str, int]
    args: Mapping[str, object]
    percentage_of_nodes_to_score: int | None


def effective_profiles(
    config: KubeSchedulerConfiguration, extra_plugins: Mapping[str, PluginTraits] | None = None
) -> tuple[EffectiveProfile, ...]:
    """The profiles of a valid configuration, in order. Raises ConfigurationError (stage `build`, one error).

    `extra_plugins` are third-party plugins by name. Upstream initializes plugins in random order; here the first by
    name that fails is reported.
    """
    registry = _merged_registry(extra_plugins or {})
    ignored = _ignored_by_scheduler(config)
    built: list[EffectiveProfile] = []
    for profile in config.profiles:
        try:
            built.append(_build(profile, registry, ignored))
        except PluginSetError as error:
            where = f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}: "
            raise _build_error(f"{where}{error}") from None
        _check_against_first(built)
    return tuple(built)


def _build_error(text: str) -> ConfigurationError:
    return ConfigurationError([text], "build")


def _merged_registry(extra: Mapping[str, PluginTraits]) -> Mapping[str, PluginTraits]:
    for name in extra:
        if name in REGISTRY:
            raise _build_error(f"a plugin named {name} already exists")
    return {**REGISTRY, **extra}


# ---- one profile -----------------------------------------------------------------------------------------------------


def _build(
    profile: KubeSchedulerProfile, registry: Mapping[str, PluginTraits], ignored: tuple[str, ...]
) -> EffectiveProfile:
    args = _args_by_name(profile, ignored)
    needed = sorted(enabled_names(profile.plugins, (point.field for point in EXPANSION_ORDER)) & registry.keys())
    for name in needed:
        _check_args(name, args.get(name))

    def implements(plugin: str, point: str) -> bool | None:
        traits = registry.get(plugin)
        return None if traits is None else point in traits.points

    points = expand_plugins(profile.plugins, implements)
    _check_counts(profile.scheduler_name, points)
    return EffectiveProfile(
        scheduler_name=profile.scheduler_name,
        points=MappingProxyType({point: points[point] for point in POINTS}),
        score_weights=MappingProxyType(_weights(profile, points, implements)),
        args=MappingProxyType({name: args[name] for name in needed if args.get(name) is not None}),
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
    )


def _args_by_name(profile: KubeSchedulerProfile, ignored: tuple[str, ...]) -> dict[str, object]:
    args: dict[str, object] = {}
    for config in profile.plugin_config:
        if config.name in args:
            raise PluginSetError(f"repeated config for plugin {config.name}")
        args[config.name] = config.args
    fit = args.get("NodeResourcesFit")
    if ignored and isinstance(fit, NodeResourcesFitArgs):
        # The extenders' list replaces the user's own, as upstream does it.
        args["NodeResourcesFit"] = fit.model_copy(update={"ignored_resources": ignored})
    return args


def _check_args(name: str, args: object) -> None:
    """What the constructor of an in-tree plugin checks."""
    model = ARGS_TYPES.get(f"{name}Args")
    if model is None or name not in REGISTRY:
        return
    initializing = f"initializing plugin {quote(name)}: "
    if not isinstance(args, model):
        raise PluginSetError(initializing + wrong_type_text(name, args))
    errors = args_errors(Path(), args)
    if errors:
        raise PluginSetError(initializing + aggregate_text(errors))


def _check_counts(scheduler_name: str, points: Mapping[str, tuple[str, ...]]) -> None:
    name = quote(scheduler_name)
    sorters = len(points["queueSort"])
    if sorters != 1:
        raise PluginSetError(
            f"only one queue sort plugin required for profile with scheduler name {name}, but got {sorters}"
        )
    if not points["bind"]:
        raise PluginSetError(f"at least one bind plugin is needed for profile with scheduler name {name}")
    if len(points["placementGenerate"]) > 1:
        raise PluginSetError(f"at most one placement generate plugin is allowed for profile with scheduler name {name}")


def _weights(
    profile: KubeSchedulerProfile, points: Mapping[str, tuple[str, ...]], implements: Implements
) -> dict[str, int]:
    plugins = profile.plugins
    try:
        weights = score_weights(plugins.score, plugins.multi_point, "score", implements)
    except PluginSetError as error:
        raise PluginSetError(f"score plugins: {error}") from None
    try:
        score_weights(plugins.placement_score, plugins.multi_point, "placementScore", implements)
    except PluginSetError as error:
        raise PluginSetError(f"placement score plugins: {error}") from None
    return {name: weights[name] for name in points["score"]}


# ---- across profiles -------------------------------------------------------------------------------------------------


def _check_against_first(built: list[EffectiveProfile]) -> None:
    """There is one queue, so all profiles sort it alike. Names are checked again, as upstream does after validation."""
    first, last = built[0], built[-1]
    name = quote(last.scheduler_name)
    if not last.scheduler_name:
        raise _build_error("initializing profiles: scheduler name is needed")
    if last.scheduler_name in {profile.scheduler_name for profile in built[:-1]}:
        raise _build_error(f"initializing profiles: duplicate profile with scheduler name {name}")
    sorter, wanted = last.points["queueSort"][0], first.points["queueSort"][0]
    if sorter != wanted:
        text = f"different queue sort plugins for profile {name}: {quote(sorter)}, first: {quote(wanted)}"
        raise _build_error(f"initializing profiles: {text}")
    if last.args.get(sorter) != first.args.get(sorter):
        raise _build_error(f"initializing profiles: different queue sort plugin args for profile {name}")


# ---- extenders -------------------------------------------------------------------------------------------------------


def _ignored_by_scheduler(config: KubeSchedulerConfiguration) -> tuple[str, ...]:
    """The resources that extenders tell the scheduler to ignore; certificates are read by the live worker, not here."""
    for extender in config.extenders:
        if _insecure_with_authority(extender):
            text = "specifying a root certificates file with the insecure flag is not allowed"
            raise _build_error(f"couldn't build extenders: {text}")
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    for profile in config.profiles if ignored else ():
        if all(config.name != "NodeResourcesFit" for config in profile.plugin_config):
            raise _build_error("couldn't build extenders: can't find NodeResourcesFitArgs in plugin config")
    return ignored


def _insecure_with_authority(extender: Extender) -> bool:
    tls = extender.tls_config
    return tls is not None and tls.insecure and bool(tls.ca_file or tls.ca_data)
