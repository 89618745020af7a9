"""What the containers of a workload do: how long they take to answer, when they end, how they stop, what probes them.

The kubelet knows containers only from outside; this is the other side. One `ApplicationModel` serves all pods of a
workload. Times of work (`start`, `run`) pass at the pod's speed: 1, unless contention says otherwise
(`Kubelets.set_speed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .delays import NO_DELAY, Delay, fixed

ALWAYS: Final = "Always"
IF_NOT_PRESENT: Final = "IfNotPresent"
NEVER: Final = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe of a container; times in whole seconds, with the API server's defaults (core/v1, SetDefaults_Probe)."""

    initial_delay: int = 0
    period: int = 10
    timeout: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace: int | None = None
    """Grace period if this probe ends the container; None: the pod's."""

    def __post_init__(self) -> None:
        if self.initial_delay < 0:
            raise ValueError(f"initial_delay: {self.initial_delay!r}: must be at least 0")
        for name in ("period", "timeout", "success_threshold", "failure_threshold"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)!r}: must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerModel:
    """How one container behaves. The default starts to answer at once, runs for ever and stops at once."""

    start: Delay = NO_DELAY
    """Work, in seconds at full speed, until it answers its probes. From the scenario: it is the application's own."""

    run: Delay | None = None
    """Work until it ends by itself; None: never. A job's task, or the time to a crash."""

    exit_code: int = 0
    """With which it then ends."""

    failure_share: float = 0.0
    """Share of its runs that end with exit code 1 instead."""

    stop: Delay = NO_DELAY
    """From SIGTERM until it has ended, by the clock. From the scenario; cut off by the grace period."""

    stop_exit_code: int = 0
    """Exit code after SIGTERM; a container that is cut off ends with 137."""

    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None

    pull_policy: str | None = None
    """imagePullPolicy; None: the API server's default, Always for the tag "latest" and IfNotPresent for others."""

    def __post_init__(self) -> None:
        if not 0 <= self.failure_share <= 1:
            raise ValueError(f"failure_share: {self.failure_share!r}: must be from 0 to 1")
        if self.pull_policy not in {None, ALWAYS, IF_NOT_PRESENT, NEVER}:
            raise ValueError(f"pull_policy: {self.pull_policy!r}: must be {ALWAYS}, {IF_NOT_PRESENT} or {NEVER}")
        for name in ("startup_probe", "liveness_probe"):
            probe = getattr(self, name)
            if probe is not None and probe.success_threshold != 1:
                raise ValueError(f"{name}.success_threshold: {probe.success_threshold!r}: must be 1")

    @property
    def is_unprobed(self) -> bool:
        """Whether it has no probe at all."""
        return self.startup_probe is self.readiness_probe is self.liveness_probe is None


SERVICE: Final = ContainerModel()
TASK: Final = ContainerModel(run=fixed(0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationModel:
    """The containers of a workload's pods."""

    containers: Mapping[str, ContainerModel] = field(default_factory=dict)
    """By name; init containers and sidecars included."""

    default: ContainerModel = SERVICE
    """For containers and sidecars that are not named."""

    default_init: ContainerModel = TASK
    """For init containers that are not named: they end at once and well."""

    def of(self, name: str, *, is_init: bool) -> ContainerModel:
        """The model of a container."""
        return self.containers.get(name) or (self.default_init if is_init else self.default)


def probe_of(manifest: Mapping[str, Any] | None) -> Probe | None:
    """A probe as it stands in a manifest (containers[].readinessProbe); None for none. Raises ValueError."""
    if manifest is None:
        return None
    fields = {
        "initial_delay": "initialDelaySeconds",
        "period": "periodSeconds",
        "timeout": "timeoutSeconds",
        "success_threshold": "successThreshold",
        "failure_threshold": "failureThreshold",
        "termination_grace": "terminationGracePeriodSeconds",
    }
    # A period of 0 is what an absent one looks like to the API server: it sets the default.
    return Probe(**{name: manifest[theirs] for name, theirs in fields.items() if manifest.get(theirs)})
