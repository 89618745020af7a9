"""What one worker runs: its group's name, the scheduler's configuration, the mode of each profile, its Lease.

    apiVersion: stowplan.io/v1alpha1
    kind: WorkerConfiguration
    name: default
    configuration: {apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: [...]}
    profiles: [{schedulerName: dense, profile: dense, generation: 3, hash: 1f3a, mode: Active}]

The operator writes such a file from its SchedulerProfiles; `stowplan worker` reads it. A plain
KubeSchedulerConfiguration is read too: all its profiles are active, and its `leaderElection` counts as kube-scheduler
reads it.

What is wrong is said in one line: the file, the field, what stands there and what is allowed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import Field, ValidationError

from stowplan_autoscaling.inputs.errors import FieldError, InputError, shown
from stowplan_autoscaling.inputs.yaml_reader import read_yaml
from stowplan_autoscaling.resources.base import FreeForm, FromList, Part, duplicate, needed, option, parts
from stowplan_autoscaling.resources.findings import field_error
from stowplan_scheduler.config import (
    ConfigurationError,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    PluginTraits,
    load_configuration,
    load_configuration_text,
)

from .settings import DEFAULT_MAX_BINDS, MachineSettings, Mode, ProfileSettings

API_VERSION: Final = "stowplan.io/v1alpha1"
KIND: Final = "WorkerConfiguration"
SCHEDULER_KIND: Final = "KubeSchedulerConfiguration"

MAX_BYTES: Final = 4 << 20
"""Far more than any configuration; a larger file is most likely a mistake."""

JITTER: Final = 1.2
"""Upstream's: the renew deadline must be longer than a retry that comes as late as it may (leaderelection.go)."""

SECOND: Final = 1_000_000_000


class WorkerProfile(Part):
    """One profile of the configuration, where it comes from and how it runs."""

    scheduler_name: str = needed("schedulerName of the profile in the configuration.", min_length=1, max_length=253)
    profile: str = option("", "Name of the SchedulerProfile that it was compiled from.", max_length=253)
    uid: str = option("", "UID of that SchedulerProfile.", max_length=64)
    generation: int = option(0, "metadata.generation of that SchedulerProfile.", ge=0)
    hash: str = option("", "Hash of the compiled profile.", max_length=128)
    # Not strict: files have its text.
    mode: Annotated[Mode, Field(strict=False)] = option(
        Mode.ACTIVE,
        "Active binds the profile's pods. Shadow decides about the pods of `shadowOf` and never binds. "
        "Paused leaves the pods where they are.",
    )
    shadow_of: str = option("default-scheduler", "The scheduler whose pods a shadow decides about.", max_length=253)


class LeaderElection(Part):
    """The Lease by which one of several workers of a group is the one that acts."""

    enabled: bool = option(True, "Whether a Lease is needed to act. Without, nobody else may run the same profiles.")
    namespace: str = option("stowplan-system", "Namespace of the Lease.", min_length=1, max_length=63)
    lease_duration_seconds: int = option(
        15, "How long others wait after the last renewal before they take over.", source="kube-scheduler", ge=1, le=3600
    )
    renew_deadline_seconds: int = option(
        10, "How long a leader acts after its last renewal.", source="kube-scheduler", ge=1, le=3600
    )
    retry_period_seconds: int = option(2, "Time between tries.", source="kube-scheduler", ge=1, le=3600)


class WorkerConfiguration(Part):
    """What one worker runs."""

    api_version: Literal["stowplan.io/v1alpha1"] = option(API_VERSION, "Version of this kind.")
    kind: Literal["WorkerConfiguration"] = option(KIND, "This kind.")
    name: str = option(
        "default",
        "Name of the group of workers; their Lease is stowplan-worker-<name>.",
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        max_length=200,
    )
    configuration: FreeForm = needed("A KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1.")
    profiles: Annotated[tuple[WorkerProfile, ...], FromList] = parts(
        "One entry for each profile of the configuration; without any, all are active.", max_length=1000
    )
    leader_election: LeaderElection = Field(default=LeaderElection(), description="The Lease of the group.")
    max_binds_in_flight: int = option(
        DEFAULT_MAX_BINDS, "Bindings that are sent and not answered, at most.", ge=1, le=1000
    )

    def as_document(self) -> dict[str, Any]:
        """The plain values of a file; reading them gives the same."""
        return self.model_dump(by_alias=True, mode="json")


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A Lease and its times in seconds."""

    enabled: bool
    namespace: str
    name: str
    duration: float
    renew_deadline: float
    retry_period: float


class LoadedConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A file that has been read and found right.

    `profiles` has one entry for each profile of `scheduler`, in its order. `digest` tells two files apart.
    """

    source: str
    name: str
    scheduler: KubeSchedulerConfiguration
    profiles: tuple[WorkerProfile, ...]
    lease: LeaseSettings
    max_binds_in_flight: int
    digest: str

    def for_machine(self) -> MachineSettings:
        """What the machine needs of it."""
        return MachineSettings(
            configuration=self.scheduler,
            profiles=tuple(
                ProfileSettings(
                    scheduler_name=profile.scheduler_name,
                    profile=profile.profile,
                    generation=profile.generation,
                    hash=profile.hash,
                    mode=profile.mode,
                    shadow_of=profile.shadow_of,
                )
                for profile in self.profiles
            ),
            max_binds_in_flight=self.max_binds_in_flight,
        )


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_configuration(path: Path, *, plugins: Mapping[str, PluginTraits] | None = None) -> LoadedConfiguration:
    """The configuration in a file. `plugins`: those of other distributions. Raises InputError."""
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        message = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise InputError(source, "", "", message) from None
    return parse_configuration(data, source, plugins=plugins)


def parse_configuration(
    data: bytes, source: str, *, plugins: Mapping[str, PluginTraits] | None = None
) -> LoadedConfiguration:
    """The configuration in a text, YAML or JSON. Raises InputError."""
    if len(data) > MAX_BYTES:
        raise InputError(source, "", "", f"is larger than {MAX_BYTES >> 20} MiB: not a {KIND}")
    document = _document(data, source)
    digest = hashlib.sha256(data).hexdigest()
    try:
        if document.get("kind") == SCHEDULER_KIND:
            return _plain(data.decode("utf-8-sig"), source, digest, plugins)
        return _loaded(_worker_configuration(document), source, digest, plugins)
    except FieldError as error:
        raise InputError.of(source, "", error) from None


def _document(data: bytes, source: str) -> dict[str, Any]:
    documents = list(read_yaml(data, source))
    if len(documents) != 1:
        found = "is empty" if not documents else f"holds {len(documents)} documents"
        raise InputError(source, "", "", f"{found}: one {KIND} or {SCHEDULER_KIND} is expected")
    value = documents[0].value
    if not isinstance(value, dict):
        raise InputError(source, "", "", f"must be a {KIND} or {SCHEDULER_KIND}, got {shown(value)}")
    return value


def _worker_configuration(document: dict[str, Any]) -> WorkerConfiguration:
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind != KIND:
        message = f"must be {KIND} or {SCHEDULER_KIND}"
        raise FieldError("kind", f"{shown(kind)}: {message}" if kind else message)
    if version != API_VERSION:
        raise FieldError("apiVersion", f"{shown(version)}: must be {API_VERSION}" if version else "must be set")
    try:
        return WorkerConfiguration.model_validate(document)
    except ValidationError as error:
        raise field_error(error, WorkerConfiguration) from None


def _loaded(
    given: WorkerConfiguration, source: str, digest: str, plugins: Mapping[str, PluginTraits] | None
) -> LoadedConfiguration:
    try:
        scheduler = load_configuration(given.configuration, extra_plugins=plugins)
    except ConfigurationError as error:
        raise FieldError("configuration", str(error)) from None
    _refuse_extenders(scheduler, "configuration.extenders")
    election = given.leader_election
    return LoadedConfiguration(
        source=source,
        name=given.name,
        scheduler=scheduler,
        profiles=_profiles(given, scheduler),
        lease=_checked_times(
            LeaseSettings(
                enabled=election.enabled,
                namespace=election.namespace,
                name=f"stowplan-worker-{given.name}",
                duration=election.lease_duration_seconds,
                renew_deadline=election.renew_deadline_seconds,
                retry_period=election.retry_period_seconds,
            )
        ),
        max_binds_in_flight=given.max_binds_in_flight,
        digest=digest,
    )


def _profiles(given: WorkerConfiguration, scheduler: KubeSchedulerConfiguration) -> tuple[WorkerProfile, ...]:
    """One for each profile of the configuration, in its order. Raises FieldError."""
    names = [profile.scheduler_name for profile in scheduler.profiles]
    if not given.profiles:
        return tuple(WorkerProfile(scheduler_name=name, profile=name) for name in names)
    listed = [profile.scheduler_name for profile in given.profiles]
    twice = duplicate(listed)
    if twice is not None:
        raise FieldError(f"profiles[{twice}].schedulerName", f"{shown(listed[twice])}: occurs twice")
    for index, profile in enumerate(given.profiles):
        if profile.scheduler_name not in names:
            message = f"{shown(profile.scheduler_name)}: the configuration has no such profile, but {', '.join(names)}"
            raise FieldError(f"profiles[{index}].schedulerName", message)
        if profile.mode is Mode.SHADOW and profile.shadow_of in names:
            message = f"{shown(profile.shadow_of)}: must be a scheduler that this worker does not run"
            raise FieldError(f"profiles[{index}].shadowOf", message)
    missing = [name for name in names if name not in listed]
    if missing:
        raise FieldError("profiles", f"has no entry for the profile {missing[0]} of the configuration")
    return tuple(given.profiles[listed.index(name)] for name in names)


def _refuse_extenders(scheduler: KubeSchedulerConfiguration, field: str) -> None:
    if scheduler.extenders:
        raise FieldError(field, "are not asked yet, and decisions without them would be others: take them out")


def _checked_times(lease: LeaseSettings) -> LeaseSettings:
    """Upstream's conditions (leaderelection.go, NewLeaderElector). Raises FieldError."""
    if lease.renew_deadline >= lease.duration:
        message = f"{lease.renew_deadline:g}: must be less than leaseDurationSeconds, {lease.duration:g}"
        raise FieldError("leaderElection.renewDeadlineSeconds", message)
    if lease.retry_period * JITTER >= lease.renew_deadline:
        message = f"{lease.retry_period:g}: {JITTER} times it must be less than renewDeadlineSeconds"
        raise FieldError("leaderElection.retryPeriodSeconds", f"{message}, {lease.renew_deadline:g}")
    return lease


# ---- a plain KubeSchedulerConfiguration ------------------------------------------------------------------------------


def _plain(text: str, source: str, digest: str, plugins: Mapping[str, PluginTraits] | None) -> LoadedConfiguration:
    try:
        scheduler = load_configuration_text(text, extra_plugins=plugins)
    except ConfigurationError as error:
        raise FieldError("", str(error)) from None
    _refuse_extenders(scheduler, "extenders")
    return LoadedConfiguration(
        source=source,
        name="default",
        scheduler=scheduler,
        profiles=tuple(
            WorkerProfile(scheduler_name=profile.scheduler_name, profile=profile.scheduler_name)
            for profile in scheduler.profiles
        ),
        lease=_upstream_lease(scheduler.leader_election),
        max_binds_in_flight=DEFAULT_MAX_BINDS,
        digest=digest,
    )


def _upstream_lease(election: LeaderElectionConfiguration) -> LeaseSettings:
    if election.leader_elect and election.lease_duration % SECOND:
        # A Lease keeps whole seconds.
        raise FieldError("leaderElection.leaseDuration", "must be whole seconds")
    return LeaseSettings(
        enabled=election.leader_elect,
        namespace=election.resource_namespace,
        name=election.resource_name,
        duration=election.lease_duration / SECOND,
        renew_deadline=election.renew_deadline / SECOND,
        retry_period=election.retry_period / SECOND,
    )
