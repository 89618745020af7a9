"""Tests of extended resources that device classes serve: NodeResourcesFit leaves them, DynamicResources decides."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.config.plugin_args import NodeResourcesFitArgs
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import AttemptFailed, Bind
from stowplan_scheduler.events import ApiObject, ObjectAdded, ObjectDeleted, ObjectUpdated, TimerFired
from stowplan_scheduler.extended_resources import ServedResources
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, Resource
from stowplan_scheduler.framework.status import Code
from stowplan_scheduler.objects import (
    DeviceClass,
    DeviceClassSpec,
    ObjectMeta,
    Pod,
    ResourceSlice,
    ResourceSliceSpec,
)
from stowplan_scheduler.plugins.node_resources.fit import NodeResourcesFit
from stowplan_scheduler.plugins.volumes_and_devices import DynamicResources
from stowplan_scheduler.scheduler import Scheduler
from support.builders import node, pod
from support.tables import World

GPU = "example.com/gpu"
FPGA = "example.com/fpga"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpus"
SLICE = ResourceSlice(metadata=ObjectMeta(name="s"), spec=ResourceSliceSpec(driver="gpu.example.com", node_name="none"))
REFUSAL = "the pod uses an extended resource served by a device class, which Stowplan does not decide yet"
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SECOND = 1_000_000_000


def gpus(name: str = "gpus", resource: str | None = GPU, created: str | None = None) -> DeviceClass:
    """A class that serves a resource."""
    metadata = ObjectMeta(name=name, creation_timestamp=created)
    return DeviceClass(metadata=metadata, spec=DeviceClassSpec(extended_resource_name=resource))


def mixed_world(*classes: DeviceClass) -> World:
    """Nodes with two of the resource, with a listed 0, and without it."""
    world = World(
        [node("two").capacity(gpu="2").build(), node("zero").capacity(gpu="0").build(), node("without").build()]
    )
    for device_class in classes:
        world.cluster.stores.served.put(device_class)
    return world


def fit(world: World, *ignored: str) -> NodeResourcesFit:
    """The plugin over the world's device classes."""
    return NodeResourcesFit(NodeResourcesFitArgs(ignored_resources=ignored), world.cluster.stores)


def wanting(**requests: str) -> Pod:
    """A pod with these requests."""
    return pod("p").req(**requests).build()


# ---- what is served ------------------------------------------------------------------------------


def test_class_serves_the_resource_it_names_and_one_that_bears_its_name() -> None:
    """Until it is gone or names another one."""
    served = ServedResources()
    served.put(gpus())
    assert [name in served for name in (GPU, IMPLICIT, FPGA)] == [True, True, False]
    served.put(gpus(resource=FPGA), gpus())
    assert [name in served for name in (GPU, IMPLICIT, FPGA)] == [False, True, True]
    served.remove(gpus(resource=FPGA))
    assert not served


def test_older_class_that_names_the_same_resource_is_left_out_as_a_whole() -> None:
    """Upstream returns before it notes the implicit name, so that is not served either."""
    served = ServedResources()
    served.put(gpus("new", created="2001-01-01T00:00:00Z"))
    served.put(gpus("old", created="2000-01-01T00:00:00Z"))
    assert "deviceclass.resource.kubernetes.io/new" in served
    assert "deviceclass.resource.kubernetes.io/old" not in served


@pytest.mark.parametrize(("second", "taken"), [("a", True), ("c", False)])
def test_name_decides_between_classes_of_the_same_age(second: str, taken: bool) -> None:
    """The one that comes first in the alphabet has the resource."""
    served = ServedResources()
    served.put(gpus("b", created="2000-01-01T00:00:00Z"))
    served.put(gpus(second, created="2000-01-01T00:00:00Z"))
    assert (f"deviceclass.resource.kubernetes.io/{second}" in served) is taken


def test_resource_is_served_no_more_once_one_of_two_classes_is_gone() -> None:
    """Upstream keeps one class per resource and does not look for another one."""
    served = ServedResources()
    served.put(gpus("a", created="2000-01-01T00:00:00Z"))
    served.put(gpus("b", created="2001-01-01T00:00:00Z"))
    served.remove(gpus("a", created="2000-01-01T00:00:00Z"))
    assert GPU not in served
    assert "deviceclass.resource.kubernetes.io/b" in served


# ---- NodeResourcesFit ----------------------------------------------------------------------------


def test_fit_leaves_a_served_resource_to_devices_only_where_the_node_has_none() -> None:
    """The node with two of it still has too little for three."""
    world = mixed_world()
    assert world.passing(fit(world), wanting(gpu="3")) == []
    world.cluster.stores.served.put(gpus())
    assert world.passing(fit(world), wanting(gpu="3")) == ["zero", "without"]
    assert world.passing(fit(world), wanting(gpu="2")) == ["two", "zero", "without"]


def test_fit_still_checks_everything_else() -> None:
    """Four cores per node."""
    world = mixed_world(gpus())
    verdicts = world.verdicts(fit(world), wanting(gpu="3", cpu="5"))
    assert [status.message for status in verdicts] == [
        "Insufficient cpu, Insufficient example.com/gpu",
        "Insufficient cpu",
        "Insufficient cpu",
    ]


def test_key_of_fit_follows_the_device_classes() -> None:
    """What the rule found before a class came must not be taken for the present."""
    world = mixed_world()
    plugin, info = fit(world), world.info(wanting(gpu="1"))
    plain = plugin.filter_key(info)
    world.cluster.stores.served.put(gpus("others", resource=FPGA))
    assert plugin.filter_key(info) == plain
    world.cluster.stores.served.put(gpus())
    assert plugin.filter_key(info) != plain


# ---- DynamicResources ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "amount", "skipped"),
    [
        (GPU, "1", False),
        (IMPLICIT, "1", False),
        ("deviceclass.resource.kubernetes.io/others", "1", True),
        (FPGA, "1", True),
        ("hugepages-2Mi", "2Mi", True),
        (GPU, "0", True),
    ],
)
def test_plugin_takes_part_if_the_pod_asks_for_something_served(resource: str, amount: str, skipped: bool) -> None:
    """Skip is visible: the plugin's PostFilter and Filter then have nothing to do."""
    world = mixed_world(gpus())
    status = DynamicResources().pre_filter(world.info(wanting(**{resource: amount})), world.cluster).status
    assert status.is_skip is skipped


def test_without_classes_an_extended_resource_is_an_ordinary_one() -> None:
    """The usual cluster pays nothing."""
    world = mixed_world()
    assert DynamicResources().pre_filter(world.info(wanting(gpu="1")), world.cluster).status.is_skip


def test_without_any_slice_there_is_no_device() -> None:
    """Preemption cannot make one."""
    world = mixed_world(gpus())
    verdicts = world.verdicts(DynamicResources(), wanting(gpu="1"))
    assert [status.message for status in verdicts] == ["", "cannot allocate all claims", "cannot allocate all claims"]
    assert verdicts[1].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_other_extended_resources_must_at_least_be_listed() -> None:
    """Even those that NodeResourcesFit ignores; a missing one outweighs missing devices. From the oracle."""
    world = World(
        [
            node("both").capacity(**{GPU: "1", FPGA: "1"}).build(),
            node("listed").capacity(**{GPU: "1", FPGA: "0"}).build(),
            node("unlisted").capacity(gpu="1").build(),
            node("neither").build(),
        ]
    )
    world.cluster.stores.served.put(gpus())
    asking = wanting(**{GPU: "1", FPGA: "1"})
    assert world.passing(fit(world, FPGA), asking) == ["both", "listed", "unlisted", "neither"]
    verdicts = world.verdicts(DynamicResources(), asking)
    assert [status.message for status in verdicts] == ["", "", "cannot fit resource", "cannot fit resource"]
    assert verdicts[2].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_pod_is_refused_where_devices_of_slices_would_have_to_be_chosen() -> None:
    """Not if every node has the resource itself."""
    world = mixed_world(gpus())
    world.cluster.stores.resource_slices["s"] = SLICE
    assert DynamicResources().pre_filter(world.info(wanting(gpu="1")), world.cluster).status.message == REFUSAL
    equipped = World([node("a").capacity(gpu="2").build(), node("b").capacity(gpu="1").build()])
    equipped.cluster.stores.served.put(gpus())
    equipped.cluster.stores.resource_slices["s"] = SLICE
    assert equipped.passing(DynamicResources(), wanting(gpu="1")) == ["a", "b"]


def test_more_devices_than_a_claim_can_hold_are_refused() -> None:
    """Upstream's allocator gives up with an error above 32, whatever devices there are."""
    world = mixed_world(gpus())
    plugin = DynamicResources()
    assert plugin.pre_filter(world.info(wanting(gpu="32")), world.cluster).status.is_success
    assert plugin.pre_filter(world.info(wanting(gpu="33")), world.cluster).status.message == REFUSAL


def test_resource_in_the_overhead_is_refused() -> None:
    """Upstream asks for no device then, and the node passes."""
    world = mixed_world(gpus())
    plain = wanting(cpu="1")
    asking = replace(plain, spec=replace(plain.spec, overhead={GPU: "1"}))
    assert DynamicResources().pre_filter(world.info(asking), world.cluster).status.message == REFUSAL


@pytest.mark.parametrize(
    ("resource", "action", "heard"),
    [
        (Resource.NODE, Action.ADD, True),
        (Resource.NODE, Action.UPDATE_NODE_LABEL, True),
        (Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE, True),
        (Resource.NODE, Action.UPDATE_NODE_TAINT, False),
        (Resource.DEVICE_CLASS, Action.ADD, True),
        (Resource.DEVICE_CLASS, Action.UPDATE, True),
        (Resource.DEVICE_CLASS, Action.DELETE, False),
        (Resource.RESOURCE_SLICE, Action.ADD, True),
        (Resource.RESOURCE_SLICE, Action.DELETE, False),
    ],
)
def test_changes_that_may_help(resource: Resource, action: Action, heard: bool) -> None:
    """As upstream; none has a hint of its own."""
    registrations = DynamicResources().events()
    assert any(r.event.matches(ClusterEvent(resource, action)) for r in registrations) is heard
    assert all(r.hint is None for r in registrations)


# ---- the whole scheduler -------------------------------------------------------------------------


def started(*objects: ApiObject) -> Scheduler:
    """A scheduler that knows these objects."""
    scheduler = Scheduler(load_configuration(CONFIG), First())
    for item in objects:
        scheduler.receive(ObjectAdded(item), 0)
    return scheduler


def message_of(scheduler: Scheduler, now: int) -> str:
    """Why the next attempt failed."""
    scheduler.receive(TimerFired(), now)
    (failed,) = [effect for effect in scheduler.run_cycle(now) if isinstance(effect, AttemptFailed)]
    return failed.message


def test_classes_and_slices_that_come_change_the_answer() -> None:
    """Each of them wakes the pod, and nothing is remembered from before."""
    preempted = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    scheduler = started(node("n").build(), wanting(gpu="1"))
    assert message_of(scheduler, 0) == f"0/1 nodes are available: 1 Insufficient example.com/gpu.{preempted}"
    scheduler.receive(ObjectAdded(gpus()), 10 * SECOND)
    assert message_of(scheduler, 20 * SECOND) == f"0/1 nodes are available: 1 cannot allocate all claims.{preempted}"
    scheduler.receive(ObjectAdded(SLICE), 30 * SECOND)
    assert message_of(scheduler, 40 * SECOND).startswith(f"0/1 nodes are available: {REFUSAL}.")
    scheduler.receive(ObjectDeleted(SLICE), 50 * SECOND)
    scheduler.receive(ObjectUpdated(gpus(resource=FPGA)), 50 * SECOND)
    assert message_of(scheduler, 60 * SECOND) == f"0/1 nodes are available: 1 Insufficient example.com/gpu.{preempted}"


def test_pod_goes_to_the_node_that_has_the_resource_itself() -> None:
    """A device plugin's node among others, with a class of the same resource."""
    scheduler = started(gpus(), node("a").build(), node("b").capacity(gpu="1").build(), wanting(gpu="1"))
    (bind,) = [effect for effect in scheduler.run_cycle(0) if isinstance(effect, Bind)]
    assert bind.node_name == "b"
