"""The pod that Karpenter imagines for a DaemonSet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan_autoscaling.cluster.controllers.daemon_set.placement import new_pod

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
    from stowplan_scheduler.objects import Container, Pod


def daemon_pod(daemon_set: DaemonSet) -> Pod:
    """A pod of it; limits stand in for requests that are missing.

    Follows pkg/controllers/provisioning/provisioner.go of Karpenter core v1.15.0.
    """
    pod = new_pod(daemon_set, "")
    containers = tuple(map(_filled, pod.spec.containers))
    init_containers = tuple(map(_filled, pod.spec.init_containers))
    return replace(pod, spec=replace(pod.spec, containers=containers, init_containers=init_containers))


def _filled(container: Container) -> Container:
    resources = container.resources
    requests = {**(resources.limits or {}), **(resources.requests or {})}
    return replace(container, resources=replace(resources, requests=requests))
