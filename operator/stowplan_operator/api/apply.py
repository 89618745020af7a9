"""Server-side apply: one field manager states all that it wants of an object, and owns just that.

What a manager leaves out of its next apply is removed, so always apply the whole of one's own set (all conditions, for
instance). An apply may be repeated, so no answer, 429 and a server that is busy or gone for a moment are tried again
here, a few times. A field that the schema does not declare is answered with 500 by the server, and not tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import tenacity

from .call import APPLY_PATCH, Call, Reply, encode
from .client import ApiClient
from .errors import ConflictError
from .kinds import Resource

_PASSING: Final = frozenset({0, 429, 502, 503, 504})
_OTHER_UID: Final = "metadata.uid: Invalid value"
_ATTEMPTS: Final = 4
_LONGEST_WAIT: Final = 5.0


async def apply_object(
    client: ApiClient,
    resource: Resource,
    name: str,
    manager: str,
    body: Mapping[str, Any],
    *,
    namespace: str = "",
    uid: str = "",
    force: bool = False,
) -> dict[str, Any]:
    """Apply `body` (without apiVersion, kind and name, which are filled in) and return the object as it is then.

    An absent object is created, unless `uid` is given: then ConflictError, as for another UID. `force`: take fields
    from other managers, which is for objects that are ours alone. Raises ApiError: ConflictError names the fields and
    managers in the way.
    """
    return await _apply(client, resource, name, "", manager, body, namespace, uid, force)


async def apply_status(
    client: ApiClient,
    resource: Resource,
    name: str,
    uid: str,
    manager: str,
    body: Mapping[str, Any],
    *,
    namespace: str = "",
    force: bool = False,
) -> dict[str, Any]:
    """Apply the status ({"status": ...} in `body`) of the object with that UID, and return the object as it is then.

    Never creates anything. Raises ApiError: NotFoundError, ConflictError (another UID, or a field of another manager).
    """
    return await _apply(client, resource, name, "status", manager, body, namespace, uid, force)


async def _apply(
    client: ApiClient,
    resource: Resource,
    name: str,
    subresource: str,
    manager: str,
    body: Mapping[str, Any],
    namespace: str,
    uid: str,
    force: bool,
) -> dict[str, Any]:
    metadata = {**(body.get("metadata") or {}), "name": name}
    if namespace:
        metadata["namespace"] = namespace
    if uid:
        metadata["uid"] = uid
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}
    call = Call(
        "PATCH",
        resource.path(name, namespace, subresource),
        (("fieldManager", manager), ("force", "true" if force else "false")),
        encode(whole),
        APPLY_PATCH,
    )
    reply = await repeated(client, call)
    if uid and reply.status == 422 and _OTHER_UID in reply.message:
        # For an object that is gone the server says 409 by itself.
        raise ConflictError(409, "Conflict", reply.message)
    found: dict[str, Any] = reply.sure().json()
    return found


async def repeated(
    client: ApiClient, call: Call, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Reply:
    """Carry out a call that may be carried out twice, and try again while the trouble is likely to pass."""
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(_is_passing),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=_wait,
        sleep=sleep,
        # Out of attempts, the last reply is the answer.
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
    )
    reply: Reply = await retrying(client.call, call)
    return reply


def _is_passing(reply: Reply) -> bool:
    return reply.status in _PASSING


_JITTERED: Final = tenacity.wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT)


def _wait(state: tenacity.RetryCallState) -> float:
    """What the server asks for, as far as it is bearable, else by chance within a doubling bound."""
    reply: Reply | None = state.outcome.result() if state.outcome is not None else None
    if reply is not None and reply.retry_after is not None:
        return min(reply.retry_after, _LONGEST_WAIT)
    return _JITTERED(state)
