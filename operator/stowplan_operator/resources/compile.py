"""From SchedulerProfiles to the KubeSchedulerConfiguration that the scheduler's own loader takes.

compile_profile(profile)     # one of .profiles; ProfileError with every finding and its field
compile_group(profiles)      # the whole document for the workers of a group
profile_hash(spec)           # the same for specs that decide alike

Nothing is guessed: what the scheduler does not decide yet is refused with its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from stowplan_operator.net import DEFAULT_RULES, UrlRules
from stowplan_scheduler.config import ConfigurationError, PluginTraits, load_configuration
from stowplan_scheduler.framework.handle import PluginFactory
from stowplan_scheduler.profiles import plugin_traits

from .args_checks import args_problems, problem_of
from .documents import configuration_of, extenders_of, given_fields, profile_document
from .plugin_checks import plugin_problems
from .problems import ProfileError, ProfileProblem, refuse
from .scheduler_profile import FIT, SchedulerProfile, SchedulerProfileSpec
from .spec_checks import spec_problems
from .third_party import third_party_problems
from .url_checks import url_problems

HASH_VERSION: Final = 1
"""Changes with what `profile_hash` computes, so that a new program does not look like a new profile."""

_HASH_DIGITS: Final = 16

NOT_ASKED: Final = "are not asked yet, and decisions without them would be others: take them out"
"""About extenders."""

NO_PLUGINS: Final[Mapping[str, PluginFactory]] = MappingProxyType({})

_OF_PROFILE: Final = re.compile(r"^profiles\[[0-9]+\]\.?")
_COUNTS: Final = (
    ("queue sort plugin", "spec.plugins.queueSort"),
    ("bind plugin", "spec.plugins.bind"),
    ("placement generate plugin", "spec.plugins.placementGenerate"),
)


def compile_profile(
    profile: SchedulerProfile,
    third_party: Mapping[str, PluginFactory] = NO_PLUGINS,
    urls: UrlRules | None = DEFAULT_RULES,
) -> dict[str, Any]:
    """The profile as an entry of KubeSchedulerConfiguration's profiles, checked by the scheduler's loader.

    `third_party`: plugins of other distributions (`plugins.registry.load_third_party`). `urls`: which URLs it may have;
    None: whichever, for those who only read it. Raises ProfileError.
    """
    spec = profile.spec
    traits = plugin_traits(third_party)
    document = profile_document(spec)
    refuse((*spec_problems(spec), *_extenders(spec, urls), *plugin_problems(spec.plugins, traits), *_args(spec)))
    refuse(_whole(document, traits))
    refuse(third_party_problems(document, third_party))
    return document


def compile_group(
    profiles: Iterable[SchedulerProfile],
    third_party: Mapping[str, PluginFactory] = NO_PLUGINS,
    urls: UrlRules | None = DEFAULT_RULES,
) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with the profiles, ordered by schedulerName.

    Raises ProfileError; the fields begin with the name of the profile if there are several. What profiles say about
    each other is in `together`: two of one schedulerName must not come here.
    """
    ordered = sorted(profiles, key=lambda profile: (profile.spec.scheduler_name, profile.metadata.age_key))
    documents: list[dict[str, Any]] = []
    problems: list[ProfileProblem] = []
    for profile in ordered:
        try:
            documents.append(compile_profile(profile, third_party, urls))
        except ProfileError as error:
            problems.extend(_named(profile, error.problems) if len(ordered) > 1 else error.problems)
    refuse(problems)
    document = configuration_of(documents)
    try:
        load_configuration(document, extra_plugins=plugin_traits(third_party))
    except ConfigurationError as error:
        raise ProfileError(ProfileProblem("", text) for text in error.errors) from None
    return document


def profile_hash(spec: SchedulerProfileSpec) -> str:
    """What the profile decides by, in 16 hexadecimal digits. `rollout`, `workers` and `takeOver` do not count.

    `scoringStrategy` counts as the args that it is short for.
    """
    document = {**profile_document(spec), "extenders": extenders_of(spec)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


# ---- checks ----------------------------------------------------------------------------------------------------------


def _extenders(spec: SchedulerProfileSpec, urls: UrlRules | None) -> Iterator[ProfileProblem]:
    if urls is not None:
        yield from url_problems(spec.extenders, urls)
    if spec.extenders:
        yield ProfileProblem("spec.extenders", NOT_ASKED)


def _args(spec: SchedulerProfileSpec) -> Iterator[ProfileProblem]:
    for index, config in enumerate(spec.plugin_config):
        yield from args_problems(config.name, config.args, f"spec.pluginConfig[{index}].args")
    if spec.scoring_strategy is not None:
        yield from args_problems(FIT, {"scoringStrategy": given_fields(spec.scoring_strategy)}, "spec")


def _whole(document: Mapping[str, Any], traits: Mapping[str, PluginTraits]) -> Iterator[ProfileProblem]:
    """What the loader still finds, with the field it is about as well as its text tells."""
    try:
        load_configuration(configuration_of([document]), extra_plugins=traits)
    except ConfigurationError as error:
        for text in error.errors:
            yield _of_loader(text, document["schedulerName"])


def _of_loader(text: str, scheduler_name: str) -> ProfileProblem:
    if _OF_PROFILE.match(text):
        found = problem_of(text)
        return ProfileProblem(_OF_PROFILE.sub("spec.", found.field), found.message)
    where = next((field for words, field in _COUNTS if words in text), "spec.plugins")
    _, _, message = text.rpartition(f"scheduler name {scheduler_name}: ")
    return ProfileProblem(where, message)


def _named(profile: SchedulerProfile, problems: Iterable[ProfileProblem]) -> Iterator[ProfileProblem]:
    for problem in problems:
        yield ProfileProblem(f"{profile.name}: {problem.field}", problem.message)
