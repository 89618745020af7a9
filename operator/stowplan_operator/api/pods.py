"""What a scheduler does to pods: bind, read, set conditions, delete, evict.

Every write names the pod's UID as a precondition: a pod of the same name that came later is never touched. Each
function is one request and returns its reply as it is; none is repeated here, least of all a binding, for which no
answer (status 0) and a conflict (409) both mean: read the pod, then decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stowplan_scheduler.objects import Pod, PodCondition

from .call import STRATEGIC_MERGE_PATCH, Call, Caller, Reply, encode
from .kinds import PODS

_POD: Final = msgspec.json.Decoder(Pod)

_EVICTION_SECONDS: Final = 30.0
"""The server repeats an eviction that meets a conflict twenty times, every half second (EvictionsRetry)."""

_BOUND_ALREADY: Final = "is already assigned to node"


async def bind(client: Caller, key: str, uid: str, node: str, *, seconds: float | None = None) -> Reply:
    """POST pods/binding. 201: bound. 404: the pod is gone. 409: it has a node, another UID, gates, or is being deleted.

    Upstream: pkg/scheduler/framework/plugins/defaultbinder. The server checks neither that the node exists nor that
    there is room on it. `seconds`: how long to wait for the answer; None takes the client's own.
    """
    namespace, _, name = key.partition("/")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "target": {"kind": "Node", "name": node},
    }
    return await client.call(Call("POST", PODS.path(name, namespace, "binding"), body=encode(body), timeout=seconds))


async def read(client: Caller, key: str) -> Reply:
    """GET the pod: 200, or 404. See `pod_in`."""
    namespace, _, name = key.partition("/")
    return await client.call(Call("GET", PODS.path(name, namespace)))


def pod_in(reply: Reply) -> Pod:
    """The pod in the body of a successful reply. Raises msgspec.ValidationError."""
    return _POD.decode(reply.body)


async def patch_status(
    client: Caller,
    key: str,
    uid: str,
    *,
    condition: PodCondition | None = None,
    nominated_node_name: str | None = None,
) -> Reply:
    """Set one condition and status.nominatedNodeName; None leaves what there is, "" takes the nomination away.

    A strategic merge patch of pods/status, as PatchPodStatus of pkg/scheduler/util/utils.go sends it: conditions are
    merged by type. 422: another pod has the name. A patch that changes nothing leaves the resource version as it is.
    A condition needs its `last_transition_time`: the disruption controller turns off a DisruptionTarget without one.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        status["conditions"] = [msgspec.to_builtins(condition)]
    if nominated_node_name is not None:
        status["nominatedNodeName"] = nominated_node_name or None
    namespace, _, name = key.partition("/")
    body = encode({"metadata": {"uid": uid}, "status": status})
    path = PODS.path(name, namespace, "status")
    return await client.call(Call("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH))


async def delete(client: Caller, key: str, uid: str) -> Reply:
    """DELETE the pod, with its own grace period. 200: being deleted, or gone. 404: it was gone. 409: another UID."""
    namespace, _, name = key.partition("/")
    body = encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})
    return await client.call(Call("DELETE", PODS.path(name, namespace), body=body))


async def evict(client: Caller, key: str, uid: str, *, dry_run: bool = False) -> Reply:
    """POST pods/eviction. 201: being deleted. 429: a disruption budget does not allow it now, or is not counted yet.

    Budgets do not protect pods that are Pending. 409: another UID; the server tries that for ten seconds before it says
    so. `dry_run`: only ask.
    """
    namespace, _, name = key.partition("/")
    options: dict[str, Any] = {"preconditions": {"uid": uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    body: Mapping[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": options,
    }
    path = PODS.path(name, namespace, "eviction")
    return await client.call(Call("POST", path, body=encode(body), timeout=_EVICTION_SECONDS))


def is_bound_already(reply: Reply) -> bool:
    """Whether a binding was refused because the pod has a node, ours or another."""
    return reply.status == 409 and _BOUND_ALREADY in reply.message
