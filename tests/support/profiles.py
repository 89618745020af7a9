"""SchedulerProfiles for tests: plain objects as an API server has them, and models."""

from __future__ import annotations

from typing import Any

from stowplan_operator.resources import ProfileError, ProfileProblem, SchedulerProfile, compile_profile, read_profile

Spec = dict[str, Any]


def profile_object(name: str = "dense", **spec: Any) -> dict[str, Any]:
    """The object; schedulerName is its name unless given."""
    return {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": "SchedulerProfile",
        "metadata": {"name": name},
        "spec": {"schedulerName": name, **spec},
    }


def profile(name: str = "dense", *, created: str = "", **spec: Any) -> SchedulerProfile:
    """The model."""
    value = profile_object(name, **spec)
    value["metadata"]["creationTimestamp"] = created
    return read_profile(value)


def problems_of(value: Any) -> tuple[ProfileProblem, ...]:
    """All that reading and compiling say about a value; nothing if it is a good profile."""
    try:
        compile_profile(read_profile(value))
    except ProfileError as error:
        return error.problems
    return ()


def said(**spec: Any) -> list[str]:
    """The same about a profile, as texts."""
    return [str(problem) for problem in problems_of(profile_object(**spec))]
