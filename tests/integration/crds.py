"""Puts Stowplan's custom resource definitions into a real API server, and waits until it serves them."""

from __future__ import annotations

import time
from typing import Any, Final

from integration.kube_api import Answer, KubeApi, sure
from stowplan_operator.resources.definitions import KINDS, CustomKind, definition

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVER_SIDE: Final = "application/apply-patch+yaml"
PATIENCE: Final = 60.0
"""Seconds until a definition must be served; it takes less than one, unless the machine is busy."""


def install(api: KubeApi) -> None:
    """All definitions, applied by the server and served. They may be there already. Raises RefusedError."""
    for kind in KINDS:
        sure(apply(api, kind))
    for kind in KINDS:
        wait_until_served(api, kind)


def apply(api: KubeApi, kind: CustomKind) -> Answer:
    """Server-side apply of a definition."""
    path = f"{DEFINITIONS}/{kind.name}?fieldManager=stowplan-tests&force=true"
    return api.request("PATCH", path, definition(kind), content=SERVER_SIDE)


def wait_until_served(api: KubeApi, kind: CustomKind) -> None:
    """Established, and its objects can be listed. Raises AssertionError with the conditions."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = conditions(api, kind)
        # NonStructuralSchema and the like are bad news, and nothing but a new definition makes them go.
        assert set(found) <= {"NamesAccepted", "Established"}, found
        served = api.request("GET", f"/apis/stowplan.io/v1alpha1/{kind.plural}").is_success
        if found.get("Established") == "True" and served:
            return
        assert time.monotonic() < deadline, f"{kind.name} is not served: {found}"
        time.sleep(0.05)


def conditions(api: KubeApi, kind: CustomKind) -> dict[str, str]:
    """Type to status of a definition's conditions."""
    status: dict[str, Any] = sure(api.request("GET", f"{DEFINITIONS}/{kind.name}")).get("status") or {}
    return {entry["type"]: entry["status"] for entry in status.get("conditions") or ()}


def objects_path(kind: str, *, name: str = "", query: str = "") -> str:
    """The path of the objects of a kind, or of one of them."""
    plural = next(each.plural for each in KINDS if each.kind == kind)
    return f"/apis/stowplan.io/v1alpha1/{plural}{f'/{name}' * bool(name)}{f'?{query}' * bool(query)}"
