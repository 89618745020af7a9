"""metav1.MicroTime: the API server takes a lease's or an event's time only with all six digits of its fraction."""

from __future__ import annotations

from datetime import UTC, datetime


def micro_time(ns: int) -> str:
    """Nanoseconds since 1970 (UTC) as RFC 3339 with microseconds, which are cut, not rounded."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"
