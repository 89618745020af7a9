"""KubeSchedulerConfiguration v1: decoding, defaults, validation and the profiles that come out of it.

Entry points: `load_configuration` for data, `load_configuration_text` for JSON or YAML text, `effective_profiles` for
the plugins of each profile in running order.
"""

from __future__ import annotations

from collections.abc import Mapping

from .decode import RawArgs, decode_configuration, decode_text
from .defaults import DEFAULT_SCHEDULER_NAME, apply_defaults, default_configuration
from .errors import ConfigurationError, Stage, configuration_error_text
from .merge import DEFAULT_PLUGINS
from .plugin_args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
    default_args,
)
from .profiles import POINTS, REGISTRY, EffectiveProfile, PluginTraits, effective_profiles
from .types import (
    DEFAULT_EXTENDER_TIMEOUT,
    ClientConnectionConfiguration,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
)
from .validation import validate_configuration

__all__ = [
    "DEFAULT_EXTENDER_TIMEOUT",
    "DEFAULT_PLUGINS",
    "DEFAULT_SCHEDULER_NAME",
    "POINTS",
    "REGISTRY",
    "ClientConnectionConfiguration",
    "ConfigurationError",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "EffectiveProfile",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "InterPodAffinityArgs",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElectionConfiguration",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "Plugin",
    "PluginConfig",
    "PluginSet",
    "PluginTraits",
    "Plugins",
    "PodTopologySpreadArgs",
    "RawArgs",
    "RequestedToCapacityRatioParam",
    "ResourceSpec",
    "ScoringStrategy",
    "Stage",
    "UtilizationShapePoint",
    "VolumeBindingArgs",
    "configuration_error_text",
    "default_args",
    "default_configuration",
    "effective_profiles",
    "load_configuration",
    "load_configuration_text",
    "validate_configuration",
]


def load_configuration(
    data: Mapping[str, object] | None, *, extra_plugins: Mapping[str, PluginTraits] | None = None
) -> KubeSchedulerConfiguration:
    """The configuration of a mapping as it comes from JSON or YAML; None stands for the default configuration.

    It is decoded strictly, defaulted, validated, and its profiles are tried out. Raises ConfigurationError.
    """
    config = default_configuration() if data is None else apply_defaults(decode_configuration(data))
    return _checked(config, extra_plugins)


def load_configuration_text(
    text: str, source: str = "", *, extra_plugins: Mapping[str, PluginTraits] | None = None
) -> KubeSchedulerConfiguration:
    """The configuration of a JSON or YAML text, repeated fields refused. `source` names the text in `str()` of errors.

    Raises ConfigurationError, for texts that expand without limit or refer to themselves as well.
    """
    config = apply_defaults(decode_text(text, source))
    try:
        return _checked(config, extra_plugins)
    except ConfigurationError as error:
        raise ConfigurationError(error.errors, error.stage, source) from None


def _checked(
    config: KubeSchedulerConfiguration, extra_plugins: Mapping[str, PluginTraits] | None
) -> KubeSchedulerConfiguration:
    errors = validate_configuration(config)
    if errors:
        raise ConfigurationError(errors, "validate")
    effective_profiles(config, extra_plugins)
    return config
