"""From an object as the API server or a file has it to a SchedulerProfile, or to all that is wrong with its fields.

profile = read_profile(object)      # ProfileError: every finding with the path of its field

Types and ranges only: `compile` says what is wrong beyond that. An object from the server has passed the same checks
there, unless its definition is another version's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from stowplan_autoscaling.inputs.decode import without_nulls
from stowplan_autoscaling.inputs.errors import shown
from stowplan_autoscaling.resources.findings import field_errors

from .envelope import API_VERSION
from .problems import ProfileError, ProfileProblem, refuse
from .profile_status import SchedulerProfileStatus
from .scheduler_profile import KIND, SchedulerProfile

MAX_DEPTH: Final = 100
"""Levels of nesting, as in configuration files. A server stores a hundred times that."""


def read_profile(value: Mapping[str, Any]) -> SchedulerProfile:
    """The profile of plain values; null stands for an absent field. Raises ProfileError."""
    _check_kind(value)
    refuse(
        ProfileProblem(field, message)
        for field in ("metadata", "spec", "status")
        if (message := _why_unreadable(value.get(field)))
    )
    given = without_nulls(dict(value))
    status = given.pop("status", {})
    try:
        profile = SchedulerProfile.model_validate({**given, "status": {}})
    except ValidationError as error:
        raise ProfileError(
            ProfileProblem(found.field, found.message) for found in field_errors(error, SchedulerProfile)
        ) from None
    return profile.model_copy(update={"status": _status(status)})


def _why_unreadable(value: object) -> str:
    """What would break the checks themselves. Without recursion: that is what a deep value would break."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for member in level:
            if isinstance(member, dict):
                below.extend(member)
                below.extend(member.values())
            elif isinstance(member, list):
                below.extend(member)
            elif isinstance(member, str) and not _is_unicode(member):
                return "holds a text that is no Unicode"
        if not below:
            return ""
        level = below
    return f"nests deeper than {MAX_DEPTH} levels"


def _is_unicode(text: str) -> bool:
    """JSON can spell half of a surrogate pair, which no encoding has."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_kind(value: object) -> None:
    """First of all, since with another kind nothing else that is said would help."""
    if not isinstance(value, Mapping):
        raise ProfileError([ProfileProblem("", f"must be a {KIND}, got {shown(value)}")])
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if value.get(field) != expected:
            found = f"{shown(value[field])}: must be {expected}" if field in value else f"must be {expected}"
            raise ProfileError([ProfileProblem(field, found)])


def _status(value: object) -> SchedulerProfileStatus:
    try:
        return SchedulerProfileStatus.model_validate(value)
    except ValidationError:
        # Only another version's operator can have written it. It is ours to write, so it is as good as absent.
        return SchedulerProfileStatus()
