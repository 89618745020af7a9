"""A real Kubernetes control plane on this machine's loopback interface, for tests.

    with ControlPlane(program, folder) as plane:
        plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})

etcd, kube-apiserver and kube-controller-manager of v1.37.2, and kube-scheduler where it is asked for; there are no
kubelets, so whoever needs pods Running writes their status. `program` is what ``tests/conformance/build.sh rig``
builds. Everything lives in `folder`: one log per program, a kubeconfig, and etcd's data, which is removed at the end.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from integration.kube_api import KubeApi

HOST: Final = "127.0.0.1"
PATIENCE: Final = 60.0
"""Seconds that a program may take to be ready; it is there after two or three, unless the machine is busy."""

ETCD: Final = "etcd"
API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"

_ATTEMPTS: Final = 3
"""A port that was free may be taken a moment later; then all begins again with others."""


class ControlPlaneError(Exception):
    """A program ended, or was not ready in time; the text has the last lines of its log."""


class _Start(NamedTuple):
    """How a program was started, to start it again."""

    arguments: tuple[str, ...]
    is_ready: Callable[[], bool]


class ControlPlane:
    """One control plane, from `start` to `stop`; also a context manager.

    `components`: what runs beside etcd and the API server. `service_accounts`: whether pods get a service account at
    admission; without, a pod can be made before its namespace has one. `flags`: more flags, by program.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        *,
        components: Sequence[str] = (CONTROLLER_MANAGER,),
        service_accounts: bool = False,
        flags: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._program = program
        self._components = tuple(components)
        self._service_accounts = service_accounts
        self._flags = flags or {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, _Start] = {}
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.port = 0
        self.scheduler_port = 0

    @property
    def certificate(self) -> Path:
        """What a client has to trust."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        """For clients that read one."""
        return self.folder / "kubeconfig"

    @property
    def api(self) -> KubeApi:
        """A new client with every right."""
        return KubeApi(HOST, self.port, token=self.token, authority=self.certificate)

    # ---- start and stop ----------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all programs and wait until they are ready. Raises ControlPlaneError, OSError."""
        for attempt in range(1, _ATTEMPTS + 1):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._start()
            except ControlPlaneError as error:
                self.stop()
                if attempt == _ATTEMPTS or "address already in use" not in str(error):
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def stop(self) -> None:
        """Kill all programs: a graceful end takes the API server 15 s. The logs stay."""
        for process in reversed(self._running.values()):
            process.kill()
        for process in self._running.values():
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self._running.clear()
        self._started.clear()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    # ---- faults ------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """Kill one program, as a power cut does; nothing if it is dead already. Raises ControlPlaneError."""
        self._start_of(name)
        process = self._running.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def restart(self, name: str) -> None:
        """Start a program again, and wait until it is ready: same ports, same data; its log goes on.

        What runs is killed first. Users without all rights are refused (403) for about a second after the API server
        is ready. Raises ControlPlaneError.
        """
        start = self._start_of(name)
        self.kill(name)
        self._run(name, *start.arguments)
        self._wait(name, start.is_ready)

    def ask_scheduler(self, path: str) -> tuple[int, str]:
        """Status and text of an answer of kube-scheduler, whose certificate is of its own making.

        Raises OSError, HTTPException.
        """
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(HOST, self.scheduler_port, context=context, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def freeze(self, name: str) -> None:
        """Stop a program in its tracks: its connections stay open and nothing comes. Raises ControlPlaneError."""
        process = self._alive(name)
        process.send_signal(signal.SIGSTOP)
        # It is stopped when all its threads are; until then it may answer.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self, name: str) -> None:
        """Let a frozen program go on. Raises ControlPlaneError."""
        self._alive(name).send_signal(signal.SIGCONT)

    def _start_of(self, name: str) -> _Start:
        if name not in self._started:
            raise ControlPlaneError(f"there is no {name} here, only {', '.join(self._started) or 'nothing'}")
        return self._started[name]

    def _alive(self, name: str) -> subprocess.Popen[bytes]:
        self._start_of(name)
        if name not in self._running:
            raise ControlPlaneError(f"{name} was killed")
        return self._running[name]

    def pid(self, name: str) -> int:
        """The process of a program that runs. Raises ControlPlaneError."""
        return self._alive(name).pid

    # ---- kubectl -----------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl with every right; `stdin` is what `-f -` reads. The result has returncode, stdout and stderr."""
        return subprocess.run(
            [self._program.absolute(), "kubectl", "--kubeconfig", self.kubeconfig.absolute(), *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    # ---- programs ----------------------------------------------------------------------------

    def _start(self) -> None:
        self.port, client, peer, self.scheduler_port = free_ports(4)
        subprocess.run([self._program, "service-account-key", self.folder / "sa.key"], check=True, timeout=PATIENCE)
        self._write_private("tokens.csv", f"{self.token},admin,admin,system:masters\n")
        self._write_private("kubeconfig", json.dumps(self._kubeconfig()))
        self._start_etcd(client, peer)
        self._start_api_server(client)
        if CONTROLLER_MANAGER in self._components:
            self._start_controller_manager()
        if SCHEDULER in self._components:
            self._start_scheduler(self.scheduler_port)

    def _start_etcd(self, client: int, peer: int) -> None:
        mine, others = f"http://{HOST}:{client}", f"http://{HOST}:{peer}"
        self._begin(
            ETCD,
            lambda: _accepts(client),
            *("--data-dir", "etcd", "--unsafe-no-fsync"),
            # As kubeadm sets it: the API server's bookmarks move on while a kind does not change.
            *("--watch-progress-notify-interval", "5s"),
            *("--listen-client-urls", mine, "--advertise-client-urls", mine),
            *("--listen-peer-urls", others, "--initial-advertise-peer-urls", others),
            *("--initial-cluster", f"default={others}"),
        )

    def _start_api_server(self, etcd: int) -> None:
        # Without the reconciler of endpoints nobody asks under which address, other than loopback, it can be reached.
        self._begin(
            API_SERVER,
            self._is_ready,
            *("--etcd-servers", f"http://{HOST}:{etcd}"),
            *("--bind-address", HOST, "--secure-port", str(self.port), "--cert-dir", "certs"),
            *("--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.0.0.0/24"),
            *("--service-account-key-file", "sa.key", "--service-account-signing-key-file", "sa.key"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--token-auth-file", "tokens.csv", "--authorization-mode", "RBAC", "--allow-privileged"),
            *(() if self._service_accounts else ("--disable-admission-plugins", "ServiceAccount")),
        )

    def _start_controller_manager(self) -> None:
        self._begin(
            CONTROLLER_MANAGER,
            lambda: True,
            *("--kubeconfig", "kubeconfig", "--leader-elect=false", "--bind-address", HOST, "--secure-port", "0"),
            *("--service-account-private-key-file", "sa.key"),
        )

    def _start_scheduler(self, port: int) -> None:
        self._begin(
            SCHEDULER,
            self._scheduler_is_ready,
            *("--kubeconfig", "kubeconfig", "--leader-elect=false", "--bind-address", HOST, "--secure-port", str(port)),
        )

    # ---- inside ------------------------------------------------------------------------------

    def _begin(self, name: str, is_ready: Callable[[], bool], *arguments: str) -> None:
        self._started[name] = _Start(arguments, is_ready)
        (self.folder / f"{name}.log").unlink(missing_ok=True)
        self._run(name, *arguments)
        self._wait(name, is_ready)

    def _run(self, name: str, *arguments: str) -> None:
        # The open end of its standard input is what keeps a program alive: it dies with this process.
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [self._program.absolute(), name, *arguments, *self._flags.get(name, ())],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self, name: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            # Asked in this order: what answers on its port is this program, or it would have ended.
            answers, code = is_ready(), self._running[name].poll()
            if code is not None:
                raise ControlPlaneError(f"{name} ended with exit code {code}:\n{self.last_lines(name)}")
            if answers:
                return
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"{name} is not ready after {PATIENCE:.0f} s:\n{self.last_lines(name)}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        if not self.certificate.is_file():
            return False
        with contextlib.suppress(OSError), contextlib.closing(self.api) as api:
            return api.request("GET", "/readyz").code == 200
        return False

    def _scheduler_is_ready(self) -> bool:
        """Whether it has listed the cluster: what is created later reaches it one by one, in that order."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask_scheduler("/readyz")[0] == 200
        return False

    def last_lines(self, name: str, count: int = 5) -> str:
        """The end of a program's log."""
        text = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-count:])

    def _write_private(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def _kubeconfig(self) -> dict[str, object]:
        """JSON is YAML."""
        cluster = {"server": f"https://{HOST}:{self.port}", "certificate-authority": str(self.certificate.absolute())}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "admin"}}],
            "current-context": "rig",
        }


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
