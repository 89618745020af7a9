"""The launcher of the real control plane: what it starts, whom it lets in, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from integration.control_plane import (
    API_SERVER,
    CONTROLLER_MANAGER,
    ETCD,
    HOST,
    SCHEDULER,
    ControlPlane,
    ControlPlaneError,
)
from integration.kube_api import KubeApi, sure
from integration.manifests import simple_pod
from support.processes import environment

pytestmark = pytest.mark.rig


def test_it_is_the_version_that_everything_is_compared_with(control_plane: ControlPlane) -> None:
    """v1.37.2, as in the module that builds it."""
    with closing(control_plane.api) as api:
        assert sure(api.request("GET", "/version"))["gitVersion"] == "v1.37.2"


def test_nobody_gets_in_without_the_token_or_talks_to_an_unknown_server(control_plane: ControlPlane) -> None:
    """A wrong token is 401; a client that does not know the server's certificate does not send its token at all."""
    authority = control_plane.certificate
    with closing(KubeApi(HOST, control_plane.port, token="wrong", authority=authority)) as api:
        assert api.request("GET", "/api/v1/namespaces").code == 401
    with pytest.raises(ssl.SSLCertVerificationError):
        KubeApi(HOST, control_plane.port, token="any").request("GET", "/version")
    assert control_plane.kubeconfig.stat().st_mode & 0o077 == 0


def test_a_second_one_with_service_accounts_and_a_scheduler_runs_beside_it(rig: Path, tmp_path: Path) -> None:
    """Pods get the token of their account, and a node; the folder keeps the logs and not etcd's data."""
    components = (CONTROLLER_MANAGER, SCHEDULER)
    with ControlPlane(rig, tmp_path, components=components, service_accounts=True) as plane, closing(plane.api) as api:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        sure(api.create(node))
        sure(api.patch(node, {"status": {"capacity": {"cpu": "4", "pods": "10"}}}, subresource="status"))
        pod = simple_pod("p", tolerations=[{"operator": "Exists"}])
        pod["metadata"]["namespace"] = "default"
        until(lambda: api.create(pod).code != 403)  # until the default account is there
        until(lambda: bool(sure(api.read(pod))["spec"].get("nodeName")))
        spec = sure(api.read(pod))["spec"]
        assert (spec["serviceAccountName"], spec["nodeName"]) == ("default", "n1")
        assert "serviceAccountToken" in str(spec["volumes"])
    assert (tmp_path / "kube-apiserver.log").stat().st_size > 0
    assert not (tmp_path / "etcd").exists()


def test_a_program_that_was_killed_comes_back_with_its_data(rig: Path, tmp_path: Path) -> None:
    """Same port, same certificate, same objects; the log of before stays. etcd may go too, or both at once."""
    with ControlPlane(rig, tmp_path, components=()) as plane:
        certificate = plane.certificate.read_bytes()
        with closing(plane.api) as api:
            sure(api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
        plane.kill(API_SERVER)
        plane.kill(API_SERVER)
        with closing(plane.api) as api, pytest.raises(ConnectionRefusedError):
            api.request("GET", "/version")
        written = (tmp_path / "kube-apiserver.log").stat().st_size
        plane.kill(ETCD)
        plane.restart(ETCD)
        plane.restart(API_SERVER)
        with closing(plane.api) as api:
            assert sure(api.request("GET", "/api/v1/namespaces/shop"))["metadata"]["name"] == "shop"
            plane.restart(ETCD)
            until(lambda: api.request("GET", "/api/v1/namespaces/shop").code == 200)
        assert plane.certificate.read_bytes() == certificate
        assert (tmp_path / "kube-apiserver.log").stat().st_size > written
        with pytest.raises(ControlPlaneError, match="there is no kube-scheduler here, only etcd, kube-apiserver"):
            plane.kill(SCHEDULER)


def test_a_frozen_program_keeps_its_connections_and_says_nothing(rig: Path, tmp_path: Path) -> None:
    """After the thaw the answer comes; what is frozen can be stopped too."""
    with ControlPlane(rig, tmp_path, components=()) as plane:
        plane.freeze(API_SERVER)
        with socket.create_connection((HOST, plane.port), timeout=5) as connection:
            connection.settimeout(0.2)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with pytest.raises(TimeoutError):
                connection.recv(1)
            plane.thaw(API_SERVER)
            connection.settimeout(30)
            # That it wants TLS.
            assert connection.recv(64).startswith(b"HTTP/1.0 400 Bad Request")
        plane.kill(API_SERVER)
        with pytest.raises(ControlPlaneError, match="kube-apiserver was killed"):
            plane.thaw(API_SERVER)
        plane.freeze(ETCD)


def test_kubectl_is_there_in_the_version_of_the_control_plane(control_plane: ControlPlane) -> None:
    """With every right; a mistake is an exit code and a text."""
    versions = json.loads(control_plane.kubectl("version", "--output", "json").stdout)
    assert versions["clientVersion"]["gitVersion"] == versions["serverVersion"]["gitVersion"] == "v1.37.2"
    manifest = '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "by-kubectl"}}'
    assert control_plane.kubectl("apply", "-f", "-", stdin=manifest).stdout == "namespace/by-kubectl created\n"
    absent = control_plane.kubectl("get", "pod", "absent")
    assert (absent.returncode, absent.stderr) == (1, 'Error from server (NotFound): pods "absent" not found\n')


def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_program_that_does_not_start_is_reported_with_its_log(rig: Path, tmp_path: Path) -> None:
    """A flag that it does not know."""
    flags = {"kube-apiserver": ("--no-such-flag",)}
    with pytest.raises(ControlPlaneError, match=r"kube-apiserver ended with exit code 1:[\s\S]*no-such-flag"):
        ControlPlane(rig, tmp_path, flags=flags).start()


KILLED = """
import os, signal, sys
from pathlib import Path
from integration.control_plane import ControlPlane
plane = ControlPlane(Path(sys.argv[1]), Path(sys.argv[2]), components=())
plane.start()
print(*(process.pid for process in plane._running.values()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_whoever_started_it(rig: Path, tmp_path: Path) -> None:
    """Even if that was killed and could not stop it."""
    command = [sys.executable, "-c", KILLED, str(rig), str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    programs = [int(text) for text in done.stdout.split()]
    assert len(programs) == 2
    until(lambda: not any(map(is_running, programs)))


def is_running(process: int) -> bool:
    """Whether a process that is no child of ours runs; one that waits for its parent to notice its end does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not (state.exists() and state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z")
