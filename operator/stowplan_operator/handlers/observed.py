"""What the operator sees: SchedulerProfiles as the API server has them, and what each worker says of itself.

Both come from outside. Whatever does not have the expected shape is read as if it were absent; nothing here raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One object of the operator's kinds. `created` is the RFC 3339 text, which sorts by time."""

    name: str
    uid: str
    generation: int
    created: str
    is_deleting: bool
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    managed_fields: Sequence[Any] = ()

    @property
    def age(self) -> tuple[str, str]:
        """The order of age, the oldest first; of objects of one second, the order of their names."""
        return self.created, self.name

    @property
    def scheduler_name(self) -> str:
        """spec.schedulerName as it stands there; "" if it is no text."""
        return text(self.spec.get("schedulerName"))


def observed(value: Mapping[str, Any]) -> Observed:
    """The object in a document of the API server."""
    meta = mapping(value.get("metadata"))
    managed = meta.get("managedFields")
    return Observed(
        name=text(meta.get("name")),
        uid=text(meta.get("uid")),
        generation=integer(meta.get("generation")),
        created=text(meta.get("creationTimestamp")),
        is_deleting=meta.get("deletionTimestamp") is not None,
        spec=mapping(value.get("spec")),
        status=mapping(value.get("status")),
        managed_fields=managed if isinstance(managed, list) else (),
    )


class Health(StrEnum):
    """Whether a worker answers: not yet, yes, or no longer."""

    STARTING = "Starting"
    ANSWERS = "Answers"
    SILENT = "Silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProfile:
    """A profile as a worker runs it."""

    generation: int
    hash: str
    mode: str
    scheduler_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What one worker last said. Without an answer the fields hold what it said before, or nothing.

    `pending`: pods by name of the profile. `utilization`: percent by resource. `shadow`: figures by schedulerName.
    """

    group: str
    name: str
    health: Health
    detail: str = ""
    """Why it does not answer; of one that does, why it cannot work."""
    is_leading: bool = False
    is_synced: bool = False
    error: str = ""
    """Why it does not run the file that it has."""
    profiles: Mapping[str, RunningProfile] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    utilization: Mapping[str, int] = field(default_factory=dict)
    shadow: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def heard(report: WorkerReport, status: object) -> WorkerReport:
    """The report of a worker that answered with this document at /status."""
    found = mapping(status)
    profiles = entries(found.get("profiles"))
    return WorkerReport(
        group=report.group,
        name=report.name,
        health=Health.ANSWERS,
        is_leading=found.get("leading") is True,
        is_synced=found.get("synced") is True,
        detail=text(found.get("problem")),
        error=text(found.get("error")),
        profiles={
            text(entry.get("profile")): RunningProfile(
                generation=integer(entry.get("generation")),
                hash=text(entry.get("hash")),
                mode=text(entry.get("mode")),
                scheduler_name=text(entry.get("schedulerName")),
            )
            for entry in profiles
        },
        pending={text(entry.get("profile")): integer(entry.get("pending")) for entry in profiles},
        utilization=_integers(found.get("utilization")),
        shadow={text(name): _integers(figures) for name, figures in mapping(found.get("shadow")).items()},
    )


def _integers(value: object) -> dict[str, int]:
    return {text(name): integer(number) for name, number in mapping(value).items()}


# ---- reading what may be anything -----------------------------------------------------------------------------------


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping, or an empty one."""
    return value if isinstance(value, Mapping) else _NOTHING


def text(value: object) -> str:
    """A text, or ""."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int:
    """An integer, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def entries(value: object) -> list[Mapping[str, Any]]:
    """The mappings in a list, or none."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
