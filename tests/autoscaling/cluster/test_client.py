"""Requests behind a rate limit, and creations in growing batches."""

from __future__ import annotations

import pytest

from autoscaling.cluster.small_world import World, make_pod
from stowplan_autoscaling.cluster.client import Client, SlowStart
from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.work_queue import Steps, TokenBucket, WorkQueue


class Creator:
    """Makes pods in batches; the numbers in `refused` fail."""

    def __init__(self, count: int, *, refused: set[int] = frozenset(), limited: bool = False) -> None:  # type: ignore[assignment]
        self.world = World()
        self.client = self.world.client(limited=limited)
        self.asked: list[float] = []
        self.refused = refused
        self.batches = SlowStart(self.client, count, self._create)
        WorkQueue(self.world.kernel, lambda _: self._run()).add("a")
        self.world.run(100)

    def _run(self) -> Steps:
        yield from self.batches.run()

    def _create(self) -> None:
        number = len(self.asked)
        self.asked.append(self.world.kernel.elapsed)
        if number in self.refused:
            raise ForbiddenError(f"pod {number} exceeds the quota")
        self.client.server.create("Pod", make_pod(f"p{number}"))


@pytest.mark.parametrize(("count", "seconds"), [(30, 0.0), (31, 0.05), (100, 3.5), (500, 23.5), (1000, 48.5)])
def test_creations_beyond_30_drain_at_20_a_second(count: int, seconds: float) -> None:
    """The last of n pods is made (n - 30) / 20 s after the first: the figures of kube-controller-manager's client."""
    made = Creator(count, limited=True)
    assert (len(made.asked), made.batches.done) == (count, count)
    assert made.asked[-1] - made.asked[0] == pytest.approx(seconds, abs=1e-5)


def test_a_client_without_limit_takes_no_time() -> None:
    """For comparisons with controllers whose client is not limited either."""
    made = Creator(500)
    assert made.asked == [0.0] * 500


@pytest.mark.parametrize(
    ("refused", "asked", "done"),
    [
        (set(), 10, 10),  # 1, 2, 4, 3
        ({0}, 1, 0),
        ({1}, 3, 2),
        ({4}, 7, 6),
        ({3, 4, 5, 6}, 7, 3),
        ({9}, 10, 9),
    ],
)
def test_the_first_batch_with_a_failure_is_the_last(refused: set[int], asked: int, done: int) -> None:
    """Batches of 1, 2, 4, then the 3 that are left of 10; the rest of a failing batch is still sent."""
    made = Creator(10, refused=refused)
    assert (len(made.asked), made.batches.done) == (asked, done)
    first = str(made.batches.failure) if made.batches.failure is not None else ""
    assert first == (f"pod {min(refused)} exceeds the quota" if refused else "")


def test_batches_of_500_are_1_2_4_and_so_on_up_to_245() -> None:
    """A failure at the first of each batch shows where batches begin: 1, 2, 4, ..., 128 sum up to 255."""
    starts = [0, 1, 3, 7, 15, 31, 63, 127, 255]
    ends = [Creator(500, refused={start}).asked for start in starts]
    assert [len(asked) for asked in ends] == [1, 3, 7, 15, 31, 63, 127, 255, 500]


def test_nothing_to_make_asks_for_nothing() -> None:
    """A batch of no pods takes no token."""
    made = Creator(0)
    assert (made.asked, made.batches.done, made.batches.failure) == ([], 0, None)


def test_events_are_told_with_kind_key_and_type() -> None:
    """A cluster-scoped object's key is its name."""
    world = World()
    told: list[tuple[str, ...]] = []
    client = Client(world.kernel, world.server, limit=TokenBucket(1, 1), record=lambda *event: told.append(event))
    client.event("Pod", make_pod("a"), "Pulled", "done")
    client.event("Node", make_pod("n", namespace=""), "Gone", "lost", warning=True)
    assert told == [("Pod", "default/a", "Normal", "Pulled", "done"), ("Node", "n", "Warning", "Gone", "lost")]
