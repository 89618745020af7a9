"""Server-side apply is tried again where that helps; what it does is tested in tests/integration/test_api_apply.py."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from stowplan_operator.api.apply import repeated
from stowplan_operator.api.call import Call, Reply, reply_of
from stowplan_operator.api.client import ApiClient

NO_ANSWER = Reply(status=0, message="lost")


class Answers:
    """A client that gives these answers, one after the other."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)

    async def call(self, call: Call) -> Reply:
        return self.replies.pop(0)


def tried(*replies: Reply) -> tuple[int, list[float], int]:
    """The status in the end, the waits, and how many answers were not asked for."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    client = Answers(*replies)
    reply = asyncio.run(repeated(cast(ApiClient, client), Call("PATCH", "/x"), sleep=sleep))
    return reply.status, waits, len(client.replies)


def test_what_is_likely_to_pass_is_tried_four_times_in_all() -> None:
    """The waits are drawn within a doubling bound; the last answer is the answer."""
    status, waits, left = tried(NO_ANSWER, reply_of(503, b"{}"), reply_of(504, b"{}"), reply_of(200, b"{}"))
    assert (status, left) == (200, 0)
    assert all(wait <= bound for wait, bound in zip(waits, (0.5, 1.0, 2.0), strict=True))
    assert tried(*[NO_ANSWER] * 6)[::2] == (0, 2)


def test_the_server_may_say_how_long_to_wait_up_to_five_seconds() -> None:
    status, waits, _ = tried(reply_of(429, b"{}", "2"), reply_of(429, b"{}", "60"), reply_of(200, b"{}"))
    assert (status, waits) == (200, [2.0, 5.0])


@pytest.mark.parametrize("status", [200, 403, 404, 409, 422, 500])
def test_everything_else_is_final(status: int) -> None:
    """Above all 500, the answer to a field that the schema does not declare."""
    assert tried(reply_of(status, b"{}"), NO_ANSWER) == (status, [], 1)
