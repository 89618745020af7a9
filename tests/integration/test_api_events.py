"""Events on a real API server, as kubectl shows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from integration.api_support import create_pod, new_namespace, run, until
from integration.control_plane import API_SERVER, ControlPlane
from integration.kube_api import sure
from integration.kubectl import Kubectl
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.events import NORMAL, WARNING, EventRecord, EventWriter, ObjectReference, reference_to
from stowplan_scheduler.objects import ObjectMeta

pytestmark = pytest.mark.rig


@asynccontextmanager
async def writer(client: ApiClient, **settings: Any) -> AsyncIterator[EventWriter]:
    made = EventWriter(client, "dense", "dense-host", **settings)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def events_in(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    """The events of ours."""
    with closing(plane.api) as api:
        found = api.all("events.k8s.io/v1", "Event", namespace)
    return [each for each in found if each.get("reportingController") == "dense"]


def pod_reference(key: str, uid: str) -> ObjectReference:
    namespace, _, name = key.partition("/")
    return reference_to("Pod", ObjectMeta(name=name, namespace=namespace, uid=uid))


def failed(regarding: ObjectReference) -> EventRecord:
    return EventRecord(
        regarding=regarding,
        type=WARNING,
        reason="FailedScheduling",
        action="Scheduling",
        note="0/5 nodes are available: 5 Insufficient cpu.",
    )


def test_kubectl_describe_shows_an_event_and_how_often_it_came(control_plane: ControlPlane) -> None:
    """Three times the same: one object, created and patched; the count of the third follows at the end."""
    namespace, kubectl = new_namespace(control_plane), Kubectl(control_plane)

    async def test(client: ApiClient) -> None:
        key, uid = await create_pod(client, namespace, "a")
        async with writer(client) as events:
            for _ in range(3):
                events.emit(failed(pod_reference(key, uid)))
            await until(lambda: events.written == 2)
            (event,) = events_in(control_plane, namespace)
            assert event["series"]["count"] == 2
            await events.drain()
            assert (events.written, events.failed, events.dropped) == (3, 0, 0)

    run(control_plane, test)
    (event,) = events_in(control_plane, namespace)
    assert event["series"]["count"] == 3
    text = kubectl("describe", "pod", "a", "--namespace", namespace)
    assert "FailedScheduling" in text
    assert "(x3 over" in text
    assert "0/5 nodes are available: 5 Insufficient cpu." in text


def test_events_of_an_object_without_namespace_are_found_too(control_plane: ControlPlane) -> None:
    """They stand in default, and say no namespace of the object."""
    kubectl = Kubectl(control_plane)
    with closing(control_plane.api) as api:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "described"}}
        uid = sure(api.create(node))["metadata"]["uid"]
    reference = ObjectReference(api_version="v1", kind="Node", name="described", uid=uid)
    record = EventRecord(regarding=reference, type=NORMAL, reason="Emptied", action="Consolidating", note="all moved")

    async def test(client: ApiClient) -> None:
        async with writer(client) as events:
            events.emit(record)
            await events.drain()

    run(control_plane, test)
    text = kubectl("describe", "node", "described")
    with closing(control_plane.api) as api:
        sure(api.delete(node))
    assert "Emptied" in text
    assert "all moved" in text


def test_what_the_server_refuses_is_counted_and_not_tried_again(control_plane: ControlPlane) -> None:
    """An event in a namespace that is not there."""

    async def test(client: ApiClient) -> None:
        async with writer(client) as events:
            events.emit(failed(pod_reference("no-such-namespace/a", "uid")))
            await until(lambda: events.failed == 1)
            assert events.written == 0

    run(control_plane, test)


def test_an_event_that_is_gone_comes_back_with_its_count(control_plane: ControlPlane) -> None:
    """The server forgets events after an hour; a patch of one that is gone creates it."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        key, uid = await create_pod(client, namespace, "a")
        async with writer(client) as events:
            events.emit(failed(pod_reference(key, uid)))
            await until(lambda: events.written == 1)
            with closing(control_plane.api) as api:
                (event,) = events_in(control_plane, namespace)
                sure(api.delete({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": event["metadata"]}))
            events.emit(failed(pod_reference(key, uid)))
            await until(lambda: events.written == 2)

    run(control_plane, test)
    (event,) = events_in(control_plane, namespace)
    assert event["series"]["count"] == 2


def test_while_the_server_is_away_events_wait_and_what_does_not_fit_is_dropped(rig: Path, tmp_path: Path) -> None:
    """Nobody waits for that: emitting returns at once. Afterwards what waited is written, each once."""
    with ControlPlane(rig, tmp_path, components=()) as plane:
        namespace = new_namespace(plane)

        async def pause(seconds: float) -> None:
            await asyncio.sleep(seconds / 100)

        async def test(client: ApiClient) -> None:
            key, uid = await create_pod(client, namespace, "a")
            plane.freeze(API_SERVER)
            async with writer(client, queued=5, writers=2, sleep=pause) as events:
                for number in range(3):
                    events.emit(failed(pod_reference(f"{namespace}/before-{number}", uid)))
                await until(lambda: events._queue.qsize() == 1)
                for number in range(20):
                    events.emit(failed(pod_reference(f"{key}-{number}", uid)))
                assert events.dropped == 16
                plane.thaw(API_SERVER)
                await until(lambda: events.written == 7)
                assert events.failed == 0

        run(plane, test, timeout=1.0)
        names = [event["regarding"]["name"] for event in events_in(plane, namespace)]
        assert sorted(names) == ["a-0", "a-1", "a-2", "a-3", "before-0", "before-1", "before-2"]
