"""Pods with finalizers: deletion waits for them."""

from __future__ import annotations

from msgspec.structs import replace

from stowplan_autoscaling.cluster.api_server import ApiServer
from stowplan_autoscaling.cluster.feed import ChangeFeed
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.kernel import SECOND, Kernel
from stowplan_scheduler.objects import ObjectMeta, PodSpec


def server_with(node: str) -> ApiServer:
    kernel = Kernel(1000 * SECOND)
    server = ApiServer(kernel, ChangeFeed(kernel))
    meta = ObjectMeta(name="p", namespace="default", finalizers=("x",))
    server.create("Pod", ClusterPod(metadata=meta, spec=PodSpec(node_name=node)))
    return server


def release(server: ApiServer) -> None:
    pod: ClusterPod = server.get("Pod", "default/p")
    server.put("Pod", replace(pod, metadata=replace(pod.metadata, finalizers=())))


def test_pod_without_a_node_stays_until_its_finalizer_is_gone() -> None:
    """Its grace is 0, so the last finalizer takes it along."""
    server = server_with("")
    server.delete("Pod", "default/p")
    pod: ClusterPod = server.get("Pod", "default/p")
    assert (pod.deleted, pod.metadata.deletion_grace_period_seconds) == (1000 * SECOND, 0)
    release(server)
    assert server.find("Pod", "default/p") is None


def test_pod_on_a_node_waits_for_its_kubelet_and_its_finalizer() -> None:
    """In either order; the deletion time moves forward when the kubelet is done early."""
    server = server_with("n")
    server.delete("Pod", "default/p")
    assert server.get("Pod", "default/p").deleted == 1030 * SECOND
    server.delete("Pod", "default/p", grace=0)
    assert server.get("Pod", "default/p").deleted == 1000 * SECOND
    release(server)
    assert server.find("Pod", "default/p") is None
    server = server_with("n")
    server.delete("Pod", "default/p")
    release(server)
    assert server.find("Pod", "default/p") is not None
    server.delete("Pod", "default/p", grace=0)
    assert server.find("Pod", "default/p") is None
