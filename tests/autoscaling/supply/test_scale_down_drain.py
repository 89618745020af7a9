"""How the Cluster Autoscaler empties a node: side by side, refusals tried again, and limits for both waits."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from autoscaling.cluster.small_world import START, World
from autoscaling.cluster.test_eviction import add_budget, guard
from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.decisions import DeleteNode
from stowplan_autoscaling.supply.loops.scale_down_drain import ScaleDownDrain
from stowplan_scheduler.framework.pod_info import PodInterner


class Draining:
    """A node with pods web-0 ... and db-0 ... that are gone 2 s after they were told to go, as long as they `end`.

    A budget covers web. `told`: the pods that were told to go, and when; `done`: when it ended and why it failed.
    """

    def __init__(self, *, web: int = 0, db: int = 0, end: bool = True) -> None:
        self.world = World()
        self.world.pods(web, ready=web)
        self.world.pods(db, ready=db, prefix="db")
        add_budget(self.world, disruptions_allowed=0, current_healthy=web, desired_healthy=web)
        self.told: list[tuple[str, float]] = []
        self.done: list[tuple[float, str]] = []
        self._end = end
        self.world.server.observers.append(self._observe)

    def run(self, seconds: float, *, delay: int = 0, max_grace: int = 600, objection: str = "") -> None:
        """Begin to delete the node, and let time pass."""
        interner = PodInterner()
        pods = tuple(interner.info(pod) for pod in self.world.server.all("Pod").values())
        drain = ScaleDownDrain(
            self.world.kernel,
            self.world.server,
            DeleteNode("n1", "general", True, pods, (), delay, 2 * MINUTE, max_grace),
            objection=lambda: objection,
            on_done=lambda ended: self.done.append((self.world.kernel.elapsed, ended.failure)),
        )
        drain.start()
        self.world.run(seconds)

    def allow(self, seconds: float) -> None:
        """The budget allows one pod to go from then on."""

        def change() -> None:
            budget = guard(self.world)
            status = replace(budget.status, disruptions_allowed=1)
            self.world.server.update_status("PodDisruptionBudget", replace(budget, status=status))

        self.world.kernel.at(START + round(seconds * SECOND), change)

    def _observe(self, kind: str, old: Any, new: Any) -> None:
        if kind == "Pod" and new is not None and old is not None and old.deleted is None and new.deleted is not None:
            self.told.append((new.metadata.name, self.world.kernel.elapsed))
            if self._end:
                gone = self.world.kernel.now + 2 * SECOND
                self.world.kernel.at(gone, partial(self._remove, new.key))

    def _remove(self, key: str) -> None:
        self.world.server.remove("Pod", key)


def test_a_refused_eviction_is_tried_again_every_ten_seconds() -> None:
    """The budget gives way after 25 s: evicted at 30 s, gone at 32 s, and seen to be gone 5 s after the eviction."""
    node = Draining(web=1)
    node.allow(25)
    node.run(200)
    assert node.told == [("web-0", 30)]
    assert node.done == [(35, "")]


def test_a_budget_that_refuses_for_good_ends_the_drain_after_two_minutes() -> None:
    """The pod stays."""
    node = Draining(web=1)
    node.run(119)
    assert node.done == []
    node.world.run(300)
    assert node.told == []
    assert node.done == [(120, "default/web-0 could not be evicted in 120 s")]


def test_pods_are_evicted_side_by_side() -> None:
    """One that is refused holds up no other, and nobody is evicted twice."""
    node = Draining(web=1, db=2)
    node.allow(15)
    node.run(200)
    assert node.told == [("db-0", 0), ("db-1", 0), ("web-0", 20)]
    assert node.done == [(25, "")]


def test_pods_that_do_not_end_are_waited_for_as_long_as_they_may_take() -> None:
    """10 s of grace and 30 s on top, counted from the last eviction."""
    node = Draining(web=1, end=False)
    node.allow(5)
    node.run(200, max_grace=10)
    assert node.told == [("web-0", 10)]
    assert node.world.pod("web-0").metadata.deletion_grace_period_seconds == 10
    assert node.done == [(50, "default/web-0 has not ended in time")]


def test_nothing_is_evicted_before_the_delay() -> None:
    """Five seconds; the limit of two minutes begins after them."""
    node = Draining(web=1, db=1)
    node.run(300, delay=5 * SECOND)
    assert node.told == [("db-0", 5)]
    assert node.done == [(125, "default/web-0 could not be evicted in 120 s")]


def test_a_node_that_may_not_go_after_all_keeps_its_pods() -> None:
    """It is asked after the delay."""
    node = Draining(db=1)
    node.run(60, delay=5 * SECOND, objection="a pod came")
    assert (node.told, node.done) == ([], [(5, "a pod came")])
