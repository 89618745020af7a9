"""The kind script and the workflow that uses it. There is no kind here: tools that record their calls stand in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import stowplan_scheduler

RECORDER = """#!/bin/sh
echo "$(basename "$0") $*" >> "$RECORD"
if [ "$1 $2" = "get clusters" ]; then printf '%s\\n' "$CLUSTERS"; fi
"""


@pytest.fixture
def script(repository: Path, tmp_path: Path) -> Path:
    """A copy of what the script needs of the repository, so that it writes nothing into this one."""
    for name in ("deploy/kind", "deploy/image", "deploy/kustomize", "crds"):
        shutil.copytree(repository / name, tmp_path / "clone" / name)
    version = tmp_path / "clone/scheduler/stowplan_scheduler/__init__.py"
    version.parent.mkdir(parents=True)
    shutil.copy(repository / "scheduler/stowplan_scheduler/__init__.py", version)
    return tmp_path / "clone/deploy/kind/up.sh"


def run(
    script: Path, *arguments: str, tools: str = "kind docker kubectl", recorder: str = RECORDER, **variables: str
) -> tuple[int, str, list[str]]:
    """Exit code, standard error, and the calls of the tools."""
    folder, record = script.parent / "bin", script.parent / "record"
    folder.mkdir(exist_ok=True)
    record.write_text("", encoding="utf-8")
    for tool in tools.split():
        (folder / tool).write_text(recorder, encoding="utf-8")
        (folder / tool).chmod(0o755)
    needed = {"bash", "dirname", "mkdir", "rm", "grep", "awk", "basename", "sh"}
    for tool in needed:
        found = shutil.which(tool)
        assert found is not None
        if not (folder / tool).exists():
            (folder / tool).symlink_to(found)
    environment = {
        "PATH": str(folder),
        "RECORD": str(record),
        "CLUSTERS": "",
        "HOME": os.environ.get("HOME", "/"),
        **variables,
    }
    done = subprocess.run(
        [str(folder / "bash"), str(script), *arguments], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr, record.read_text(encoding="utf-8").splitlines()


def test_it_creates_a_cluster_loads_the_image_and_installs(script: Path) -> None:
    """In this order, with files that exist."""
    code, said, calls = run(script)
    assert (code, said) == (0, "")
    root = script.parents[2]
    image = f"stowplan:{stowplan_scheduler.__version__}"
    assert [call.partition(" --")[0] for call in calls] == [
        "kind get clusters",
        "kind create cluster",
        "docker build",
        f"kind load docker-image {image}",
        "kubectl apply",
        "kubectl wait",
        "kubectl",
        "kubectl",
    ]
    assert f"--file {root}/deploy/image/Dockerfile --tag {image} {root}" in calls[2]
    assert calls[4] == f"kubectl apply --server-side --kustomize {root}/deploy/kustomize/default"
    paths = [word for call in calls for word in call.split() if word.startswith(f"{root}/deploy")]
    assert len(paths) == 3
    assert all(Path(path).exists() for path in paths)
    assert "--image" not in calls[1]


def test_it_takes_a_cluster_that_is_there_and_a_node_image_that_is_named(script: Path) -> None:
    """So it can be run again after a change."""
    _, _, calls = run(script, CLUSTERS="other\nstowplan")
    assert calls[1].startswith("kind export kubeconfig --name stowplan")
    _, _, calls = run(script, CLUSTERS="stowplan-2", STOWPLAN_KIND_NODE="kindest/node:v1.37.2")
    assert "--image kindest/node:v1.37.2 --wait" in calls[1]


def test_the_image_that_is_loaded_names_one_platform(script: Path) -> None:
    """What docker says by itself about how it built an image is a platform of its own, which kind cannot load."""
    _, _, calls = run(script, recorder=RECORDER.replace("$*", "$* $BUILDX_NO_DEFAULT_ATTESTATIONS"))
    (built,) = (call for call in calls if call.startswith("docker build"))
    assert built.endswith(" 1")


def test_the_tests_run_on_the_cluster_that_was_made(script: Path) -> None:
    """All that run on any cluster, and no others, with the kubeconfig that kind wrote."""
    python = script.parents[2] / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(RECORDER.replace("$*", "$STOWPLAN_KUBECONFIG $*"), encoding="utf-8")
    python.chmod(0o755)
    code, said, calls = run(script, "test")
    assert (code, said) == (0, "")
    kubeconfig = script.parents[2] / "build" / "kind" / "kubeconfig"
    assert calls[-1] == f"python {kubeconfig} -m pytest -m any_cluster tests/integration"
    assert f"--kubeconfig {kubeconfig}" in calls[1]


def test_it_deletes_the_cluster(script: Path) -> None:
    """And nothing else."""
    code, _, calls = run(script, "down")
    assert (code, calls) == (0, ["kind delete cluster --name stowplan"])


def test_a_missing_tool_or_an_unknown_action_is_bad_use(script: Path) -> None:
    """Nothing is called."""
    assert run(script, "up") == (2, "up.sh: unknown action 'up': one of install, test, down\n", [])
    missing = "up.sh: the tests need the environment .venv: run make venv\n"
    assert run(script, "test") == (2, missing, [])
    (script.parent / "bin" / "kubectl").unlink()
    assert run(script, tools="kind docker") == (2, "up.sh: no 'kubectl' on PATH\n", [])


@pytest.fixture(scope="module")
def workflow(repository: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((repository / ".github/workflows/kind.yaml").read_text(encoding="utf-8"))
    return content


def test_the_workflow_runs_the_script_and_may_read_the_repository_only(
    workflow: dict[str, Any], repository: Path
) -> None:
    """What it runs exists; its token can change nothing and is not left in the clone."""
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert "deploy/kind/up.sh test" in commands
    assert os.access(repository / "deploy/kind/up.sh", os.X_OK)
    assert job["steps"][0]["with"] == {"persist-credentials": False}
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert len(actions) == 2
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action) for action in actions), "a tag can be moved"
    (installed,) = re.findall(r"sigs\.k8s\.io/kind@(\S+)", "\n".join(commands))
    assert re.fullmatch(r"v\d+\.\d+\.\d+", installed)
    for command in commands:
        checked = subprocess.run(["bash", "-n"], input=command, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_cluster_has_more_than_one_node_for_pods(repository: Path) -> None:
    """With one there would be nothing to choose."""
    content = yaml.safe_load((repository / "deploy/kind/cluster.yaml").read_text(encoding="utf-8"))
    assert [node["role"] for node in content["nodes"]].count("worker") >= 2
