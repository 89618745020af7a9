"""The workloads: those of the real scheduler's benchmark must be the same, or the ratios compare different work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.scalar_rate import compare
from stowplan_operator.bench.measure import measure
from stowplan_operator.bench.workloads import UPSTREAM, WORKLOADS
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.resources import Resource

MIB = 1 << 20


@pytest.fixture(scope="module")
def go_source(repository: Path) -> str:
    return (repository / "tests/benchmarks/upstream/main.go").read_text(encoding="utf-8")


def pod_of(workload: str, number: int) -> Pod:
    return WORKLOADS[workload][1](number)


def requests_of(pod: Pod) -> tuple[int, int]:
    """Milli cores and bytes."""
    (container,) = pod.spec.containers
    amounts = Resource.from_map(container.resources.requests or {})
    return amounts.milli_cpu, amounts.memory


# ---- the same as upstream's ------------------------------------------------------------------------------------------


def test_upstream_has_the_workloads_that_we_compare(go_source: str) -> None:
    """A workload that it does not know would silently be `plain` there."""
    (usage,) = re.findall(r"-workload ([a-z|]+)", go_source)
    assert tuple(usage.split("|")) == UPSTREAM


@pytest.mark.parametrize("workload", UPSTREAM)
def test_nodes_are_those_of_upstream(workload: str) -> None:
    """32 CPUs, 128 GiB, 110 pods; three zones and five pools in turn."""
    node = WORKLOADS[workload][0](7)
    assert node.metadata.name == "node-7"
    assert node.metadata.labels == {
        "kubernetes.io/hostname": "node-7",
        "topology.kubernetes.io/zone": "zone-1",
        "pool": "p2",
    }
    assert node.status.allocatable == node.status.capacity == {"cpu": "32", "memory": "128Gi", "pods": "110"}
    assert node.spec.taints == ()


@pytest.mark.parametrize("workload", [name for name in UPSTREAM if name != "distinct"])
@pytest.mark.parametrize(("number", "milli_cpu", "mebibytes"), [(0, 100, 128), (19, 1050, 1344), (20, 100, 128)])
def test_templated_pods_ask_for_what_upstream_s_ask(workload: str, number: int, milli_cpu: int, mebibytes: int) -> None:
    """100m + 50m and 128Mi + 64Mi for each of 20 groups."""
    pod = pod_of(workload, number)
    assert requests_of(pod) == (milli_cpu, mebibytes * MIB)
    assert pod.metadata.labels == {"app": f"g{number % 20}"}
    assert pod.key == f"default/pod-{number}"
    assert pod.metadata.uid == f"pod-{number}"


@pytest.mark.parametrize(("number", "milli_cpu", "mebibytes"), [(0, 100, 128), (19, 119, 147), (3500, 3600, 3628)])
def test_distinct_pods_ask_for_what_upstream_s_ask(number: int, milli_cpu: int, mebibytes: int) -> None:
    """One milli core and one mebibyte more for each pod: none is like another."""
    assert requests_of(pod_of("distinct", number)) == (milli_cpu, mebibytes * MIB)


def test_anti_pods_avoid_their_group_on_a_host() -> None:
    """Field by field as in main.go."""
    affinity = pod_of("anti", 23).spec.affinity
    assert affinity is not None
    assert affinity.pod_affinity is None
    assert affinity.pod_anti_affinity is not None
    (term,) = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    assert term.topology_key == "kubernetes.io/hostname"
    assert term.label_selector is not None
    assert term.label_selector.match_labels == {"app": "g3"}


def test_spread_pods_spread_their_group_over_zones() -> None:
    """Field by field as in main.go."""
    (constraint,) = pod_of("spread", 23).spec.topology_spread_constraints
    assert (constraint.max_skew, constraint.when_unsatisfiable) == (5, "DoNotSchedule")
    assert constraint.topology_key == "topology.kubernetes.io/zone"
    assert constraint.label_selector is not None
    assert constraint.label_selector.match_labels == {"app": "g3"}


def test_preferred_pods_like_the_zone_of_their_group() -> None:
    """Field by field as in main.go."""
    affinity = pod_of("preferred", 23).spec.affinity
    assert affinity is not None
    assert affinity.pod_anti_affinity is None
    assert affinity.pod_affinity is not None
    (preference,) = affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution
    assert preference.weight == 10
    assert preference.pod_affinity_term.topology_key == "topology.kubernetes.io/zone"
    assert preference.pod_affinity_term.label_selector is not None
    assert preference.pod_affinity_term.label_selector.match_labels == {"app": "g3"}


# ---- decisions and output --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("percent", [0, 100])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_fast_decision_is_the_scalar_reference_s(workload: str, percent: int) -> None:
    """A speed of wrong decisions is worth nothing. 250 nodes, of which sampling looks for 120."""
    result = compare(workload, nodes=250, initial=60, pods=5, percent=percent)
    assert result.different == []
    assert result.placed == (0 if workload == "backlog" else 5)
    assert result.seconds > 0


def test_our_line_has_the_keys_of_upstream_s(go_source: str) -> None:
    """Scripts read both; ours says besides how many pods found a node."""
    encoded = go_source.partition("map[string]any{")[2].partition("})")[0]
    keys = set(re.findall(r'"(\w+)":', encoded))
    assert len(keys) == 8
    line = measure("plain", 4, 3, 0, initial=2).as_json()
    assert set(line) == keys | {"placed"}
    assert (line["workload"], line["nodes"], line["pods"], line["percent"]) == ("plain", 4, 3, 0)
    assert line["placed"] == 3


def test_a_backlog_is_tried_but_not_placed() -> None:
    """Its rate counts attempts."""
    assert measure("backlog", 4, 3, 0, initial=2).placed == 0
