"""A SchedulerProfile in KubeSchedulerConfiguration's words: only what it says, unchecked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stowplan_scheduler.config.schema import API_VERSION, CONFIGURATION_KIND

from .scheduler_profile import FIT, SchedulerProfileSpec
from .spec_checks import plugin_sets


def configuration_of(
    profiles: Iterable[Mapping[str, Any]], extenders: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The document around profiles, and around their extenders if there are any."""
    document: dict[str, Any] = {"apiVersion": API_VERSION, "kind": CONFIGURATION_KIND, "profiles": list(profiles)}
    listed = list(extenders)
    return {**document, "extenders": listed} if listed else document


def profile_document(spec: SchedulerProfileSpec) -> dict[str, Any]:
    """The profile in KubeSchedulerConfiguration's words, unchecked. Extenders stand elsewhere there."""
    document: dict[str, Any] = {"schedulerName": spec.scheduler_name}
    if spec.percentage_of_nodes_to_score is not None:
        document["percentageOfNodesToScore"] = spec.percentage_of_nodes_to_score
    plugins = {point: given_fields(plugin_set) for point, plugin_set in plugin_sets(spec.plugins)}
    plugins = {point: plugin_set for point, plugin_set in plugins.items() if plugin_set}
    if plugins:
        document["plugins"] = plugins
    configs = [given_fields(config) for config in spec.plugin_config]
    if spec.scoring_strategy is not None:
        configs.append({"name": FIT, "args": {"scoringStrategy": given_fields(spec.scoring_strategy)}})
    if configs:
        document["pluginConfig"] = configs
    return document


def given_fields(part: Any) -> dict[str, Any]:
    """A part's fields without those that say nothing."""
    fields = part.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {name: value for name, value in fields.items() if value not in ([], ())}


def extenders_of(spec: SchedulerProfileSpec) -> list[dict[str, Any]]:
    """The extenders as KubeSchedulerConfiguration has them, beside its profiles."""
    return [extender.model_dump(by_alias=True, mode="json", exclude_defaults=True) for extender in spec.extenders]
