"""Asks the API server what we may do there, and whether our namespace is there: what programs want to know first.

A right that is missing would show up much later, as something that silently does not happen. An API server that has
just been started denies everything for about a second: ask again before you believe a "no".
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from .call import Call, Reply, encode
from .client import ApiClient
from .kinds import LEASES
from .rights import Right

_AT_ONCE: Final = 8
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """`denied`: the rights that are missing. `failure`: an answer that is neither yes nor no, if there was one."""

    denied: tuple[Right, ...] = ()
    failure: Reply | None = None


async def review(client: ApiClient, namespace: str, rights: Sequence[Right]) -> Review:
    """Which of these rights we do not have. `namespace`: our own."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def ask(right: Right) -> Reply:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": right.attributes(namespace)},
        }
        async with slots:
            return await client.call(Call("POST", _REVIEWS, body=encode(body)))

    # The first one alone: where nobody answers, one question that waits for its time is enough.
    first = [await ask(right) for right in rights[:1]]
    replies = first
    if all(reply.is_success for reply in first):
        replies = [*first, *await asyncio.gather(*(ask(right) for right in rights[1:]))]
    failure = next((reply for reply in replies if not reply.is_success), None)
    if failure is not None:
        return Review(failure=failure)
    allowed = [reply.json()["status"].get("allowed") is True for reply in replies]
    return Review(denied=tuple(right for right, is_allowed in zip(rights, allowed, strict=True) if not is_allowed))


def may_not(who: str, denied: Sequence[Right]) -> str:
    """One line about rights that are missing, with what to do about them. `who`: as in "the operator"."""
    verbs: dict[Right, list[str]] = {}
    for right in denied:
        verbs.setdefault(msgspec.structs.replace(right, verb=""), []).append(right.verb)
    whats = (str(msgspec.structs.replace(right, verb="/".join(found))) for right, found in verbs.items())
    return f"{who} may not: {', '.join(whats)}; deploy/kustomize/base has the roles"


async def is_missing(client: ApiClient, namespace: str, lease: str) -> bool:
    """Whether there is no such namespace, as far as we may know.

    A Lease that is only tried, since reading namespaces is a right that nothing else needs.
    """
    body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": lease}}
    reply = await client.call(Call("POST", LEASES.path(namespace=namespace), (("dryRun", "All"),), encode(body)))
    return reply.status == 404
