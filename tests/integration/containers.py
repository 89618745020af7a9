"""What runs the containers of `integration.kubelet`: here processes of this machine, each with a loopback address.

A process has no file system and no network of its own. So the paths that its pod mounts something at are replaced, in
its arguments, by the folders of this machine; it listens on the pod's address where its arguments say all addresses;
and a kubeconfig stands for the account that a container finds at a fixed path.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"

TETHER: Final = Path(__file__).resolve().parents[1] / "live" / "tether.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of this machine at a path of the container."""

    path: str
    folder: Path
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One that is to be started. `security`: the pod's and the container's securityContext in one.

    `memory`: its limit in bytes; 0 for none.
    """

    pod: str
    image: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    mounts: Sequence[Mount]
    security: Mapping[str, Any]
    memory: int
    address: str
    log: Path


class Running(Protocol):
    """One that was started."""

    def exit_code(self) -> int | None:
        """None: it runs."""

    def terminate(self) -> None:
        """SIGTERM."""

    def kill(self) -> None:
        """SIGKILL; it is gone afterwards."""


class ContainerRuntime(Protocol):
    """What a kubelet needs of one."""

    def address(self, pod: str) -> str:
        """A new address, which nobody else has, for the pod of this name."""

    def start(self, container: Container) -> Running:
        """Start a container of that pod."""

    def release(self, pod: str) -> None:
        """The pod is gone, and its address with it."""


class Processes:
    """`stowplan` of this environment in the place of every image. `server`: of the API server, https://host:port."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._numbers = count(2)

    def address(self, pod: str) -> str:
        number = next(self._numbers)
        return f"127.77.{number // 256}.{number % 256}"

    def release(self, pod: str) -> None:
        """Nothing is left of an address."""

    def start(self, container: Container) -> Running:
        environment = {**os.environ, **container.environment}
        for mount in container.mounts:
            if mount.path == ACCOUNT:
                environment["KUBECONFIG"] = str(self._kubeconfig(container, mount.folder))
        with container.log.open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, str(TETHER), sys.executable, "-m", "stowplan_operator"),
                    *(_here(argument, container) for argument in container.arguments),
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return RunningProcess(process)

    def _kubeconfig(self, container: Container, account: Path) -> Path:
        """With the files that are mounted, which are read again as they would be in a pod."""
        namespace = (account / "namespace").read_text(encoding="utf-8")
        cluster = {"server": self._server, "certificate-authority": str(account / "ca.crt")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "account", "user": {"tokenFile": str(account / "token")}}],
            "contexts": [{"name": "pod", "context": {"cluster": "here", "user": "account", "namespace": namespace}}],
            "current-context": "pod",
        }
        path = container.log.with_suffix(".kubeconfig")
        path.write_text(json.dumps(config), encoding="utf-8")
        return path


def _here(argument: str, container: Container) -> str:
    """An argument as it has to be for a process."""
    for mount in container.mounts:
        argument = argument.replace(mount.path, str(mount.folder))
    return argument.replace("0.0.0.0", container.address)


class RunningProcess:
    """What runs as a process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def exit_code(self) -> int | None:
        return self.process.poll()

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
