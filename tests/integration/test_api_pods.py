"""Bind, patch, delete, evict, as the real API server answers them: what a worker's decisions about pods rest on."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from integration.api_support import create_pod, new_namespace, run, until
from integration.control_plane import ControlPlane
from integration.kube_api import sure
from stowplan_operator.api import pods
from stowplan_operator.api.call import MERGE_PATCH, Call, encode
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.kinds import PODS
from stowplan_scheduler.objects import Pod, PodCondition
from stowplan_scheduler.timestamps import NANOSECONDS, format_time

pytestmark = pytest.mark.rig


async def pod_of(client: ApiClient, key: str) -> Pod:
    return pods.pod_in((await pods.read(client, key)).sure())


def condition(pod: Pod, type: str) -> PodCondition | None:
    return next((each for each in pod.status.conditions if each.type == type), None)


# ---- bind ----------------------------------------------------------------------------------------


def test_a_binding_puts_the_pod_on_the_node_and_nothing_checks_the_node(control_plane: ControlPlane) -> None:
    """201; the pod has its node and stays Pending. No such node exists."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        key, uid = await create_pod(client, namespace, "a")
        reply = await pods.bind(client, key, uid, "no-such-node")
        assert (reply.status, reply.json()["kind"]) == (201, "Status")
        pod = await pod_of(client, key)
        scheduled = condition(pod, "PodScheduled")
        assert (pod.spec.node_name, pod.status.phase) == ("no-such-node", "Pending")
        assert scheduled is not None
        assert scheduled.status == "True"

    run(control_plane, test)


def test_a_pod_that_has_a_node_is_not_bound_again(control_plane: ControlPlane) -> None:
    """409 for another node and for the same one; the text tells it from other conflicts."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        key, uid = await create_pod(client, namespace, "a")
        assert (await pods.bind(client, key, uid, "n1")).status == 201
        for node in ("n2", "n1"):
            reply = await pods.bind(client, key, uid, node)
            assert (reply.status, reply.reason) == (409, "Conflict")
            assert reply.message == (
                'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
            )
            assert pods.is_bound_already(reply)

    run(control_plane, test)


def test_a_pod_of_the_same_name_that_came_later_is_not_bound(control_plane: ControlPlane) -> None:
    """The UID is a precondition: 409, and it is no sign that the pod has a node."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        key, uid = await create_pod(client, namespace, "a")
        assert (await pods.delete(client, key, uid)).status == 200
        _, later = await create_pod(client, namespace, "a")
        reply = await pods.bind(client, key, uid, "n1")
        assert (reply.status, reply.reason) == (409, "Conflict")
        assert f"UID in precondition: {uid}, UID in object meta: {later}" in reply.message
        assert not pods.is_bound_already(reply)
        assert (await pod_of(client, key)).spec.node_name == ""

    run(control_plane, test)


def test_a_pod_that_is_gone_gated_or_being_deleted_is_not_bound(control_plane: ControlPlane) -> None:
    """404, 409 and 409."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        gone = await pods.bind(client, f"{namespace}/gone", "uid", "n1")
        assert (gone.status, gone.reason) == (404, "NotFound")
        key, uid = await create_pod(client, namespace, "gated", schedulingGates=[{"name": "shop/gate"}])
        gated = await pods.bind(client, key, uid, "n1")
        assert gated.status == 409
        assert "non-empty .spec.schedulingGates" in gated.message
        key, uid = await create_pod(client, namespace, "held")
        path = PODS.path("held", namespace)
        finalizer = encode({"metadata": {"finalizers": ["shop.io/hold"]}})
        (await client.call(Call("PATCH", path, body=finalizer, content_type=MERGE_PATCH))).sure()
        assert (await pods.delete(client, key, uid)).is_success
        assert (await pod_of(client, key)).is_terminating
        held = await pods.bind(client, key, uid, "n1")
        assert held.status == 409
        assert "is being deleted" in held.message
        # The namespace can only go when the pod can.
        free = encode({"metadata": {"finalizers": None}})
        (await client.call(Call("PATCH", path, body=free, content_type=MERGE_PATCH))).sure()

    run(control_plane, test)


# ---- status --------------------------------------------------------------------------------------


def test_conditions_are_merged_by_type_and_a_nomination_comes_and_goes(control_plane: ControlPlane) -> None:
    """A strategic merge patch; what it does not name stays, and a patch without effect leaves the version as it is."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        key, uid = await create_pod(client, namespace, "a")
        failed = PodCondition(
            type="PodScheduled",
            status="False",
            reason="Unschedulable",
            message="0/1 nodes are available",
            last_transition_time="2026-01-02T03:04:05Z",
            observed_generation=1,
        )
        # Without a time, or with an old one, a controller takes it for forgotten and turns it off.
        target = PodCondition(
            type="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message="a pod of greater priority",
            last_transition_time=format_time(time.time_ns() // NANOSECONDS * NANOSECONDS),
        )
        assert (await pods.patch_status(client, key, uid, condition=failed, nominated_node_name="n1")).status == 200
        assert (await pods.patch_status(client, key, uid, condition=target)).status == 200
        pod = await pod_of(client, key)
        assert condition(pod, "PodScheduled") == failed
        assert condition(pod, "DisruptionTarget") == target
        assert pod.status.nominated_node_name == "n1"
        version = pod.metadata.resource_version
        again = await pods.patch_status(client, key, uid, condition=failed, nominated_node_name="n1")
        assert pods.pod_in(again).metadata.resource_version == version
        taken = pods.pod_in((await pods.patch_status(client, key, uid, nominated_node_name="")).sure())
        assert taken.status.nominated_node_name == ""
        assert len(taken.status.conditions) == 2

    run(control_plane, test)


def test_the_status_of_a_later_pod_of_the_same_name_is_left_alone(control_plane: ControlPlane) -> None:
    """422, for a UID does not change; 404 if there is none."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        key, _ = await create_pod(client, namespace, "a")
        reply = await pods.patch_status(client, key, "another", nominated_node_name="n1")
        assert (reply.status, reply.reason) == (422, "Invalid")
        assert "metadata.uid: Invalid value" in reply.message
        assert (await pod_of(client, key)).status.nominated_node_name == ""
        gone = await pods.patch_status(client, f"{namespace}/gone", "uid", nominated_node_name="n1")
        assert gone.status == 404

    run(control_plane, test)


# ---- delete and evict ----------------------------------------------------------------------------


def test_only_the_pod_with_that_uid_is_deleted(control_plane: ControlPlane) -> None:
    """409 for another one, 404 once it is gone. A bound pod first gets its grace period."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        key, uid = await create_pod(client, namespace, "a", terminationGracePeriodSeconds=7)
        assert (await pods.delete(client, key, "another")).status == 409
        (await pods.bind(client, key, uid, "n1")).sure()
        assert (await pods.delete(client, key, uid)).status == 200
        pod = await pod_of(client, key)
        assert (pod.is_terminating, pod.metadata.deletion_grace_period_seconds) == (True, 7)
        key, uid = await create_pod(client, namespace, "b")
        assert (await pods.delete(client, key, uid)).status == 200
        assert (await pods.delete(client, key, uid)).status == 404

    run(control_plane, test)


def test_an_eviction_asks_the_budget_and_a_dry_run_evicts_nothing(control_plane: ControlPlane) -> None:
    """429 without a time to wait while the budget is used up. Another UID is 409, for which the server takes 10 s."""
    namespace = new_namespace(control_plane)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }

    async def test(client: ApiClient) -> None:
        key, uid = await create_pod(client, namespace, "a")
        another = await pods.evict(client, key, "another")
        assert (another.status, another.reason) == (409, "Conflict")
        assert (await pods.evict(client, key, uid, dry_run=True)).status == 201
        assert not (await pod_of(client, key)).is_terminating
        (await pods.bind(client, key, uid, "n1")).sure()
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        path = PODS.path("a", namespace, "status")
        call = Call("PATCH", path, body=encode({"status": running}), content_type=MERGE_PATCH)
        (await client.call(call)).sure()
        with closing(control_plane.api) as api:
            # A budget that its controller has not looked at refuses too, and says how long to wait.
            sure(api.create(budget))
            await until(lambda: sure(api.read(budget)).get("status", {}).get("currentHealthy") == 1)
        reply = await pods.evict(client, key, uid)
        assert (reply.status, reply.reason, reply.retry_after) == (429, "TooManyRequests", None)
        assert "would violate the pod's disruption budget" in reply.message
        with closing(control_plane.api) as api:
            sure(api.delete(budget))
        await until(lambda: _is_evicted(client, key, uid))
        assert (await pod_of(client, key)).is_terminating

    run(control_plane, test)


async def _is_evicted(client: ApiClient, key: str, uid: str) -> bool:
    return (await pods.evict(client, key, uid)).status == 201
