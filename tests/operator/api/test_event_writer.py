"""Events are written in the background: whatever the API server does, who emits one does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from stowplan_operator.api.call import Call, Reply
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.event_series import EventRecord, ObjectReference
from stowplan_operator.api.events import EventWriter


class Server:
    """Answers as it is told, and remembers what it was asked for."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.calls: list[Call] = []
        self.asked = asyncio.Event()

    async def call(self, call: Call) -> Reply:
        self.calls.append(call)
        self.asked.set()
        if not self.replies:
            # A server that hangs.
            await asyncio.Event().wait()
        return self.replies.pop(0)


def event(number: int) -> EventRecord:
    pod = ObjectReference(api_version="v1", kind="Pod", name=f"p{number}", namespace="default", uid=f"u{number}")
    return EventRecord(regarding=pod, type="Warning", reason="FailedScheduling", action="Scheduling", note="no room")


def write(
    server: Server, emit: Callable[[EventWriter], None], *, patience: float = 0.0
) -> tuple[EventWriter, list[float]]:
    """Emit while it runs, then drain. Returns the writer, and how long it waited before it tried again."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        if seconds >= 60:
            # The clock of series, of which nothing is wanted here.
            await asyncio.Event().wait()
        waits.append(seconds)
        await asyncio.sleep(0)

    async def whole() -> EventWriter:
        writer = EventWriter(
            cast(ApiClient, server), "stowplan-worker", "here", queued=10, writers=2, wall=lambda: 0, sleep=sleep
        )
        run = asyncio.ensure_future(writer.run())
        await asyncio.sleep(0)
        emit(writer)
        await server.asked.wait()
        await writer.drain(patience=patience)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        return writer

    return asyncio.run(asyncio.wait_for(whole(), 60)), waits


def test_a_server_that_hangs_costs_events_and_nothing_else() -> None:
    """Emitting a thousand ends in one turn of the loop; what has no room is counted, and the end is not waited for."""
    server = Server()

    def emit(writer: EventWriter) -> None:
        for number in range(1000):
            writer.emit(event(number))

    writer, _ = write(server, emit)
    assert len(server.calls) == 2
    assert (writer.written, writer.failed, writer.dropped) == (0, 0, 990)


def test_a_server_that_wants_to_be_left_alone_is_asked_again_later_and_as_late_as_it_says() -> None:
    server = Server(Reply(status=429, retry_after=30), Reply(status=503), Reply(status=0), Reply(status=201))
    writer, waits = write(server, lambda writer: writer.emit(event(1)), patience=5)
    assert waits[0] == 30
    assert all(10 <= wait <= 12.5 for wait in waits[1:])
    assert (len(waits), writer.written) == (3, 1)


def test_an_event_that_is_refused_again_and_again_is_given_up() -> None:
    """Twelve times, as upstream."""
    server = Server(*[Reply(status=500)] * 12, Reply(status=201))
    writer, _ = write(server, lambda writer: writer.emit(event(1)), patience=5)
    assert (writer.written, writer.failed, writer.dropped) == (0, 1, 0)
    assert len(server.calls) == 12
