"""The memory of last good specifications: what is kept where it gets large, and what others do to its ConfigMap."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from stowplan_operator.api.call import Call, Reply, encode
from stowplan_operator.api.client import ApiClient
from stowplan_operator.handlers.accepted import (
    MOST_BYTES,
    Accepted,
    Memory,
    Stored,
    decode_memory,
    encode_memory,
)
from stowplan_operator.handlers.memory_store import MemoryStore

LIMIT = 1 << 20
"""The API server's, for all values of a ConfigMap together."""


def accepted(name: str, size: int = 0, *, noise: bool = False) -> Accepted:
    """One whose spec is about so many bytes of JSON; noise does not get smaller by being compressed."""
    rng = random.Random(name)
    filler = base64.b64encode(rng.randbytes(size * 3 // 4)).decode() if noise else "weight: 10\n" * (size // 11)
    spec = {"schedulerName": name, "filler": filler}
    return Accepted(name=name, uid=f"uid-{name}", generation=1, hash="h", hash_version=1, spec=spec)


def memory_of(*entries: Accepted) -> Memory:
    return {entry.uid: entry for entry in entries}


def size_of(stored: Stored) -> int:
    return sum(len(value.encode()) for value in stored.data.values()) + sum(map(len, stored.binary.values()))


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_as_long_as_all_fits_it_is_text_that_people_can_read() -> None:
    memory = memory_of(accepted("b", 100_000), accepted("a", 200_000))
    stored = encode_memory(memory)
    assert list(stored.data) == ["a", "b"]
    assert stored.binary == {}
    assert json.loads(stored.data["a"])["spec"]["schedulerName"] == "a"
    assert decode_memory(stored) == memory


def test_where_it_does_not_fit_the_larger_entries_are_compressed_and_none_is_lost() -> None:
    """Five thousand profiles of two kilobytes are ten megabytes."""
    memory = memory_of(*(accepted(f"p{number:04d}", 2000) for number in range(5000)), accepted("small"))
    stored = encode_memory(memory)
    assert set(stored.data) == {"small"}
    assert len(stored.binary) == 5000
    assert stored.left_out == ()
    assert size_of(stored) <= MOST_BYTES < LIMIT
    assert decode_memory(stored) == memory
    assert encode_memory(memory) == stored


def test_what_fits_in_no_way_is_left_out_the_largest_first() -> None:
    entries = [accepted("huge", 900_000, noise=True), accepted("large", 700_000, noise=True), accepted("small", 5000)]
    stored = encode_memory(memory_of(*entries))
    assert stored.left_out == ("huge",)
    assert {each.name for each in decode_memory(stored).values()} == {"large", "small"}
    assert size_of(stored) <= MOST_BYTES


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"no gzip",
        gzip.compress(encode_memory(memory_of(accepted("cut"))).data["cut"].encode())[:-1],
        gzip.compress(b"\xff"),
        gzip.compress(b"{"),
        gzip.compress(b'{"uid": "' + b"a" * (8 << 20) + b'"}'),
    ],
    ids=["empty", "text", "cut", "no unicode", "no JSON", "too long"],
)
def test_a_compressed_entry_that_somebody_spoilt_is_as_good_as_none(value: bytes) -> None:
    good = accepted("good")
    stored = encode_memory(memory_of(good))
    assert decode_memory(Stored(stored.data, {"spoilt": value})) == memory_of(good)


# ---- what others do --------------------------------------------------------------------------------------------------


class Server(ApiClient):
    """Keeps one ConfigMap and counts the writes. `at` is its version."""

    def __init__(self) -> None:
        self.at = 100
        self.value: dict[str, Any] | None = None
        self.writes = 0

    async def call(self, call: Call) -> Reply:
        if call.method == "GET":
            return Reply(status=404) if self.value is None else Reply(status=200, body=encode(self.value))
        assert call.body is not None
        self.writes += 1
        return Reply(status=200, body=encode(self.put(json.loads(call.body))))

    def put(self, value: dict[str, Any]) -> dict[str, Any]:
        self.at += 1
        meta = {**value["metadata"], "resourceVersion": str(self.at)}
        self.value = {**value, "metadata": meta}
        return self.value


class Desk:
    """A store beside its server; `news`: how often it was told that somebody else was there."""

    def __init__(self) -> None:
        self.server = Server()
        self.news = 0
        self.now = 0.0
        self.store = MemoryStore(self.server, "system", self._told, lambda: self.now)

    def _told(self) -> None:
        self.news += 1

    def save(self, memory: Memory) -> float:
        return asyncio.run(self.store.save(memory))

    def load(self) -> None:
        asyncio.run(self.store.load())

    def watched(self, type: str, value: dict[str, Any]) -> None:
        self.store.changed("ConfigMap", type, value, value["metadata"]["resourceVersion"])


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_it_is_written_when_it_differs_and_read_back_compressed_or_not(desk: Desk) -> None:
    memory = memory_of(accepted("a"), *(accepted(f"p{number}", 30_000) for number in range(50)))
    assert desk.save(memory) == 0
    assert desk.save(memory) == 0
    assert desk.server.writes == 1
    assert desk.server.value is not None
    assert set(desk.server.value["data"]) == {"a"}
    again = MemoryStore(desk.server, "system", lambda: None)
    asyncio.run(again.load())
    assert again.memory == memory
    # Nothing has changed, so nothing is written.
    assert asyncio.run(again.save(memory)) == 0
    assert desk.server.writes == 1


def test_one_that_is_absent_is_empty_and_is_not_made_for_nothing(desk: Desk) -> None:
    desk.load()
    desk.save({})
    assert (desk.store.memory, desk.server.writes) == ({}, 0)


def deleted(desk: Desk) -> None:
    assert desk.server.value is not None
    gone, desk.server.value = desk.server.value, None
    desk.server.at += 1
    desk.watched("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(desk.server.at)}})


def deleted_unseen(desk: Desk) -> None:
    desk.server.value = None
    desk.server.at += 1
    desk.store.replaced("ConfigMap", [], str(desk.server.at))


def edited(desk: Desk) -> None:
    assert desk.server.value is not None
    desk.watched("MODIFIED", desk.server.put({**desk.server.value, "data": {"a": "{}"}}))


@pytest.mark.parametrize("do", [deleted, deleted_unseen, edited])
def test_what_somebody_else_did_to_it_is_put_right_at_once(desk: Desk, do: Callable[[Desk], None]) -> None:
    memory = memory_of(accepted("a"))
    desk.save(memory)
    assert desk.server.value is not None
    data = desk.server.value["data"]
    do(desk)
    assert desk.news == 1
    assert desk.save(memory) == 0
    assert desk.server.value["data"] == data
    assert desk.server.writes == 2


def test_its_own_writes_and_older_events_are_no_news(desk: Desk) -> None:
    memory = memory_of(accepted("a"))
    desk.save(memory)
    assert desk.server.value is not None
    first = desk.server.value
    desk.watched("ADDED", first)
    desk.save(memory_of(accepted("a"), accepted("b")))
    desk.watched("MODIFIED", first)
    desk.watched("MODIFIED", desk.server.value)
    # A list that was on its way when it was made.
    desk.store.replaced("ConfigMap", [], "99")
    assert desk.news == 0
    assert desk.server.writes == 2


def test_of_two_that_write_over_each_other_neither_does_it_without_end(desk: Desk) -> None:
    memory = memory_of(accepted("a"))
    desk.save(memory)
    wait = 0.0
    while not wait and desk.server.writes < 100:
        edited(desk)
        wait = desk.save(memory)
    assert desk.server.writes <= 21
    assert 0 < wait <= 3
    desk.now += wait
    assert desk.save(memory) == 0


def test_profiles_without_room_are_named_in_the_log_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    memory = memory_of(accepted("a", 750_000, noise=True), accepted("b", 700_000, noise=True))
    for _ in range(3):
        desk.save(memory)
    (record,) = caplog.records
    assert record.__dict__["profiles"] == "a"
    assert desk.server.writes == 1
