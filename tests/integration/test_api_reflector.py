"""List and watch against a real API server: streamed and paged lists, bookmarks, and all that breaks a watch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from integration.api_support import account, create_pod, kubeconfig, new_namespace, run, until
from integration.control_plane import API_SERVER, ETCD, ControlPlane
from integration.kube_api import sure
from stowplan_operator.api import pods
from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.connection import load_connection
from stowplan_operator.api.decode import WatchEvent
from stowplan_operator.api.kinds import PODS, WATCHED, Resource
from stowplan_operator.api.reflector import Reflector
from stowplan_operator.api.store import Change, ObjectStore

pytestmark = pytest.mark.rig


class Mirror:
    """A handler that keeps a store, and notes what it was told."""

    def __init__(self) -> None:
        self.store = ObjectStore()
        self.calls: list[tuple[str, ...]] = []
        self.changes: list[Change] = []

    def replaced(self, kind: str, objects: list[Any], version: str) -> None:
        self.calls.append(("replaced", str(len(objects)), version))
        self.changes += self.store.replace(objects, version)

    def changed(self, kind: str, type: str, object: Any, version: str) -> None:
        self.calls.append((type, object.metadata.name, version))
        self.changes += self.store.apply(WatchEvent(type, object))

    def advanced(self, kind: str, version: str) -> None:
        self.calls.append(("advanced", version))
        self.store.advance(version)

    def count(self, what: str) -> int:
        return sum(call[0] == what for call in self.calls)

    @property
    def names(self) -> list[str]:
        return sorted(each.metadata.name for each in self.store)


def told(mirror: Mirror, name: str) -> list[str]:
    """What happened to one object."""
    return [each.type.value for each in mirror.changes if (each.new or each.old).metadata.name == name]


@asynccontextmanager
async def running(client: ApiClient, namespace: str, resource: Resource = PODS, **settings: Any) -> AsyncIterator[Any]:
    """A reflector that runs, after its first list; and its mirror."""
    mirror = Mirror()
    reflector = Reflector(client, resource, mirror, namespace=namespace, rng=random.Random(1), **settings)
    task = asyncio.create_task(reflector.run())
    try:
        await asyncio.wait_for(reflector.wait_synced(), 60)
        yield reflector, mirror
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(scope="module")
def own_plane(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One whose programs may be killed and frozen."""
    with ControlPlane(rig, tmp_path_factory.mktemp("own-plane"), components=()) as plane:
        yield plane


def test_a_list_and_what_happens_after_it(control_plane: ControlPlane) -> None:
    """Everything that is there comes at once; then what is added, changed and deleted, in order."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        await create_pod(client, namespace, "before")
        async with running(client, namespace) as (reflector, mirror):
            assert mirror.calls[0][:2] == ("replaced", "1")
            key, uid = await create_pod(client, namespace, "after")
            (await pods.bind(client, key, uid, "n1")).sure()
            await until(lambda: mirror.count("MODIFIED") > 0)
            (await pods.delete(client, f"{namespace}/before", mirror.store.objects[f"{namespace}/before"].metadata.uid))
            await until(lambda: mirror.names == ["after"])
            assert mirror.store.objects[key].spec.node_name == "n1"
            # A deletion is two events: it has begun, and it is done.
            assert told(mirror, "before") == ["ADDED", "MODIFIED", "DELETED"]
            assert told(mirror, "after") == ["ADDED", "MODIFIED"]
            assert (reflector.failures, reflector.last_error, reflector.lists) == (0, "", 1)

    run(control_plane, test)


def test_pods_that_end_leave(control_plane: ControlPlane) -> None:
    """The selector is kube-scheduler's: for whoever watches, an ended pod is a deleted one."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        await create_pod(client, namespace, "job")
        async with running(client, namespace) as (_, mirror):
            manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job", "namespace": namespace}}
            with closing(control_plane.api) as api:
                sure(api.patch(manifest, {"status": {"phase": "Succeeded"}}, subresource="status"))
            await until(lambda: not mirror.names)
            assert mirror.changes[-1].type == "DELETED"
        async with running(client, namespace) as (_, mirror):
            assert mirror.names == []

    run(control_plane, test)


def test_a_scheduler_can_watch_all_that_it_has_to(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Every kind, as an account that may only read."""
    namespace = new_namespace(control_plane)
    rules = [{"apiGroups": ["", "apps", "policy", "resource.k8s.io"], "resources": ["*"], "verbs": ["list", "watch"]}]
    token = account(control_plane, namespace, "watcher", rules)
    path = kubeconfig(control_plane, tmp_path / "config", {"token": token})

    async def test() -> None:
        async with ApiClient(load_connection(path)) as client:
            mirrors = {resource.kind: Mirror() for resource in WATCHED}
            reflectors = [Reflector(client, resource, mirrors[resource.kind]) for resource in WATCHED]
            tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
            await asyncio.wait_for(asyncio.gather(*(each.wait_synced() for each in reflectors)), 60)
            assert "kube-system" in mirrors["Namespace"].names
            assert mirrors["Service"].names == ["kubernetes"]
            assert [each.undecodable for each in reflectors] == [0] * len(WATCHED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(test())


def test_where_lists_are_not_streamed_pages_are_read(rig: Path, tmp_path: Path) -> None:
    """A server without WatchList refuses it once; 1,100 objects are three pages, of one version."""
    flags = {API_SERVER: ("--feature-gates", "WatchList=false")}
    with ControlPlane(rig, tmp_path, components=(), flags=flags) as plane:
        namespace = new_namespace(plane)

        async def test(client: ApiClient) -> None:
            gate = asyncio.Semaphore(16)

            async def create(name: str) -> None:
                async with gate:
                    await create_pod(client, namespace, name)

            await asyncio.gather(*(create(f"p{number}") for number in range(1100)))
            async with running(client, namespace) as (reflector, mirror):
                assert mirror.calls == [("replaced", "1100", reflector.version)]
                await create_pod(client, namespace, "later")
                await until(lambda: len(mirror.names) == 1101)
                assert reflector.failures == 0

        run(plane, test)


def test_a_refresh_lists_again_with_a_newer_state(control_plane: ControlPlane) -> None:
    """What is known already is no change; the version is at least that of anything written before."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        await create_pod(client, namespace, "a")
        async with running(client, namespace) as (reflector, mirror):
            # A write of another kind: pods do not change by it, so their watch does not hear of it.
            body = b'{"metadata":{"name":"barrier"}}'
            reply = await client.call(Call("POST", f"/api/v1/namespaces/{namespace}/configmaps", body=body))
            barrier = int(reply.sure().json()["metadata"]["resourceVersion"])
            reflector.refresh()
            await until(lambda: reflector.lists == 2)
            assert mirror.store.version >= barrier
            assert len(mirror.changes) == 1
            await create_pod(client, namespace, "b")
            await until(lambda: mirror.names == ["a", "b"])
            assert reflector.failures == 0

    run(control_plane, test)


def test_bookmarks_move_the_version_on(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come between events; when the server ends a watch, the next one goes on from there, without a list."""
    monkeypatch.setattr("stowplan_operator.api.reflector._WATCH_SECONDS", (4, 4))
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        async with running(client, namespace) as (reflector, mirror):
            await create_pod(client, namespace, "a")
            await until(lambda: mirror.count("advanced") > 0)
            await until(lambda: reflector.watches >= 2)
            await create_pod(client, namespace, "b")
            await until(lambda: mirror.names == ["a", "b"])
            assert (reflector.lists, reflector.failures, len(mirror.changes)) == (1, 0, 2)

    run(control_plane, test)


def test_a_silent_watch_is_given_up_and_nothing_is_lost(own_plane: ControlPlane) -> None:
    """The server is frozen with its connections open; after the thaw the next event comes, without a list."""
    namespace = new_namespace(own_plane)

    async def test(client: ApiClient) -> None:
        async with running(client, namespace, stall=0.5) as (reflector, mirror):
            own_plane.freeze(API_SERVER)
            await until(lambda: reflector.failures > 0)
            assert "nothing heard for 0.5 s" in reflector.last_error
            own_plane.thaw(API_SERVER)
            await create_pod(client, namespace, "a")
            await until(lambda: mirror.names == ["a"])
            assert (reflector.lists, reflector.last_error) == (1, "")

    run(own_plane, test, timeout=2.0)


def test_after_a_restart_of_the_server_what_changed_meanwhile_is_seen(own_plane: ControlPlane) -> None:
    """An account of few rights, which is refused (403) for a while. A deletion that nobody watched is a change too.

    The versions of before the restart are older than what the server remembers: 410, and everything is listed again.
    """
    namespace = new_namespace(own_plane)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    token = account(own_plane, namespace, "watcher", rules)
    path = kubeconfig(own_plane, own_plane.folder / "watcher.kubeconfig", {"token": token})

    async def test(admin: ApiClient) -> None:
        gone, uid = await create_pod(admin, namespace, "gone")
        await create_pod(admin, namespace, "stays")
        async with ApiClient(load_connection(path)) as client, running(client, namespace) as (reflector, mirror):
            own_plane.kill(API_SERVER)
            await until(lambda: reflector.failures > 0)
            own_plane.restart(API_SERVER)
            (await pods.delete(admin, gone, uid)).sure()
            await create_pod(admin, namespace, "new")
            await until(lambda: mirror.names == ["new", "stays"])
            assert told(mirror, "stays") == ["ADDED"]
            assert told(mirror, "gone")[-1] == "DELETED"
            assert reflector.last_error == ""

    run(own_plane, test)


def test_a_version_that_the_server_has_forgotten_is_410_and_all_is_listed_at_once(own_plane: ControlPlane) -> None:
    """An API server that has just begun remembers nothing older than its beginning."""
    namespace = new_namespace(own_plane)

    async def test(client: ApiClient) -> None:
        await create_pod(client, namespace, "a")
        pauses: list[float] = []

        async def pause(seconds: float) -> None:
            pauses.append(seconds)

        async with running(client, namespace, sleep=pause) as (reflector, mirror):
            reflector._version = "1"
            reflector._reading.cancel()
            await until(lambda: reflector.lists == 2)
            assert pauses == [0.0]
            assert len(mirror.changes) == 1

    # What was written before the restart is then older than what the server remembers.
    own_plane.restart(API_SERVER)
    run(own_plane, test)


def test_a_restart_of_etcd_is_survived(own_plane: ControlPlane) -> None:
    """The store is gone for a while and comes back with its data."""
    namespace = new_namespace(own_plane)

    async def test(client: ApiClient) -> None:
        await create_pod(client, namespace, "a")
        async with running(client, namespace) as (_, mirror):
            own_plane.restart(ETCD)
            await until(lambda: _is_there(client, namespace, "b"))
            await until(lambda: mirror.names == ["a", "b"])

    run(own_plane, test)


async def _is_there(client: ApiClient, namespace: str, name: str) -> bool:
    """Create it, as often as it takes."""
    body = f'{{"metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}'.encode()
    reply = await client.call(Call("POST", PODS.path(namespace=namespace), body=body))
    return reply.is_success or reply.status == 409


def test_without_the_right_to_watch_it_waits_longer_and_longer_and_says_why(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """403 each time; once the right is there, it works."""
    namespace = new_namespace(control_plane)
    token = account(control_plane, namespace, "nobody", [])
    path = kubeconfig(control_plane, tmp_path / "config", {"token": token})
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0.01)

    async def test() -> None:
        async with ApiClient(load_connection(path)) as client:
            mirror = Mirror()
            reflector = Reflector(client, PODS, mirror, namespace=namespace, rng=random.Random(1), sleep=pause)
            task = asyncio.create_task(reflector.run())
            await until(lambda: reflector.failures >= 8)
            assert "403 Forbidden: pods is forbidden" in reflector.last_error
            assert not reflector.synced
            role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
            name = {"metadata": {"name": f"{namespace}-nobody"}}
            rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
            with closing(control_plane.api) as api:
                sure(api.replace({**role, **name, "rules": rules}))
            await asyncio.wait_for(reflector.wait_synced(), 60)
            assert reflector.last_error == ""
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(test())
    assert 0.8 <= pauses[0] <= 1.6
    assert pauses[7] == 30.0
