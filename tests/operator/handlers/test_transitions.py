"""Which events a change of status is worth."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_operator.handlers.transitions import happenings


def status(**conditions: tuple[str, str, int]) -> dict[str, Any]:
    """Conditions by type: status, reason, observed generation; the message is reason and generation."""
    return {
        "conditions": [
            {
                "type": type,
                "status": found,
                "reason": reason,
                "observedGeneration": generation,
                "message": f"{reason} {generation}",
            }
            for type, (found, reason, generation) in conditions.items()
        ]
    }


GOOD = status(
    Ready=("True", "Ready", 1), Accepted=("True", "Accepted", 1), Programmed=("True", "WorkersRun", 1),
    Degraded=("False", "AsExpected", 1), Paused=("False", "RolloutRuns", 1),
)  # fmt: skip
STARTING = status(Ready=("False", "WorkersStarting", 1), Accepted=("True", "Accepted", 1), Programmed=("False", "X", 1))
REFUSED = status(
    Ready=("False", "Invalid", 2), Accepted=("False", "Invalid", 2), Programmed=("True", "WorkersRun", 1),
    Degraded=("True", "OlderConfigurationRuns", 2), Paused=("False", "RolloutRuns", 2),
)  # fmt: skip
REFUSED_AGAIN = status(Accepted=("False", "Invalid", 3), Degraded=("True", "OlderConfigurationRuns", 3))
PAUSED = status(Paused=("True", "RolloutPaused", 1))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, STARTING, []),
        ({}, REFUSED, ["Warning Accepted Invalid"]),
        (STARTING, GOOD, ["Normal Programmed WorkersRun", "Normal Ready Ready"]),
        (GOOD, GOOD, []),
        (GOOD, REFUSED, ["Warning Accepted Invalid", "Warning Degraded OlderConfigurationRuns"]),
        (REFUSED, REFUSED_AGAIN, ["Warning Accepted Invalid"]),
        (
            REFUSED,
            GOOD,
            ["Normal Accepted Accepted", "Normal Degraded AsExpected", "Normal Ready Ready"],
        ),
        (GOOD, PAUSED, ["Normal Paused RolloutPaused"]),
        ({"conditions": "nonsense"}, STARTING, []),
    ],
)
def test_an_event_tells_of_each_condition_that_flipped_and_of_each_refused_edit(
    before: dict[str, Any], after: dict[str, Any], expected: list[str]
) -> None:
    told = list(happenings("SchedulerProfile", "dense", "uid", before, after))
    assert [f"{each.type} {each.action} {each.reason}" for each in told] == expected


def test_two_conditions_that_say_the_same_are_one_event() -> None:
    after = status(Accepted=("False", "Invalid", 2), Ready=("False", "Invalid", 2))
    assert len(list(happenings("SchedulerProfile", "dense", "uid", GOOD, after))) == 1
