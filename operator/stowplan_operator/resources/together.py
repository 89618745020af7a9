"""What SchedulerProfiles say about each other: one schedulerName each, and one will per group of workers.

The older profile wins: it runs already, and a new object must not take its pods away. The newer one is refused and says
why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from stowplan_autoscaling.inputs.errors import shown

from .problems import ProfileProblem
from .scheduler_profile import SchedulerProfile


def check_together(profiles: Iterable[SchedulerProfile]) -> dict[str, tuple[ProfileProblem, ...]]:
    """Findings by name of profile; profiles that are in nobody's way are not in it.

    Age is creationTimestamp, then name. A profile that is refused is in nobody's way either. Profiles that are being
    deleted count until they are gone, since their pods are theirs as long.
    """
    winners: list[SchedulerProfile] = []
    problems: dict[str, tuple[ProfileProblem, ...]] = {}
    for profile in sorted(profiles, key=lambda each: each.metadata.age_key):
        found = tuple(_against(profile, winners))
        if found:
            problems[profile.name] = found
        else:
            winners.append(profile)
    return problems


def _against(profile: SchedulerProfile, older: Sequence[SchedulerProfile]) -> Iterator[ProfileProblem]:
    spec = profile.spec
    for other in older:
        if other.spec.scheduler_name == spec.scheduler_name:
            why = (
                "is older" if other.metadata.creation_timestamp < profile.metadata.creation_timestamp else "comes first"
            )
            message = f"{shown(spec.scheduler_name)}: belongs to the SchedulerProfile {other.name}, which {why}"
            yield ProfileProblem("spec.schedulerName", message)
    group = [other for other in older if other.spec.workers.group == spec.workers.group]
    yield from _workers(profile, group)
    for other in group:
        yield from _shadow(profile, other)


def _workers(profile: SchedulerProfile, group: Sequence[SchedulerProfile]) -> Iterator[ProfileProblem]:
    """The oldest profile of a group says how many workers it has and where they run."""
    if not group:
        return
    mine, theirs = _settings(profile), _settings(group[0])
    for field, value in mine.items():
        if theirs[field] != value:
            said = f"group {profile.spec.workers.group} has {shown(theirs[field])}, as {group[0].name} says"
            yield ProfileProblem(f"spec.workers.{field}", f"{shown(value)}: {said}: set the same, or another group")


def _settings(profile: SchedulerProfile) -> Mapping[str, Any]:
    workers = profile.spec.workers
    return {"replicas": workers.replicas, "runtime": workers.runtime or "the operator's"}


def _shadow(profile: SchedulerProfile, other: SchedulerProfile) -> Iterator[ProfileProblem]:
    """A worker that binds pods cannot also watch how another scheduler places them."""
    for shadow, acting in ((profile, other), (other, profile)):
        rollout = shadow.spec.rollout
        if rollout.mode == "Shadow" and rollout.shadow_of == acting.spec.scheduler_name:
            field = "spec.rollout.shadowOf" if shadow is profile else "spec.schedulerName"
            message = f"is run by {acting.name} in the same group: put one of the two into another group"
            if shadow is other:
                message = f"is what {shadow.name} of the same group shadows: put one of the two into another group"
            yield ProfileProblem(field, f"{shown(acting.spec.scheduler_name)}: {message}")
