"""Machines come and go: delays, stock-outs, failures, spot notices."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_autoscaling.cluster.api_server import ApiServer
from stowplan_autoscaling.cluster.controllers.node_lifecycle.conditions import as_unknown
from stowplan_autoscaling.cluster.feed import ChangeFeed
from stowplan_autoscaling.cluster.kubelet import Kubelets
from stowplan_autoscaling.cluster.node_faults import NodeFaults
from stowplan_autoscaling.kernel import MINUTE, SECOND, Kernel
from stowplan_autoscaling.resources.node_pools import NodePool, ProviderSpec
from stowplan_autoscaling.streams import Streams
from stowplan_autoscaling.supply.machines import Machine
from stowplan_autoscaling.supply.pools import MachineType, Offer, Pool
from stowplan_autoscaling.supply.provider import Provider
from stowplan_scheduler.objects import NodeSpec

SPOT = Offer("a", "spot", 0.1)
ON_DEMAND = Offer("a", "on-demand", 0.4)


class Heard:
    """What the provider said, as (what, node, second)."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.said: list[tuple[str, str, float]] = []

    def _say(self, what: str, machine: Machine) -> None:
        self.said.append((what, machine.node, self._kernel.now / SECOND))

    def machine_changed(self, machine: Machine) -> None:
        self._say("changed", machine)

    def machine_failed(self, machine: Machine) -> None:
        self._say(machine.end, machine)

    def machine_noticed(self, machine: Machine) -> None:
        self._say("notice", machine)

    def machine_ended(self, machine: Machine) -> None:
        self._say("ended", machine)


class Cloud:
    """A provider with one pool of one type, in an empty cluster."""

    def __init__(self, **provider: Any) -> None:
        self.kernel = Kernel(0)
        self.server = ApiServer(self.kernel, ChangeFeed(self.kernel))
        streams = Streams(7)
        faults = NodeFaults(self.kernel, self.server, streams)
        kubelets = Kubelets(self.kernel, self.server, streams)
        spec = ProviderSpec.model_validate({"boot": {"median": "20s", "sigma": 0}, **provider})
        self.provider = Provider(self.kernel, self.server, streams, spec, faults, kubelets, start=0)
        self.heard = Heard(self.kernel)
        self.provider.listeners.append(self.heard)
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        self.type = MachineType(name="m4", capacity=amounts, allocatable=amounts, offers=(ON_DEMAND, SPOT))
        spec_of_pool = {
            "name": "general",
            "instance_types": ["m4"],
            "startup_taints": [{"key": "agent", "effect": "NoSchedule"}],
        }
        self.pool = Pool(spec=NodePool.model_validate(spec_of_pool), types=(self.type,))

    def ask(self, offer: Offer = ON_DEMAND) -> Machine:
        return self.provider.request(self.pool, self.type, offer, "ScaleUp")

    def clear_not_ready(self, name: str) -> None:
        """As the node lifecycle controller does for a node that says it is ready."""
        node = self.server.get("Node", name)
        taints = tuple(taint for taint in node.spec.taints if taint.key != "node.kubernetes.io/not-ready")
        self.server.update("Node", type(node)(metadata=node.metadata, spec=NodeSpec(taints=taints), status=node.status))


def test_a_machine_takes_its_time_to_become_a_node() -> None:
    """2 s request, 20 s boot, 4 s until its kubelet says Ready; it is ready when the taint is gone."""
    cloud = Cloud()
    machine = cloud.ask()
    cloud.kernel.run(21 * SECOND)
    assert (machine.launched, machine.registered) == (2 * SECOND, None)
    assert cloud.server.find("Node", "general-1") is None
    cloud.kernel.run(22 * SECOND + 1)
    node = cloud.server.get("Node", "general-1")
    assert [taint.key for taint in node.spec.taints] == ["agent", "node.kubernetes.io/not-ready"]
    assert node.status.conditions[0].status == "False"
    assert machine.is_coming
    cloud.kernel.run(26 * SECOND + 1)
    node = cloud.server.get("Node", "general-1")
    assert [taint.key for taint in node.spec.taints] == ["node.kubernetes.io/not-ready"]
    assert node.status.conditions[0].status == "True"
    assert machine.is_coming
    cloud.clear_not_ready("general-1")
    assert machine.ready == cloud.kernel.now == 26 * SECOND + 1
    assert cloud.provider.times_of("general-1") == (0, 26 * SECOND + 1)


def test_the_node_has_the_labels_of_pool_type_and_offer() -> None:
    cloud = Cloud()
    cloud.ask(SPOT)
    cloud.kernel.run(MINUTE)
    labels = cloud.server.get("Node", "general-1").metadata.labels
    assert labels["stowplan.io/node-pool"] == labels["karpenter.sh/nodepool"] == "general"
    assert labels["node.kubernetes.io/instance-type"] == "m4"
    assert labels["karpenter.sh/capacity-type"] == "spot"
    assert labels["topology.kubernetes.io/zone"] == "a"
    assert labels["kubernetes.io/hostname"] == "general-1"


def test_what_is_out_of_stock_fails_when_it_is_asked_for() -> None:
    """Only while the stock-out lasts, and only what it is about."""
    cloud = Cloud(stock_outs=[{"at": "0s", "duration": "1m", "capacity_type": "spot"}])
    cloud.ask(SPOT)
    other = cloud.ask(ON_DEMAND)
    cloud.kernel.run(10 * SECOND)
    assert cloud.heard.said == [("OutOfStock", "general-1", 2.0), ("changed", "general-2", 2.0)]
    assert list(cloud.provider.machines) == [other.node]
    assert not cloud.provider.is_in_stock("general", "m4", "a", "spot")
    cloud.kernel.run(MINUTE)
    assert cloud.provider.is_in_stock("general", "m4", "a", "spot")


def test_a_machine_that_fails_is_launched_and_never_registers() -> None:
    cloud = Cloud(failures=1)
    machine = cloud.ask()
    cloud.kernel.run(60 * MINUTE)
    assert machine.launched == 2 * SECOND
    assert machine.registered is None
    assert machine.is_coming


def test_a_machine_that_is_given_back_goes_with_its_node() -> None:
    """30 s later; the reason of the first who asked stays."""
    cloud = Cloud()
    machine = cloud.ask()
    cloud.kernel.run(MINUTE)
    cloud.provider.terminate("general-1", "Empty")
    cloud.provider.terminate("general-1", "Other")
    assert machine.is_leaving
    cloud.kernel.run(89 * SECOND)
    assert cloud.server.find("Node", "general-1") is not None
    cloud.kernel.run(90 * SECOND + 1)
    assert cloud.server.find("Node", "general-1") is None
    assert (machine.ended, machine.end) == (90 * SECOND, "Empty")
    assert not cloud.provider.machines


def test_a_request_that_is_given_up_before_its_launch_costs_nothing() -> None:
    cloud = Cloud()
    machine = cloud.ask()
    cloud.provider.terminate("general-1", "Failed")
    cloud.kernel.run(MINUTE)
    assert machine.launched is None
    assert cloud.heard.said == [("ended", "general-1", 0.0)]


def test_a_node_that_somebody_removes_takes_its_machine_along() -> None:
    cloud = Cloud()
    machine = cloud.ask()
    cloud.kernel.run(MINUTE)
    cloud.server.remove("Node", "general-1")
    cloud.kernel.run(2 * MINUTE)
    assert (machine.ended, machine.end) == (90 * SECOND, "Lost")


def test_spot_machines_are_taken_back_after_a_notice() -> None:
    """The lifetime is drawn from the exponential distribution: on average half an hour at two per hour."""
    cloud = Cloud(spot={"interruptions_per_hour": 2})
    for _ in range(400):
        cloud.ask(SPOT)
    cloud.ask(ON_DEMAND)
    cloud.kernel.run(100 * 60 * MINUTE)
    notices = {node: at for what, node, at in cloud.heard.said if what == "notice"}
    ends = {node: at for what, node, at in cloud.heard.said if what == "ended"}
    assert len(notices) == 400
    assert {round(ends[node] - at, 3) for node, at in notices.items()} == {120.0}
    assert sum(notices.values()) / 400 == pytest.approx(1800, rel=0.1)
    assert list(cloud.provider.machines) == ["general-401"]


def test_initial_machines_are_ready_at_once() -> None:
    cloud = Cloud()
    machine = cloud.provider.add_initial(cloud.pool, cloud.type, ON_DEMAND)
    assert machine.ready == 0
    assert cloud.server.get("Node", "general-1").spec.taints == ()
    assert cloud.provider.times_of("general-1") is None


def test_a_machine_that_was_interrupted_stays_so_whoever_gives_it_back() -> None:
    """The notice comes first; the engine that empties the node gives it back 10 s later, and it is gone after 30 s."""
    cloud = Cloud(spot={"interruptions_per_hour": 2})
    machine = cloud.ask(SPOT)
    while machine.end == "":
        cloud.kernel.run(cloud.kernel.now + SECOND)
    noticed = cloud.kernel.now
    cloud.kernel.run(noticed + 10 * SECOND)
    cloud.provider.terminate("general-1", "Empty")
    cloud.kernel.run(noticed + 10 * MINUTE)
    assert (machine.ended, machine.end) == (noticed + 40 * SECOND, "Interrupted")


def test_a_stock_out_lasts_from_its_first_instant_to_the_one_before_its_end() -> None:
    """From 0 s on nothing can be had; after a minute, to the nanosecond, it can."""
    cloud = Cloud(stock_outs=[{"at": "0s", "duration": "1m"}])
    assert not cloud.provider.is_in_stock("general", "m4", "a", "spot")
    cloud.kernel.run(MINUTE - 1)
    assert not cloud.provider.is_in_stock("general", "m4", "a", "spot")
    cloud.kernel.run(MINUTE)
    assert cloud.provider.is_in_stock("general", "m4", "a", "spot")


@pytest.mark.parametrize(
    "about", [{"pool": "other"}, {"instance_type": "m8"}, {"zone": "b"}, {"capacity_type": "on-demand"}]
)
def test_a_stock_out_is_only_about_what_it_names(about: dict[str, str]) -> None:
    """Of another pool, type, zone or kind of price there is no less."""
    provider = Cloud(stock_outs=[{"at": "0s", **about}]).provider
    assert provider.is_in_stock("general", "m4", "a", "spot")
    named = {"pool": "general", "type": "m4", "zone": "a", "capacity_type": "spot"}
    named.update({key.removeprefix("instance_"): value for key, value in about.items()})
    assert not provider.is_in_stock(**named)


def test_no_boot_takes_longer_than_the_maximum_or_less_than_the_minimum() -> None:
    """2 s request and 9 to 10 s boot: at a median of 20 s and a sigma of 2 few fall in between."""
    cloud = Cloud(boot={"median": "20s", "sigma": 2, "minimum": "9s", "maximum": "10s"})
    machines = [cloud.ask() for _ in range(100)]
    cloud.kernel.run(MINUTE)
    times = [machine.registered for machine in machines if machine.registered is not None]
    assert len(times) == 100
    assert (min(times), max(times)) == (11 * SECOND, 12 * SECOND)
    assert 50 <= times.count(12 * SECOND) < 100


def test_a_machine_that_is_given_back_while_it_boots_never_registers() -> None:
    """Given back at 10 s; it would have registered at 22 s, and is gone at 40 s."""
    cloud = Cloud()
    machine = cloud.ask()
    cloud.kernel.run(10 * SECOND)
    cloud.provider.terminate("general-1", "Failed")
    cloud.kernel.run(30 * SECOND)
    assert cloud.server.find("Node", "general-1") is None
    cloud.kernel.run(MINUTE)
    assert (machine.launched, machine.registered, machine.ended) == (2 * SECOND, None, 40 * SECOND)
    assert cloud.heard.said == [
        ("changed", "general-1", 2.0),
        ("changed", "general-1", 10.0),
        ("ended", "general-1", 40.0),
    ]


def test_a_machine_that_is_taken_leaves_its_node_behind_until_that_is_known_to_be_silent() -> None:
    """The cloud's node controller looks every five seconds at nodes that are not ready."""
    cloud = Cloud(spot={"interruptions_per_hour": 2})
    machine = cloud.ask(SPOT)
    cloud.kernel.run(MINUTE)
    cloud.clear_not_ready("general-1")
    while machine.ended is None:
        cloud.kernel.run(cloud.kernel.now + SECOND)
    cloud.kernel.run(machine.ended + MINUTE)
    node = cloud.server.get("Node", "general-1")
    assert cloud.provider.left_behind == {"general-1"}
    cloud.server.update_status(
        "Node", type(node)(metadata=node.metadata, spec=node.spec, status=as_unknown(node).status)
    )
    told = cloud.kernel.now
    cloud.kernel.run(told + 5 * SECOND - told % (5 * SECOND))
    assert cloud.server.find("Node", "general-1") is not None
    cloud.kernel.run(told + 5 * SECOND + 1)
    assert cloud.server.find("Node", "general-1") is None
    assert not cloud.provider.left_behind
