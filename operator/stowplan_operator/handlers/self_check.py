"""What an operator needs before it starts: a cluster that knows our kinds, its namespace, and its rights.

A right that is missing would show up much later, as something that silently does not happen; so all are asked for at
the start, and one message says what is missing. An API server that has just been started denies everything for about a
second, and takes a moment to know a new kind; so a "no" is asked about again for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.reviews import is_missing, may_not, review
from stowplan_operator.api.rights import Right

from .names import API_VERSION, KINDS, LEASE, PLURALS

PATIENCE: Final = 5.0
"""Seconds that a "no" may take to become a "yes"."""

_PAUSE: Final = 0.5


class NotReadyError(Exception):
    """The cluster is not ready for an operator; the text says what is missing, and what to do about it."""


async def check_cluster(
    client: ApiClient, namespace: str, rights: Sequence[Right], *, patience: float = PATIENCE
) -> None:
    """Raises NotReadyError if, after `patience` seconds, something is still missing."""
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        missing = (
            await _kinds(client) or await _namespace(client, namespace) or await _rights(client, namespace, rights)
        )
        if not missing:
            return
        if asyncio.get_running_loop().time() >= deadline:
            raise NotReadyError(missing)
        await asyncio.sleep(_PAUSE)


async def _kinds(client: ApiClient) -> str:
    reply = await client.call(Call("GET", f"/apis/{API_VERSION}"))
    if reply.status == 404:
        known: set[str] = set()
    elif reply.is_success:
        known = {entry["kind"] for entry in reply.json().get("resources") or () if "/" not in entry["name"]}
    else:
        return f"the API server does not answer as it should: {reply.message}"
    missing = [kind for kind in KINDS if kind not in known]
    if not missing:
        return ""
    return f"the cluster does not know {', '.join(missing)} ({API_VERSION}): {how_to_apply(missing)}"


def how_to_apply(kinds: Sequence[str]) -> str:
    """What to do about kinds that a cluster does not know."""
    files = " ".join(f"-f crds/{PLURALS[kind]}.stowplan.io.yaml" for kind in kinds)
    return f"apply the definitions with kubectl apply {files}"


async def _namespace(client: ApiClient, namespace: str) -> str:
    if not await is_missing(client, namespace, LEASE):
        # Whatever else is wrong, rights or the connection, is found by those who come next.
        return ""
    return f"there is no namespace {namespace}: make it with kubectl create namespace {namespace}, or set --namespace"


async def _rights(client: ApiClient, namespace: str, rights: Sequence[Right]) -> str:
    found = await review(client, namespace, rights)
    if found.failure is not None:
        return f"its rights cannot be checked: {found.failure.message}"
    return may_not("the operator", found.denied) if found.denied else ""
