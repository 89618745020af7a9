"""What a controller waits for after its own writes."""

from __future__ import annotations

import pytest

from autoscaling.cluster.small_world import START, World, make_pod
from stowplan_autoscaling.cluster.expectations import TIMEOUT, Expectations, StaleReadError, WriteRecord
from stowplan_autoscaling.kernel import SECOND


def test_nothing_expected_holds_nobody_up() -> None:
    """Observations for an owner that expects nothing are no debt for later."""
    one = Expectations()
    one.creation_observed("rs")
    one.deletion_observed("rs", "a")
    assert one.are_satisfied("rs", START)
    one.expect_creations("rs", 1, START)
    assert not one.are_satisfied("rs", START)


def test_each_creation_must_be_seen() -> None:
    """Two of two; a surplus does no harm."""
    one = Expectations()
    one.expect_creations("rs", 2, START)
    one.creation_observed("rs")
    assert not one.are_satisfied("rs", START)
    one.creation_observed("rs")
    assert one.are_satisfied("rs", START)
    one.creation_observed("rs")
    assert one.are_satisfied("rs", START)


def test_a_deletion_counts_once() -> None:
    """The update that marks a pod and the removal of it are one deletion; another pod's is none of ours."""
    one = Expectations()
    one.expect_deletions("rs", ["a", "b"], START)
    for pod in ("a", "a", "c"):
        one.deletion_observed("rs", pod)
    assert not one.are_satisfied("rs", START)
    one.deletion_observed("rs", "b")
    assert one.are_satisfied("rs", START)


def test_new_expectations_replace_old_ones() -> None:
    """As SetExpectations does: what was not seen before is forgotten."""
    one = Expectations()
    one.expect_creations("rs", 5, START)
    one.expect_deletions("rs", ["a"], START)
    one.deletion_observed("rs", "a")
    assert one.are_satisfied("rs", START)


def test_plain_numbers_count_every_event() -> None:
    """A DaemonSet expects so many of each; refused requests lower the numbers."""
    one = Expectations()
    one.expect("ds", 2, 1, START)
    one.lower("ds", 2, 0)
    assert not one.are_satisfied("ds", START)
    one.lower("ds", 0, 1)
    assert one.are_satisfied("ds", START)


def test_after_five_minutes_an_expectation_holds_nobody_up() -> None:
    """Strictly more than five minutes."""
    one = Expectations()
    one.expect_creations("rs", 1, START)
    assert TIMEOUT == 300 * SECOND
    assert not one.are_satisfied("rs", START + TIMEOUT)
    assert one.are_satisfied("rs", START + TIMEOUT + 1)


def test_an_owner_that_is_gone_expects_nothing() -> None:
    """Another one of its name starts afresh."""
    one = Expectations()
    one.expect_creations("rs", 1, START)
    one.forget("rs")
    assert one.are_satisfied("rs", START)


def test_own_writes_must_be_seen_before_acting_again() -> None:
    """Kind by kind: a newer version of another kind is no excuse; once seen, the record is forgotten."""
    world = World(latency=10_000_000)
    world.start()
    record = WriteRecord(world.informers)
    record.check("rs")
    pod = world.server.create("Pod", make_pod("a"))
    record.wrote("rs", "Pod", pod.version)
    record.wrote("rs", "Pod", pod.version - 1)
    with pytest.raises(StaleReadError, match=f"Pod: version {pod.version} was written, 0 is seen"):
        record.check("rs")
    record.check("another")
    world.run(0.1)
    record.check("rs")
    record.wrote("rs", "Pod", 10**6)
    record.clear("rs")
    record.check("rs")
