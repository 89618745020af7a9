"""A cluster that somebody else runs, in the place of a control plane of our own: STOWPLAN_KUBECONFIG names it.

Tests marked `any_cluster` run there too, for instance on kind (deploy/kind). What such a cluster cannot do for a test,
to lose a component at a chosen moment, skips the test with a reason.
"""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

import pytest
import yaml

from integration.control_plane import PATIENCE, ControlPlane
from integration.kube_api import KubeApi

VARIABLE: Final = "STOWPLAN_KUBECONFIG"


class KubeconfigError(Exception):
    """A kubeconfig does not say what a test needs; the text says what is missing."""


def given_kubeconfig() -> Path | None:
    """The file that the environment names."""
    named = os.environ.get(VARIABLE)
    return Path(named).absolute() if named else None


class Access:
    """How to reach the API server of a kubeconfig's current context: address, certificate authority, credentials."""

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8")) or {}
        context = _named(content, "contexts", "context", content.get("current-context"))
        cluster = _named(content, "clusters", "cluster", context.get("cluster"))
        user = _named(content, "users", "user", context.get("user"))
        server = urlsplit(cluster.get("server", ""))
        if server.scheme != "https" or not server.hostname:
            raise KubeconfigError(f"{kubeconfig}: the cluster's server must be an https URL")
        self.host = server.hostname
        self.port = server.port or 443
        self.authority = _pem(kubeconfig, cluster, "certificate-authority")
        self.token = str(user.get("token", ""))
        self._certificate = _pem(kubeconfig, user, "client-certificate")
        self._key = _pem(kubeconfig, user, "client-key")
        if not self.token and not (self._certificate and self._key):
            raise KubeconfigError(f"{kubeconfig}: the user must have a token, or a client certificate and its key")

    def client(self, folder: Path, *, token: str | None = None) -> KubeApi:
        """A new client; with a token, as its owner. `folder`: where a key may be put: ssl reads it from a file."""
        context = ssl.create_default_context(cadata=self.authority or None)
        if token is None and not self.token:
            identity = folder / "client.pem"
            identity.touch(mode=0o600)
            identity.write_text(f"{self._certificate}\n{self._key}", encoding="utf-8")
            context.load_cert_chain(identity)
        return KubeApi(self.host, self.port, token=self.token if token is None else token, context=context)


def _named(content: dict[str, Any], listed: str, kind: str, name: str | None) -> dict[str, Any]:
    for entry in content.get(listed) or ():
        if entry.get("name") == name:
            found: dict[str, Any] = entry.get(kind) or {}
            return found
    raise KubeconfigError(f"there is no {kind} named {name!r}")


def _pem(kubeconfig: Path, entry: dict[str, Any], field: str) -> str:
    """The text of `field-data`, or of the file that `field` names; "" for neither."""
    if entry.get(f"{field}-data"):
        return base64.b64decode(entry[f"{field}-data"]).decode()
    if entry.get(field):
        return (kubeconfig.parent / str(entry[field])).read_text(encoding="utf-8")
    return ""


class GivenCluster(ControlPlane):
    """With the interface of a ControlPlane. It is neither started nor stopped, and keeps what tests leave in it."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        super().__init__(Path("kubectl"), folder)
        self._kubeconfig_file = kubeconfig
        self.access = Access(kubeconfig)
        self.port = self.access.port
        self.token = self.access.token

    @property
    def certificate(self) -> Path:
        path = self.folder / "authority.pem"
        path.write_text(self.access.authority, encoding="utf-8")
        return path

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig_file

    @property
    def api(self) -> KubeApi:
        return self.access.client(self.folder)

    def start(self) -> None:
        """It runs."""

    def stop(self) -> None:
        """It goes on running."""

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The kubectl on PATH: the user's own is the one that must work."""
        program = shutil.which("kubectl")
        if program is None:
            pytest.fail(f"{VARIABLE} is set, and there is no kubectl on PATH")
        return subprocess.run(
            [program, "--kubeconfig", str(self.kubeconfig), *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def kill(self, name: str) -> NoReturn:
        _skip(f"kills {name}")

    def restart(self, name: str) -> NoReturn:
        _skip(f"restarts {name}")

    def freeze(self, name: str) -> NoReturn:
        _skip(f"freezes {name}")

    def thaw(self, name: str) -> NoReturn:
        _skip(f"freezes {name}")

    def pid(self, name: str) -> NoReturn:
        _skip(f"looks at the process of {name}")


def _skip(what: str) -> NoReturn:
    pytest.skip(f"{what}, which needs a control plane of its own: {VARIABLE} names somebody else's")
