"""What a machine runs: the scheduler's configuration, the mode of each profile, the limit of binds.

The machine's own type, so that the machine depends on the scheduler alone. The shell makes it from its file.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from stowplan_scheduler.config import KubeSchedulerConfiguration

DEFAULT_MAX_BINDS: int = 32
"""Beyond about 32 binds in flight the API server's latency grows and its throughput does not."""


class Mode(StrEnum):
    """What becomes of the pods that name a profile."""

    ACTIVE = "Active"
    """They are placed."""
    SHADOW = "Shadow"
    """They wait. The profile decides about another scheduler's pods, and only counts."""
    PAUSED = "Paused"
    """They wait."""


class ProfileSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One profile. `profile`, `generation` and `hash` name the SchedulerProfile it came from, for logs.

    `shadow_of` counts for a shadow only: the scheduler whose pods it decides about.
    """

    scheduler_name: str
    profile: str = ""
    generation: int = 0
    hash: str = ""
    mode: Mode = Mode.ACTIVE
    shadow_of: str = "default-scheduler"


class MachineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration with exactly one entry of `profiles` for each of its profiles, and the limit of binds in flight.

    Profiles that are paused or shadows stand in the configuration like the others. Raises ValueError.
    """

    configuration: KubeSchedulerConfiguration
    profiles: tuple[ProfileSettings, ...]
    max_binds_in_flight: int = DEFAULT_MAX_BINDS

    def __post_init__(self) -> None:
        names = [profile.scheduler_name for profile in self.configuration.profiles]
        listed = [profile.scheduler_name for profile in self.profiles]
        if sorted(names) != sorted(listed):
            raise ValueError(f"profiles: {sorted(listed)} must be those of the configuration, {sorted(names)}")
        if self.max_binds_in_flight < 1:
            raise ValueError(f"max_binds_in_flight: {self.max_binds_in_flight}: must be at least 1")
        for profile in self.profiles:
            if profile.mode is Mode.SHADOW and profile.shadow_of in listed:
                raise ValueError(f"shadow_of: {profile.shadow_of!r} must be a scheduler that does not run here")

    @classmethod
    def all_active(
        cls, configuration: KubeSchedulerConfiguration, max_binds_in_flight: int = DEFAULT_MAX_BINDS
    ) -> MachineSettings:
        """Every profile of the configuration active."""
        profiles = tuple(ProfileSettings(scheduler_name=p.scheduler_name) for p in configuration.profiles)
        return cls(configuration=configuration, profiles=profiles, max_binds_in_flight=max_binds_in_flight)

    @property
    def active(self) -> frozenset[str]:
        """The scheduler names whose pods are placed."""
        return frozenset(profile.scheduler_name for profile in self.profiles if profile.mode is Mode.ACTIVE)
