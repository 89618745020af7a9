"""All that is wrong with the profiles of some files, document by document: `stowplan profile lint`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stowplan_autoscaling.inputs.errors import shown
from stowplan_scheduler.config import ConfigurationError, load_configuration
from stowplan_scheduler.config.types import KubeSchedulerConfiguration, Plugins
from stowplan_scheduler.framework.handle import PluginFactory
from stowplan_scheduler.profiles import plugin_traits

from .args_checks import problem_of
from .compile import NO_PLUGINS, NOT_ASKED, compile_profile
from .plugin_checks import why_not
from .problems import ProfileError, ProfileProblem
from .profile_files import ProfileDocument
from .reading import read_profile
from .scheduler_profile import SchedulerProfile
from .together import check_together


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and where it is."""

    place: str
    problem: ProfileProblem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


def lint(documents: Sequence[ProfileDocument], third_party: Mapping[str, PluginFactory] = NO_PLUGINS) -> list[Finding]:
    """All findings in the order of the documents; what profiles say about each other comes last."""
    findings: list[Finding] = []
    profiles: dict[str, tuple[ProfileDocument, SchedulerProfile]] = {}
    for document in documents:
        try:
            if document.is_configuration:
                _check_configuration(document, third_party)
                continue
            profile = read_profile(document.value)
            if profile.name in profiles:
                message = f"{shown(profile.name)}: is in {profiles[profile.name][0].place}, too"
                findings.append(Finding(document.place, ProfileProblem("metadata.name", message)))
            profiles.setdefault(profile.name, (document, profile))
            compile_profile(profile, third_party)
        except ProfileError as error:
            findings.extend(Finding(document.place, problem) for problem in error.problems)
    together = check_together(profile for _, profile in profiles.values())
    for name, problems in together.items():
        findings.extend(Finding(profiles[name][0].place, problem) for problem in problems)
    return findings


def _check_configuration(document: ProfileDocument, third_party: Mapping[str, PluginFactory]) -> None:
    """Raises ProfileError with what kube-scheduler refuses, or else with what is not decided yet."""
    try:
        config = load_configuration(document.value, extra_plugins=plugin_traits(third_party))
    except ConfigurationError as error:
        # Only what validation says begins with the path of a field.
        has_path = error.stage == "validate"
        raise ProfileError(
            problem_of(text) if has_path else ProfileProblem("", text) for text in error.errors
        ) from None
    problems = list(_undecided(config, third_party))
    if problems:
        raise ProfileError(problems)


def _undecided(
    config: KubeSchedulerConfiguration, third_party: Mapping[str, PluginFactory]
) -> Iterator[ProfileProblem]:
    if config.extenders:
        yield ProfileProblem("extenders", NOT_ASKED)
    traits = plugin_traits(third_party)
    for i, profile in enumerate(config.profiles):
        for name, info in Plugins.model_fields.items():
            point = info.alias or name
            for j, entry in enumerate(getattr(profile.plugins, name).enabled):
                message = why_not(entry.name, point, traits)
                if message:
                    yield ProfileProblem(f"profiles[{i}].plugins.{point}.enabled[{j}].name", message)
