"""Whatever a person gets wrong is said in one line per finding on standard error, with exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from stowplan_operator.cli import cli

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NODE = 'apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}\n'
POD = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"


def in_cluster(text: str | bytes) -> Callable[[Path], list[str]]:
    """The text as cluster.yaml."""

    def arguments(folder: Path) -> list[str]:
        data = text.encode() if isinstance(text, str) else text
        (folder / "cluster.yaml").write_bytes(data)
        return ["cluster.yaml"]

    return arguments


def in_config(text: str) -> Callable[[Path], list[str]]:
    """The text as config.yaml, beside a good cluster."""

    def arguments(folder: Path) -> list[str]:
        (folder / "cluster.yaml").write_text(NODE)
        (folder / "config.yaml").write_text(HEAD + text)
        return ["cluster.yaml", "--config", "config.yaml"]

    return arguments


def empty_folder(folder: Path) -> list[str]:
    (folder / "nothing").mkdir()
    return ["nothing"]


def over_the_limit(folder: Path) -> list[str]:
    (folder / "cluster.yaml").write_text(NODE)
    return ["cluster.yaml", "--max-input", "100"]


def openb_columns(folder: Path) -> list[str]:
    (folder / "pods.csv").write_text("name,cpu\np,1\n")
    return ["pods.csv"]


def no_such_config(folder: Path) -> list[str]:
    (folder / "cluster.yaml").write_text(NODE)
    return ["cluster.yaml", "--config", "none.yaml"]


def bad_shape(folder: Path) -> list[str]:
    return ["cluster.yaml", "--shape", "cpu=much"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)
QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

CASES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "unknown plugin": (
        in_config("profiles: [{plugins: {score: {enabled: [{name: NodeResourceFit}]}}}]\n"),
        'default-scheduler: ScorePlugin "NodeResourceFit" does not exist; did you mean NodeResourcesFit?',
    ),
    "plugin of nowhere": (
        in_config("profiles: [{plugins: {filter: {enabled: [{name: Zzz}]}}}]\n"),
        '"Zzz" does not exist; known plugins: ',
    ),
    "weight out of range": (
        in_config(
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: "
            "{type: MostAllocated, resources: [{name: cpu, weight: 500}]}}}]}]\n"
        ),
        "scoringStrategy.resources[0].weight: Invalid value: 500: resource weight of cpu not in valid range (0, 100]",
    ),
    "percentage out of range": (
        in_config("percentageOfNodesToScore: 200\n"),
        "config.yaml: percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]",
    ),
    "unknown field of a configuration": (
        in_config("profile: []\n"),
        'config.yaml: strict decoding error: unknown field "profile"',
    ),
    "cluster as configuration": (
        lambda folder: [str((folder / "cluster.yaml").write_text(NODE) and "cluster.yaml"), "--config", "cluster.yaml"],
        "; a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) is expected",
    ),
    "configuration as cluster": (
        in_cluster(HEAD),
        (
            "cluster.yaml: document 1: KubeSchedulerConfiguration (no name): kind: is a scheduler configuration, "
            "not part of a cluster: give it with --config"
        ),
    ),
    "extenders": (
        in_config("extenders: [{urlPrefix: http://e, filterVerb: f}]\n"),
        "config.yaml: extenders: not decided yet; take them out to see the profile without them",
    ),
    "configuration that is not there": (no_such_config, "none.yaml: no such file"),
    "malformed quantity": (
        in_cluster(f'{NODE}{POD}spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "4x"}}}}}}]}}\n'),
        f'cluster.yaml: document 2: Pod default/web: spec.containers[0].resources.requests.cpu: "4x": {QUANTITY_RULE}',
    ),
    "duplicate node": (
        in_cluster(f"{NODE}---\n{NODE}"),
        "Node n1: metadata.name: occurs twice, first in cluster.yaml: document 1: names must be unique",
    ),
    "pod without containers": (
        in_cluster(f"{NODE}{POD}spec: {{}}\n"),
        "cluster.yaml: document 2: Pod default/web: spec.containers: must have at least one container",
    ),
    "empty folder": (empty_folder, "nothing: the folder holds no .yaml, .yml, .json file, plain or gzipped"),
    "binary file": (in_cluster(bytes(range(256))), "cluster.yaml: "),
    "YAML alias bomb": (in_cluster(BOMB), "cluster.yaml: "),
    "cyclic anchors": (in_cluster("a: &a\n  b: *a\n"), "cluster.yaml: "),
    "file over the limit": (over_the_limit, "cluster.yaml: is larger than 100 bytes, the limit for YAML; --max-input"),
    "list with other columns": (
        openb_columns,
        "pods.csv: line 1: not an OpenB list: the header must have the columns ",
    ),
    "shape": (bad_shape, f'--shape: cpu: "much": {QUANTITY_RULE}'),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, object, field, and what is allowed; nothing on standard output; never a traceback."""
    arguments, expected = CASES[case]
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["simulate", *arguments(tmp_path)])
    assert isinstance(result.exception, SystemExit)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("stowplan: error: ")
    assert expected in line


def test_every_finding_in_every_configuration_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who mends one thing at a time runs the command five times."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(f"{HEAD}percentageOfNodesToScore: 200\npodInitialBackoffSeconds: 0\n")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "c").mkdir()
    result = CliRunner().invoke(cli, ["simulate", ".", "-c", "a.yaml", "-c", "b.yaml", "-c", "c"])
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert {line.split(": ")[2] for line in lines} == {"a.yaml", "b.yaml", "c"}
    assert len(lines) == 4
