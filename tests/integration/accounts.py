"""Clients that are ServiceAccounts: with the token that a pod of theirs would get, and no right but what roles grant.

The token of the control plane itself stands above all rights and all limits, so it proves nothing about either.
"""

from __future__ import annotations

import base64
import json
from contextlib import closing
from pathlib import Path

from integration.control_plane import ControlPlane
from integration.given_cluster import Access
from integration.kube_api import KubeApi, sure


def token_of(plane: ControlPlane, name: str, namespace: str) -> str:
    """A token for one hour, by the TokenRequest API."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    with closing(plane.api) as api:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token: str = sure(api.request("POST", path, request))["status"]["token"]
    return token


def api_of(plane: ControlPlane, name: str, namespace: str) -> KubeApi:
    """A new client with an account's rights."""
    return Access(plane.kubeconfig).client(plane.folder, token=token_of(plane, name, namespace))


def kubeconfig_of(plane: ControlPlane, name: str, namespace: str, folder: Path) -> Path:
    """A file for programs that read one; its current namespace is the account's."""
    access = Access(plane.kubeconfig)
    authority = base64.b64encode(access.authority.encode()).decode()
    cluster = {"server": f"https://{access.host}:{access.port}", "certificate-authority-data": authority}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "given", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token_of(plane, name, namespace)}}],
        "contexts": [{"name": name, "context": {"cluster": "given", "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    path = folder / f"{namespace}-{name}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
