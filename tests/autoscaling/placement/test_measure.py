"""What a report says about a cluster small enough to work out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from stowplan_autoscaling.inputs import ClusterInput
from stowplan_autoscaling.placement import (
    Amount,
    Balance,
    ConfigurationReport,
    Placement,
    Report,
    ResourceReport,
    amount,
    belongs_to_node,
    cluster_report,
    find_pod,
    full_thresholds,
    highlights,
    measure,
    parse_shape,
)
from stowplan_scheduler.config import load_configuration
from support.builders import NodeBuilder, PodBuilder, node, pod

GIB = 1 << 30


def cluster(nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder]) -> ClusterInput:
    return ClusterInput(nodes=tuple(n.build() for n in nodes), pods=tuple(p.build() for p in pods), origin={})


def report_of(
    nodes: Sequence[NodeBuilder], pods: Sequence[PodBuilder], shape: str = "", name: str = "x"
) -> ConfigurationReport:
    outcome = Placement(cluster(nodes, pods), load_configuration(None)).run()
    return measure(outcome, name=name, shape=parse_shape(shape) if shape else None)


def two_nodes() -> tuple[list[NodeBuilder], list[PodBuilder]]:
    """n1 is full of `big`; `small` can only go to n2, where a DaemonSet's pod runs already."""
    pods = [
        pod("big").on("n1").req(cpu="4", memory="4Gi"),
        pod("agent").owner("DaemonSet", "agent").on("n2").req(cpu="1", memory="1Gi"),
        pod("small").req(cpu="2", memory="2Gi"),
    ]
    return [node("n1"), node("n2")], pods


def resource(report: ConfigurationReport, name: str) -> ResourceReport:
    return next(r for r in report.resources if r.name == name)


def test_requested_allocatable_and_balance() -> None:
    """cpu: 4 of 4 and 3 of 4 cores; memory: 4 of 16 and 3 of 16 GiB."""
    report = report_of(*two_nodes())
    cpu, memory = resource(report, "cpu"), resource(report, "memory")
    assert (cpu.requested, cpu.allocatable) == (Amount(raw=7000, text="7"), Amount(raw=8000, text="8"))
    assert cpu.balance == Balance(mean=0.875, standard_deviation=0.125)
    assert (memory.requested.raw, memory.allocatable.text) == (7 * GIB, "32Gi")
    assert memory.balance == Balance(mean=0.2188, standard_deviation=0.0312)
    # |1 - 0.25| and |0.75 - 0.1875|
    assert report.cpu_memory_gap == pytest.approx((0.75 + 0.5625) / 2, abs=1e-4)


def test_stranded_is_what_is_left_where_another_resource_is_full() -> None:
    """The median pod asks for 2 cores: n1 has none left and n2 one, so both are full, with 12 and 13 GiB free."""
    report = report_of(*two_nodes())
    assert resource(report, "memory").stranded.raw == 25 * GIB
    # Of memory 12 and 13 GiB are free and the median is 2 GiB: no node is full in it.
    assert resource(report, "cpu").stranded.raw == 0


def test_a_node_without_places_for_pods_strands_everything() -> None:
    """The limit on pods is a resource like any other; a GPU cannot be used without cpu, memory and a place."""
    nodes = [node("n1").capacity(pods="1", gpu="2")]
    report = report_of(nodes, [pod("p").on("n1").req(cpu="1", memory="1Gi")])
    stranded = {r.name: r.stranded.raw for r in report.resources}
    assert stranded == {"cpu": 3000, "memory": 15 * GIB, "pods": 0, "example.com/gpu": 2}


def test_the_thresholds_are_medians_of_what_pods_ask_for() -> None:
    """The lower of two in the middle; pods that ask for nothing do not count, and no request at all means 1."""
    assert full_thresholds([(100, 0), (500, 8), (200, 4), (0, 6)]) == {"cpu": 200, "memory": 6, "pods": 1}
    assert full_thresholds([]) == {"cpu": 1, "memory": 1, "pods": 1}


def test_a_daemons_pod_does_not_put_a_node_to_use() -> None:
    """It would be there on an empty node, too. Its requests count, though."""
    nodes, pods = two_nodes()
    report = report_of(nodes, pods[:2])
    assert (report.nodes.in_use, report.nodes.total) == (1, 2)
    cpu = resource(report, "cpu")
    assert (cpu.requested.raw, cpu.allocatable_in_use.raw) == (5000, 4000)
    assert cpu.balance == Balance(mean=1.0, standard_deviation=0.0)


def test_the_largest_pod_has_the_proportions_of_the_cluster() -> None:
    """32 GiB on 8 cores: 4 GiB per core. n2 has one core and 13 GiB left."""
    room = report_of(*two_nodes()).largest_pod
    assert room is not None
    assert (room.shape, room.node, room.count) == ("cpu=1,memory=4Gi", "n2", 1)
    assert room.amounts == {"cpu": Amount(raw=1000, text="1"), "memory": Amount(raw=4 * GIB, text="4Gi")}


def test_the_largest_pod_of_a_given_shape_is_as_large_as_the_scarcest_resource_allows() -> None:
    """250m to 4 GiB: the 13 GiB of n2 run out first, at 3.25 times the shape; three whole ones fit."""
    room = report_of(*two_nodes(), shape="cpu=250m,memory=4Gi").largest_pod
    assert room is not None
    assert {name: a.raw for name, a in room.amounts.items()} == {"cpu": 812, "memory": 13 * GIB}
    assert room.count == 3


def test_closed_nodes_have_no_room() -> None:
    """Cordoned, tainted, out of places; a taint that is named after a resource is tolerated by who asks for it."""
    gpu = node("gpu").capacity(gpu="4").taint("example.com/gpu")
    nodes = [node("cordoned").unschedulable(), node("tainted").taint("team"), node("full").capacity(pods="0"), gpu]
    plain = report_of(nodes, [], shape="cpu=1").largest_pod
    assert plain is not None
    assert (plain.node, plain.count, plain.amounts["cpu"].raw) == ("", 0, 0)
    with_gpu = report_of(nodes, [], shape="cpu=1,example.com/gpu=2").largest_pod
    assert with_gpu is not None
    assert (with_gpu.node, with_gpu.count) == ("gpu", 2)


def test_pending_pods_are_grouped_by_their_message() -> None:
    """The largest group first, with a few pods as examples."""
    report = report_of([node("n1")], [*(pod(f"big{i}").req(cpu="9") for i in range(5)), pod("gated").gated("g")])
    assert [(group.count, group.pods) for group in report.pending] == [
        (5, ("default/big0", "default/big1", "default/big2")),
        (1, ("default/gated",)),
    ]


def test_tie_sets_leave_out_decisions_without_a_choice() -> None:
    """12 equal nodes with a place each: tie sets of 12, 11, ... 2 nodes; then one is left and nothing is scored."""
    nodes = [node(f"n{i}").capacity(pods="1") for i in range(12)]
    decisions = report_of(nodes, [pod(f"p{i}") for i in range(12)]).decisions
    assert decisions.tie_sets == {"1": 0, "2-10": 9, "11-100": 2, "over 100": 0}
    assert (decisions.single_feasible, decisions.median_ties, decisions.largest_tie_set) == (1, 7, 12)
    assert decisions.mean_feasible_nodes == 6.5


def test_many_cores_are_written_with_a_decimal() -> None:
    """1046870m is hard to read."""
    texts = [amount("cpu", raw).text for raw in (1500, 9999, 10_000, 1_046_870)]
    assert texts == ["1500m", "9999m", "10", "1046.9"]
    assert amount("memory", 3 * GIB).text == "3Gi"


def test_an_empty_cluster_has_a_report() -> None:
    """Nothing to divide by anywhere."""
    report = report_of([], [])
    assert report.largest_pod is None
    assert [(r.name, r.balance) for r in report.resources] == [("cpu", None), ("memory", None), ("pods", None)]
    shaped = report_of([], [], shape="cpu=1").largest_pod
    assert shaped is not None
    assert (shaped.count, shaped.node) == (0, "")


# ---- names ---------------------------------------------------------------------------------------------------------


def test_pods_that_belong_to_their_node() -> None:
    """The owner says so, or the mark of a static pod's mirror."""
    mirror = pod("mirror").build()
    meta = msgspec.structs.replace(mirror.metadata, annotations={"kubernetes.io/config.mirror": "x"})
    assert belongs_to_node(msgspec.structs.replace(mirror, metadata=meta))
    assert belongs_to_node(pod("d").owner("DaemonSet", "d").build())
    assert not belongs_to_node(pod("r").owner("ReplicaSet", "r").build())
    assert not belongs_to_node(pod("p").build())


NAMED = {
    "web": "default/web",
    "shop/web": "shop/web",
    "only": "shop/only",
    "train": "ml/train-2",
    "cart": "shop/cart-5d9-b",
    "shop/cart": "shop/cart-5d9-b",
    "ml/cart": None,
    "none": None,
}


@pytest.mark.parametrize("name", NAMED)
def test_a_pod_is_found_by_what_people_call_it(name: str) -> None:
    """By key, by name, and by the workload that made it: then the pod that is placed last."""
    pods = [
        pod("web").build(),
        pod("web", "shop").build(),
        pod("only", "shop").build(),
        pod("train-1", "ml").owner("Job", "train").build(),
        pod("train-2", "ml").owner("Job", "train").build(),
        pod("train-large-1", "ml").owner("Job", "train-large").build(),
        pod("cart-5d9-a", "shop").owner("ReplicaSet", "cart-5d9").build(),
        pod("cart-5d9-b", "shop").owner("ReplicaSet", "cart-5d9").build(),
    ]
    found = find_pod(pods, name)
    assert (None if found is None else found.key) == NAMED[name]


# ---- what to look at -----------------------------------------------------------------------------------------------


def report(*configurations: ConfigurationReport) -> Report:
    outcome = Placement(cluster([], []), load_configuration(None)).run()
    return Report(
        schema="x",
        cluster=cluster_report(outcome),
        reschedule_all=False,
        seed=0,
        tie_break="heap",
        warnings=(),
        configurations=configurations,
    )


def test_highlights_compare_with_the_first_configuration() -> None:
    """The same cluster with one node in use and with two, and a pod that finds no room in one of them."""
    packed = report_of([node("n1"), node("n2")], [pod("p").on("n1").req(cpu="4"), pod("q").req(cpu="1")], name="packed")
    spread = report_of(
        [node("n1"), node("n2")],
        [pod("p").on("n1").req(cpu="4"), pod("q").on("n2").req(cpu="4"), pod("r").req(cpu="1")],
        name="spread",
    )
    lines = highlights(report(spread, packed))
    assert lines[0] == "packed uses as many nodes as spread: 2 of 2."
    assert lines[1] == "packed leaves 1 fewer pods pending than spread: 0 instead of 1."
    assert "The largest pod that still fits: 3 cpu, 12Gi memory with packed, none at all with spread." in lines
    assert lines[-1].endswith("--explain default/r.")


def test_fewer_nodes_are_worth_the_first_line() -> None:
    """The bill depends on it."""
    nodes = [node("n1"), node("n2")]
    both = report_of(nodes, [pod("p").on("n1"), pod("q").on("n2")], name="both")
    one = report_of(nodes, [pod("p").on("n1"), pod("q").on("n1")], name="one")
    assert highlights(report(both, one))[0] == "one uses 1 fewer nodes than both: 1 instead of 2 (of 2)."


def test_preemption_and_giving_up_are_mentioned() -> None:
    """Both are surprising enough."""
    nodes = [node("n1")]
    pods = [pod("low").on("n1").req(cpu="4"), pod("high").priority(5).req(cpu="4")]
    found = msgspec.structs.replace(report_of(nodes, pods, name="a"), settled=False)
    assert highlights(report(found)) == (
        "a removes 1 running pod by preemption.",
        "a was given up: pods kept coming back without being placed.",
    )


def test_a_report_without_configurations_has_nothing_to_say() -> None:
    """It cannot come from the command line, but the function is public."""
    assert highlights(report()) == ()
