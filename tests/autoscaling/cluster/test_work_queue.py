"""A controller's work queue: no key twice, delays, back-off, the bucket that all keys share, syncs that take time."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.cluster.errors import ApiError
from stowplan_autoscaling.cluster.work_queue import TokenBucket, WorkQueue
from stowplan_autoscaling.kernel import MILLISECOND, SECOND, Kernel

START = 1_000 * SECOND


class Controller:
    """Notes (milliseconds, key) of each sync; `act` may raise or return steps."""

    def __init__(self, *, workers: int = 1, max_retries: int | None = None) -> None:
        self.kernel = Kernel(START)
        self.log: list[tuple[float, str]] = []
        self.act: Callable[[str], Generator[int, None, None] | None] = lambda key: None
        self.queue = WorkQueue(self.kernel, self._sync, workers=workers, max_retries=max_retries)

    def _sync(self, key: str) -> Generator[int, None, None] | None:
        self.log.append((self.milliseconds, key))
        return self.act(key)

    @property
    def milliseconds(self) -> float:
        return (self.kernel.now - START) / MILLISECOND

    def run(self, seconds: float) -> None:
        self.kernel.run(START + round(seconds * SECOND))

    def plan(self, milliseconds: float, action: Callable[[], None]) -> None:
        self.kernel.at(START + round(milliseconds * MILLISECOND), action)

    def moments(self, key: str = "a") -> list[float]:
        return [moment for moment, name in self.log if name == key]


def failing(_: str) -> None:
    raise ApiError("no")


def test_a_key_that_waits_is_not_added_again() -> None:
    """Ten events of one object before its sync make one sync; order is that of the first event."""
    one = Controller()
    for key in ("b", "a", "b", "b", "a"):
        one.queue.add(key)
    one.run(1)
    assert [key for _, key in one.log] == ["b", "a"]
    assert one.queue.syncs == 2


def test_a_key_that_is_worked_on_waits_until_that_is_done() -> None:
    """Two events while a sync of 10 ms is under way: one more sync, at its end, though four workers are free."""
    one = Controller(workers=5)

    def slow(key: str) -> Generator[int, None, None]:
        yield one.kernel.now + 10 * MILLISECOND

    one.act = slow
    one.queue.add("a")
    one.plan(3, lambda: one.queue.add("a"))
    one.plan(4, lambda: one.queue.add("a"))
    one.plan(5, lambda: one.queue.add("b"))
    one.run(1)
    assert one.log == [(0, "a"), (5, "b"), (10, "a")]


def test_workers_are_busy_while_their_syncs_take_time() -> None:
    """Two workers, three keys, each 10 ms: the third waits for the first to end."""
    one = Controller(workers=2)

    def slow(key: str) -> Generator[int, None, None]:
        yield one.kernel.now + 4 * MILLISECOND
        yield one.kernel.now + 6 * MILLISECOND

    one.act = slow
    for key in "abc":
        one.queue.add(key)
    one.run(1)
    assert one.log == [(0, "a"), (0, "b"), (10, "c")]


def test_steps_that_need_no_time_go_on_at_once() -> None:
    """A moment that has come is no reason to wait for a timer."""
    one = Controller()
    seen: list[int] = []

    def quick(key: str) -> Generator[int, None, None]:
        yield one.kernel.now
        yield one.kernel.now - SECOND
        seen.append(one.kernel.now - START)

    one.act = quick
    one.queue.add("a")
    one.run(1)
    assert seen == [0]


def test_back_off_doubles_from_5_ms_and_a_success_ends_it() -> None:
    """5, 10, 20, 40 ms after the failure before; then the sync succeeds and the next failure waits 5 ms again."""
    one = Controller()
    one.act = lambda key: failing(key) if len(one.log) != 5 else None
    one.queue.add("a")
    one.run(0.1)
    assert one.moments() == [0, 5, 15, 35, 75]
    assert one.queue.requeues("a") == 0
    one.queue.add("a")
    one.run(0.107)
    assert one.moments()[5:] == [100, 105]
    assert one.queue.requeues("a") == 2


def test_back_off_ends_at_1000_seconds() -> None:
    """5 ms doubled 18 times are 1311 s: the 19th wait is 1000 s, and all that follow."""
    one = Controller()
    one.act = failing
    one.queue.add("a")
    one.run(10_000)
    waits = [later - sooner for sooner, later in zip(one.moments(), one.moments()[1:], strict=False)]
    assert waits[:18] == [5 * 2**n for n in range(18)]
    assert set(waits[18:]) == {1_000_000}


def test_fifteen_failures_in_a_row_are_enough_for_a_deployment() -> None:
    """The waits sum up to 5 ms x (2^15 - 1) = 163.8 s, the last is 81.92 s; then only an event brings a sync."""
    one = Controller(max_retries=15)
    one.act = failing
    one.queue.add("a")
    one.run(1_000)
    assert len(one.log) == 16
    assert one.moments()[-1] == 163_835
    assert one.moments()[-1] - one.moments()[-2] == 81_920
    one.queue.add("a")
    one.run(1_000.004)
    assert one.moments()[-1] == 1_000_000
    assert one.queue.requeues("a") == 1


def test_a_sync_that_fails_in_the_middle_is_retried_as_well() -> None:
    """The steps before the failure took 7 ms, the back-off starts at the failure."""
    one = Controller()

    def breaks(key: str) -> Generator[int, None, None]:
        yield one.kernel.now + 7 * MILLISECOND
        raise ApiError("no")

    one.act = lambda key: breaks(key) if len(one.log) == 1 else None
    one.queue.add("a")
    one.run(1)
    assert one.moments() == [0, 12]


def test_all_keys_share_100_tokens_and_10_a_second() -> None:
    """130 keys fail at once: 100 come back after 5 ms, the 101st after 100 ms, the 130th after 3 s."""
    one = Controller()
    one.act = lambda key: failing(key) if len(one.log) <= 130 else None
    for number in range(130):
        one.queue.add(f"k{number}")
    one.run(10)
    again = [moment for moment, _ in one.log[130:]]
    assert again[:100] == [5] * 100
    assert again[100:] == pytest.approx([100 * n for n in range(1, 31)], abs=0.001)


def test_of_several_delays_the_earliest_counts() -> None:
    """A later one neither moves the time nor makes a second sync."""
    one = Controller()
    one.queue.add_after("a", 30 * MILLISECOND)
    one.queue.add_after("a", 10 * MILLISECOND)
    one.queue.add_after("a", 20 * MILLISECOND)
    one.plan(15, lambda: one.queue.add_after("a", 30 * MILLISECOND))
    one.run(1)
    assert one.moments() == [10, 45]


def test_an_event_does_not_end_a_delay() -> None:
    """A key may be in the queue and wait for its time as well: both lead to a sync."""
    one = Controller()
    one.queue.add_after("a", 10 * MILLISECOND)
    one.plan(4, lambda: one.queue.add("a"))
    one.run(1)
    assert one.moments() == [4, 10]


def test_a_delay_of_nothing_is_no_delay() -> None:
    """As AddAfter of client-go: at once, in the order of additions."""
    one = Controller()
    one.queue.add_after("a", 0)
    one.queue.add_after("b", -5)
    one.queue.add("c")
    one.run(1)
    assert one.log == [(0, "a"), (0, "b"), (0, "c")]


def test_keys_by_name_take_turns() -> None:
    """For controllers whose keys are worked on at once by many."""
    one = Controller()
    one.queue.by_name = True
    for key in ("c", "a", "b"):
        one.queue.add(key)
    one.run(1)
    assert [key for _, key in one.log] == ["a", "b", "c"]


@pytest.mark.parametrize(("by_name", "expected"), [(False, ["b", "other", "a"]), (True, ["other", "a", "b"])])
def test_keys_that_take_turns_come_after_what_else_is_due(by_name: bool, expected: list[str]) -> None:
    """The real ones take turns only when everything else is idle; a queue of its own time goes by plan."""
    one = Controller()
    one.queue.by_name = by_name
    order: list[str] = []
    one.act = order.append
    one.queue.add_after("b", 7 * MILLISECOND)
    one.plan(7, lambda: order.append("other"))
    one.plan(7, lambda: one.queue.add("a"))
    one.run(1)
    assert order == expected


DELAYS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc"), st.integers(0, 15)), min_size=1, max_size=12)


@given(DELAYS)
def test_a_key_is_synced_at_the_earliest_time_that_is_open(plans: list[tuple[int, str, int]]) -> None:
    """Compared with a plain simulation: at each millisecond first the new wishes, then the keys that are due."""
    one = Controller()
    for moment, key, delay in sorted(plans):
        one.plan(moment, lambda key=key, delay=delay: one.queue.add_after(key, delay * MILLISECOND))  # type: ignore[misc]
    one.run(1)
    expected: set[tuple[float, str]] = set()
    open_: dict[str, int] = {}
    for now in range(40):
        for moment, key, delay in sorted(plans):
            if moment == now and delay == 0:
                expected.add((now, key))
            elif moment == now:
                open_[key] = min(open_.get(key, now + delay), now + delay)
        for key in [key for key, when in open_.items() if when <= now]:
            expected.add((now, key))
            del open_[key]
    assert set(one.log) == expected


def test_a_bucket_saves_up_to_its_burst() -> None:
    """2 a second, 3 saved: three at once, then every half second; after a long rest three again."""
    bucket = TokenBucket(2, 3)
    assert [bucket.reserve(0) for _ in range(5)] == [0, 0, 0, SECOND // 2, SECOND]
    # Five tokens were taken of three: after 10 s there would be 18, but only 3 are kept.
    assert [bucket.reserve(10 * SECOND) for _ in range(4)] == [0, 0, 0, SECOND // 2]


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60))
def test_no_window_sees_more_than_its_share(gaps: list[int]) -> None:
    """Between any two grants of a bucket of 20 a second and 5 there are at most 5 + 20 t others (1 µs of rounding)."""
    bucket = TokenBucket(20, 5)
    now, grants = 0, []
    for gap in gaps:
        now += gap * MILLISECOND
        grants.append(now + bucket.reserve(now))
    assert grants == sorted(grants)
    for i, start in enumerate(grants):
        for j in range(i + 5, len(grants)):
            assert grants[j] - start >= (j - i - 4) * SECOND // 20 - 1_000


REPEATS = {"a": 3, "b": 7, "c": 250}
"""Milliseconds after which a key comes back by itself."""


def repeated(
    events: list[tuple[int, str]], workers: int, *, skips: bool
) -> tuple[list[tuple[float, str]], list[float], int]:
    """Syncs of which only those of an event do something; returns these, the moments of the events, and all syncs."""
    one = Controller(workers=workers)
    eventful: set[str] = set()
    moments: list[float] = []
    effects: list[tuple[float, str]] = []

    def act(key: str) -> Generator[int, None, None] | None:
        if key in eventful:
            eventful.discard(key)
            return slow(key)
        come_back(key)
        return None

    def slow(key: str) -> Generator[int, None, None]:
        effects.append((one.milliseconds, key))
        yield one.kernel.now + 2 * MILLISECOND
        come_back(key)

    def come_back(key: str) -> None:
        if key == "c":
            one.queue.add_rate_limited(key)
        else:
            one.queue.add_after(key, REPEATS[key] * MILLISECOND)

    def needs_nothing(key: str) -> bool:
        if key in eventful:
            return False
        come_back(key)
        return True

    def begin() -> None:
        for key in REPEATS:
            one.queue.add(key)

    def happen(key: str) -> None:
        moments.append(one.milliseconds)
        eventful.add(key)
        one.queue.add(key)

    one.act = act
    if skips:
        one.queue.skips, one.queue.repeats = needs_nothing, lambda key: key == "c" and key not in eventful
    for milliseconds, key in events:
        one.plan(milliseconds, lambda key=key: happen(key))  # type: ignore[misc]
    one.kernel.soon(begin)
    one.run(1.5)
    return effects, moments, one.queue.syncs


@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from("abc")), max_size=12), st.integers(1, 3))
def test_skipping_syncs_without_effect_changes_nothing_else(events: list[tuple[int, str]], workers: int) -> None:
    """Neither when the others come, nor what they find, nor how many there are."""
    assert repeated(events, workers, skips=True) == repeated(events, workers, skips=False)


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_key_that_waits_takes_its_token_before_one_that_is_skipped(skips: bool, at_once: bool) -> None:
    """The bucket is empty at 0, so of two tokens at 50 ms the first comes at 100 and the second at 200 ms. "a" fails,
    and "z" only comes back: whether z was asked first must not matter.
    """
    one = Controller()

    def come_back(key: str) -> bool:
        one.queue.add_rate_limited(key)
        return True

    def act(key: str) -> None:
        if key == "a":
            failing(key)
        elif key == "z":
            come_back(key)

    def empty() -> None:
        for number in range(100):
            one.queue.add_rate_limited(f"filler {number}")

    def add_both() -> None:
        for key in ("a", "z"):
            if at_once:
                one.queue.add(key)
            else:
                one.queue.add_after(key, 25 * MILLISECOND)

    one.act = act
    if skips:
        one.queue.skips, one.queue.repeats = lambda key: key == "z" and come_back(key), lambda key: key == "z"
    one.plan(0, empty)
    one.plan(50 if at_once else 25, add_both)
    one.run(0.15)
    assert one.moments("a") == [50, pytest.approx(100)]


def rounds(due: int | None, *, skips: bool) -> Controller:
    """The key "z" comes back with every token; "a" fails, at `due` nanoseconds after the start if at all."""
    one = Controller()

    def come_back(key: str) -> bool:
        one.queue.add_rate_limited(key)
        return True

    def act(key: str) -> None:
        if key == "a":
            failing(key)
        elif key == "z":
            come_back(key)

    def begin() -> None:
        for number in range(100):
            one.queue.add_rate_limited(f"filler {number}")
        if due is not None:
            one.queue.add_after("a", due)
        one.queue.add("z")

    one.act = act
    if skips:
        one.queue.skips, one.queue.repeats = lambda key: key == "z" and come_back(key), lambda key: key == "z"
    one.plan(0, begin)
    one.run(1)
    return one


def test_a_key_that_comes_due_together_with_one_that_repeats_itself_takes_its_token_in_turn() -> None:
    """The key "z" has repeated itself for a while, then both are due at one nanosecond; "a" was planned first."""
    together = round(rounds(None, skips=False).moments("z")[4] * MILLISECOND)
    plain, quick = rounds(together, skips=False), rounds(together, skips=True)
    assert plain.moments("a") == quick.moments("a")
    assert len(quick.moments("a")) > 1
    assert quick.queue.syncs == plain.queue.syncs
    assert quick.moments("z") == [together / MILLISECOND], "only then is there somebody to wait for"
