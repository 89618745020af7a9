"""Which specification of each SchedulerProfile runs: the newest if it is good, else the last good one.

Three questions decide. Is the specification good by itself? Is the profile the oldest of those with its schedulerName?
Does it go together with the other profiles of its group of workers, which share one KubeSchedulerConfiguration?

What runs goes on running: an edit that does not go together with what runs beside it is refused, whoever is older. Of
profiles that do not run yet the oldest comes first. Changes of several profiles that only go together are taken
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from stowplan_operator.worker.settings import Mode

from .accepted import Accepted, Memory
from .observed import Observed, mapping
from .url_verdicts import UrlVerdict, UrlVerdicts, refused_urls

_NO_URLS: Final[UrlVerdicts] = {}

INVALID: Final = "Invalid"
CONFLICT: Final = "Conflict"
GROUP_CONFLICT: Final = "GroupConflict"


class ProblemError(ValueError):
    """What is wrong with a specification: the path of a field, and a sentence."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A good specification, and what of it the operator needs. `payload` is the compiler's own."""

    scheduler_name: str
    group: str
    replicas: int
    runtime: str
    mode: str
    shadow_of: str
    hash: str
    hash_version: int
    spec: Mapping[str, Any]
    payload: Any = None


Member = tuple[str, Compiled]
"""A profile of a group: the name of the SchedulerProfile, and what it means."""


class Compiler(Protocol):
    """Knows what a specification means. Both methods are pure; the same arguments give the same answer."""

    def compile(self, spec: Mapping[str, Any]) -> Compiled:
        """Raises ProblemError that names the field."""
        ...

    def configuration(self, members: Sequence[Member]) -> dict[str, Any]:
        """One KubeSchedulerConfiguration of a group's profiles, whatever their order.

        Raises ProblemError; of two profiles in each other's way it speaks about the later one.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the newest specification does not run."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A specification that runs. `mode`: how, which a refused edit may say as well."""

    accepted: Accepted
    compiled: Compiled
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of one profile. `running` None: nothing of it was ever good, or may run."""

    profile: Observed
    refusal: Refusal | None
    running: Running | None


def choose(
    profiles: Iterable[Observed], memory: Memory, compiler: Compiler, urls: UrlVerdicts = _NO_URLS
) -> list[Verdict]:
    """A verdict for each profile that is not being deleted, the oldest first. `urls`: where their URLs lead."""
    living = sorted((profile for profile in profiles if not profile.is_deleting), key=lambda profile: profile.age)
    chooser = _Chooser(compiler, urls)
    owners: dict[str, Observed] = {}
    for profile in living:
        owner = owners.setdefault(profile.scheduler_name, profile) if profile.scheduler_name else profile
        if owner is not profile:
            message = f'"{profile.scheduler_name}" belongs to SchedulerProfile {owner.name}, which is older'
            chooser.refusals[profile.uid] = Refusal(reason=CONFLICT, field="spec.schedulerName", message=message)
            continue
        chooser.add(profile, memory.get(profile.uid))
    chooser.settle()
    return [chooser.verdict(profile) for profile in living]


@dataclass(frozen=True, slots=True)
class _Version:
    """One specification of a profile that is good by itself."""

    accepted: Accepted
    compiled: Compiled


class _Chooser:
    """The profiles that may run, in order of age, and which version of each does."""

    def __init__(self, compiler: Compiler, urls: UrlVerdicts) -> None:
        self._compiler = compiler
        self._urls = urls
        self._newest: dict[str, _Version] = {}
        self._last: dict[str, _Version] = {}
        self._chosen: dict[str, _Version] = {}
        self.refusals: dict[str, Refusal] = {}

    def add(self, profile: Observed, past: Accepted | None) -> None:
        newest: _Version | None = None
        problem: ProblemError | None = None
        try:
            newest = self._version(profile.name, profile.uid, profile.generation, profile.spec)
        except ProblemError as error:
            problem = error
        refusal = _refusal(problem, refused_urls(profile.spec, self._urls))
        if refusal is not None:
            self.refusals[profile.uid] = refusal
        elif newest is not None:
            self._newest[profile.uid] = newest
        if past is not None:
            try:
                self._last[profile.uid] = self._version(profile.name, past.uid, past.generation, past.spec)
            except ProblemError:
                # Good once, but not for this release. The refusal of the newest one says enough: nothing runs.
                return

    def settle(self) -> None:
        """Find the version that runs of each profile."""
        wished = {**self._last, **self._newest}
        if all(self._trouble(group, wished) is None for group in _groups(wished)):
            self._chosen = wished
            return
        for uid, version in self._last.items():
            self._take({uid: version})
        for group in sorted(_groups(self._newest)):
            self._take({uid: version for uid, version in self._newest.items() if version.compiled.group == group})
        for uid, version in self._newest.items():
            if self._chosen.get(uid) is version:
                continue
            trouble = self._take({uid: version})
            if trouble is not None:
                self.refusals[uid] = Refusal(reason=GROUP_CONFLICT, field=trouble.field, message=trouble.message)

    def verdict(self, profile: Observed) -> Verdict:
        version, refusal = self._chosen.get(profile.uid), self.refusals.get(profile.uid)
        if version is None:
            return Verdict(profile=profile, refusal=refusal, running=None)
        mode = version.compiled.mode
        if refusal is not None and mapping(profile.spec.get("rollout")).get("mode") == Mode.PAUSED:
            # A pause counts even if the rest of the specification is refused: it is a brake.
            mode = Mode.PAUSED
        running = Running(accepted=version.accepted, compiled=version.compiled, mode=mode)
        return Verdict(profile=profile, refusal=refusal, running=running)

    def _version(self, name: str, uid: str, generation: int, spec: Mapping[str, Any]) -> _Version:
        compiled = self._compiler.compile(spec)
        accepted = Accepted(
            name=name,
            uid=uid,
            generation=generation,
            hash=compiled.hash,
            hash_version=compiled.hash_version,
            spec=compiled.spec,
        )
        return _Version(accepted, compiled)

    def _take(self, versions: Mapping[str, _Version]) -> ProblemError | None:
        """Choose these if their groups can have them; else what is in the way."""
        # What is new comes last: it has to give way.
        before = {uid: version for uid, version in self._chosen.items() if uid not in versions}
        wished = {**before, **versions}
        for group in sorted(_groups(versions)):
            trouble = self._trouble(group, wished)
            if trouble is not None:
                return trouble
        self._chosen = wished
        return None

    def _trouble(self, group: str, wished: Mapping[str, _Version]) -> ProblemError | None:
        members = [(each.accepted.name, each.compiled) for each in wished.values() if each.compiled.group == group]
        try:
            self._compiler.configuration(members)
        except ProblemError as problem:
            return problem
        return None


def _refusal(problem: ProblemError | None, urls: Sequence[tuple[str, UrlVerdict]]) -> Refusal | None:
    """Why a specification is not good by itself; None if it is. Where its URLs lead comes first."""
    if not urls:
        if problem is None:
            return None
        return Refusal(reason=INVALID, field=problem.field or "spec", message=problem.message)
    (field, first), *others = urls
    texts = [first.message, *(f"{each}: {verdict.message}" for each, verdict in others)]
    texts += [str(problem)] if problem is not None else []
    return Refusal(reason=first.reason, field=field, message="; ".join(texts))


def _groups(versions: Mapping[str, _Version]) -> set[str]:
    return {version.compiled.group for version in versions.values()}
