"""Who leads: electors against a Lease in virtual time; messages are slow, lost or late, and clocks disagree."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_operator.api.call import Reply, reply_of
from stowplan_operator.api.election import (
    SECOND,
    ElectionSettings,
    Elector,
    LeaseCreate,
    LeaseRead,
    LeaseRequest,
    LeaseUpdate,
)

WALL = 1_700_000_000 * SECOND


class LeaseServer:
    """The one Lease, with the answers that the real API server gives (tests/integration/test_api_election.py)."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self._versions = count(1)

    def carry_out(self, request: LeaseRequest) -> Reply:
        if isinstance(request, LeaseRead):
            return refusal(404, "NotFound") if self.lease is None else self._answer(200)
        if isinstance(request, LeaseCreate):
            if self.lease is not None:
                return refusal(409, "AlreadyExists")
            return self._store(request.body, 201)
        if self.lease is None:
            return refusal(404, "NotFound")
        if request.body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict")
        return self._store(request.body, 200)

    def _store(self, body: dict[str, Any], status: int) -> Reply:
        self.lease = json.loads(json.dumps(body))
        self.lease["metadata"]["resourceVersion"] = str(next(self._versions))
        return self._answer(status)

    def _answer(self, status: int) -> Reply:
        return Reply(status=status, body=json.dumps(self.lease).encode())

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


def refusal(status: int, reason: str) -> Reply:
    return reply_of(status, json.dumps({"reason": reason, "message": reason, "code": status}).encode())


NO_ANSWER = Reply(status=0, message="lost")


def settings(identity: str, **changes: Any) -> ElectionSettings:
    return ElectionSettings(namespace="ns", name="lease", identity=identity, **changes)


def elector(identity: str, seed: int = 0, **changes: Any) -> Elector:
    return Elector(settings(identity, **changes), Random(seed))


def run(contender: Elector, server: LeaseServer, now: int, steps: int = 4) -> int:
    """Let it do what it wants to do now, at once; returns how many requests that were."""
    for done in range(steps):
        request = contender.step(now, WALL)
        if request is None:
            return done
        contender.answered(server.carry_out(request), now)
    return steps


# ---- one contender -------------------------------------------------------------------------------


def test_the_first_contender_creates_the_lease_and_leads_at_once() -> None:
    """A look, a creation; six digits in the times; the fence is the renew deadline."""
    server, first = LeaseServer(), elector("a")
    assert not first.leading(0)
    assert run(first, server, 0) == 2
    assert server.spec == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2023-11-14T22:13:20.000000Z",
        "renewTime": "2023-11-14T22:13:20.000000Z",
        "leaseTransitions": 0,
    }
    assert (first.epoch, first.version, first.holder) == (0, "1", "a")
    assert first.leading(10 * SECOND - 1)
    assert not first.leading(10 * SECOND)


def test_it_renews_every_two_seconds_or_up_to_a_fifth_later() -> None:
    """One write each time, and who acquired it when stays."""
    server, holder = LeaseServer(), elector("a", seed=3)
    run(holder, server, 0)
    acquired = server.spec["acquireTime"]
    times, now = [], 0
    for _ in range(50):
        wake_at = holder.wake_at()
        assert wake_at is not None
        times.append(wake_at - now)
        now = wake_at
        request = holder.step(now, WALL + now)
        assert isinstance(request, LeaseUpdate)
        holder.answered(server.carry_out(request), now)
    assert 2 * SECOND <= min(times) < 2.1 * SECOND < 2.3 * SECOND < max(times) <= 2.4 * SECOND
    assert (server.spec["acquireTime"], server.spec["leaseTransitions"]) == (acquired, 0)
    assert server.spec["renewTime"] > acquired
    assert holder.valid_until == now + 10 * SECOND


def test_the_fence_counts_from_before_the_request() -> None:
    """An answer that took three seconds leaves seven."""
    server, holder = LeaseServer(), elector("a")
    holder.answered(server.carry_out(_asked(holder, 0)), 0)
    request = _asked(holder, SECOND)
    assert holder.step(2 * SECOND, WALL) is None
    assert holder.wake_at() is None
    holder.answered(server.carry_out(request), 4 * SECOND)
    assert holder.valid_until == 11 * SECOND


def _asked(contender: Elector, now: int) -> LeaseRequest:
    request = contender.step(now, WALL)
    assert request is not None
    return request


def test_without_an_answer_the_old_fence_stays_and_the_lease_is_read_first() -> None:
    """Whether or not the write came through: after the look the next one is based on what is there."""
    for came_through in (True, False):
        server, holder = LeaseServer(), elector("a")
        run(holder, server, 0)
        request = _asked(holder, 3 * SECOND)
        assert isinstance(request, LeaseUpdate)
        if came_through:
            server.carry_out(request)
        holder.answered(NO_ANSWER, 8 * SECOND)
        assert holder.valid_until == 10 * SECOND
        assert isinstance(_ask_and_answer(holder, server, 8 * SECOND), LeaseRead)
        assert holder.valid_until == 10 * SECOND
        assert isinstance(_ask_and_answer(holder, server, 8 * SECOND), LeaseUpdate)
        assert (holder.valid_until, holder.epoch) == (18 * SECOND, 0)


def _ask_and_answer(contender: Elector, server: LeaseServer, now: int) -> LeaseRequest:
    request = _asked(contender, now)
    contender.answered(server.carry_out(request), now)
    return request


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b"null", b'{"metadata":[]}'])
def test_a_success_that_shows_no_lease_is_no_answer(body: bytes) -> None:
    """It may be a proxy's; nothing is believed and nothing breaks."""
    server, holder = LeaseServer(), elector("a")
    run(holder, server, 0)
    _asked(holder, 3 * SECOND)
    holder.answered(Reply(status=200, body=body), 3 * SECOND)
    assert holder.valid_until == 10 * SECOND
    assert isinstance(_asked(holder, 6 * SECOND), LeaseRead)
    holder.answered(Reply(status=200, body=body), 6 * SECOND)
    assert isinstance(_asked(holder, 9 * SECOND), LeaseRead)


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_a_server_in_trouble_costs_nothing_before_the_deadline(status: int) -> None:
    server, holder = LeaseServer(), elector("a")
    run(holder, server, 0)
    _asked(holder, 3 * SECOND)
    holder.answered(refusal(status, "Trouble"), 3 * SECOND)
    assert holder.leading(9 * SECOND)
    assert not holder.leading(10 * SECOND)


def test_a_lease_that_somebody_else_has_changed_ends_leading_at_once() -> None:
    """409; then it is looked at, and if it is still ours, renewed."""
    server, holder = LeaseServer(), elector("a")
    run(holder, server, 0)
    assert server.lease is not None
    server.lease["metadata"]["resourceVersion"] = "touched"
    assert isinstance(_ask_and_answer(holder, server, 3 * SECOND), LeaseUpdate)
    assert not holder.leading(3 * SECOND)
    assert run(holder, server, 3 * SECOND) == 2
    assert holder.leading(3 * SECOND)
    server.lease["spec"]["holderIdentity"] = "forced"
    server.lease["metadata"]["resourceVersion"] = "forced"
    run(holder, server, 6 * SECOND)
    assert not holder.leading(6 * SECOND)
    assert holder.holder == "forced"


def test_a_look_that_shows_another_holder_ends_leading_at_once() -> None:
    """An administrator may have written a name into the lease while an answer was lost."""
    server, holder = LeaseServer(), elector("a")
    run(holder, server, 0)
    _asked(holder, 3 * SECOND)
    holder.answered(NO_ANSWER, 3 * SECOND)
    assert server.lease is not None
    server.lease["spec"]["holderIdentity"] = "forced"
    assert isinstance(_ask_and_answer(holder, server, 6 * SECOND), LeaseRead)
    assert not holder.leading(6 * SECOND)


# ---- several -------------------------------------------------------------------------------------


def test_a_lease_is_taken_when_its_holder_has_been_silent_for_its_duration() -> None:
    """Counted from when its last version was seen; the epoch grows."""
    server, first, second = LeaseServer(), elector("a"), elector("b", seed=1)
    run(first, server, 0)
    run(second, server, SECOND)  # sees it for the first time
    now = SECOND
    while not second.leading(now):
        assert now < 30 * SECOND
        now += SECOND // 10
        run(second, server, now)
    assert 16 * SECOND <= now <= 16 * SECOND + 2.5 * SECOND
    assert (second.epoch, server.spec["holderIdentity"], server.spec["leaseTransitions"]) == (1, "b", 1)
    assert not first.leading(10 * SECOND)
    for later in (now, now + 3 * SECOND):
        run(first, server, later)
        assert not first.leading(later)
    assert first.holder == "b"


def test_after_a_release_the_next_leads_at_its_next_attempt() -> None:
    """What is written: no holder, one second."""
    server, first, second = LeaseServer(), elector("a"), elector("b", seed=1)
    run(first, server, 0)
    run(second, server, 0)
    first.release()
    assert not first.leading(SECOND)
    run(first, server, SECOND)
    assert first.is_released
    assert (server.spec["holderIdentity"], server.spec["leaseDurationSeconds"]) == ("", 1)
    assert first.step(2 * SECOND, WALL) is None
    run(second, server, 2 * SECOND + SECOND // 2)
    assert second.leading(3 * SECOND)
    assert second.epoch == 1


def test_a_release_while_an_answer_is_awaited_waits_for_it_and_repeats_what_fails() -> None:
    """A renewal under way does not make us lead again, and a conflict is no reason to keep the lease."""
    server, holder = LeaseServer(), elector("a")
    run(holder, server, 0)
    request = _asked(holder, 3 * SECOND)
    holder.release()
    assert holder.step(3 * SECOND, WALL) is None
    holder.answered(server.carry_out(request), 3 * SECOND)
    assert not holder.leading(3 * SECOND)
    giving_up = _asked(holder, 3 * SECOND)
    holder.answered(NO_ANSWER, 4 * SECOND)
    assert server.spec["holderIdentity"] == "a"
    assert isinstance(giving_up, LeaseUpdate)
    run(holder, server, 6 * SECOND)
    assert (holder.is_released, server.spec["holderIdentity"]) == (True, "")


def test_a_release_gives_up_what_was_won_without_an_answer() -> None:
    """It never led, for all it knew; others need not wait for the lease to run out."""
    server, unlucky = LeaseServer(), elector("a")
    assert isinstance(_ask_and_answer(unlucky, server, 0), LeaseRead)
    server.carry_out(_asked(unlucky, 0))
    unlucky.answered(NO_ANSWER, SECOND)
    assert server.spec["holderIdentity"] == "a"
    unlucky.release()
    run(unlucky, server, SECOND)
    assert (unlucky.is_released, unlucky.epoch, server.spec["holderIdentity"]) == (True, -1, "")


def test_who_never_led_has_nothing_to_release() -> None:
    """Nor does a lease of another get lost, if a take-over was under way that failed."""
    waiting = elector("b")
    waiting.release()
    assert waiting.is_released
    server, first, second = LeaseServer(), elector("a"), elector("b", seed=1)
    request = _asked(second, 0)
    run(first, server, 0)
    second.release()
    second.answered(server.carry_out(request), 0)
    run(second, server, 0)
    assert (second.is_released, server.spec["holderIdentity"]) == (True, "a")


def test_a_deleted_lease_is_not_made_anew_while_its_holder_may_believe_in_it() -> None:
    """Who saw it waits for its duration; its epoch goes on from there. Its holder stops at the next renewal."""
    server, first, second = LeaseServer(), elector("a"), elector("b", seed=1)
    run(first, server, 0)
    run(second, server, 0)
    server.lease = None
    now = 0
    while not second.leading(now):
        now += SECOND // 2
        run(second, server, now)
        assert now < 30 * SECOND
    assert now >= 15 * SECOND
    assert server.spec["leaseTransitions"] == second.epoch == 1
    run(first, server, now)
    assert not first.leading(now)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lease_duration_seconds": 10}, "leaseDurationSeconds 10: must be greater than renewDeadlineSeconds"),
        ({"renew_deadline_seconds": 2.4}, r"renewDeadlineSeconds 2.4: must be greater than 1.2 times"),
        ({"lease_duration_seconds": 15.5}, "must be a whole number"),
        ({"retry_period_seconds": 0}, "retryPeriodSeconds 0: must be greater than 0"),
        ({"identity": ""}, "must not be empty"),
    ],
)
def test_durations_that_could_not_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ElectionSettings(**{"namespace": "ns", "name": "lease", "identity": "a", **changes})


# ---- any contenders, any network -----------------------------------------------------------------


class Contender:
    """An elector with a clock of its own: `offset` off, and `rate` times as fast as the true time."""

    def __init__(self, elector: Elector, offset: int, rate: float) -> None:
        self.elector = elector
        self._offset = offset
        self._rate = rate
        self.is_dead = False

    def clock(self, now: int) -> int:
        return self._offset + int(now * self._rate)

    def true_time(self, clock: int) -> int:
        """The first true time at which the clock shows that, or later."""
        found = int((clock - self._offset) / self._rate) - 2
        while self.clock(found) < clock:
            found += 1
        return found


class World:
    """Contenders, the server and the messages between them, in virtual time. `fate` draws delays and losses."""

    def __init__(self, contenders: list[Contender], fate: Random, loss: float) -> None:
        self.server = LeaseServer()
        self.contenders = contenders
        self._fate = fate
        self._loss = loss
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = count()
        self.now = 0
        self.terms: list[tuple[int, str]] = []
        """When who was seen to begin leading."""
        self._leader = ""
        for contender in contenders:
            self.at(fate.randrange(3 * SECOND), self._turn(contender))

    def at(self, time: int, what: Callable[[int], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), what))

    def run(self, until: int) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            # What is believed changes only with events; a fence may end in between, but none begins.
            what(self.now)
            self.check()

    def check(self) -> None:
        leaders = [
            each.elector.settings.identity
            for each in self.contenders
            if not each.is_dead and each.elector.leading(each.clock(self.now))
        ]
        assert len(leaders) <= 1, f"{leaders} lead at {self.now / SECOND} s"
        leader = "".join(leaders)
        if leader and leader != self._leader:
            self.terms.append((self.now, leader))
        self._leader = leader

    def _turn(self, contender: Contender) -> Callable[[int], None]:
        def turn(now: int) -> None:
            if contender.is_dead:
                return
            request = contender.elector.step(contender.clock(now), WALL)
            if request is not None:
                self._send(contender, request, now)
                return
            wake_at = contender.elector.wake_at()
            if wake_at is not None:
                self.at(max(contender.true_time(wake_at), now + 1), turn)

        return turn

    def _send(self, contender: Contender, request: LeaseRequest, now: int) -> None:
        """It arrives, early, late or never; so does the answer, unless the client stopped waiting for it."""
        patience = now + 5 * SECOND
        arrives = now + self._delay()
        answered = False

        def answer(reply: Reply) -> Callable[[int], None]:
            def take(now: int) -> None:
                nonlocal answered
                if not answered and not contender.is_dead:
                    answered = True
                    contender.elector.answered(reply, contender.clock(now))
                    self._turn(contender)(now)

            return take

        def arrive(now: int) -> None:
            if self._fate.random() < self._loss / 4:
                reply = refusal(self._fate.choice([403, 429, 500, 504]), "Trouble")
            else:
                reply = self.server.carry_out(request)
            if self._fate.random() >= self._loss:
                self.at(now + self._delay(), answer(reply))

        if self._fate.random() >= self._loss:
            self.at(arrives, arrive)
        self.at(patience, answer(NO_ANSWER))

    def _delay(self) -> int:
        """Mostly milliseconds; now and then much longer than anybody waits."""
        if self._fate.random() < self._loss:
            return self._fate.randrange(40 * SECOND)
        return self._fate.randrange(1, SECOND // 20)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    fate = Random(draw(st.integers(0, 2**32)))
    contenders = [
        Contender(
            elector(name, seed=draw(st.integers(0, 99))),
            offset=draw(st.integers(0, 10**6)) * SECOND,
            rate=draw(st.floats(0.9, 1.1)),
        )
        for name in "abc"[: draw(st.integers(2, 3))]
    ]
    return World(contenders, fate, loss=draw(st.sampled_from([0.0, 0.1, 0.3, 0.6])))


def _faults(world: World, fate: Random) -> Iterator[tuple[int, Callable[[int], None]]]:
    """A crash, a release and a hand that changes the lease, at any time."""
    victim, leaving = fate.sample(world.contenders, 2)

    def crash(now: int) -> None:
        victim.is_dead = len(world.contenders) > 2

    def release(now: int) -> None:
        leaving.elector.release()
        world._turn(leaving)(now)

    def touch(now: int) -> None:
        if world.server.lease is not None:
            world.server.lease["metadata"]["resourceVersion"] += "0"

    for what in (crash, release, touch):
        if fate.random() < 0.5:
            yield fate.randrange(200 * SECOND), what


@given(worlds(), st.integers(0, 2**32))
def test_at_no_moment_two_believe_that_they_lead(world: World, seed: int) -> None:
    """Whatever is lost, late or refused, however clocks disagree, through crash and release."""
    for time, what in _faults(world, Random(seed)):
        world.at(time, what)
    world.run(300 * SECOND)


@given(worlds())
def test_when_the_network_heals_somebody_leads_within_the_lease_duration(world: World) -> None:
    """And goes on leading."""
    world.run(100 * SECOND)
    world._loss = 0.0
    # Old messages take up to 40 s to arrive, each can spoil one attempt; then a duration and a retry are enough.
    world.run(100 * SECOND + 80 * SECOND + 20 * SECOND)
    terms = len(world.terms)
    assert world._leader
    world.run(400 * SECOND)
    assert len(world.terms) == terms
    assert world._leader == world.server.spec["holderIdentity"]


def test_every_change_of_the_leader_is_a_new_epoch() -> None:
    """Epochs order the terms: a later one has the greater epoch."""
    contenders = [Contender(elector(name, seed=ord(name)), 0, 1.0) for name in "abc"]
    world = World(contenders, Random(5), loss=0.0)
    epochs = []
    for end in (60, 120, 180):
        world.run(end * SECOND)
        leader = next(each for each in contenders if each.elector.leading(each.clock(world.now)))
        epochs.append(leader.elector.epoch)
        leader.is_dead = True
    assert epochs == [0, 1, 2]
