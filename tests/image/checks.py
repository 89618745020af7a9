"""The image, built and run: `make image-check`. It is no test file by its name, since it needs root and podman.

What its pods do in a cluster is shown by tests/integration/test_worker_deployments.py and test_given_cluster.py, which
`make image-check` runs with containers in the place of processes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from image.podman import IMAGE, podman, run_options
from integration.containers import Container
from stowplan_scheduler import __version__

MEGABYTES = 350
"""What the image may add to its base."""

LOOK = """
import importlib.metadata, importlib.util, json, os, pathlib, stat, sys

def is_open(path):
    return os.access(path, os.W_OK) and not os.path.islink(path)

found = []
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [name for name in folders if name not in ("proc", "sys", "dev")]
    found += [path for path in (folder, *(os.path.join(folder, name) for name in files)) if is_open(path)]
stale = []
sources = list(pathlib.Path("/opt/stowplan").rglob("site-packages/**/*.py"))
for source in sources:
    compiled = pathlib.Path(importlib.util.cache_from_source(str(source)))
    made = compiled.read_bytes()[8:12] if compiled.exists() else b""
    if int.from_bytes(made, "little") != int(source.stat().st_mtime):
        stale.append(str(source))
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(json.dumps({
    "status": {name: status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs")},
    "user": [os.getuid(), os.getgid(), sorted(set(os.getgroups()) - {os.getgid()})],
    "pid": os.getpid(),
    "writable": [path for path in found if not os.stat(path).st_mode & stat.S_ISVTX],
    "sticky": [path for path in found if os.stat(path).st_mode & stat.S_ISVTX],
    "packages": {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()},
    "sources": len(sources),
    "stale": stale,
}))
"""


@pytest.fixture(scope="module")
def security(repository: Path) -> dict[str, Any]:
    """The securityContext of the operator's pod and container in one."""
    text = (repository / "deploy/kustomize/base/operator-deployment.yaml").read_text(encoding="utf-8")
    spec = yaml.safe_load(text)["spec"]["template"]["spec"]
    return {**spec["securityContext"], **spec["containers"][0]["securityContext"]}


def run(security: dict[str, Any], *arguments: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """A container without any mount, and without a network."""
    container = Container(
        pod="check",
        image=IMAGE,
        arguments=(),
        environment={},
        mounts=(),
        security=security,
        memory=512 << 20,
        address="",
        log=Path(os.devnull),
    )
    command = podman("run", *run_options(container), "--network", "none", *options, IMAGE, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def look(security: dict[str, Any]) -> dict[str, Any]:
    done = run(security, "-c", LOOK, options=("--entrypoint", "/opt/stowplan/bin/python"))
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_starts_without_a_place_to_write_and_says_what_is_wrong_in_one_line(security: dict[str, Any]) -> None:
    """As it is, with an argument, and where there is no cluster."""
    helped = run(security)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith("Usage: stowplan [OPTIONS] COMMAND [ARGS]...")
    assert run(security, "--version").stdout == f"stowplan {__version__}\n"
    done = run(security, "operator")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stowplan: error: no cluster: ")
    assert done.stderr.count("\n") == 1


def test_nothing_in_it_is_its_user_s_to_change(security: dict[str, Any]) -> None:
    """Even where the root file system can be written: nothing but folders that are everybody's, as /tmp is."""
    found = look(security)
    assert found["status"] == {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
    assert (found["user"], found["pid"]) == ([65532, 65532, []], 1)
    assert found["writable"] + found["sticky"] == []
    found = look({**security, "readOnlyRootFilesystem": False})
    assert found["writable"] == []
    assert "/tmp" in found["sticky"]


def test_it_holds_the_packages_of_its_list_compiled_and_no_installer(
    security: dict[str, Any], repository: Path
) -> None:
    """Bytecode that does not fit its source would be made anew at every start: it cannot be kept."""
    found = look(security)
    text = (repository / "deploy/image/requirements.txt").read_text(encoding="utf-8")
    # Of some packages another version is for another Python.
    listed = {(name.lower(), version) for name, version in re.findall(r"^([\w.-]+)==([^ ;\\]+)", text, re.MULTILINE)}
    packages = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found["packages"].items()}
    assert packages.pop("stowplan") == __version__
    assert packages.items() <= listed
    assert {"aiohttp", "kopf", "kubernetes", "msgspec", "pydantic"} <= packages.keys()
    assert "pip" not in packages
    assert found["sources"] > 1000
    assert found["stale"] == []


def test_it_is_not_large() -> None:
    """Beyond its base."""
    done = subprocess.run(podman("history", "--format", "json", IMAGE), capture_output=True, text=True, check=True)
    history: list[dict[str, Any]] = json.loads(done.stdout)
    own = sum(each["size"] for each in history if "/opt/stowplan" in each["CreatedBy"])
    assert 0 < own < MEGABYTES << 20
