"""All that is wrong with the profiles of some files, document by document: `stowplan profile lint`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stowplan_autoscaling.inputs.errors import shown
from stowplan_operator.net import UrlRules
from stowplan_scheduler.config import ConfigurationError, load_configuration
from stowplan_scheduler.config.decode import decode_configuration
from stowplan_scheduler.config.defaults import apply_defaults
from stowplan_scheduler.config.types import KubeSchedulerConfiguration, Plugins
from stowplan_scheduler.framework.handle import PluginFactory
from stowplan_scheduler.profiles import plugin_traits

from .args_checks import problem_of
from .compile import NO_PLUGINS, NOT_ASKED
from .examination import examine
from .plugin_checks import GATED, is_gated
from .problems import ProfileProblem
from .profile_files import ProfileDocument
from .scheduler_profile import SchedulerProfile
from .together import check_together


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and where it is."""

    place: str
    problem: ProfileProblem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


def lint(
    documents: Sequence[ProfileDocument],
    third_party: Mapping[str, PluginFactory] = NO_PLUGINS,
    urls: UrlRules | None = None,
) -> list[Finding]:
    """All findings in the order of the documents; what profiles say about each other comes last.

    `urls`: which URLs a SchedulerProfile may have; None: whichever. No name is resolved.
    """
    findings: list[Finding] = []
    places: dict[str, str] = {}
    profiles: dict[str, SchedulerProfile] = {}
    for document in documents:
        if document.is_configuration:
            wrong = _of_configuration(document.value, third_party)
            findings.extend(Finding(document.place, problem) for problem in wrong)
            continue
        examined = examine(document.value, third_party, urls)
        profile = examined.profile
        if profile is not None and examined.is_sound("metadata"):
            if profile.name in places:
                message = f"{shown(profile.name)}: is in {places[profile.name]}, too"
                findings.append(Finding(document.place, ProfileProblem("metadata.name", message)))
            elif examined.is_sound("spec.schedulerName", "spec.workers", "spec.rollout"):
                # What is wrong itself says nothing about others.
                profiles[profile.name] = profile
            places.setdefault(profile.name, document.place)
        findings.extend(Finding(document.place, problem) for problem in examined.problems)
    for name, found in check_together(profiles.values()).items():
        findings.extend(Finding(places[name], problem) for problem in found)
    return findings


def _of_configuration(value: Mapping[str, Any], third_party: Mapping[str, PluginFactory]) -> Iterator[ProfileProblem]:
    """What kube-scheduler refuses, in its words and as far as it looks, and what is not decided yet."""
    try:
        config = apply_defaults(decode_configuration(value))
    except ConfigurationError as error:
        yield from (ProfileProblem("", text) for text in error.errors)
        return
    try:
        load_configuration(value, extra_plugins=plugin_traits(third_party))
    except ConfigurationError as error:
        # Only what validation says begins with the path of a field.
        has_path = error.stage == "validate"
        yield from (problem_of(text) if has_path else ProfileProblem("", text) for text in error.errors)
    yield from _undecided(config, third_party)


def _undecided(
    config: KubeSchedulerConfiguration, third_party: Mapping[str, PluginFactory]
) -> Iterator[ProfileProblem]:
    if config.extenders:
        yield ProfileProblem("extenders", NOT_ASKED)
    for i, profile in enumerate(config.profiles):
        for name, info in Plugins.model_fields.items():
            point = info.alias or name
            for j, entry in enumerate(getattr(profile.plugins, name).enabled):
                if is_gated(entry.name) and entry.name not in third_party:
                    message = f"{shown(entry.name)}: {GATED}"
                    yield ProfileProblem(f"profiles[{i}].plugins.{point}.enabled[{j}].name", message)
