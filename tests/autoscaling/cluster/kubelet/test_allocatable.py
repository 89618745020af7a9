"""Node allocatable: capacity minus reservations, as kubelet computes it."""

from __future__ import annotations

from stowplan_autoscaling.cluster.kubelet import allocatable

GIB = 1 << 30


def test_reservations_and_thresholds_are_taken_from_the_capacity() -> None:
    """The documented example shape: 16 cores, 32 GiB, 100 GiB; kube 1 core and 2 GiB, system 500m and 1 GiB.

    Memory: 32 - 2 - 1 GiB - 500 MiB. Disk: 10 % as a 32-bit number, 0.100000001490116, of 107374182400 is 10737418400.
    """
    left = allocatable(
        {"cpu": "16", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"},
        kube_reserved={"cpu": "1", "memory": "2Gi"},
        system_reserved={"cpu": "500m", "memory": "1Gi"},
        eviction_hard={"memory.available": "500Mi", "nodefs.available": "10%"},
    )
    assert left == {
        "cpu": "14500m",
        "memory": str(29 * GIB - 500 * (1 << 20)),
        "ephemeral-storage": str(107374182400 - 10737418400),
        "pods": "110",
    }


def test_without_settings_only_the_default_thresholds_are_taken() -> None:
    """kubelet's defaults keep 100Mi of memory and 10 % of the disk; 110 pods where the capacity names no number."""
    assert allocatable({"cpu": "4", "memory": "1Gi"}) == {
        "cpu": "4",
        "memory": str(GIB - 100 * (1 << 20)),
        "pods": "110",
    }


def test_nothing_is_left_rather_than_less_than_nothing() -> None:
    """Negative allocatable amounts make no sense: MachineInfo sets them to 0."""
    assert allocatable({"memory": "1Gi", "pods": "5"}, kube_reserved={"memory": "2Gi"})["memory"] == "0"


def test_huge_pages_come_out_of_the_memory() -> None:
    """Pages that are reserved at boot are no memory for anybody else."""
    left = allocatable({"memory": "4Gi", "hugepages-2Mi": "1Gi"}, eviction_hard={})
    assert left["memory"] == str(3 * GIB)
    assert left["hugepages-2Mi"] == str(GIB)


def test_signals_that_are_no_resource_take_nothing() -> None:
    """Inodes and the image disk have thresholds, but pods cannot ask for them."""
    assert allocatable({"memory": "1Gi"}, eviction_hard={"imagefs.available": "15%"})["memory"] == str(GIB)
