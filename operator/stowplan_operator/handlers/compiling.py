"""The `Compiler` that the operator uses: SchedulerProfiles by their models, checked by the scheduler's own loader.

Answers are kept, since each look at the cluster asks about all profiles again and few of them ever change.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from stowplan_operator.net import DEFAULT_RULES, UrlRules
from stowplan_operator.resources import (
    HASH_VERSION,
    ProfileError,
    SchedulerProfile,
    check_together,
    compile_group,
    compile_profile,
    profile_hash,
    read_profile,
    summary,
)
from stowplan_operator.resources.examination import examine
from stowplan_operator.resources.problems import refuse
from stowplan_scheduler.framework.handle import PluginFactory

from .choosing import Compiled, Member, ProblemError
from .names import API_VERSION, PROFILE

T = TypeVar("T")

_KEPT: Final = 1024
"""Answers of each sort that are kept; a cluster has some tens of profiles."""

_PASSES: Final = 4
"""Looks at a specification that is refused. The loop waits meanwhile, and a condition has room for a few findings."""

_PAIR: Final = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")
_HALF: Final = re.compile(r"(?<!\\)(?:\\\\)*\\ud[89a-f][0-9a-f]{2}")
"""In JSON: a character beyond 16 bits, and half of one."""

NO_PLUGINS: Final[Mapping[str, PluginFactory]] = MappingProxyType({})


class ProfileCompiler:
    """`third_party`: plugins of other distributions. `urls`: which URLs a profile may have."""

    def __init__(self, third_party: Mapping[str, PluginFactory] = NO_PLUGINS, urls: UrlRules = DEFAULT_RULES) -> None:
        self._third_party = third_party
        self._urls = urls
        self._profiles: _Answers[Compiled] = _Answers()
        self._groups: _Answers[dict[str, Any]] = _Answers()

    def compile(self, spec: Mapping[str, Any]) -> Compiled:
        """What a specification means. Raises ProblemError with every finding, the first one's field first."""
        try:
            key = json.dumps(spec, sort_keys=True)
        except (RecursionError, TypeError, ValueError):
            # Nested beyond all reason; the answer is a refusal, and quick.
            return self._compiled(spec)
        if _HALF.search(_PAIR.sub("", key)):
            # No API server stores such a text, and no file can hold it.
            raise ProblemError("spec", "holds a text that is not Unicode")
        return self._profiles.get(key, lambda: self._compiled(spec))

    def configuration(self, members: Sequence[Member]) -> dict[str, Any]:
        """One KubeSchedulerConfiguration of the profiles of a group. Raises ProblemError about the last one of them."""
        key = tuple(
            (name, each.scheduler_name, each.hash, each.mode, each.shadow_of, each.replicas, each.runtime)
            for name, each in members
        )
        return self._groups.get(key, lambda: self._together(members))

    def _compiled(self, spec: Mapping[str, Any]) -> Compiled:
        value = {"apiVersion": API_VERSION, "kind": PROFILE, "metadata": {"name": "profile"}, "spec": spec}
        try:
            profile = read_profile(value)
            compile_profile(profile, self._third_party, self._urls)
        except ProfileError:
            found = examine(value, self._third_party, self._urls, passes=_PASSES)
            raise _problem(ProfileError(found.problems)) from None
        workers, rollout = profile.spec.workers, profile.spec.rollout
        return Compiled(
            scheduler_name=profile.spec.scheduler_name,
            group=workers.group,
            replicas=workers.replicas,
            runtime=workers.runtime or "",
            mode=rollout.mode,
            shadow_of=rollout.shadow_of,
            hash=profile_hash(profile.spec),
            hash_version=HASH_VERSION,
            spec=spec,
            payload=profile,
        )

    def _together(self, members: Sequence[Member]) -> dict[str, Any]:
        profiles = [_named(name, index, compiled.payload) for index, (name, compiled) in enumerate(members)]
        try:
            # Those of the first profile that has to give way; if it does, others may have no need to.
            refuse(next(iter(check_together(profiles).values()), ()))
            return compile_group(profiles, self._third_party, self._urls)
        except ProfileError as error:
            raise _problem(error) from None


def _named(name: str, position: int, profile: SchedulerProfile) -> SchedulerProfile:
    """The profile with its name, made at a moment of its own: of two in each other's way the last gives way."""
    metadata = profile.metadata.model_copy(update={"name": name, "creation_timestamp": f"{position:06d}"})
    return profile.model_copy(update={"metadata": metadata})


def _problem(error: ProfileError) -> ProblemError:
    first, whole = error.problems[0], summary(error.problems)
    return ProblemError(first.field, whole.removeprefix(f"{first.field}: ") if first.field else whole)


class _Answers(Generic[T]):
    """The last answers, refusals included."""

    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, T | ProblemError] = OrderedDict()

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        if key not in self._found:
            try:
                self._found[key] = find()
            except ProblemError as problem:
                self._found[key] = problem
            if len(self._found) > _KEPT:
                self._found.popitem(last=False)
        self._found.move_to_end(key)
        answer = self._found[key]
        if isinstance(answer, ProblemError):
            # A new one: an exception that is raised again collects tracebacks.
            raise ProblemError(answer.field, answer.message)
        return answer
