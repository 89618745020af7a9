"""The simulated API server answers as the real one: the same steps on both, and the same observations.

Compared are status codes, the tell-tale part of refusals, and what can be seen of the pod, or of the lease, afterwards.
Every rule of world.py that a worker can observe has a row here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from integration.api_support import PATIENCE, create_pod, new_namespace, run
from integration.control_plane import ControlPlane
from stowplan_operator.api import pods as real_pods
from stowplan_operator.api.call import MERGE_PATCH, Call, encode
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.kinds import LEASES, PODS
from stowplan_scheduler.objects import Pod, PodCondition, PodSchedulingGate
from stowplan_scheduler.timestamps import format_time
from support.builders import pod
from worker_simulation.plan import SECOND
from worker_simulation.world import NOW, Answered, World

pytestmark = pytest.mark.rig

TELLTALES = (
    "not found",
    "UID in precondition",
    "the UID in the precondition",
    "field is immutable",
    "is being deleted",
    "is already assigned to node",
    "non-empty .spec.schedulingGates",
    "already exists",
    "the object has been modified",
)

LEASE = {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0}}


class Side(Protocol):
    """One API server, and one namespace of it. Answers are (status, tell-tale)."""

    async def create(self, name: str, *, gated: bool = False, held: bool = False) -> str: ...
    async def bind(self, name: str, uid: str, node: str) -> Any: ...
    async def patch(self, name: str, uid: str, condition: PodCondition | None, nominated: str | None) -> Any: ...
    async def delete(self, name: str, uid: str) -> Any: ...
    async def read(self, name: str) -> Pod | None: ...
    async def lease(self, method: str, body: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]: ...


def telling(status: int, message: str) -> tuple[int, str]:
    return status, next((text for text in TELLTALES if text in message), "") if status >= 400 else ""


class Simulated:
    """Ours."""

    def __init__(self) -> None:
        self.world = World()

    async def create(self, name: str, *, gated: bool = False, held: bool = False) -> str:
        made = pod(name).build()
        if gated:
            made = replace(made, spec=replace(made.spec, scheduling_gates=(PodSchedulingGate(name="shop.io/gate"),)))
        if held:
            made = replace(made, metadata=replace(made.metadata, finalizers=("shop.io/hold",)))
        uid: str = self.world.create(made).metadata.uid
        return uid

    async def bind(self, name: str, uid: str, node: str) -> Any:
        return self._said(self.world.bind(f"default/{name}", uid, node))

    async def patch(self, name: str, uid: str, condition: PodCondition | None, nominated: str | None) -> Any:
        return self._said(self.world.patch(f"default/{name}", uid, condition, nominated))

    async def delete(self, name: str, uid: str) -> Any:
        return self._said(self.world.delete(f"default/{name}", uid))

    async def read(self, name: str) -> Pod | None:
        found: Pod | None = self.world.read(f"default/{name}").object
        return found

    async def lease(self, method: str, body: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        calls: dict[str, Callable[[], Answered]] = {
            "GET": self.world.lease_read,
            "POST": lambda: self.world.lease_create(body or {}),
            "PUT": lambda: self.world.lease_update(body or {}),
        }
        answered = calls[method]()
        return self._said(answered), answered.object or {}

    def _said(self, answered: Answered) -> tuple[int, str]:
        return telling(answered.status, answered.message)


class Real:
    """The real API server, through the client that workers use."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def create(self, name: str, *, gated: bool = False, held: bool = False) -> str:
        more = {"schedulingGates": [{"name": "shop.io/gate"}]} if gated else {}
        _, uid = await create_pod(self._client, self._namespace, name, **more)
        if held:
            await self.hold(name, ["shop.io/hold"])
        return uid

    async def hold(self, name: str, finalizers: list[str] | None) -> None:
        body = encode({"metadata": {"finalizers": finalizers}})
        call = Call("PATCH", PODS.path(name, self._namespace), body=body, content_type=MERGE_PATCH)
        (await self._client.call(call)).sure()

    async def bind(self, name: str, uid: str, node: str) -> Any:
        reply = await real_pods.bind(self._client, f"{self._namespace}/{name}", uid, node)
        return telling(reply.status, reply.message)

    async def patch(self, name: str, uid: str, condition: PodCondition | None, nominated: str | None) -> Any:
        key = f"{self._namespace}/{name}"
        if condition is not None and condition.last_transition_time is None:
            # Not long ago, or a controller would take a DisruptionTarget back as stale.
            condition = replace(condition, last_transition_time=format_time(time.time_ns() // SECOND * SECOND))
        reply = await real_pods.patch_status(self._client, key, uid, condition=condition, nominated_node_name=nominated)
        return telling(reply.status, reply.message)

    async def delete(self, name: str, uid: str) -> Any:
        reply = await real_pods.delete(self._client, f"{self._namespace}/{name}", uid)
        return telling(reply.status, reply.message)

    async def read(self, name: str) -> Pod | None:
        reply = await real_pods.read(self._client, f"{self._namespace}/{name}")
        return real_pods.pod_in(reply) if reply.is_success else None

    async def lease(self, method: str, body: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        path = LEASES.path("" if method == "POST" else "worker", self._namespace)
        data = None
        if body is not None:
            meta = {"name": "worker", "namespace": self._namespace, **body.get("metadata", {})}
            kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            data = encode({**kind, **body, "metadata": meta})
        reply = await self._client.call(Call(method, path, body=data))
        return telling(reply.status, reply.message), reply.json() if reply.is_success else {}


async def seen(side: Side, name: str) -> Any:
    """What a worker can tell of a pod."""
    found = await side.read(name)
    if found is None:
        return None
    conditions = {
        condition.type: (condition.status, condition.reason, condition.message)
        for condition in found.status.conditions
        if condition.type in {"PodScheduled", "DisruptionTarget"}
    }
    return found.spec.node_name, found.is_terminating, found.status.nominated_node_name, conditions


def unscheduled(message: str) -> PodCondition:
    return PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=message)


async def binds(side: Side) -> list[Any]:
    """Absent and other UID; success to a node that there is not; the same and another node again."""
    said = [await side.bind("a", "nobody", "n1")]
    uid = await side.create("a")
    said += [await side.bind("a", "nobody", "n1"), await seen(side, "a")]
    for node in ("n1", "n1", "n2"):
        said += [await side.bind("a", uid, node), await seen(side, "a")]
    return said


async def gates_and_deletions(side: Side) -> list[Any]:
    """A gated pod and one that is being deleted take no bind; a deleted one is absent."""
    gated, held, free = await side.create("g", gated=True), await side.create("h", held=True), await side.create("f")
    said = [await side.bind("g", gated, "n1"), await seen(side, "g")]
    said += [await side.delete("h", held), await seen(side, "h"), await side.bind("h", held, "n1")]
    said += [await side.delete("f", "nobody"), await seen(side, "f")]
    said += [await side.delete("f", free), await seen(side, "f"), await side.delete("f", free)]
    bound = await side.create("b")
    said += [await side.bind("b", bound, "n1"), await side.delete("b", bound), await seen(side, "b")]
    if isinstance(side, Real):
        # The namespace can only go when the pod can.
        await side.hold("h", None)
    return said


async def names_again(side: Side) -> list[Any]:
    """A pod that was made anew under its name takes nothing that was meant for the one before."""
    first = await side.create("p")
    await side.delete("p", first)
    await side.create("p")
    return [
        await side.bind("p", first, "n1"),
        await side.patch("p", first, unscheduled("x"), None),
        await side.delete("p", first),
        await seen(side, "p"),
    ]


async def patches(side: Side) -> list[Any]:
    """A condition is put in the place of the one of its type; a nomination is set, kept and taken away."""
    uid = await side.create("p")
    said = [await side.patch("gone", "x", unscheduled("x"), None)]
    for condition, nominated in (
        (unscheduled("0/1 nodes"), "n1"),
        (unscheduled("0/2 nodes"), None),
        (PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message="m"), None),
        (None, ""),
    ):
        said += [await side.patch("p", uid, condition, nominated), await seen(side, "p")]
    return said


async def conditions_and_binds(side: Side) -> list[Any]:
    """A bind turns PodScheduled; a patch that comes after it turns it back: hence patches must not overtake binds."""
    uid = await side.create("p")
    said = [await side.patch("p", uid, unscheduled("x"), None)]
    said += [await side.bind("p", uid, "n1"), await scheduled(side, "p")]
    said += [await side.patch("p", uid, unscheduled("late"), None), await scheduled(side, "p")]
    return said


async def scheduled(side: Side, name: str) -> Any:
    found = await side.read(name)
    assert found is not None
    return [condition.status for condition in found.status.conditions if condition.type == "PodScheduled"]


async def what_changes_nothing(side: Side) -> list[Any]:
    """A patch that says what is there already leaves the resource version as it is."""
    uid = await side.create("p")
    versions = []
    for message in ("x", "x", "y"):
        await side.patch("p", uid, replace(unscheduled(message), last_transition_time=NOW), None)
        found = await side.read("p")
        assert found is not None
        versions.append(found.metadata.resource_version)
    return [versions[0] == versions[1], int(versions[1]) < int(versions[2])]


async def leases(side: Side) -> list[Any]:
    """One creation wins; an update names the version that it is based on."""
    said = [(await side.lease("GET", None))[0]]
    first, created = await side.lease("POST", LEASE)
    said += [first, (await side.lease("POST", LEASE))[0]]
    version = created["metadata"]["resourceVersion"]
    body = {**LEASE, "metadata": {"resourceVersion": version}}
    taken = {**body, "spec": {**LEASE["spec"], "holderIdentity": "other", "leaseTransitions": 1}}
    second, updated = await side.lease("PUT", taken)
    said += [second, int(updated["metadata"]["resourceVersion"]) > int(version), (await side.lease("PUT", body))[0]]
    read = (await side.lease("GET", None))[1]["spec"]
    return [*said, read["holderIdentity"], read["leaseTransitions"]]


STEPS: tuple[Callable[[Side], Awaitable[list[Any]]], ...] = (
    binds,
    gates_and_deletions,
    names_again,
    patches,
    conditions_and_binds,
    what_changes_nothing,
    leases,
)


@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps.__name__)
def test_the_simulated_server_answers_as_the_real_one(
    control_plane: ControlPlane, steps: Callable[[Side], Awaitable[list[Any]]]
) -> None:
    namespace = new_namespace(control_plane)

    async def both(client: ApiClient) -> tuple[list[Any], list[Any]]:
        return await steps(Real(client, namespace)), await steps(Simulated())

    real, simulated = run(control_plane, both)
    assert simulated == real


AHEAD = 100
"""Versions by which a client knows more than its server."""


def test_a_watch_at_a_server_that_is_behind_says_nothing_until_it_has_caught_up(control_plane: ControlPlane) -> None:
    """What the client knows already does not come again, and no bookmark from before: it never goes back in time."""
    namespace = new_namespace(control_plane)

    async def version_of(client: ApiClient, name: str) -> int:
        key, uid = await create_pod(client, namespace, name)
        reply = await real_pods.read(client, key)
        found = real_pods.pod_in(reply)
        assert found.metadata.uid == uid
        return int(found.metadata.resource_version)

    async def first_shown(client: ApiClient) -> tuple[int, int, int]:
        known = await version_of(client, "before") + AHEAD
        query = (("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", str(known)))
        async with client.stream(Call("GET", PODS.path(namespace=namespace), query)) as stream:
            early = version = await version_of(client, "early")
            for number in range(2 * AHEAD):
                if version > known:
                    break
                version = await version_of(client, f"p{number}")
            lines = await asyncio.wait_for(stream.lines(), PATIENCE)
        shown = json.loads(lines[0])
        assert shown["type"] == "ADDED"
        return early, known, int(shown["object"]["metadata"]["resourceVersion"])

    early, known, shown = run(control_plane, first_shown)
    assert early <= known < shown
