"""The virtual clock: what happens first of what is due at one moment, and how far a run goes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.kernel import MILLISECOND, SECOND, Kernel, LivelockError, nanoseconds

START = 1_000 * SECOND


class ListFeed:
    """A feed of (due, action) pairs in order."""

    def __init__(self, kernel: Kernel, log: list[str]) -> None:
        self.waiting: list[tuple[int, str]] = []
        self.kernel = kernel
        self.log = log
        kernel.feed = self

    @property
    def due(self) -> int | None:
        return self.waiting[0][0] if self.waiting else None

    def deliver(self) -> None:
        name = self.waiting.pop(0)[1]
        self.log.append(name)
        self.kernel.soon(lambda: self.log.append(f"{name} reaction"))


def test_at_one_moment_timers_go_before_deliveries_and_these_before_the_agenda() -> None:
    """A metrics server that scrapes at second 15 sees what the controllers did at second 15."""
    kernel = Kernel(START)
    log: list[Any] = []
    feed = ListFeed(kernel, log)
    at = START + SECOND
    kernel.later(at, lambda: log.append("agenda 1"))
    kernel.later(at, lambda: log.append("agenda 2"))
    feed.waiting = [(at, "delivery")]
    kernel.at(at, lambda: log.append("timer 1"))
    kernel.at(at, lambda: log.append("timer 2"))
    assert kernel.run(at + 1)
    assert log == ["timer 1", "timer 2", "delivery", "delivery reaction", "agenda 1", "agenda 2"]


def test_each_delivery_takes_a_nanosecond() -> None:
    """So the order of reactions to one cause is a fact of the clock: of three deliveries the last comes 2 ns later."""
    kernel = Kernel(START)
    log: list[Any] = []
    feed = ListFeed(kernel, log)
    feed.waiting = [(START, "a"), (START, "b"), (START, "c")]
    moments: list[int] = []
    kernel.later(START, lambda: moments.append(kernel.now - START))
    kernel.run(START + SECOND)
    assert log == ["a", "a reaction", "b", "b reaction", "c", "c reaction"]
    assert moments == [3]
    assert kernel.now == START + SECOND


def test_soon_runs_right_after_the_action_that_planned_it() -> None:
    """A worker takes up a key before the next timer of the same moment fires; nested ones go in order."""
    kernel = Kernel(START)
    log: list[Any] = []

    def first() -> None:
        log.append("first")
        kernel.soon(lambda: (log.append("soon 1"), kernel.soon(lambda: log.append("soon 3"))))  # type: ignore[arg-type, func-returns-value]
        kernel.soon(lambda: log.append("soon 2"))

    kernel.at(START, first)
    kernel.at(START, lambda: log.append("second"))
    kernel.run(START + 1)
    assert log == ["first", "soon 1", "soon 2", "soon 3", "second"]


def test_a_timer_that_an_item_of_the_agenda_plans_for_now_goes_before_the_next_item() -> None:
    """Everything of an instant settles before the world goes on."""
    kernel = Kernel(START)
    log: list[Any] = []
    kernel.later(START, lambda: (log.append("scrape"), kernel.at(START, lambda: log.append("timer"))))  # type: ignore[arg-type, func-returns-value]
    kernel.later(START, lambda: log.append("report"))
    kernel.run(START + 1)
    assert log == ["scrape", "timer", "report"]


def test_a_timer_called_off_does_not_happen() -> None:
    """Cancelling twice, or after it has fired, does nothing."""
    kernel = Kernel(START)
    log: list[Any] = []
    kept, dropped = kernel.at(START + 1, lambda: log.append("kept")), kernel.at(START + 1, lambda: log.append("no"))
    dropped.cancel()
    dropped.cancel()
    kernel.run(START + 2)
    kept.cancel()
    assert log == ["kept"]


def test_the_end_is_exclusive_and_a_run_can_be_continued() -> None:
    """What is due at the end belongs to the next run."""
    kernel = Kernel(START)
    log: list[Any] = []
    kernel.later(START + SECOND, lambda: log.append(kernel.elapsed))
    kernel.at(START + 2 * SECOND, lambda: log.append(kernel.elapsed))
    assert kernel.run(START + SECOND)
    assert (log, kernel.elapsed) == ([], 1.0)
    assert kernel.run(START + 2 * SECOND)
    assert (log, kernel.elapsed) == ([1.0], 2.0)
    assert kernel.run(START + 3 * SECOND)
    assert (log, kernel.elapsed) == ([1.0, 2.0], 3.0)


def test_the_clock_never_goes_back() -> None:
    """A moment in the past is now: the timer fires, and the clock stays."""
    kernel = Kernel(START)
    log: list[Any] = []
    kernel.at(START - SECOND, lambda: log.append(kernel.now))
    kernel.run(START)
    kernel.run(START - 5 * SECOND)
    kernel.run(START + 1)
    assert log == [START]
    assert kernel.now == START + 1


def test_stop_is_asked_between_items_of_the_agenda() -> None:
    """A run that is stopped says so, and can go on where it stopped."""
    kernel = Kernel(START)
    log: list[Any] = []
    for second in (1, 2, 3):
        kernel.later(START + second * SECOND, lambda second=second: log.append(second))  # type: ignore[misc]
    assert not kernel.run(START + 10 * SECOND, stop=lambda: len(log) == 2)
    assert (log, kernel.elapsed) == ([1, 2], 3.0)
    assert kernel.run(START + 10 * SECOND)
    assert log == [1, 2, 3]


@pytest.mark.parametrize("how", ["timer", "soon", "delivery"])
def test_what_reacts_to_itself_for_ever_is_found(how: str) -> None:
    """Two controllers that undo each other's work would never let time pass; the run ends with an error that says
    when.
    """
    kernel = Kernel(START, most_per_instant=100)
    log: list[Any] = []

    def again() -> None:
        if how == "timer":
            kernel.at(kernel.now, again)
        else:
            kernel.soon(again)

    if how == "delivery":
        feed = ListFeed(kernel, log)
        feed.waiting = [(START + 5 * MILLISECOND, "change")]
        kernel.soon = (  # type: ignore[method-assign]
            lambda _, soon=kernel.soon: soon(again)  # type: ignore[misc]
        )
    else:
        kernel.at(START + 5 * MILLISECOND, again)
    with pytest.raises(LivelockError, match=r"at 0\.005 s: more than 100 things happened within a millisecond"):
        kernel.run(START + SECOND)


def test_many_things_spread_over_time_are_no_livelock() -> None:
    """100 timers in each of 50 milliseconds, with a bound of 250: a step of the clock counts as well."""
    kernel = Kernel(START, most_per_instant=250)
    log: list[Any] = []
    for number in range(5_000):
        kernel.at(START + number * 10_000, lambda: log.append(0))
    kernel.run(START + SECOND)
    assert len(log) == 5_000


def test_seconds_become_whole_microseconds() -> None:
    """0.1 + 0.2 is not 0.3 as a float, and is here."""
    assert nanoseconds(0.1 + 0.2) == 300_000_000
    assert nanoseconds(1.0000004) == 1_000_000_000
    assert nanoseconds(15) == 15 * SECOND


PLANS = st.lists(
    st.tuples(st.sampled_from(["timer", "agenda", "soon"]), st.integers(0, 4), st.integers(0, 2)), max_size=12
)


@given(PLANS)
def test_actions_happen_by_time_then_kind_then_order_of_planning(plans: list[tuple[str, int, int]]) -> None:
    """Each action plans `more` timers for its own moment, so the order is compared with a plain simulation that looks
    for the first of all that is planned at each step.
    """
    kernel = Kernel(START)
    log: list[Any] = []
    planned: list[tuple[int, int, int, str, int]] = []  # (when, kind, sequence, name, more)

    def plan(kind: str, when: int, name: str, more: int) -> None:
        def act() -> None:
            log.append((kernel.now - START, name))
            for number in range(more):
                kernel.at(kernel.now, lambda n=number: log.append((kernel.now - START, f"{name}.{n}")))  # type: ignore[misc]

        if kind == "soon":
            kernel.soon(act)
        elif kind == "timer":
            kernel.at(START + when, act)
        else:
            kernel.later(START + when, act)

    soon: list[tuple[str, int]] = []
    for sequence, (kind, when, more) in enumerate(plans):
        plan(kind, when, str(sequence), more)
        if kind == "soon":
            soon.append((str(sequence), more))
        else:
            planned.append((when, kind == "agenda", sequence, str(sequence), more))

    expected: list[tuple[int, str]] = []
    now, sequence = 0, 1_000

    def expect(name: str, more: int) -> None:
        nonlocal sequence
        expected.append((now, name))
        for number in range(more):
            sequence += 1
            planned.append((now, 0, sequence, f"{name}.{number}", 0))

    for name, more in soon:
        expect(name, more)
    while planned:
        now = max(now, min(entry[0] for entry in planned))
        due = [entry for entry in planned if entry[0] <= now]
        first = min(due, key=lambda entry: (entry[1], entry[0], entry[2]))
        planned.remove(first)
        expect(first[3], first[4])
    kernel.run(START + 5)
    assert log == expected


@pytest.mark.parametrize("planned", ["timer", "delivery", "agenda", "soon", "end", "nothing"])
def test_time_is_skipped_only_where_nothing_happens(planned: str) -> None:
    """Something due at the very moment stands in the way: the order at one moment stays what it is."""
    kernel = Kernel(START)
    log: list[str] = []
    feed = ListFeed(kernel, log)
    when = START + 5 * SECOND
    skipped: list[bool] = []

    def action() -> None:
        if planned == "soon":
            kernel.soon(lambda: None)
        skipped.append(kernel.skip_to(when))
        log.append(f"at {(kernel.now - START) // SECOND}")

    kernel.at(START + SECOND, action)
    if planned == "timer":
        kernel.at(when, lambda: None)
    elif planned == "agenda":
        kernel.later(when, lambda: None)
    elif planned == "delivery":
        feed.waiting = [(when, "delivery")]
    kernel.run(when if planned == "end" else START + 9 * SECOND)
    assert skipped == [planned == "nothing"]
    assert log[0] == ("at 5" if planned == "nothing" else "at 1")
