"""Tests of the queueing hints of NodeResourcesFit."""

from __future__ import annotations

import pytest

from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.cluster_event import Action, EventRegistration, Hint
from stowplan_scheduler.framework.cluster_event import Resource as EventResource
from stowplan_scheduler.objects import DeviceClass, DeviceClassSpec, ObjectMeta
from stowplan_scheduler.plugins.node_resources.hints import events
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.tables import ask, info_of

GPU = "example.com/gpu"


def registration(resource: EventResource, action: Action, stores: Stores | None = None) -> EventRegistration:
    """The one registration that names the resource and contains the action."""
    (found,) = [r for r in events(stores or Stores()) if r.event.resource is resource and r.event.action & action]
    return found


def gpu_class(name: str = "gpus", resource: str | None = GPU) -> DeviceClass:
    """A class that serves a resource."""
    return DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource))


@pytest.mark.parametrize(
    ("wanting", "added", "hint"),
    [
        (pod("p").req(cpu="4"), node("n"), Hint.QUEUE),
        (pod("p").req(cpu="4001m"), node("n"), Hint.SKIP),
        (pod("p").req(memory="16Gi"), node("n"), Hint.QUEUE),
        (pod("p").req(memory="17Gi"), node("n"), Hint.SKIP),
        (pod("p").req(ephemeral_storage="1"), node("n"), Hint.SKIP),
        (pod("p").req(gpu="1"), node("n"), Hint.SKIP),
        (pod("p").req(gpu="1"), node("n").capacity(gpu="1"), Hint.QUEUE),
        (pod("p"), node("n").capacity(pods="0"), Hint.SKIP),
        (pod("p"), node("n"), Hint.QUEUE),
        (pod("p").pod_level(cpu="5").req(cpu="1"), node("n"), Hint.SKIP),
    ],
)
def test_new_node_helps_if_the_empty_node_would_do(wanting: PodBuilder, added: NodeBuilder, hint: Hint) -> None:
    """What runs on it is the next cycle's business; pod-level requests count."""
    on_node = registration(EventResource.NODE, Action.ADD)
    assert ask(on_node.hint, info_of(wanting.build()), None, added.build()) is hint


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        (node("n").capacity(cpu="1"), node("n").capacity(cpu="2"), Hint.QUEUE),
        (node("n").capacity(cpu="2"), node("n").capacity(cpu="2"), Hint.SKIP),
        (node("n").capacity(cpu="3"), node("n").capacity(cpu="2"), Hint.SKIP),
        (node("n").capacity(memory="1Gi"), node("n").capacity(memory="2Gi"), Hint.SKIP),
        (node("n").capacity(pods="1"), node("n").capacity(pods="2"), Hint.QUEUE),
        (node("n").capacity(cpu="500m"), node("n").capacity(cpu="900m"), Hint.SKIP),
    ],
)
def test_update_helps_if_something_that_counts_has_grown(before: NodeBuilder, after: NodeBuilder, hint: Hint) -> None:
    """The pod asks for one core: more memory does nothing for it, more pods always may."""
    on_node = registration(EventResource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
    assert ask(on_node.hint, info_of(pod("p").req(cpu="1").build()), before.build(), after.build()) is hint


def test_pod_without_requests_is_helped_by_room_for_pods_alone() -> None:
    """It can only have been rejected by the number of pods."""
    on_node = registration(EventResource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
    info, small = info_of(pod("p").build()), node("n").capacity(pods="1").build()
    assert ask(on_node.hint, info, small, node("n").capacity(pods="1", cpu="8").build()) is Hint.SKIP
    assert ask(on_node.hint, info, small, node("n").capacity(pods="2").build()) is Hint.QUEUE


def test_resource_that_devices_may_serve_counts_as_there() -> None:
    """Only where the node itself has none of it; then DynamicResources decides."""
    stores = Stores()
    on_node = registration(EventResource.NODE, Action.ADD, stores)
    info = info_of(pod("p").req(gpu="2").build())
    assert ask(on_node.hint, info, None, node("n").build()) is Hint.SKIP
    stores.served.put(gpu_class())
    assert ask(on_node.hint, info, None, node("n").build()) is Hint.QUEUE
    assert ask(on_node.hint, info, node("n").build(), node("n").build()) is Hint.QUEUE
    assert ask(on_node.hint, info, None, node("n").capacity(gpu="1").build()) is Hint.SKIP


def test_deleted_pod_helps_if_it_had_a_place() -> None:
    """A nominated pod holds its resources, too."""
    on_delete = registration(EventResource.ASSIGNED_POD, Action.DELETE)
    info = info_of(pod("p").req(cpu="1").build())
    assert ask(on_delete.hint, info, pod("d").on("n").build()) is Hint.QUEUE
    assert ask(on_delete.hint, info, pod("d").nominated("n").build()) is Hint.QUEUE
    assert ask(on_delete.hint, info, pod("d").build()) is Hint.SKIP


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        (pod("d").req(cpu="2").on("n"), pod("d").req(cpu="1").on("n"), Hint.QUEUE),
        (pod("d").req(cpu="1").on("n"), pod("d").req(cpu="1").on("n"), Hint.SKIP),
        (pod("d").req(cpu="1").on("n"), pod("d").req(cpu="2").on("n"), Hint.SKIP),
        (pod("d").req(memory="2Gi").on("n"), pod("d").req(memory="1Gi").on("n"), Hint.SKIP),
        (pod("d").req(cpu="2"), pod("d").req(cpu="1"), Hint.SKIP),
    ],
)
def test_scaled_down_pod_helps_if_it_frees_what_the_waiting_pod_asks_for(
    before: PodBuilder, after: PodBuilder, hint: Hint
) -> None:
    """The waiting pod asks for cpu."""
    on_scale_down = registration(EventResource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
    assert ask(on_scale_down.hint, info_of(pod("p").req(cpu="1").build()), before.build(), after.build()) is hint


def test_own_scale_down_always_helps() -> None:
    """The pod asks for less than when it was rejected."""
    own = registration(EventResource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)
    assert ask(own.hint, info_of(pod("p").build())) is Hint.QUEUE


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        (None, gpu_class(), Hint.QUEUE),
        (None, gpu_class(resource="example.com/fpga"), Hint.SKIP),
        (None, gpu_class(resource=None), Hint.SKIP),
        (gpu_class(), gpu_class(), Hint.SKIP),
        (gpu_class(resource=None), gpu_class(), Hint.QUEUE),
        (gpu_class(), gpu_class(resource=None), Hint.SKIP),
    ],
)
def test_device_class_helps_if_it_comes_to_serve_the_resource(
    before: DeviceClass | None, after: DeviceClass, hint: Hint
) -> None:
    """An unchanged name is no news."""
    on_class = registration(EventResource.DEVICE_CLASS, Action.UPDATE)
    assert ask(on_class.hint, info_of(pod("p").req(gpu="1").build()), before, after) is hint


def test_implicit_name_of_a_class_counts_when_the_class_is_new() -> None:
    """It cannot change afterwards."""
    on_class = registration(EventResource.DEVICE_CLASS, Action.ADD)
    info = info_of(pod("p").req(**{"deviceclass.resource.kubernetes.io/gpus": "1"}).build())
    assert ask(on_class.hint, info, None, gpu_class(resource=None)) is Hint.QUEUE
    assert ask(on_class.hint, info, gpu_class(), gpu_class(resource=None)) is Hint.SKIP


def test_object_of_another_kind_raises() -> None:
    """The queue takes an exception for "try again"."""
    on_node = registration(EventResource.NODE, Action.ADD)
    with pytest.raises(TypeError, match="expected Node, but got Pod"):
        ask(on_node.hint, info_of(pod("p").build()), None, pod("q").build())
    with pytest.raises(TypeError, match="the event lacks its object"):
        ask(on_node.hint, info_of(pod("p").build()), None, None)
