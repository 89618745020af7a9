"""OpenB lists: the format by small lists of our own, the totals by the published ones where they are at hand."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from stowplan_autoscaling.inputs import GPU_RESOURCE, MODEL_LABEL, ClusterInput, InputError, inflate, load_cluster
from stowplan_autoscaling.inputs.openb import GPU_COUNT_ANNOTATION
from stowplan_scheduler.quantity import NANOS, parse_quantity
from support.optional import requests, required_terms

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn-1,64000,262144,2,P100\nn-2,96000,1024,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p-1,1000,512,1,250,,LS,Running,30,40,31\n"
    "p-2,1000,512,2,1000,P100|T4,BE,Failed,10,40,\n"
    "p-3,500,256,0,0,,LS,Pending,30,40,\n"
    "p-4,1000,512,1,250,,LS,Running,20,40,21\n"
)


def load(folder: Path, *texts: str) -> ClusterInput:
    paths = []
    for index, text in enumerate(texts):
        path = folder / f"{index}.csv"
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return load_cluster(paths)


def test_nodes_carry_their_gpu_in_thousandths_and_their_model(tmp_path: Path) -> None:
    """Two devices are 2,000 milli; a node without any has neither resource nor label."""
    first, second = load(tmp_path, NODES).nodes
    assert first.status.allocatable == {"cpu": "64000m", "memory": "262144Mi", "pods": "10000", GPU_RESOURCE: "2000"}
    assert first.metadata.labels == {"kubernetes.io/hostname": "n-1", MODEL_LABEL: "P100"}
    assert GPU_RESOURCE not in second.status.allocatable
    assert MODEL_LABEL not in second.metadata.labels


def test_pods_are_pending_in_order_of_creation_whatever_became_of_them(tmp_path: Path) -> None:
    """Phases are what the recorded cluster did; here everything is still to be placed. Ties keep the file's order."""
    cluster = load(tmp_path, NODES, PODS)
    assert [pod.metadata.name for pod in cluster.pods] == ["p-2", "p-4", "p-1", "p-3"]
    assert {pod.spec.node_name for pod in cluster.pods} == {""}
    assert {pod.status.phase for pod in cluster.pods} == {""}
    assert cluster.origin["Pod", "default/p-4"] == f"{tmp_path / '1.csv'}: line 5"


def test_a_pod_asks_for_all_its_devices_and_only_for_its_models(tmp_path: Path) -> None:
    """gpu_milli is per device; gpu_spec names models that will do."""
    pods = {pod.metadata.name: pod for pod in load(tmp_path, NODES, PODS).pods}
    assert pods["p-2"].spec.containers[0].resources.requests == {
        "cpu": "1000m",
        "memory": "512Mi",
        GPU_RESOURCE: "2000",
    }
    assert required_terms(pods["p-2"])[0].match_expressions[0].values == ("P100", "T4")
    assert pods["p-1"].spec.affinity is None
    assert GPU_RESOURCE not in requests(pods["p-3"])
    assert pods["p-1"].spec is pods["p-4"].spec


def test_a_list_with_five_columns_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    """The multigpu lists have no times."""
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1,1,0,0\na,1,1,8,1000\n"
    assert [pod.metadata.name for pod in load(tmp_path, NODES, text).pods] == ["b", "a"]


def test_compressed_lists_and_unknown_columns_are_read(tmp_path: Path) -> None:
    """A header decides what the file is, not its name."""
    path = tmp_path / "list"
    path.write_bytes(
        gzip.compress(NODES.replace("model", "model,rack").replace("P100", "P100,r1").replace(",0,", ",0,,").encode())
    )
    cluster = load_cluster([str(path)])
    assert len(cluster.nodes) == 2
    assert cluster.warnings == (f"{path}: columns that are not known were ignored: rack",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b,c\n1,2,3\n", "line 1: not an OpenB list: the header must have the columns sn,cpu_milli"),
        (NODES + "n-3,1000,1024,0\n", "line 4: has 4 columns, the header has 5"),
        (NODES + "n-3,-5,1024,0,\n", 'line 4: cpu_milli: "-5": must be an integer between 0 and 1,000,000,000,000'),
        (NODES + "n-3,1e3,1024,0,\n", 'line 4: cpu_milli: "1e3": must be an integer'),
        (NODES + ",1,1024,0,\n", "line 4: sn: must be set"),
        (NODES + "n-1,1,1024,0,\n", "line 4: Node n-1: metadata.name: occurs twice, first in"),
        (NODES + 'n-3,"1,1024,0,\n', "line 4: not valid CSV"),
        (NODES + "n-3,1,1024,0,caf\udce9\n", "not UTF-8 text"),
        (PODS + "p,1,1,1,1001,,,,,,\n", 'line 6: gpu_milli: "1001": must be an integer between 0 and 1,000'),
        (PODS + "p,1,1,2,500,,,,,,\n", "line 6: gpu_milli: 500: must be 1000 where num_gpu is more than 1"),
        (PODS + "p,1,1,1,0,,,,,,\n", "line 6: gpu_milli: 0: must be between 1 and 1000 where num_gpu is set"),
        (PODS, "no nodes: the input must have at least one Node"),
    ],
)
def test_a_bad_row_is_named_by_its_line(text: str, expected: str, tmp_path: Path) -> None:
    """A list of eight thousand rows is not searched by hand."""
    path = tmp_path / "in.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as caught:
        load_cluster([str(path)])
    assert str(caught.value).startswith(f"{path}: ")
    assert expected in str(caught.value)


def gpu_milli(cluster_pods: object) -> int:
    amounts = (pod.spec.containers[0].resources.requests.get(GPU_RESOURCE, 0) for pod in cluster_pods)  # type: ignore[attr-defined]
    return sum(parse_quantity(amount) for amount in amounts) // NANOS


def test_inflation_fills_up_to_the_load_and_is_the_same_for_a_seed(tmp_path: Path) -> None:
    """Two devices at 300 % are 6,000 milli. The list asks for 2,500; every draw adds 250, 2,000 or nothing."""
    cluster = load(tmp_path, NODES, PODS)
    pods = inflate(cluster.pods, cluster.nodes, load_percent=300, seed=42)
    assert pods == inflate(cluster.pods, cluster.nodes, load_percent=300, seed=42)
    assert pods != inflate(cluster.pods, cluster.nodes, load_percent=300, seed=43)
    assert sorted(pod.metadata.name for pod in pods[:4]) == ["p-1", "p-2", "p-3", "p-4"]
    # The pod that would pass the load is counted by one device, so the last draw may pass it by another.
    assert 5000 < gpu_milli(pods) <= 7000
    assert len({pod.key for pod in pods}) == len(pods)
    assert all("-copy-" in pod.metadata.name for pod in pods[4:])
    assert pods[-1].metadata.annotations in ({}, {GPU_COUNT_ANNOTATION: "1"}, {GPU_COUNT_ANNOTATION: "2"})


def test_a_list_beyond_the_load_stays_whole(tmp_path: Path) -> None:
    """As with multigpu30, which asks for 130 % of the cluster by itself."""
    cluster = load(tmp_path, NODES, PODS)
    assert sorted(pod.key for pod in inflate(cluster.pods, cluster.nodes, load_percent=100, seed=1)) == sorted(
        pod.key for pod in cluster.pods
    )


def test_pods_without_gpu_are_not_drawn_for_ever(tmp_path: Path) -> None:
    """Nothing that could be drawn would ever reach the load."""
    header = PODS.partition("\n")[0]
    cluster = load(tmp_path, NODES, f"{header}\np,1,1,0,0,,,,,,\n")
    assert len(inflate(cluster.pods, cluster.nodes, load_percent=100, seed=1)) == 1


FACTS = {
    # list: (pods, GPU milli, cpu milli); the published lists, simulation reference of FGD (ATC '23)
    "default": (8152, 6_086_800, 85_436_012),
    "cpu250": (9420, 6_086_800, 107_460_300),
    "gpushare40": (8152, 5_641_250, None),
    "multigpu30": (8508, 8_086_800, None),
}


@pytest.mark.shared
@pytest.mark.parametrize(("name", "facts"), FACTS.items())
def test_the_published_lists_have_their_published_totals(
    name: str, facts: tuple[int, int, int | None], shared_data: Callable[[str], Path]
) -> None:
    """Pods, devices and cores as published with the trace."""
    nodes = shared_data("openb/openb_node_list_gpu_node.csv.gz")
    cluster = load_cluster([str(nodes), str(shared_data(f"openb/openb_pod_list_{name}.csv.gz"))])
    count, gpus, cpu = facts
    assert len(cluster.nodes) == 1213
    assert sum(parse_quantity(node.status.allocatable[GPU_RESOURCE]) for node in cluster.nodes) == 6_212_000 * NANOS
    models = Counter(node.metadata.labels[MODEL_LABEL] for node in cluster.nodes)
    assert models["G2"] == 549
    assert len(cluster.pods) == count
    assert gpu_milli(cluster.pods) == gpus
    total = sum(parse_quantity(requests(pod)["cpu"]) for pod in cluster.pods) * 1000 // NANOS
    assert cpu is None or round(total, -2) == round(cpu, -2)


@pytest.mark.shared
def test_the_inflated_default_workload_has_the_published_size(shared_data: Callable[[str], Path]) -> None:
    """About 10,780 pods at 130 % load; the count varies with the seed by the draws alone."""
    nodes = shared_data("openb/openb_node_list_gpu_node.csv.gz")
    cluster = load_cluster([str(nodes), str(shared_data("openb/openb_pod_list_default.csv.gz"))])
    sizes = [len(inflate(cluster.pods, cluster.nodes, load_percent=130, seed=seed)) for seed in range(42, 47)]
    assert 10_700 < sum(sizes) / len(sizes) < 10_860
