"""The node-side peers of a real control plane, on loopback: kwok, metrics-server, Karpenter with its kwok provider.

    with certificates_in(folder) ..., ControlPlane(..., flags=aggregation(certificates)) as plane, Peers(...) as peers:
        peers.start_kwok()
        peers.start_metrics_server()

Each is a process that ends with this one, with a log in the folder. TLS is verified everywhere: kwok and metrics-server
serve with a certificate made for the occasion, which its clients are given. Where nobody asks kwok for what pods use,
it needs none.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import yaml

from integration.control_plane import HOST, PATIENCE, ControlPlane, ControlPlaneError, free_ports
from integration.kube_api import KubeApi, sure

HERE: Final = Path(__file__).resolve().parent

KWOK: Final = "kwok-v0.8.0"
METRICS_SERVER: Final = "metrics-server-v0.9.0"
KARPENTER: Final = "karpenter-v1.15.0"

METRICS_SERVICE: Final = "metrics-server.kube-system.svc"
"""The name that the aggregation layer expects in the certificate of metrics-server."""

DEFINITIONS: Final = f"{KARPENTER}.crds"
"""The folder of Karpenter's custom resource definitions beside its program."""


class Certificate(NamedTuple):
    """A key and a certificate that is its own authority."""

    certificate: Path
    key: Path

    @property
    def bundle(self) -> str:
        """The certificate as a caBundle of a manifest."""
        return b64encode(self.certificate.read_bytes()).decode()


class Certificates(NamedTuple):
    """kubelets: what kwok serves with. metrics: what metrics-server serves with. proxy: the API server as a client."""

    kubelets: Certificate
    metrics: Certificate
    proxy: Certificate


def make_certificates(folder: Path) -> Certificates:
    """New ones for a few days. Raises FileNotFoundError without openssl, CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)

    def make(name: str, common: str, *names: str) -> Certificate:
        made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
        request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-subj", f"/CN={common}")
        alternatives = ("-addext", f"subjectAltName={','.join(names)}") if names else ()
        files = ("-keyout", made.key, "-out", made.certificate)
        subprocess.run(["openssl", *request, *alternatives, *files], check=True, capture_output=True, timeout=PATIENCE)
        made.key.chmod(0o600)
        return made

    loopback = f"IP:{HOST}"
    return Certificates(
        kubelets=make("kubelets", "kwok", loopback),
        metrics=make("metrics", METRICS_SERVICE, f"DNS:{METRICS_SERVICE}", loopback),
        proxy=make("proxy", "front-proxy-client"),
    )


def aggregation(certificates: Certificates) -> tuple[str, ...]:
    """Flags of an API server that passes requests on to other API servers, as metrics-server is one."""
    proxy = certificates.proxy
    return (
        *("--requestheader-client-ca-file", str(proxy.certificate.absolute())),
        *("--requestheader-allowed-names", "front-proxy-client"),
        *("--requestheader-username-headers", "X-Remote-User"),
        *("--requestheader-group-headers", "X-Remote-Group"),
        *("--requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        *("--proxy-client-cert-file", str(proxy.certificate.absolute())),
        *("--proxy-client-key-file", str(proxy.key.absolute())),
    )


class Peers:
    """Those of one control plane; a context manager that stops them.

    `programs`: the folder that ``tests/live/build.sh`` writes to. Logs go to the folder of the control plane.
    `certificates`: None for kwok alone.
    """

    def __init__(self, plane: ControlPlane, programs: Path, certificates: Certificates | None = None) -> None:
        self._plane = plane
        self._programs = programs
        self._given = certificates
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.kubelet_port, self.metrics_port, *self._karpenter_ports = free_ports(4)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    # ---- the three ---------------------------------------------------------------------------

    def start_kwok(self) -> None:
        """Nodes with the annotation kwok.x-k8s.io/node=fake and their pods live from now on."""
        self._run(
            KWOK,
            *("--config", str(HERE / "kwok.yaml"), "--enable-crds", ""),
            *("--kubeconfig", self._kubeconfig),
            *("--node-ip", HOST, "--node-port", str(self.kubelet_port)),
            *("--server-address", f"{HOST}:{self.kubelet_port}"),
            *self._serving(),
        )
        if self._given is None:
            self._wait(KWOK, lambda: _is_well(self.kubelet_port, "/healthz"))
            return
        with contextlib.closing(self.kubelets) as kubelets:
            self._wait(KWOK, lambda: _answers(kubelets, "/healthz"))

    def _serving(self) -> tuple[str, ...]:
        if self._given is None:
            return ()
        kubelets = self._given.kubelets
        return "--tls-cert-file", str(kubelets.certificate), "--tls-private-key-file", str(kubelets.key)

    @property
    def _certificates(self) -> Certificates:
        if self._given is None:
            raise ValueError("these peers were made without certificates")
        return self._given

    @property
    def kubelets(self) -> KubeApi:
        """A client of the kubelets that kwok plays."""
        return KubeApi(HOST, self.kubelet_port, token="", authority=self._certificates.kubelets.certificate)

    def start_metrics_server(self) -> None:
        """Register it as the API metrics.k8s.io; ready when that API is available."""
        serving, kubeconfig = self._certificates.metrics, self._kubeconfig
        self._run(
            METRICS_SERVER,
            *("--kubeconfig", kubeconfig),
            *("--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig),
            *("--bind-address", HOST, "--secure-port", str(self.metrics_port)),
            *("--tls-cert-file", str(serving.certificate), "--tls-private-key-file", str(serving.key)),
            *("--kubelet-certificate-authority", str(self._certificates.kubelets.certificate)),
            *("--kubelet-use-node-status-port", "--kubelet-preferred-address-types", "InternalIP"),
            *("--metric-resolution", "15s"),
        )
        with contextlib.closing(self._plane.api) as api:
            service, registration = metrics_api(self.metrics_port, serving.bundle)
            sure(api.create(service))
            sure(api.create(registration))
            self._wait(METRICS_SERVER, lambda: _is_available(sure(api.read(registration))))

    @property
    def metrics_server(self) -> KubeApi:
        """A client of metrics-server itself."""
        authority = self._certificates.metrics.certificate
        return KubeApi(HOST, self.metrics_port, token=self._plane.token, authority=authority)

    def start_karpenter(self, pools: Sequence[Mapping[str, Any]]) -> None:
        """Define its resources, create the pools, and start it; ready when it says so."""
        with contextlib.closing(self._plane.api) as api:
            for path in sorted((self._programs / DEFINITIONS).glob("*.yaml")):
                for definition in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                    if definition:
                        sure(api.create(definition))
            for manifest in pools:
                # A definition is served a moment after it was created.
                self._until(partial(_is_created, api, manifest), str(manifest["kind"]))
        metrics, health = self._karpenter_ports
        environment = {
            **os.environ,
            "KUBECONFIG": self._kubeconfig,
            "SYSTEM_NAMESPACE": "kube-system",
            "DISABLE_LEADER_ELECTION": "true",
        }
        self._run(
            KARPENTER, "--metrics-port", str(metrics), "--health-probe-port", str(health), environment=environment
        )
        # Karpenter's probe speaks plain HTTP.
        self._wait(KARPENTER, lambda: _is_well(health, "/readyz"))

    # ---- inside ------------------------------------------------------------------------------

    @property
    def _kubeconfig(self) -> str:
        return str(self._plane.kubeconfig.absolute())

    def _run(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        program = self._programs / name
        if not os.access(program, os.X_OK):
            raise FileNotFoundError(f"{name} is not built: run tests/live/build.sh")
        with (self._plane.folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, str(HERE / "tether.py"), str(program.absolute()), *arguments],
                cwd=self._plane.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self, name: str, is_ready: Callable[[], bool]) -> None:
        """Until it is ready. Raises ControlPlaneError if it ends, or takes too long."""

        def is_up() -> bool:
            answers, code = is_ready(), self._running[name].poll()
            if code is not None:
                raise ControlPlaneError(f"{name} ended with exit code {code}:\n{self._plane.last_lines(name)}")
            return answers

        self._until(is_up, name)

    def _until(self, is_so: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise ControlPlaneError(f"{name} is not ready after {PATIENCE:.0f} s")
            time.sleep(0.1)


def metrics_api(port: int, bundle: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Service and the APIService by which the API server finds metrics-server on a port of this machine."""
    name = {"name": "metrics-server", "namespace": "kube-system"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": name,
        # A name outside of the cluster is the one kind of Service whose address the API server takes as it is.
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    registration = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": bundle,
            "service": {**name, "port": port},
        },
    }
    return service, registration


def has_openssl() -> bool:
    """Whether certificates can be made."""
    return shutil.which("openssl") is not None


def _answers(api: KubeApi, path: str) -> bool:
    with contextlib.suppress(OSError):
        return api.request("GET", path).is_success
    return False


def _is_created(api: KubeApi, manifest: Mapping[str, Any]) -> bool:
    return api.create(dict(manifest)).is_success


def _is_well(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        return connection.getresponse().status == 200
    return False


def _is_available(registration: Mapping[str, Any]) -> bool:
    conditions = (registration.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
