"""One input line of the mode "hpa".

Times are seconds since the start, amounts are whole milli units. Field by field this is internal/hpasim/scenario.go of
the oracle, where the meaning of each is documented.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stowplan_autoscaling.demand.points import UsageSpec
from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec
from stowplan_scheduler.objects import PodSpec

RawSeries = tuple[tuple[int | float, ...], ...]


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all parts: absent fields have their zero values."""


class Fault(Part, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Active for from <= t < to. Of metrics: error, empty, pods, container, resource, ghost; of scales: get, update,
    conflict.
    """

    from_: float
    to: float
    kind: str
    pods: tuple[str, ...] = ()
    container: str = ""
    resource: str = ""
    count: int = 0
    value: int = 0


class Config(Part, frozen=True, kw_only=True):
    """Flags of the controller in seconds; 0: its default."""

    sync_period: float = 0
    tolerance: float = 0
    downscale_stabilization: float = 0
    cpu_initialization_period: float = 0
    initial_readiness_delay: float = 0


class Target(Part, frozen=True, kw_only=True):
    """The scaled workload. `selector` is made from the labels where it is absent."""

    kind: str
    name: str
    replicas: int
    labels: dict[str, str] = {}
    selector: str | None = None
    pod_template: PodSpec = PodSpec()


class PodModel(Part, frozen=True, kw_only=True):
    """How pods live: Pending for startup, unready for ready, deleting for terminate seconds."""

    startup: float = 0
    ready: float = 0
    terminate: float = 0
    age: float = 0
    fresh: int = 0
    capacity: int = 0
    status_lag: float = 0


class PodStep(Part, frozen=True, kw_only=True):
    """Creates or changes one pod."""

    t: float
    pod: str
    create: PodSpec | None = None
    phase: str = ""
    ready: bool | None = None
    no_ready: bool = False
    unknown: bool = False
    start: float | None = None
    no_start: bool = False
    deleting: bool = False
    gone: bool = False
    transition: float | None = None


class HPAStep(Part, frozen=True, kw_only=True):
    """Replaces the spec of the autoscaler."""

    t: float
    spec: HorizontalPodAutoscalerSpec


class Share(Part, frozen=True, kw_only=True):
    """A container's part of a pod's usage."""

    container: str
    weight: int


class Sampled(Part, frozen=True, kw_only=True):
    """A scraper: it measures every interval, and what it measured can be read delay later; interval 0: live."""

    interval: float = 0
    delay: float = 0
    warmup: float = 0
    faults: tuple[Fault, ...] = ()


class ResourceAPI(Sampled, frozen=True, kw_only=True):
    """metrics.k8s.io."""

    window: float = 0
    usage: dict[str, UsageSpec] = {}
    split: tuple[Share, ...] = ()


class PodsAPI(Sampled, frozen=True, kw_only=True):
    """One custom metric of pods."""

    window: int | None = None
    usage: UsageSpec = UsageSpec()


class QueueModel(Part, frozen=True, kw_only=True):
    """Changes at every whole second: length = max(0, length + arrival - service * ready pods)."""

    initial: int = 0
    arrival: RawSeries = ()
    linear: bool = False
    service: int = 0


class ValueAPI(Part, frozen=True, kw_only=True):
    """One object or external metric: a series or a queue."""

    series: RawSeries = ()
    linear: bool = False
    queue: QueueModel | None = None
    faults: tuple[Fault, ...] = ()


class Metrics(Part, frozen=True, kw_only=True):
    """The three metrics APIs."""

    resource: ResourceAPI | None = None
    pods: dict[str, PodsAPI] = {}
    object: dict[str, ValueAPI] = {}
    external: dict[str, ValueAPI] = {}


class Scenario(Part, frozen=True, kw_only=True):
    """The whole line."""

    id: str
    hpa: HorizontalPodAutoscaler
    target: Target
    pods: PodModel = PodModel()
    metrics: Metrics = Metrics()
    script: tuple[PodStep, ...] = ()
    scale_script: tuple[tuple[float, float], ...] = ()
    hpa_script: tuple[HPAStep, ...] = ()
    scale_faults: tuple[Fault, ...] = ()
    rivals: tuple[str, ...] = ()
    config: Config = Config()
    until: float


def read_scenario(line: dict[str, Any]) -> Scenario:
    """The scenario of a decoded line. Raises msgspec.ValidationError."""
    return msgspec.convert(line, Scenario)


def active(faults: Sequence[Fault], kind: str, t: float) -> Fault | None:
    """The first fault of a kind that is active at a time."""
    for fault in faults:
        if fault.kind == kind and fault.from_ <= t < fault.to:
            return fault
    return None
