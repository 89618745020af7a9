"""Which statuses are written at all: those that say something else, not what a server or somebody else put there."""

from __future__ import annotations

from typing import Any, Final

import pytest

from stowplan_operator.handlers.choosing import ProblemError
from stowplan_operator.handlers.figures import last_write
from stowplan_operator.handlers.model_status import ModelVerdict, model_status, verdict_key
from stowplan_operator.handlers.names import NODE_POOL, SIMULATION
from stowplan_operator.handlers.observed import Observed, observed
from stowplan_operator.handlers.reconcile import Desired, Situation, differs, reconcile
from stowplan_scheduler.timestamps import parse_time
from support.situations import COMPILER, SETTINGS, START

GOOD: Final = ModelVerdict(None)
BAD: Final = ModelVerdict(ProblemError("spec.max", "0: the pool can never have a node"))


def pool(name: str = "spot", **meta: Any) -> Observed:
    return observed({"metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, **meta}, "spec": {}})


def look(*pools: Observed, verdict: ModelVerdict | None = GOOD) -> Desired:
    verdicts = {} if verdict is None else {verdict_key(NODE_POOL, each): verdict for each in pools}
    return reconcile(Situation(node_pools=pools, verdicts=verdicts), COMPILER, SETTINGS, START)


# ---- node pools and simulations --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verdict", "expected"), [(GOOD, "True Accepted"), (BAD, "False Invalid")])
def test_a_model_says_what_its_check_found(verdict: ModelVerdict, expected: str) -> None:
    (write,) = look(pool(), verdict=verdict).statuses
    assert (write.kind, write.name, write.uid) == (NODE_POOL, "spot", "uid-spot")
    accepted = next(each for each in write.status["conditions"] if each["type"] == "Accepted")
    assert f"{accepted['status']} {accepted['reason']}" == expected
    assert [each.type for each in write.happenings] == (["Normal"] if verdict is GOOD else ["Warning"])


def test_a_model_without_a_verdict_is_waited_for_and_one_that_goes_is_left_alone() -> None:
    assert look(pool(), verdict=None).statuses == ()
    assert look(pool(deletionTimestamp="2026-11-30T12:00:00Z")).statuses == ()


def test_a_verdict_on_another_generation_or_kind_says_nothing() -> None:
    new = observed({"metadata": {"name": "spot", "uid": "uid-spot", "generation": 2}, "spec": {}})
    verdicts = {verdict_key(NODE_POOL, pool()): GOOD, verdict_key(SIMULATION, new): GOOD}
    assert reconcile(Situation(node_pools=[new], verdicts=verdicts), COMPILER, SETTINGS, START).statuses == ()


def test_a_model_s_status_is_written_once() -> None:
    status = model_status(pool(), GOOD, START)
    value = {"metadata": {"name": "spot", "uid": "uid-spot", "generation": 1}, "spec": {}, "status": status}
    assert look(observed(value)).statuses == ()


# ---- what counts as another status -----------------------------------------------------------------------------------

STATUS: Final[dict[str, Any]] = {
    "observedGeneration": 1,
    "lastGood": {"generation": 1, "hash": "h"},
    "workers": [{"name": "a", "generation": 0, "hash": "", "leading": False}],
    "conditions": [{"type": "Ready", "status": "True"}],
}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (STATUS, False),
        ({**STATUS, "pending": 0, "shadow": {}, "appliedHash": ""}, False),
        ({**STATUS, "workers": [{"name": "a"}]}, False),
        ({**STATUS, "nodes": 7}, False),
        ({**STATUS, "conditions": [*STATUS["conditions"], {"type": "Predicted", "status": "True"}]}, False),
        ({**STATUS, "pending": 3}, True),
        ({**STATUS, "workers": []}, True),
        ({**STATUS, "workers": [{"name": "b"}]}, True),
        ({**STATUS, "workers": None}, True),
        ({**STATUS, "lastGood": {"generation": 2, "hash": "h"}}, True),
        ({**STATUS, "conditions": [{"type": "Ready", "status": "False"}]}, True),
        ({**STATUS, "conditions": []}, True),
        ({**STATUS, "conditions": [*STATUS["conditions"], {"type": "Paused", "status": "True"}]}, True),
        ({}, True),
    ],
)
def test_a_status_differs_by_what_is_ours_and_says_something(there: dict[str, Any], expected: bool) -> None:
    assert differs(STATUS, there) is expected


# ---- when it was written last ----------------------------------------------------------------------------------------


def entry(time: str, manager: str = "stowplan-status", subresource: str = "status") -> dict[str, str]:
    return {"manager": manager, "subresource": subresource, "time": time}


def test_the_last_write_is_the_last_one_of_our_manager_to_status() -> None:
    fields = [
        entry("2026-11-30T12:00:00Z"),
        entry("2026-11-30T12:00:07Z"),
        entry("2026-11-30T13:00:00Z", manager="kubectl-edit"),
        entry("2026-11-30T14:00:00Z", subresource=""),
        entry("soon"),
        "nonsense",
    ]
    assert last_write(fields) == parse_time("2026-11-30T12:00:07Z")
    assert last_write([]) is None
    assert last_write([entry("2026-11-30T13:00:00Z", manager="kubectl-edit")]) is None
