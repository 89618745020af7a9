"""Replies: what an answer means, and which error it stands for."""

from __future__ import annotations

import pytest

from stowplan_operator.api.backoff import Backoff
from stowplan_operator.api.call import Reply, reply_of
from stowplan_operator.api.errors import ApiError, ConflictError, ExpiredError, TooManyRequestsError, UnreachableError
from stowplan_operator.api.micro_time import micro_time


def test_a_refusal_carries_the_servers_reason_and_text() -> None:
    body = b'{"kind":"Status","reason":"Conflict","message":"the object has been modified","code":409}'
    reply = reply_of(409, body)
    assert (reply.is_success, reply.reason, reply.message) == (False, "Conflict", "the object has been modified")
    with pytest.raises(ConflictError, match="409 Conflict: the object has been modified"):
        reply.sure()


def test_an_answer_that_is_no_status_shows_its_text() -> None:
    """A proxy's page, cut; or nothing at all."""
    assert reply_of(502, b"<html>bad gateway\n").message == "<html>bad gateway"
    assert len(reply_of(502, b"x" * 5000).message) == 1024
    assert reply_of(503, b"").message == "the server answered 503 without saying why"
    assert reply_of(302, b"").message == "the server answered 302 without saying why"
    assert reply_of(500, b"\xff\xfe").message == "\N{REPLACEMENT CHARACTER}" * 2


def test_how_long_to_wait_comes_from_the_header_or_from_the_status() -> None:
    assert reply_of(429, b"{}", "7").retry_after == 7
    assert reply_of(429, b'{"details":{"retryAfterSeconds":10}}').retry_after == 10
    assert reply_of(429, b'{"details":{}}').retry_after is None
    assert reply_of(429, b"{}", "Wed, 21 Oct 2026 07:28:00 GMT").retry_after is None


def test_no_answer_is_an_unknown_outcome_and_neither_success_nor_refusal() -> None:
    reply = Reply(status=0, message="TimeoutError")
    assert (reply.is_success, reply.is_unknown) == (False, True)
    error = reply.error()
    assert isinstance(error, UnreachableError)
    assert str(error) == "TimeoutError"


def test_each_status_has_its_class_and_all_are_api_errors() -> None:
    assert isinstance(reply_of(410, b"{}").error(), ExpiredError)
    assert isinstance(reply_of(429, b"{}", "3").error(), TooManyRequestsError)
    other = reply_of(418, b"{}").error()
    assert (type(other), other.status) == (ApiError, 418)


class _Fixed:
    def __init__(self, value: float) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


def test_waiting_doubles_up_to_half_a_minute_and_begins_anew_after_two_quiet_ones() -> None:
    """0.8 s first; by chance up to twice as long, but never longer than the most."""
    backoff = Backoff(_Fixed(0.0))
    assert [backoff.next(0.0) for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert backoff.next(120.0) == 30.0
    assert backoff.next(240.1) == 0.8
    assert not backoff.is_reset
    backoff.reset()
    assert backoff.next(242) == 0.8
    most = Backoff(_Fixed(1.0))
    assert [most.next(0.0) for _ in range(7)] == [1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_a_micro_time_has_six_digits_always() -> None:
    """The API server refuses fewer; what is finer is cut."""
    assert micro_time(0) == "1970-01-01T00:00:00.000000Z"
    assert micro_time(1_700_000_000_000_001_999) == "2023-11-14T22:13:20.000001Z"
    assert micro_time(1_699_999_999_999_999_999) == "2023-11-14T22:13:19.999999Z"
