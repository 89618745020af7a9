"""The operator's own lists: our kinds, and the objects that it keeps in its namespace."""

from __future__ import annotations

from typing import Any, Final

from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.kinds import Resource

from .names import GROUP, KINDS, PLURALS, VERSION

CONFIG_MAPS: Final = Resource(kind="ConfigMap", plural="configmaps")
DEPLOYMENTS: Final = Resource(kind="Deployment", plural="deployments", group="apps")
DISRUPTION_BUDGETS: Final = Resource(kind="PodDisruptionBudget", plural="poddisruptionbudgets", group="policy")
OWN_PODS: Final = Resource(kind="Pod", plural="pods")
"""As plain values: of a worker's pod the address counts, which a scheduler's own type of pod leaves out."""

OURS: Final = {
    kind: Resource(kind=kind, plural=PLURALS[kind], group=GROUP, version=VERSION, namespaced=False) for kind in KINDS
}
"""Our kinds by name."""

_PAGE: Final = 250


async def list_all(
    client: ApiClient, resource: Resource, namespace: str = "", *, labels: str = ""
) -> tuple[list[dict[str, Any]], str]:
    """All objects of a kind, and the resource version at which that was so. Raises ApiError."""
    found: list[dict[str, Any]] = []
    page = ""
    while True:
        query = [("limit", str(_PAGE))]
        query += [("labelSelector", labels)] if labels else []
        query += [("continue", page)] if page else []
        reply = (await client.call(Call("GET", resource.path(namespace=namespace), tuple(query)))).sure()
        document = reply.json()
        found += document.get("items") or ()
        page = document["metadata"].get("continue") or ""
        if not page:
            version: str = document["metadata"].get("resourceVersion") or ""
            return found, version
