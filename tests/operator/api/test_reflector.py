"""List and watch against a world that refuses, breaks off and forgets: in the end the handler knows what there is.

What a real API server does is tested in tests/integration/test_api_reflector.py; here it is the order of things that is
drawn by chance, thousands of times, without a clock.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_operator.api.call import Call, Reply, reply_of
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.decode import WatchEvent
from stowplan_operator.api.errors import UnreachableError, error_for
from stowplan_operator.api.kinds import Resource
from stowplan_operator.api.old_lists import PATIENCE_SECONDS
from stowplan_operator.api.reflector import Reflector
from stowplan_operator.api.store import ObjectStore
from stowplan_scheduler.objects import Namespace

NAMESPACES = Resource(kind="Namespace", plural="namespaces", type=Namespace, namespaced=False)


class World:
    """The objects of one kind with their history; what a client sees of it is drawn by `fate`.

    `trouble`: how likely each kind of fault is. `left`: how many changes there are to come.
    """

    def __init__(self, fate: Random, trouble: float, left: int, *, streams_lists: bool = True) -> None:
        self.fate = fate
        self.trouble = trouble
        self.left = left
        self.streams_lists = streams_lists
        self.version = 10
        self.remembered = 10
        """The oldest version that a watch may begin from."""
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.quiet = asyncio.Event()
        """Set when a watch has seen everything, and no more will come."""
        self.requests: list[dict[str, str]] = []

    # ---- what happens ------------------------------------------------------------------------

    def change(self) -> None:
        if self.left == 0:
            self.trouble = 0.0
            return
        self.left -= 1
        self.version += self.fate.choice([1, 1, 5])
        name = self.fate.choice("abcd")
        old = self.objects.get(name)
        type = "ADDED" if old is None else self.fate.choice(["MODIFIED", "MODIFIED", "DELETED"])
        uid = f"{name}-{self.version}" if old is None else old["metadata"]["uid"]
        object = {"metadata": {"name": name, "uid": uid, "resourceVersion": str(self.version)}}
        if type == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = object
        self.history.append((self.version, type, object))
        if self._happens():
            self.remembered = self.version

    def _happens(self) -> bool:
        return self.fate.random() < self.trouble

    def _refusal(self) -> Reply | None:
        if not self._happens():
            return None
        status = self.fate.choice([0, 403, 429, 500, 503])
        return (
            Reply(status=0, message="lost") if status == 0 else reply_of(status, b"{}", self.fate.choice([None, "9"]))
        )

    # ---- what a client asks for --------------------------------------------------------------

    async def call(self, call: Call) -> Reply:
        """A page of a list: two objects; the rest of a list that began too long ago is gone (410)."""
        query = dict(call.query)
        self.requests.append(query)
        refused = self._refusal()
        if refused is not None:
            return refused
        names, version = sorted(self.objects), str(self.version)
        if "continue" in query:
            version, _, rest = query["continue"].partition("/")
            names = [name for name in rest.split(",") if name in self.objects]
            if int(version) < self.version:
                return reply_of(410, b'{"reason":"Expired"}')
        items, more = [self.objects[name] for name in names[:2]], names[2:]
        if self._happens():
            self.change()
        metadata = {"resourceVersion": version, "continue": f"{version}/{','.join(more)}" if more else ""}
        return Reply(status=200, body=json.dumps({"metadata": metadata, "items": items}).encode())

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Watch]:
        query = dict(call.query)
        self.requests.append(query)
        refused = self._refusal()
        if refused is not None:
            raise refused.error()
        if "sendInitialEvents" in query:
            if not self.streams_lists:
                raise error_for(422, "Invalid", "sendInitialEvents is forbidden")
            yield Watch(self, self.version, initial=[("ADDED", each) for each in self.objects.values()])
            return
        version = int(query["resourceVersion"])
        if version < self.remembered:
            raise error_for(410, "Expired", "too old resource version")
        yield Watch(self, version)


class Watch:
    """One stream."""

    def __init__(self, world: World, version: int, initial: list[tuple[str, dict[str, Any]]] | None = None) -> None:
        self._world = world
        self._version = version
        self._has_ended = False
        self._pending = [_line(type, object) for type, object in initial or ()]
        world.fate.shuffle(self._pending)
        if initial is not None:
            end = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
            self._pending.append(_line("BOOKMARK", {"metadata": end}))

    async def lines(self) -> list[bytes]:
        await asyncio.sleep(0)
        if self._has_ended:
            # After an error nothing comes, and nobody may wait for it.
            await asyncio.Event().wait()
        world = self._world
        world.change()
        if world._happens():
            if world.fate.random() < 0.5:
                raise UnreachableError(0, "", "broken off")
            return []
        if world._happens():
            code = world.fate.choice([410, 500])
            self._has_ended = True
            return [*self._some(), _line("ERROR", {"code": code, "message": "the end"})]
        found = self._some()
        if not found and self._pending:
            found, self._pending = self._pending[:1], self._pending[1:]
        if not found:
            if world.left == 0 and self._version == world.version:
                world.quiet.set()
                await asyncio.Event().wait()
            # Other kinds have changed.
            world.version += 1
            self._version = world.version
            return [_line("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})]
        return found

    def _some(self) -> list[bytes]:
        """A few of the events that this stream has not shown."""
        for version, type, object in self._world.history:
            if version > self._version:
                self._pending.append(_line(type, object))
                self._version = version
        count = self._world.fate.randrange(4)
        found, self._pending = self._pending[:count], self._pending[count:]
        return found


def _line(type: str, object: dict[str, Any]) -> bytes:
    return json.dumps({"type": type, "object": object}, separators=(",", ":")).encode()


class Follower:
    """A handler that keeps a store and checks the order of what it is told."""

    def __init__(self) -> None:
        self.store = ObjectStore()
        self.version = 0

    def replaced(self, kind: str, objects: list[Any], version: str) -> None:
        self.store.replace(objects, version)
        self.version = int(version)

    def changed(self, kind: str, type: str, object: Any, version: str) -> None:
        assert int(version) > self.version
        assert self.store.apply(WatchEvent(type, object)) or type == "DELETED"
        self.version = int(version)

    def advanced(self, kind: str, version: str) -> None:
        assert int(version) >= self.version
        self.store.advance(version)
        self.version = int(version)


class Clock:
    """Virtual time, in which only waiting takes any."""

    def __init__(self, count: int = 0) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.enough = asyncio.Event()
        """Set after `count` waits."""
        self._count = count

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.pauses.append(seconds)
        self.now += seconds
        if len(self.pauses) == self._count:
            self.enough.set()


def follow(world_of: Any, *, refreshes: int = 0) -> tuple[World, Follower, Reflector, Clock]:
    """Run a reflector in a world until all is quiet."""

    async def whole() -> tuple[World, Follower, Reflector, Clock]:
        world, follower, clock = world_of(), Follower(), Clock()
        reflector = Reflector(
            cast(ApiClient, world),
            NAMESPACES,
            follower,
            clock=lambda: clock.now,
            rng=Random(1),
            sleep=clock.sleep,
        )
        task = asyncio.create_task(reflector.run())
        for _ in range(refreshes):
            for _ in range(world.fate.randrange(50)):
                await asyncio.sleep(0)
            reflector.refresh()
        async with asyncio.timeout(60):
            done, _ = await asyncio.wait(
                {task, asyncio.ensure_future(world.quiet.wait())}, return_when="FIRST_COMPLETED"
            )
        if task in done:
            task.result()
        # What the last lines said is told before the next are asked for.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return world, follower, reflector, clock

    return asyncio.run(whole())


@settings(max_examples=200)
@given(
    seed=st.integers(0, 2**32),
    trouble=st.sampled_from([0.0, 0.05, 0.2, 0.4]),
    left=st.integers(0, 60),
    streams_lists=st.booleans(),
    refreshes=st.integers(0, 3),
)
def test_whatever_breaks_the_handler_knows_in_the_end_what_there_is(
    seed: int, trouble: float, left: int, streams_lists: bool, refreshes: int
) -> None:
    """Refusals, broken streams, forgotten versions, errors in the stream, refreshes at any moment."""
    world, follower, reflector, _ = follow(
        lambda: World(Random(seed), trouble, left, streams_lists=streams_lists), refreshes=refreshes
    )
    known = {key: each.metadata.uid for key, each in follower.store.objects.items()}
    assert known == {name: each["metadata"]["uid"] for name, each in world.objects.items()}
    versions = {key: each.metadata.resource_version for key, each in follower.store.objects.items()}
    assert versions == {name: each["metadata"]["resourceVersion"] for name, each in world.objects.items()}
    assert reflector.synced
    assert reflector.version == str(world.version)
    assert reflector.undecodable == 0


def test_a_quiet_world_is_listed_once() -> None:
    """One request that is list and watch."""
    world, _, reflector, clock = follow(lambda: World(Random(1), 0.0, 5))
    assert len(world.requests) == 1
    assert world.requests[0].keys() >= {"sendInitialEvents", "allowWatchBookmarks", "watch", "timeoutSeconds"}
    assert 300 <= int(world.requests[0]["timeoutSeconds"]) <= 600
    assert (reflector.lists, reflector.failures, clock.pauses) == (1, 0, [])


def test_a_server_that_streams_no_lists_is_asked_for_that_once() -> None:
    world, _, reflector, _ = follow(lambda: World(Random(1), 0.0, 5, streams_lists=False), refreshes=2)
    assert sum("sendInitialEvents" in query for query in world.requests) == 1
    assert reflector.lists == 3
    assert reflector.failures == 0


class Behind(World):
    """Streams no lists; the first list is that of now, then `count` show a cache that knows of the start alone."""

    def __init__(self, fate: Random, count: int) -> None:
        super().__init__(fate, 0.0, 5, streams_lists=False)
        self.count = count
        self.lists = 0

    async def call(self, call: Call) -> Reply:
        self.lists += 1
        if 1 < self.lists <= 1 + self.count:
            self.requests.append(dict(call.query))
            return Reply(status=200, body=b'{"metadata": {"resourceVersion": "9"}, "items": []}')
        return await super().call(call)


def versions_told(world: World) -> tuple[list[int], Clock]:
    """The versions of the first two lists that a handler was told of, and how long was waited."""
    told: list[int] = []
    enough = asyncio.Event()

    class Noting(Follower):
        def replaced(self, kind: str, objects: list[Any], version: str) -> None:
            told.append(int(version))
            if len(told) == 2:
                enough.set()
            super().replaced(kind, objects, version)

    clock = Clock()

    async def whole() -> None:
        reflector = Reflector(
            cast(ApiClient, world), NAMESPACES, Noting(), clock=lambda: clock.now, rng=Random(1), sleep=clock.sleep
        )
        task = asyncio.create_task(reflector.run())
        await reflector.wait_synced()
        reflector.refresh()
        await enough.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(whole(), 60))
    return told, clock


def test_a_list_from_before_what_is_known_is_asked_for_anew() -> None:
    """Nobody goes back in time because a cache is behind."""
    (first, second), clock = versions_told(Behind(Random(1), 3))
    assert second >= first
    assert len(clock.pauses) == 3
    assert clock.now < PATIENCE_SECONDS


def test_a_list_that_stays_in_the_past_is_believed_after_a_minute() -> None:
    """The storage was restored from a backup: it is the truth now."""
    (_, second), clock = versions_told(Behind(Random(1), 1000))
    assert second == 9
    assert PATIENCE_SECONDS <= clock.now < 2 * PATIENCE_SECONDS


class Refusing:
    """A client that gives these answers, then none at all."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Any]:
        if self._replies:
            raise self._replies.pop(0).error()
        await asyncio.Event().wait()
        yield


def pauses_after(*replies: Reply) -> list[float]:
    """How long it waits after each of these answers."""
    return pauses_of(Refusing(*replies), len(replies))


def pauses_of(client: object, count: int, *, listed: bool = False, clock: Clock | None = None) -> list[float]:
    """How long it waits the first times. `listed`: it has had its list, and only watches."""
    clock = Clock(count) if clock is None else clock

    async def whole() -> list[float]:
        reflector = Reflector(
            cast(ApiClient, client), NAMESPACES, Follower(), clock=lambda: clock.now, rng=Random(1), sleep=clock.sleep
        )
        if listed:
            reflector._version, reflector._must_list = "10", False
        task = asyncio.create_task(reflector.run())
        await asyncio.wait_for(clock.enough.wait(), 60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return clock.pauses[:count]

    return asyncio.run(whole())


def test_the_server_may_ask_for_a_longer_wait_than_ours() -> None:
    assert pauses_after(reply_of(429, b"{}", "17"))[0] == 17
    assert 0.8 <= pauses_after(reply_of(429, b"{}", "0"))[0] <= 1.6


def test_a_list_that_is_refused_as_too_old_is_waited_for() -> None:
    assert 0.8 <= pauses_after(reply_of(410, b'{"reason":"Expired"}'))[0] <= 1.6


def test_a_refusal_is_told_once_until_another_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    """Ten kinds that are refused would otherwise fill a log."""
    caplog.set_level("INFO")
    forbidden, busy = (reply_of(status, f'{{"message":"{status}!"}}'.encode()) for status in (403, 503))
    pauses_after(forbidden, forbidden, forbidden, busy, busy, forbidden)
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["403!", "503!", "403!"]


class Forgetful(World):
    """Lists as often as one likes, but no watch can begin from what was listed."""

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Watch]:
        self.remembered = self.version + 1
        async with super().stream(call) as watch:
            yield watch


def test_only_the_first_forgotten_version_is_not_waited_for() -> None:
    """A server that forgets everything at once would otherwise be asked for lists without end."""
    first, second, third = pauses_of(Forgetful(Random(1), 0.0, 0, streams_lists=False), 3)
    assert first == 0.0
    assert 1.6 <= second <= 3.2 <= third


def test_what_cannot_be_read_is_skipped_and_counted() -> None:
    """In a list and in a watch; the others are told."""

    class Odd(World):
        @asynccontextmanager
        async def stream(self, call: Call) -> AsyncIterator[Watch]:
            async with super().stream(call) as watch:
                watch._pending.insert(0, _line("ADDED", {"metadata": {"name": 5, "resourceVersion": "11"}}))
                watch._pending.append(_line("ADDED", {"metadata": []}))
                yield watch

    world, follower, reflector, _ = follow(lambda: Odd(Random(1), 0.0, 9))
    assert sorted(follower.store.objects) == sorted(world.objects)
    assert (reflector.undecodable, reflector.failures) == (2, 0)


def test_after_an_attempt_that_held_for_long_the_next_failure_is_a_first_one() -> None:
    """Hours of a good watch count for more than the trouble before it."""
    clock = Clock(4)

    class Slow(Refusing):
        @asynccontextmanager
        async def stream(self, call: Call) -> AsyncIterator[Any]:
            if len(self._replies) == 1:
                clock.now += 11
            async with super().stream(call) as watch:
                yield watch

    assert max(pauses_of(Slow(*[reply_of(500, b"{}")] * 4), 4, clock=clock)[2:]) >= 3.2
    assert clock.pauses[3] <= 1.6


@pytest.mark.parametrize("listed", [True, False], ids=["watch", "list"])
@pytest.mark.parametrize("ended", ["broken off", ""])
def test_a_watch_or_list_that_ends_at_once_again_and_again_is_waited_for(ended: str, listed: bool) -> None:
    """Otherwise it would be opened some thousand times a second."""

    class Ending(World):
        @asynccontextmanager
        async def stream(self, call: Call) -> AsyncIterator[Any]:
            async with super().stream(call) as watch:
                watch.lines = self._end  # type: ignore[method-assign]
                yield watch

        async def _end(self) -> list[bytes]:
            if ended:
                raise UnreachableError(0, "", ended)
            return []

    first, second, third, fourth = pauses_of(Ending(Random(1), 0.0, 0), 4, listed=listed)
    assert 0.8 <= first <= 1.6 <= second <= 3.2 <= third <= 6.4 <= fourth <= 12.8
