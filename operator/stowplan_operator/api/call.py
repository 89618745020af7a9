"""A request to the API server and its answer, as plain data: a client carries it out, a simulation can replay it."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

import msgspec

from .errors import ApiError, error_for

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""

T = TypeVar("T")

Query = tuple[tuple[str, str], ...]


class Call(msgspec.Struct, frozen=True):
    """One request. `path` is absolute and quoted; `body` is encoded already (see `encode`).

    `timeout`: seconds from the start to the last byte of the answer; None takes the client's own.
    """

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    content_type: str = JSON
    timeout: float | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call.

    `status` 0: no answer, so it is not known whether the request was carried out; `message` says what happened.
    From 300 on `reason` and `message` are those of the server's Status object. `retry_after`: seconds that the server
    asks to wait, None if it does not ask.
    """

    status: int
    body: bytes = b""
    reason: str = ""
    message: str = ""
    retry_after: float | None = None

    @property
    def is_success(self) -> bool:
        """Whether the server did what was asked for."""
        return 200 <= self.status < 300

    @property
    def is_unknown(self) -> bool:
        """Whether there was no answer."""
        return self.status == 0

    def json(self) -> Any:
        """The body as dicts and lists."""
        return msgspec.json.decode(self.body)

    def sure(self) -> Reply:
        """This reply if it is a success. Raises ApiError, or the subclass that the status stands for."""
        if not self.is_success:
            raise self.error()
        return self

    def error(self) -> ApiError:
        """The error that a reply without success stands for."""
        return error_for(self.status, self.reason, self.message, self.retry_after)


class Caller(Protocol):
    """Whoever carries out calls."""

    async def call(self, call: Call) -> Reply:
        """Carry out one call. Never raises for what the server or the network does."""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: int = 0


class _Status(msgspec.Struct, frozen=True):
    """The part of a metav1.Status that says why not."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)
_LONGEST: Final = 1024
"""Characters of an answer that is no Status object: a proxy's page may be long."""


def reply_of(status: int, body: bytes, retry_after: str | None = None) -> Reply:
    """The reply for an HTTP answer. `retry_after`: the header of that name, of which only seconds are understood."""
    if status < 300:
        return Reply(status=status, body=body)
    seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    try:
        found = _STATUS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = _Status(message=body[:_LONGEST].decode(errors="replace").strip())
    if seconds is None and found.details is not None and found.details.retry_after_seconds > 0:
        seconds = float(found.details.retry_after_seconds)
    message = found.message or f"the server answered {status} without saying why"
    return Reply(status=status, body=body, reason=found.reason or "", message=message, retry_after=seconds)


def reply_of_status(body: bytes) -> Reply:
    """The reply for a Status object that came inside a watch (an ERROR event)."""
    try:
        code = _STATUS.decode(body).code
    except (msgspec.MsgspecError, UnicodeDecodeError):
        code = None
    return reply_of(code if code is not None and code >= 400 else 500, body)


def encode(value: Any) -> bytes:
    """JSON of dicts, lists and structs."""
    return msgspec.json.encode(value)
