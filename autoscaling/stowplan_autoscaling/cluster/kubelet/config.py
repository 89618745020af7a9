"""What a kubelet is told: its settings, with upstream's defaults, and which image is how large.

Every time that is not upstream's constant is a `Delay` here or in `application.py`, with its source. Constants that
nobody configures stand where they are used. Sources named "kubelet" are pkg/kubelet and
pkg/kubelet/apis/config/v1beta1/defaults.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .delays import NO_DELAY, Delay, log_normal, uniform

SANDBOX: Final = uniform(0.5, 2.0)
PULL_SPREAD: Final = log_normal(1.0, 0.6)
REGISTRY_REQUEST: Final = uniform(0.12, 0.35)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig:
    """Settings of the kubelets of a cluster, or of one node. Raises ValueError."""

    watch_latency: float = 0.0
    """Seconds from a write at the API server until the kubelet has it. 0 as for every watch of the virtual cluster; the
    same option of the run sets them all."""

    sandbox: Delay = SANDBOX
    """From admission until the pod's sandbox and network are there, containers' creation included. Estimate from
    reported start-ups; a default network plug-in alone was seen to take 1.5 s (containerd pull request 6111), pods that
    wait for nothing else were ready after about 2 s in Kubernetes' scalability tests (kubernetes issue 103578)."""

    container_start: Delay = NO_DELAY
    """From the image being there until the container runs. 0: counted in `sandbox`."""

    pull_rate: float = 30e6
    """Bytes per second of one pull, unpacking included. Measured pulls: 736 MB in 97 to 185 s, 1.13 GB in 29 to 41 s,
    12 GB in 120 to 480 s, that is 4 to 100 MB/s."""

    pull_spread: Delay = PULL_SPREAD
    """Factor on the time of a pull, drawn per node and image: the spread of the measurements above."""

    registry_request: Delay = REGISTRY_REQUEST
    """What the registry takes to say which image a name means: the first part of every pull, and all of a pull of an
    image that is on the node already (policy Always) or does not exist. Kubelet's own "Successfully pulled image"
    messages of images that were there report 117 to 351 ms."""

    serialize_image_pulls: bool = True
    """One pull at a time (kubelet: serializeImagePulls)."""

    max_parallel_image_pulls: int = 0
    """Pulls at a time if they are not serialized; 0: any number (kubelet: maxParallelImagePulls)."""

    registry_pull_qps: float = 5.0
    """Pulls per second that may begin; 0: any number. A pull beyond that fails (kubelet: registryPullQPS)."""

    registry_burst: int = 10
    """Pulls that may begin at once (kubelet: registryBurst)."""

    image_gc_high: float = 0.85
    """Share of the disk above which unused images are removed (kubelet: imageGCHighThresholdPercent)."""

    image_gc_low: float = 0.80
    """Share of the disk down to which they are (kubelet: imageGCLowThresholdPercent)."""

    image_gc_min_age: float = 120.0
    """Seconds for which an image is kept in any case (kubelet: imageMinimumGCAge)."""

    image_disk: int | None = None
    """Bytes of the disk for images; None: the node's ephemeral storage, without limit if it has none."""

    reports_images: bool = True
    """Whether the node's status lists its images, which the scheduler's ImageLocality reads."""

    pleg_relist: float = 1.0
    """Seconds between two looks at the containers (kubelet: genericPlegRelistPeriod). The first look of a node is at a
    moment of its own within the first period."""

    sync_period: float = 60.0
    """Seconds, at least, between two syncs of a pod that nothing else asks for (kubelet: syncFrequency)."""

    crash_loop_initial: float = 10.0
    """Seconds before the second restart (kubelet: initialCrashLoopBackOff)."""

    crash_loop_max: float = 300.0
    """Most seconds before a restart (kubelet: MaxCrashLoopBackOff, crashLoopBackOff.maxContainerRestartPeriod)."""

    max_pods: int = 110
    """Pods of a node whose status names no number (kubelet: maxPods)."""

    def __post_init__(self) -> None:
        for name in ("watch_latency", "image_gc_min_age", "registry_pull_qps", "crash_loop_initial"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "must be at least 0")
        for name in ("pull_rate", "pleg_relist", "sync_period", "crash_loop_max"):
            _check(name, getattr(self, name), getattr(self, name) > 0, "must be more than 0")
        _check(
            "max_parallel_image_pulls",
            self.max_parallel_image_pulls,
            self.max_parallel_image_pulls >= 0,
            "must be at least 0",
        )
        _check("registry_burst", self.registry_burst, self.registry_burst >= 1, "must be at least 1")
        _check("image_gc_high", self.image_gc_high, 0 < self.image_gc_high <= 1, "must be more than 0 and at most 1")
        _check(
            "image_gc_low",
            self.image_gc_low,
            0 <= self.image_gc_low < self.image_gc_high,
            "must be at least 0 and less than image_gc_high",
        )
        _check("image_disk", self.image_disk, self.image_disk is None or self.image_disk > 0, "must be more than 0")

    @property
    def pulls_at_once(self) -> int:
        """Pulls that run at the same time; 0: any number."""
        return 1 if self.serialize_image_pulls else self.max_parallel_image_pulls


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCatalog:
    """What the registry holds. Names as in containers[].image; a name without a tag means the tag "latest"."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes that are pulled, by name."""

    default_size: int = 0
    """Bytes of images that are not named. An image of 0 bytes is on every node already."""

    failing: frozenset[str] = frozenset()
    """Images that cannot be pulled: they do not exist, or nobody may read them."""

    def __post_init__(self) -> None:
        for name, size in self.sizes.items():
            _check(f"sizes[{name}]", size, size >= 0, "must be at least 0")
        _check("default_size", self.default_size, self.default_size >= 0, "must be at least 0")

    def size(self, name: str) -> int:
        """Bytes of an image."""
        return self.sizes.get(name, self.default_size)


def _check(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(f"{name}: {value!r}: {rule}")
