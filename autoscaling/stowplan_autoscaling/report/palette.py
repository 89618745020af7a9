"""Colours. One set for both colour schemes: each stands out from a white and from a dark page by at least 3 to 1."""

from __future__ import annotations

from typing import Final

BLUE: Final = "#2f7fd6"
ORANGE: Final = "#d2691e"
GREEN: Final = "#2e9e6b"
PURPLE: Final = "#9a62c7"
RED: Final = "#d0454c"
TEAL: Final = "#1f95a3"
PINK: Final = "#cf5a9b"
OLIVE: Final = "#8f8a20"
BROWN: Final = "#a0714a"
GREY: Final = "#7d8590"

LIGHT_PAGE: Final = "#ffffff"
DARK_PAGE: Final = "#171b22"
"""The grounds that figures stand on; assets/page.css has the same."""

SERIES: Final = (BLUE, ORANGE, GREEN, PURPLE, TEAL, PINK, OLIVE, BROWN, RED, GREY)
"""Of candidates and pools, in their order; they repeat after the tenth."""

OFFERED: Final = GREY
SERVED: Final = BLUE
WANTED: Final = PURPLE
READY: Final = GREEN
STARTING: Final = TEAL
PENDING: Final = RED
COST: Final = BROWN
REQUESTED: Final = BLUE
USED: Final = GREEN
STRANDED: Final = RED

END_REASONS: Final = {
    "Running": BLUE,
    "Unneeded": GREEN,
    "Empty": TEAL,
    "Underutilized": OLIVE,
    "Drifted": PURPLE,
    "Expired": PINK,
    "Interrupted": ORANGE,
    "Failed": RED,
    "OutOfStock": BROWN,
}
"""Why a node ended (NodeRecord.end)."""

WAITING: Final = {
    "metric": GREY,
    "autoscaler": PURPLE,
    "controller": BROWN,
    "queue": OLIVE,
    "supply": PINK,
    "node": ORANGE,
    "backoff": RED,
    "image": BLUE,
    "start": TEAL,
    "readiness": GREEN,
}
"""The parts of waiting (results.records.Waiting)."""


def of(index: int) -> str:
    """The colour of the so manieth candidate or pool."""
    return SERIES[index % len(SERIES)]
