"""What the tests of the operator's API client share: a client, a namespace of one's own, pods, accounts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from integration.accounts import token_of
from integration.control_plane import HOST, ControlPlane
from integration.kube_api import Manifest, sure
from stowplan_operator.api.call import Call, encode
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.connection import load_connection
from stowplan_operator.api.kinds import PODS

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds for what usually takes milliseconds; the machine may be busy."""

_NUMBERS = count(1)


def run(plane: ControlPlane, test: Callable[[ApiClient], Coroutine[Any, Any, T]], **settings: Any) -> T:
    """Run a test with a client that has every right."""

    async def whole() -> T:
        async with ApiClient(load_connection(plane.kubeconfig), **settings) as client:
            return await test(client)

    return asyncio.run(whole())


def new_namespace(plane: ControlPlane) -> str:
    """An empty namespace."""
    name = f"api-{next(_NUMBERS)}"
    with closing(plane.api) as api:
        sure(api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    return name


async def create_pod(client: ApiClient, namespace: str, name: str, **spec: Any) -> tuple[str, str]:
    """A pod; its key and UID."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "image"}], **spec},
    }
    reply = await client.call(Call("POST", PODS.path(namespace=namespace), body=encode(body)))
    return f"{namespace}/{name}", reply.sure().json()["metadata"]["uid"]


async def until(is_so: Callable[[], bool | Awaitable[bool]], what: str = "") -> None:
    """Wait until it is so; fails after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = is_so()
        if found if isinstance(found, bool) else await found:
            return
        assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what or is_so}"
        await asyncio.sleep(0.02)


def account(plane: ControlPlane, namespace: str, name: str, rules: list[Manifest]) -> str:
    """A service account with these rights in the whole cluster; its token."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    rbac, both = "rbac.authorization.k8s.io", f"{namespace}-{name}"
    with closing(plane.api) as api:
        sure(api.create(account))
        sure(
            api.create({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": both}, "rules": rules})
        )
        sure(
            api.create(
                {
                    "apiVersion": f"{rbac}/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": both},
                    "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": both},
                    "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
                }
            )
        )
    return token_of(plane, name, namespace)


def kubeconfig(plane: ControlPlane, path: Path, user: Manifest) -> Path:
    """A kubeconfig for the control plane with that user entry."""
    cluster = {"server": f"https://{HOST}:{plane.port}", "certificate-authority": str(plane.certificate.absolute())}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "user", "namespace": "shop"}}],
        "current-context": "rig",
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
