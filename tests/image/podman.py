"""The containers of `integration.kubelet` as containers: from the image that ``tests/image/build.sh`` built, by podman.

A container has what its pod asks for, and nothing else: user, capabilities, a root file system that cannot be written,
its mounts, a limit of memory, an address in a network namespace of its own. The API server is where it is in any
cluster, at the first address of the service network.

The network is that of ``tests/image/run.sh``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from conftest import build_folder
from integration.containers import TETHER, Container, Running, RunningProcess
from integration.control_plane import HOST
from stowplan_scheduler import __version__

IMAGE: Final = f"localhost/stowplan:{__version__}"
"""It stands for every image that can be pulled."""

STORE: Final = build_folder().parent / "image"
BRIDGE: Final = "stowplan0"
GATEWAY: Final = "10.77.0.1"
API_SERVER: Final = "10.0.0.1"
"""The first address of the control plane's service network, which is in its certificate."""

API_SERVER_FLAGS: Final = ("--bind-address", "0.0.0.0", "--advertise-address", HOST)
"""The network has nobody in it but pods. What is advertised is in the certificate, too, for clients on loopback."""


_NUMBERS: Final = count(2)
"""Never the same one twice: a network goes a moment after its pod."""


def podman(*arguments: str) -> list[str]:
    """A command line for the images and containers of this check alone."""
    runtime: tuple[str, ...] = ()
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists() and shutil.which("runc"):
        # Of the two that podman looks for, this one knows control groups of the first version.
        runtime = ("--runtime", "runc")
    store = ("--root", str(STORE / "store"), "--runroot", str(STORE / "run"))
    return ["podman", *store, "--cgroup-manager", "cgroupfs", *runtime, *arguments]


class Podman:
    """A runtime; a context manager that removes what is left of its containers. `port`: of the API server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connected: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run(podman("rm", "--all", "--force"), check=True, capture_output=True)

    # ---- network -------------------------------------------------------------------------------

    def address(self, pod: str) -> str:
        number = next(_NUMBERS)
        return f"10.77.{number // 256}.{number % 256}"

    def _connect(self, container: Container) -> None:
        """Make the network of a pod, if it is not there already."""
        pod, address = container.pod, container.address
        if pod in self._connected:
            return
        self._connected.add(pod)
        outside = "pod" + address.removeprefix("10.77.")
        _ip("netns", "add", pod)
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", pod)
        _ip("link", "set", outside, "master", BRIDGE, "up")
        for command in (
            ("address", "add", f"{address}/16", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
            ("route", "add", "default", "via", GATEWAY),
        ):
            _ip("-netns", pod, *command)

    def release(self, pod: str) -> None:
        if pod in self._connected:
            self._connected.remove(pod)
            _ip("netns", "delete", pod)

    # ---- containers ----------------------------------------------------------------------------

    def start(self, container: Container) -> Running:
        self._connect(container)
        environment = {
            **container.environment,
            "KUBERNETES_SERVICE_HOST": API_SERVER,
            "KUBERNETES_SERVICE_PORT": str(self._port),
        }
        arguments = [
            *run_options(container),
            *("--name", container.pod, "--hostname", container.pod, "--network", f"ns:/run/netns/{container.pod}"),
            *(word for name, value in environment.items() for word in ("--env", f"{name}={value}")),
            IMAGE,
            *container.arguments,
        ]
        with container.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(TETHER), shutil.which("podman") or "podman", *podman("run", *arguments)[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return _Podman(container.pod, process)


def run_options(container: Container) -> Sequence[str]:
    """Those of `podman run` that a pod's securityContext, mounts and limits stand for."""
    security = container.security
    found = ["--rm", "--pull", "never"]
    if security.get("readOnlyRootFilesystem"):
        # podman's own volumes at /tmp and elsewhere would hide that one is missing.
        found += ["--read-only", "--read-only-tmpfs=false"]
    if "runAsUser" in security:
        found += ["--user", f"{security['runAsUser']}:{security.get('runAsGroup', 0)}"]
    for capability in security.get("capabilities", {}).get("drop", ()):
        found += ["--cap-drop", capability]
    if security.get("allowPrivilegeEscalation") is False:
        found += ["--security-opt", "no-new-privileges"]
    for mount in container.mounts:
        found += ["--volume", f"{mount.folder}:{mount.path}:{'ro' if mount.read_only else 'rw'}"]
    if container.memory:
        found += ["--memory", f"{container.memory}b", "--memory-swap", f"{container.memory}b"]
    # What podman sets by itself is more than a machine may allow.
    for limit in ("nofile=4096:4096", "nproc=1024:1024"):
        found += ["--ulimit", limit]
    return found


class _Podman(RunningProcess):
    """A container and the podman that waits for it, which passes signals on and ends with its exit code."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process)
        self._name = name

    def kill(self) -> None:
        subprocess.run(podman("kill", "--signal", "KILL", self._name), check=False, capture_output=True)
        self.process.wait()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, env={**os.environ, "LC_ALL": "C"})
