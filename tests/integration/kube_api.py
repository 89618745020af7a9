"""A client of a Kubernetes API server for tests: the standard library, JSON, one connection, TLS verified."""

from __future__ import annotations

import http.client
import json
import ssl
from email.message import Message
from pathlib import Path
from typing import Any, Final, NamedTuple

JSON: Final = "application/json"
ANYTHING: Final = "*/*"
MERGE_PATCH: Final = "application/merge-patch+json"

Manifest = dict[str, Any]

_CLUSTER_SCOPED: Final = frozenset(
    {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "KWOKNodeClass",
        "Namespace",
        "Node",
        "NodePool",
        "PriorityClass",
        "SchedulerProfile",
        "Simulation",
    }
)


class Answer(NamedTuple):
    """What the server said: the HTTP status, the object or the Status object that says why not, and the headers."""

    code: int
    body: Manifest
    headers: Message = Message()

    @property
    def is_success(self) -> bool:
        return self.code < 400

    @property
    def message(self) -> str:
        """Why not; "" if it is a success."""
        return "" if self.is_success else str(self.body.get("message", ""))

    @property
    def causes(self) -> list[str]:
        """The texts of details.causes."""
        return [cause.get("message", "") for cause in (self.body.get("details") or {}).get("causes") or ()]

    @property
    def retry_after(self) -> int:
        """Seconds that the server asks to wait; 0 if it does not."""
        return int((self.body.get("details") or {}).get("retryAfterSeconds", 0))


class RefusedError(Exception):
    """The server refused what a test counts on."""


class KubeApi:
    """Requests to one API server. Not for several threads.

    `authority`: the certificate to trust; by default those that the machine trusts. `context` says that too, and may
    hold a client certificate; then `token` is "".
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str,
        authority: Path | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        context = context or ssl.create_default_context(cafile=authority)
        self._connection = http.client.HTTPSConnection(host, port, timeout=30, context=context)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def close(self) -> None:
        """End the connection; the next request opens another one."""
        self._connection.close()

    def request(self, method: str, path: str, body: Any = None, *, content: str = JSON, accept: str = JSON) -> Answer:
        """One request; an answer that is no JSON has its text as message. Raises OSError, HTTPException."""
        data = None if body is None else json.dumps(body)
        headers = {**self._headers, "Accept": accept, **({} if data is None else {"Content-Type": content})}
        try:
            self._connection.request(method, path, data, headers)
            response = self._connection.getresponse()
            text = response.read()
        except BaseException:
            self.close()
            raise
        if response.headers.get_content_type() == JSON:
            return Answer(response.status, json.loads(text), response.headers)
        return Answer(response.status, {"message": text.decode()}, response.headers)

    # ---- objects -----------------------------------------------------------------------------

    def create(self, manifest: Manifest) -> Answer:
        """POST an object."""
        return self.request("POST", path_of(manifest, named=False), manifest)

    def read(self, manifest: Manifest) -> Answer:
        """GET the object that a manifest names."""
        return self.request("GET", path_of(manifest))

    def replace(self, manifest: Manifest) -> Answer:
        """PUT an object."""
        return self.request("PUT", path_of(manifest), manifest)

    def patch(self, manifest: Manifest, change: Manifest, *, subresource: str = "") -> Answer:
        """Merge a change into the object that a manifest names, or into its status."""
        return self.request("PATCH", path_of(manifest, subresource=subresource), change, content=MERGE_PATCH)

    def delete(self, manifest: Manifest) -> Answer:
        """DELETE the object that a manifest names."""
        return self.request("DELETE", path_of(manifest))

    def all(self, api_version: str, kind: str, namespace: str) -> list[Manifest]:
        """All objects of a kind in a namespace. Raises RefusedError."""
        named = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}}
        items: list[Manifest] = sure(self.request("GET", path_of(named, named=False)))["items"]
        return items


def sure(answer: Answer) -> Manifest:
    """The object of a successful answer. Raises RefusedError."""
    if not answer.is_success:
        raise RefusedError(f"{answer.code}: {answer.message}")
    return answer.body


def path_of(manifest: Manifest, *, named: bool = True, subresource: str = "") -> str:
    """The path of an object, of the list that it is in, or of a part of it."""
    version, kind, meta = manifest["apiVersion"], manifest["kind"], manifest.get("metadata") or {}
    parts = ["/api" if "/" not in version else "/apis", version]
    if kind not in _CLUSTER_SCOPED:
        parts += ["namespaces", meta["namespace"]]
    parts.append(_plural(kind.lower()))
    if named:
        parts.append(meta["name"])
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def _plural(kind: str) -> str:
    if kind.endswith("s"):
        return f"{kind}es"
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
