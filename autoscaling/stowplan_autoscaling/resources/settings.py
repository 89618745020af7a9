"""spec.kubelet and spec.controllers: settings of Kubernetes' own parts, with upstream's defaults."""

from __future__ import annotations

from typing import Annotated, Any

from .base import FromList, ObjectRef, Part, needed, option, parts
from .values import Bytes, Duration, Number, PositiveDuration, PositiveNumber, Share, Spread

_KUBELET = "kubelet v1.37.2"
_MANAGER = "kube-controller-manager v1.37.2"


def _flag(default: Any, name: str, description: str, **limits: Any) -> Any:
    return option(default, f"{description} (--{name}).", source=_MANAGER, **limits)


# ---- kubelet -------------------------------------------------------------------------------------------------------


class Image(Part):
    """The size of an image."""

    name: str = needed("Name as in containers[].image.", min_length=1, max_length=512)
    size: Bytes = needed("Bytes that are pulled.")
    missing: bool = option(False, "It cannot be pulled: it does not exist, or nobody may read it.")


class StartUp(Part):
    """How long the application in a workload's pods takes to start and to stop."""

    target: ObjectRef = needed("The workload.")
    median: Duration = needed("From the start of the container until it answers; half of the pods take longer.")
    sigma: Spread = option(0, "Standard deviation of its logarithm; 0: always the same.")
    stop: Duration = option("0s", "From SIGTERM until it has ended; cut off by the grace period.")


class KubeletSpec(Part):
    """How a bound pod becomes ready. One draw of each delay per pod, from a stream of its own."""

    images: Annotated[tuple[Image, ...], FromList] = parts(
        "Sizes of images. A node keeps what it has pulled.", max_length=10_000
    )
    default_image_size: Bytes = option("0", "Size of images that are not listed; 0: they are on every node already.")
    pull_rate: PositiveNumber = option(
        "30M",
        "Bytes per second of one pull, unpacking included.",
        source="measured pulls: 736 MB in 97 to 185 s, 1.13 GB in 29 to 41 s",
    )
    pull_sigma: Spread = option(
        "0.6", "Standard deviation of the logarithm of a pull's time.", source="the spread of the same pulls"
    )
    serialize_image_pulls: bool = option(
        True, "A node pulls one image at a time (serializeImagePulls).", source=_KUBELET
    )
    max_parallel_image_pulls: int = option(
        0,
        "Images that a node pulls at once where they are not serialized (maxParallelImagePulls); 0: any number.",
        source=_KUBELET,
        ge=0,
    )
    registry_pull_qps: Number = option(
        5,
        "Pulls per second that a node begins (registryPullQPS); 0: any number.",
        source=_KUBELET,
        alias="registryPullQPS",
    )
    registry_burst: int = option(10, "Pulls that it may begin at once (registryBurst).", source=_KUBELET, ge=1)
    sandbox_min: Duration = option(
        "500ms", "Shortest time for a pod's sandbox and network.", source="reported start-ups: 0.5 to 2 s"
    )
    sandbox_max: Duration = option("2s", "Longest time; in between all are equally likely.", source="the same")
    container_start: Duration = option("0s", "From the image being there until the container runs.")
    pleg_relist: PositiveDuration = option("1s", "Time between two looks at the containers.", source=_KUBELET)
    startups: Annotated[tuple[StartUp, ...], FromList] = parts(
        "Applications that take time to start. All others answer at once.", max_length=1000
    )


# ---- controllers ---------------------------------------------------------------------------------------------------


class HpaSettings(Part):
    """The HorizontalPodAutoscaler controller."""

    sync_period: PositiveDuration = _flag(
        "15s", "horizontal-pod-autoscaler-sync-period", "Time between two looks at an HPA"
    )
    tolerance: Number = _flag(
        "0.1", "horizontal-pod-autoscaler-tolerance", "Share of the target within which nothing is done"
    )
    initial_readiness_delay: Duration = _flag(
        "30s", "horizontal-pod-autoscaler-initial-readiness-delay", "Time in which a change of readiness is the first"
    )
    cpu_initialization_period: Duration = _flag(
        "5m",
        "horizontal-pod-autoscaler-cpu-initialization-period",
        "Time after its start in which a pod's cpu may be left out",
    )
    downscale_stabilization: Duration = _flag(
        "5m",
        "horizontal-pod-autoscaler-downscale-stabilization",
        "How far back a higher recommendation prevents scaling down",
    )
    concurrent_syncs: int = option(5, "Workers (--concurrent-horizontal-pod-autoscaler-syncs).", source=_MANAGER, ge=1)


class NodeLifecycle(Part):
    """The node lifecycle controller and taint eviction."""

    monitor_period: PositiveDuration = _flag("5s", "node-monitor-period", "Time between two looks at the nodes")
    monitor_grace_period: PositiveDuration = _flag(
        "50s", "node-monitor-grace-period", "Silence after which a node is unreachable"
    )
    startup_grace_period: PositiveDuration = _flag(
        "1m", "node-startup-grace-period", "The same for a node that has never reported"
    )
    eviction_rate: Number = _flag("0.1", "node-eviction-rate", "Nodes per second whose pods are evicted")
    secondary_eviction_rate: Number = _flag("0.01", "secondary-node-eviction-rate", "The same in an unhealthy zone")
    unhealthy_zone_threshold: Share = _flag(
        "0.55", "unhealthy-zone-threshold", "Share of nodes that are not ready which makes a zone unhealthy"
    )
    large_cluster_threshold: int = option(
        50,
        "Nodes up to which an unhealthy zone evicts nothing (--large-cluster-size-threshold).",
        source=_MANAGER,
        ge=0,
    )


class PodGarbage(Part):
    """The pod garbage collector."""

    quarantine: Duration = option("40s", "Time that a node must be gone before its pods are removed.", source=_MANAGER)
    terminated_pod_threshold: int = option(
        12_500, "Finished pods that are kept (--terminated-pod-gc-threshold).", source=_MANAGER, ge=0
    )


class SchedulerTiming(Part):
    """How long the scheduler takes; what it decides is in spec.schedulerProfiles."""

    attempt: Duration = option(
        "1ms",
        "Virtual time of one attempt.",
        source="kube-scheduler v1.37.2, which places about 900 pods a second of one core",
    )


class ControllersSpec(Part):
    """The controllers of kube-controller-manager, and the scheduler's pace."""

    client_qps: PositiveNumber = _flag(
        20, "kube-api-qps", "Requests per second of each controller's client", alias="clientQPS"
    )
    client_burst: int = option(30, "Requests at once (--kube-api-burst).", source=_MANAGER, ge=1)
    watch_latency: Duration = option("0s", "Time from a write until those who watch see it.")
    hpa: HpaSettings = option({}, "The HPA controller.")
    node_lifecycle: NodeLifecycle = option({}, "Lost nodes.")
    pod_garbage: PodGarbage = option({}, "Pods of nodes that are gone, and finished pods.")
    scheduler: SchedulerTiming = option({}, "The scheduler's pace.")
