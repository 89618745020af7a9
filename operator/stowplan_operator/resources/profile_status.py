"""status of a SchedulerProfile: what runs, which is not always what spec asks for.

Written by server-side apply, whose field manager the server refuses for fields that are not declared here. There are no
floats: shares are whole percents.
"""

from __future__ import annotations

from typing import Annotated, Final

from stowplan_autoscaling.resources.base import FromList, Part, needed, option, parts

from .envelope import MAX_NAME, Conditions, observed_generation

CONDITIONS: Final = ("Ready", "Accepted", "Programmed", "Degraded", "Paused")
"""Ready sums up the others. Degraded and Paused are bad news when True, the others when False."""

_HASH_LENGTH: Final = 64


class LastGood(Part):
    """The last spec that was accepted. It keeps running if a newer one is refused."""

    generation: int = needed("Its metadata.generation.", ge=0)
    hash: str = needed("Its hash.", max_length=_HASH_LENGTH)


class WorkerStatus(Part):
    """What one worker says that it runs."""

    name: str = needed("Name of the worker.", min_length=1, max_length=MAX_NAME)
    generation: int = option(0, "The metadata.generation of the profile that it runs.", ge=0)
    hash: str = option("", "Hash of the profile that it runs.", max_length=_HASH_LENGTH)
    leading: bool = option(False, "Whether it is the one that acts.")


class SchedulerProfileStatus(Part):
    """What runs."""

    observed_generation: int = observed_generation()
    applied_hash: str = option("", "Hash of the profile that the leading worker runs.", max_length=_HASH_LENGTH)
    hash_version: int = option(
        0, "How hashes are computed. Hashes of different versions say nothing about each other.", ge=0
    )
    last_good: LastGood | None = option(None, "The last spec that was accepted.")
    workers: Annotated[tuple[WorkerStatus, ...], FromList] = parts(
        "The workers, and what each of them runs.", max_length=64
    )
    pending: int | None = option(None, "Pods of the profile that wait. Absent: not known.", ge=0)
    utilization_percent: int | None = option(
        None,
        "Share of the nodes' allocatable that pods request, in percent: cpu or memory, whichever is more. Absent: not "
        "known.",
        ge=0,
    )
    shadow: dict[str, int] = option(
        {}, "Figures of a shadow by name, such as decided and agreed: pods, or whole percents.", max_length=64
    )
    conditions: Conditions = parts("Ready, Accepted, Programmed, Degraded, Paused.", max_length=16)
