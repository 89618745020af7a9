"""`stowplan simulate` from the arguments to the output."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan_operator.cli import cli

NODES = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 16Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {allocatable: {cpu: "4", memory: 16Gi, pods: "110"}}
"""
PODS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: c, resources: {requests: {cpu: "8"}}}]}
"""
PACKING = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: NodeResourcesFit, weight: 10}]}
    score: {disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two nodes; three pods that fit and one that does not; a configuration that packs."""
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "nodes.yaml").write_text(NODES)
    (tmp_path / "cluster" / "pods.yaml").write_text(PODS)
    (tmp_path / "packing.yaml").write_text(PACKING)
    return tmp_path


def simulate(folder: Path, *arguments: str, stdin: str | bytes | None = None) -> Result:
    """The command with `{}` in the arguments standing for the folder."""
    made = ["simulate", *(argument.replace("{}", str(folder)) for argument in arguments)]
    return CliRunner().invoke(cli, made, input=stdin, prog_name="stowplan")


def json_of(folder: Path, *arguments: str) -> Any:
    result = simulate(folder, *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# ---- results -------------------------------------------------------------------------------------------------------


def test_two_configurations_stand_side_by_side(folder: Path) -> None:
    """Three pods: the default profile spreads them over both nodes, the other one packs them on one."""
    report = json_of(folder, "{}/cluster", "-c", "{}/packing.yaml")
    assert report["cluster"] == {
        "nodes": 2,
        "pods": 4,
        "fullBelow": {
            "cpu": {"raw": 500, "text": "500m"},
            "memory": {"raw": 1 << 30, "text": "1Gi"},
            "pods": {"raw": 1, "text": "1"},
        },
    }
    (packing,) = report["configurations"]
    assert packing["name"] == "packing"
    assert packing["nodes"] == {"total": 2, "inUse": 1}
    assert packing["pods"] == {
        "total": 4, "placed": 3, "kept": 0, "pending": 1, "otherSchedulers": 0, "victims": 0,
    }  # fmt: skip
    (default,) = json_of(folder, "{}/cluster")["configurations"]
    assert (default["name"], default["nodes"]["inUse"]) == ("default profile", 2)


def test_the_table_says_the_same(folder: Path) -> None:
    """A column per configuration, the reasons, and what to look at."""
    (folder / "default.yaml").write_text(PACKING.partition("profiles:")[0])
    result = simulate(folder, "{}/cluster", "-c", "{}/default.yaml", "-c", "{}/packing.yaml")
    assert result.exit_code == 0
    rows = {line.strip().split("  ")[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows["default"][-2:] == ["default", "packing"]
    assert rows["pods placed"][-2:] == ["3", "3"]
    assert rows["nodes in use"][3:] == ["2", "of", "2", "1", "of", "2"]
    assert "0/2 nodes are available: 2 Insufficient cpu." in result.stdout
    assert "packing uses 1 fewer nodes than default: 1 instead of 2 (of 2)." in result.stdout
    assert result.stderr == ""


def test_yaml_is_the_same_data_as_json(folder: Path) -> None:
    """One schema."""
    result = simulate(folder, "{}/cluster", "-o", "yaml", "--explain", "big")
    assert yaml.safe_load(result.stdout) == json_of(folder, "{}/cluster", "--explain", "big")


def test_the_same_input_gives_the_same_bytes(folder: Path) -> None:
    """Only times differ from run to run: they are there on demand."""
    arguments = ("{}/cluster", "-o", "json", "--tie-break", "random", "--seed", "5")
    first, second = simulate(folder, *arguments).stdout, simulate(folder, *arguments).stdout
    assert first == second
    assert json.loads(first)["configurations"][0]["timing"] is None
    timing = json_of(folder, "{}/cluster", "--timing")["configurations"][0]["timing"]
    assert timing["decisionsPerSecond"] > 0


def keys(value: Any, path: str = "") -> set[str]:
    """Every path of field names in a report; lists count as their elements."""
    match value:
        case dict():
            return {f"{path}.{key}" for key in value} | {
                k for key, v in value.items() for k in keys(v, f"{path}.{key}")
            }
        case list():
            return {k for item in value for k in keys(item, path)}
    return set()


def test_the_schema_is_stable(folder: Path) -> None:
    """Scripts read these names. A name that goes, or changes its meaning, needs a new `schema`."""
    report = json_of(folder, "{}/cluster", "--explain", "big")
    assert report["schema"] == "stowplan.io/simulate/v1"
    assert set(report) == {
        "schema", "cluster", "rescheduleAll", "seed", "tieBreak", "warnings", "configurations",
    }  # fmt: skip
    expected = """
        name settled pods pods.total pods.placed pods.kept pods.pending pods.otherSchedulers pods.victims
        pending pending.message pending.count pending.pods otherSchedulers victims nodes nodes.total nodes.inUse
        resources resources.name resources.allocatable resources.allocatable.raw resources.allocatable.text
        resources.requested resources.requested.raw resources.requested.text
        resources.allocatableInUse resources.allocatableInUse.raw resources.allocatableInUse.text
        resources.stranded resources.stranded.raw resources.stranded.text
        resources.balance resources.balance.mean resources.balance.standardDeviation cpuMemoryGap
        largestPod largestPod.shape largestPod.amounts largestPod.amounts.cpu largestPod.amounts.cpu.raw
        largestPod.amounts.cpu.text largestPod.amounts.memory largestPod.amounts.memory.raw
        largestPod.amounts.memory.text largestPod.node largestPod.count
        decisions decisions.attempts decisions.placements decisions.singleFeasible decisions.tieSets
        decisions.tieSets.1 decisions.tieSets.2-10 decisions.tieSets.11-100 decisions.tieSets.over*100
        decisions.medianTies decisions.largestTieSet decisions.meanFeasibleNodes decisions.meanEvaluatedNodes
        explanation explanation.pod explanation.schedulerName explanation.when explanation.node explanation.message
        explanation.selected explanation.evaluatedNodes explanation.feasibleNodes explanation.ties explanation.victims
        explanation.changes explanation.changes.text explanation.changes.nodes explanation.nodes explanation.nodes.name
        explanation.nodes.lookedAt explanation.nodes.rejections explanation.nodes.rejections.plugin
        explanation.nodes.rejections.code explanation.nodes.rejections.reasons
        explanation.nodes.rejections.forNominated explanation.nodes.scores explanation.nodes.total timing
    """
    assert keys(report["configurations"]) == {f".{name.replace('*', ' ')}" for name in expected.split()}


def test_standard_input_is_a_cluster_too(folder: Path) -> None:
    """`kubectl get ... -o json | stowplan simulate -`; a dump is taken as it is."""
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "uid": "u"},
        "spec": {"containers": [{"name": "c"}], "schedulerName": "default-scheduler"}, "status": {"phase": "Pending"},
    }  # fmt: skip
    dump = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]})
    result = simulate(folder, "{}/cluster/nodes.yaml", "-", "-o", "json", stdin=dump)
    assert json.loads(result.stdout)["configurations"][0]["pods"]["placed"] == 1


def test_everything_can_be_placed_anew(folder: Path) -> None:
    """A running cluster in which nothing is pending is still worth a question."""
    bound = "apiVersion: v1\nkind: Pod\nmetadata: {name: old}\nspec: {nodeName: n1, containers: [{name: c}]}\n"
    (folder / "bound.yaml").write_text(f"{NODES}---\n{bound}")
    assert json_of(folder, "{}/bound.yaml")["configurations"][0]["pods"]["kept"] == 1
    anew = json_of(folder, "{}/bound.yaml", "--reschedule-all")
    assert anew["rescheduleAll"] is True
    assert anew["configurations"][0]["pods"]["placed"] == 1


def test_room_for_a_given_shape(folder: Path) -> None:
    """After 3 x 500m on one of the nodes 2.5 and 4 cores are left: 1 and 2 pods of 2 cores."""
    room = json_of(folder, "{}/cluster", "-c", "{}/packing.yaml", "--shape", "cpu=2")["configurations"][0]["largestPod"]
    assert (room["shape"], room["count"], room["amounts"]["cpu"]["raw"]) == ("cpu=2", 3, 4000)


def test_one_file_given_twice_has_two_names(folder: Path) -> None:
    """As do files of the same name in different folders."""
    (folder / "other").mkdir()
    (folder / "other" / "packing.yaml").write_text(PACKING)
    names = [
        c["name"]
        for c in json_of(
            folder, "{}/cluster", "-c", "{}/packing.yaml", "-c", "{}/other/packing.yaml", "-c", "{}/packing.yaml"
        )["configurations"]
    ]
    first = f"{folder}/packing.yaml"
    assert names == [first, f"{folder}/other/packing.yaml", f"{first} (2)"]


# ---- explanations --------------------------------------------------------------------------------------------------


def test_explain_shows_nodes_by_score_and_the_rejected_in_groups(folder: Path) -> None:
    """The chosen node first, and what would place a pod that is pending."""
    placed = simulate(folder, "{}/cluster", "--explain", "shop/web").stdout
    assert "2 of 2 nodes fit" in placed
    assert "score x weight" in placed
    assert "* n" in placed
    pending = simulate(folder, "{}/cluster", "--explain", "big").stdout
    assert "NodeResourcesFit: Insufficient cpu" in pending
    assert "  - n2 lacks 4500m cpu (even empty it has only 4)" in pending


def test_a_pod_that_is_not_there_ends_with_1(folder: Path) -> None:
    """It is no bad input: there was nothing to explain. A near name is offered."""
    result = simulate(folder, "{}/cluster", "--explain", "default/bigg")
    assert (result.exit_code, result.stdout) == (1, "")
    expected = "stowplan: error: --explain: default/bigg: no such pod in the input; did you mean default/big?\n"
    assert result.stderr == expected


# ---- warnings and the terminal -------------------------------------------------------------------------------------


def test_warnings_go_to_standard_error_unless_quiet(folder: Path) -> None:
    """Standard output holds the result alone."""
    (folder / "cluster" / "quota.yaml").write_text("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\n")
    arguments = ("{}/cluster", "-o", "json")
    result = simulate(folder, *arguments)
    warnings = ["1 ResourceQuota ignored: they limit nothing here"]
    assert result.stderr.splitlines() == [f"stowplan: warning: {warning}" for warning in warnings]
    assert json.loads(result.stdout)["warnings"] == warnings
    assert simulate(folder, *arguments, "--quiet").stderr == ""


@pytest.mark.parametrize("no_color", [True, False])
def test_no_color_is_honoured(folder: Path, no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """FORCE_COLOR makes rich believe in a terminal; NO_COLOR must win as to colours."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    output = simulate(folder, "{}/cluster").stdout
    colours = re.findall(r"\x1b\[[0-9;]*3[0-7][0-9;]*m", output)
    assert not (no_color and colours)
    assert "pods placed" in output


def test_brackets_in_names_are_no_markup(folder: Path) -> None:
    """A file may be called [bold].yaml, and a gate's message has brackets."""
    (folder / "[red].yaml").write_text(PACKING)
    spec = "{schedulingGates: [{name: x}], containers: [{name: c}]}"
    gated = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: g}}\nspec: {spec}\n"
    (folder / "cluster" / "gated.yaml").write_text(gated)
    output = simulate(folder, "{}/cluster", "-c", "{}/[red].yaml").stdout
    assert "Pending with [red]" in output
    assert "waiting for scheduling gates: [x]" in output


# ---- OpenB ---------------------------------------------------------------------------------------------------------

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,65536,2,T4\nb,8000,65536,0,\n"
OPENB_PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1000,1024,1,500\np2,1000,1024,0,0\n"


def test_lists_of_openb_can_be_inflated(folder: Path) -> None:
    """2,000 thousandths of a GPU: at 100 % there is room for four pods of 500, at 50 % for two."""
    (folder / "nodes.csv.gz").write_bytes(gzip.compress(OPENB_NODES.encode()))
    (folder / "pods.csv").write_text(OPENB_PODS)
    requested = {}
    for load in (50, 100):
        report = json_of(folder, "{}/nodes.csv.gz", "{}/pods.csv", "--load", str(load))
        gpu = next(r for r in report["configurations"][0]["resources"] if r["name"] == "stowplan.io/gpu-milli")
        requested[load] = gpu["requested"]["raw"]
    assert requested == {50: 1000, 100: 2000}


def test_only_lists_of_openb_can_be_inflated(folder: Path) -> None:
    """Elsewhere there is no GPU share to go by."""
    result = simulate(folder, "{}/cluster", "--load", "100")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--load: no node of the input has stowplan.io/gpu-milli" in result.stderr


@pytest.mark.shared
@pytest.mark.slow
def test_the_published_lists_run_through(shared_data: Callable[[str], Path], repository: Path) -> None:
    """1,213 nodes and 8,152 pods; every pod is placed or pending, and the GPUs are nearly used up."""
    nodes, pods = (shared_data(f"openb/openb_{name}.csv.gz") for name in ("node_list_gpu_node", "pod_list_default"))
    (default,) = json_of(repository, str(nodes), str(pods))["configurations"]
    assert default["nodes"]["total"] == 1213
    assert default["pods"]["placed"] + default["pods"]["pending"] == 8152
    gpu = next(r for r in default["resources"] if r["name"] == "stowplan.io/gpu-milli")
    assert gpu["allocatable"]["raw"] == 6_212_000
    assert gpu["requested"]["raw"] > 0.9 * gpu["allocatable"]["raw"]


# ---- the bundled demo ----------------------------------------------------------------------------------------------


def test_the_demo_shows_what_its_readme_promises(repository: Path) -> None:
    """93 nodes with the default profile, about 56 with packing, and room for all five training pods."""
    profiles = repository / "examples" / "profiles"
    report = json_of(
        repository,
        "{}/examples/demo",
        "-c",
        str(profiles / "default.yaml"),
        "-c",
        str(profiles / "most-allocated.yaml"),
    )
    default, packed = report["configurations"]
    assert default["nodes"] == {"total": 93, "inUse": 93}
    assert 50 <= packed["nodes"]["inUse"] <= 60
    assert any("ml/train-00001" in group["pods"] for group in default["pending"])
    assert not any("ml/train-00001" in group["pods"] for group in packed["pending"])
