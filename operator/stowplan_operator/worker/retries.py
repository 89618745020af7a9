"""How long to wait before a request is sent again, and how often. Pure numbers, so that the simulation repeats them.

No chance is in it: one worker leads, so there is nobody to collide with.
"""

from __future__ import annotations

from typing import Final

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000

INITIAL: Final = 100 * MILLISECOND
MAXIMUM: Final = 5 * SECOND

MAX_TRIES: Final = 6
"""Of a request that was refused for the moment (403, 429, 5xx). The waits between add up to 3.1 s: longer than the
second for which an API server that was restarted knows nobody's rights. The scheduler's own back-off comes after."""

MAX_RETRY_AFTER: Final = 10 * SECOND
"""Longer waits that an API server asks for are cut: a bind that is under way holds room on a node."""


def delay(tries: int, retry_after: int = 0) -> int:
    """Nanoseconds to wait after the `tries`-th failure in a row (1, 2, ...): 0.1 s doubled each time, at most 5 s.

    `retry_after`: seconds that the API server asks for at least.
    """
    # The shift is capped first: a read may be repeated for hours.
    doubled = INITIAL << min(tries - 1, 10)
    return max(min(doubled, MAXIMUM), min(retry_after * SECOND, MAX_RETRY_AFTER))
