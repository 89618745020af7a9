"""Server-side apply, as the real API server does it: who owns what, what goes, what is refused."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from integration.api_support import create_pod, new_namespace, run
from integration.control_plane import ControlPlane
from integration.kube_api import sure
from stowplan_operator.api.apply import apply_object, apply_status
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import ApiError, ConflictError, InvalidError, NotFoundError
from stowplan_operator.api.kinds import PODS, Resource

pytestmark = pytest.mark.rig

CONFIG_MAPS = Resource(kind="ConfigMap", plural="configmaps")
OURS = "stowplan-test"


def condition(type: str, status: str = "True") -> dict[str, str]:
    return {"type": type, "status": status, "lastTransitionTime": "2026-01-02T03:04:05Z"}


def conditions_of(pod: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}


def test_an_object_is_made_and_changed_and_a_repetition_changes_nothing(control_plane: ControlPlane) -> None:
    """What is left out of the next apply goes; the version of an apply without effect stays."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        made = await apply_object(client, CONFIG_MAPS, "a", OURS, {"data": {"x": "1", "y": "2"}}, namespace=namespace)
        again = await apply_object(client, CONFIG_MAPS, "a", OURS, {"data": {"x": "1", "y": "2"}}, namespace=namespace)
        assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        less = await apply_object(client, CONFIG_MAPS, "a", OURS, {"data": {"y": "3"}}, namespace=namespace)
        assert less["data"] == {"y": "3"}
        assert less["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]

    run(control_plane, test)


def test_with_a_uid_nothing_is_brought_back_to_life(control_plane: ControlPlane) -> None:
    """An object that is gone, or is another one, is a conflict; nothing is made."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        with pytest.raises(ConflictError):
            await apply_object(client, CONFIG_MAPS, "gone", OURS, {"data": {}}, namespace=namespace, uid="u")
        await apply_object(client, CONFIG_MAPS, "other", OURS, {"data": {}}, namespace=namespace)
        with pytest.raises(ConflictError):
            await apply_object(client, CONFIG_MAPS, "other", OURS, {"data": {"x": "1"}}, namespace=namespace, uid="u")

    run(control_plane, test)
    with closing(control_plane.api) as api:
        names = [each["metadata"]["name"] for each in api.all("v1", "ConfigMap", namespace)]
    assert "gone" not in names


def test_a_field_of_another_manager_is_a_conflict_unless_it_is_taken_by_force(control_plane: ControlPlane) -> None:
    """The text names the field and the manager."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        await apply_object(client, CONFIG_MAPS, "a", "other-team", {"data": {"x": "1"}}, namespace=namespace)
        with pytest.raises(ConflictError, match=r'conflict with "other-team": .data.x'):
            await apply_object(client, CONFIG_MAPS, "a", OURS, {"data": {"x": "2"}}, namespace=namespace)
        taken = await apply_object(
            client, CONFIG_MAPS, "a", OURS, {"data": {"x": "2"}}, namespace=namespace, force=True
        )
        assert taken["data"] == {"x": "2"}

    run(control_plane, test)


def test_managers_own_conditions_of_one_list_side_by_side(control_plane: ControlPlane) -> None:
    """A condition that its manager leaves out is removed; those of others stay. No-op: same version."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        _, uid = await create_pod(client, namespace, "a")

        async def apply(manager: str, *types: str) -> dict[str, Any]:
            body = {"status": {"conditions": [condition(f"stowplan.io/{type}") for type in types]}}
            return await apply_status(client, PODS, "a", uid, manager, body, namespace=namespace)

        await apply(OURS, "One", "Two")
        both = await apply("stowplan-other", "Three")
        assert conditions_of(both) == {
            "stowplan.io/One": "True",
            "stowplan.io/Two": "True",
            "stowplan.io/Three": "True",
        }
        same = await apply("stowplan-other", "Three")
        assert same["metadata"]["resourceVersion"] == both["metadata"]["resourceVersion"]
        left = await apply(OURS, "Two")
        assert conditions_of(left) == {"stowplan.io/Two": "True", "stowplan.io/Three": "True"}

    run(control_plane, test)


def test_a_status_is_never_applied_to_nothing_or_to_another_object(control_plane: ControlPlane) -> None:
    """404 and 409."""
    namespace = new_namespace(control_plane)
    body = {"status": {"conditions": [condition("stowplan.io/One")]}}

    async def test(client: ApiClient) -> None:
        with pytest.raises(NotFoundError):
            await apply_status(client, PODS, "gone", "uid", OURS, body, namespace=namespace)
        await create_pod(client, namespace, "a")
        with pytest.raises(ConflictError):
            await apply_status(client, PODS, "a", "another", OURS, body, namespace=namespace)

    run(control_plane, test)


def test_a_field_that_no_schema_declares_is_a_server_error_and_a_value_of_the_wrong_type_too(
    control_plane: ControlPlane,
) -> None:
    """500, which is not tried again: it would not pass. Without a manager nothing is applied at all."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        _, uid = await create_pod(client, namespace, "a")
        with pytest.raises(ApiError, match="field not declared in schema") as caught:
            await apply_status(client, PODS, "a", uid, OURS, {"status": {"noSuchField": 1}}, namespace=namespace)
        assert caught.value.status == 500
        with pytest.raises(InvalidError, match="fieldManager"):
            await apply_status(client, PODS, "a", uid, "", {"status": {}}, namespace=namespace)

    run(control_plane, test)
    with closing(control_plane.api) as api:
        pod = sure(api.read({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": namespace}}))
    assert "noSuchField" not in pod["status"]
