"""QoS classes and what the kubelet derives from them: the cases of upstream's rules, by hand."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.contention import UNLIMITED, QosClass, oom_score_adjust, pod_resources, qos_class
from stowplan_scheduler.objects import Container, Pod, PodSpec, ResourceMap, ResourceRequirements

GI = 1024**3
SMALL: ResourceMap = {"cpu": "100m", "memory": "1Gi"}
LARGE: ResourceMap = {"cpu": "200m", "memory": "2Gi"}


def container(
    requests: ResourceMap | None = None, limits: ResourceMap | None = None, restart_policy: str | None = None
) -> Container:
    return Container(
        name="c", resources=ResourceRequirements(requests=requests, limits=limits), restart_policy=restart_policy
    )


def pod(*containers: Container, init: tuple[Container, ...] = (), **spec: object) -> Pod:
    return Pod(spec=PodSpec(containers=containers, init_containers=init, **spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod(container()), "BestEffort"),
        (pod(container({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"})), "BestEffort"),
        (pod(container({"cpu": "0"})), "BestEffort"),
        (pod(container(SMALL, SMALL)), "Guaranteed"),
        (pod(container({"cpu": "0.1", "memory": "1024Mi"}, SMALL)), "Guaranteed"),
        (pod(container(SMALL, LARGE)), "Burstable"),
        (pod(container(SMALL)), "Burstable"),
        (pod(container({"cpu": "1"}, {"cpu": "1"})), "Burstable"),
        (pod(container(SMALL, SMALL), container()), "Burstable"),
        (pod(container(SMALL, SMALL), init=(container(),)), "Burstable"),
        (pod(container(SMALL, SMALL), init=(container(LARGE, LARGE),)), "Guaranteed"),
        (pod(container(SMALL), resources=ResourceRequirements(requests=LARGE, limits=LARGE)), "Guaranteed"),
        (pod(container(SMALL, SMALL), resources=ResourceRequirements()), "Guaranteed"),
    ],
)
def test_the_class_follows_requests_and_limits(made: Pod, expected: str) -> None:
    """ComputePodQOS: every container, init containers too; the pod's own resources, if any, decide alone."""
    assert qos_class(made).text == expected


def test_limits_hold_for_a_pod_only_if_every_container_has_one() -> None:
    """ResourceConfigForPod: requests add up in any case."""
    both = pod_resources(pod(container(SMALL, LARGE), container(SMALL, LARGE)), memory_capacity=8 * GI)
    assert (both.cpu_request, both.cpu_limit, both.memory_request, both.memory_limit) == (200, 400, 2 * GI, 4 * GI)
    one = pod_resources(pod(container(SMALL, LARGE), container(SMALL, {"cpu": "1"})), memory_capacity=8 * GI)
    assert (one.cpu_limit, one.memory_limit) == (1200, UNLIMITED)
    whole = pod_resources(pod(container(SMALL), resources=ResourceRequirements(limits=LARGE)), memory_capacity=8 * GI)
    assert (whole.cpu_limit, whole.memory_limit) == (200, 2 * GI)


def test_overhead_counts_for_requests_and_limits() -> None:
    """The sandbox runs inside the pod's control group."""
    found = pod_resources(pod(container(SMALL, LARGE), overhead={"cpu": "50m"}), memory_capacity=8 * GI)
    assert (found.cpu_request, found.cpu_limit) == (150, 250)


def test_only_high_priorities_are_critical() -> None:
    """2,000,000,000 and above: the two classes of the system."""
    assert pod_resources(pod(container(), priority=2_000_000_000), memory_capacity=GI).critical
    assert not pod_resources(pod(container(), priority=1_999_999_999), memory_capacity=GI).critical


@pytest.mark.parametrize(
    ("made", "score"),
    [
        (pod(container()), 1000),
        (pod(container(SMALL, SMALL)), -997),
        (pod(container(SMALL)), 875),
        (pod(container({"memory": "1Ki"})), 999),
        (pod(container({"memory": "8Gi"})), 3),
        (pod(container(), priority=2_000_001_000, priority_class_name="system-node-critical"), -997),
        (pod(container({"memory": "1Gi"}), resources=ResourceRequirements(requests={"memory": "3Gi"})), 625),
    ],
)
def test_the_kernel_is_told_whom_to_kill_first(made: Pod, score: int) -> None:
    """GetContainerOOMScoreAdjust on a node of 8Gi: a request of 1Gi is an eighth, so 1000 - 125.

    The last: 2Gi that the pod asks for beyond its container count as the container's.
    """
    got = oom_score_adjust(made, made.spec.containers[0], qos_class(made), 8 * GI)
    assert got == score
    assert pod_resources(made, memory_capacity=8 * GI).oom_score == score


def test_classes_have_an_order() -> None:
    """Who suffers first."""
    assert QosClass.BEST_EFFORT < QosClass.BURSTABLE < QosClass.GUARANTEED
