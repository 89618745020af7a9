"""Disruption budgets and the eviction subresource, in a real cluster and in ours."""

from __future__ import annotations

from typing import Any

import pytest

from integration.manifests import budget, deployment, replica_set
from integration.side_by_side import Both, budgets, workloads
from integration.sides import Side

pytestmark = pytest.mark.rig

TABLE: list[tuple[dict[str, Any], int, int, int, int]] = [
    ({"maxUnavailable": "25%"}, 10, 10, 7, 3),
    ({"maxUnavailable": "30%"}, 3, 3, 2, 1),
    ({"minAvailable": "50%"}, 5, 5, 3, 2),
    ({"minAvailable": 1}, 1, 1, 1, 0),
    ({"maxUnavailable": 0}, 4, 4, 4, 0),
    ({"maxUnavailable": 1}, 10, 7, 9, 0),
    ({"maxUnavailable": "100%"}, 2, 1, 0, 1),
    ({"minAvailable": 3}, 2, 2, 3, 0),
    ({}, 2, 2, 0, 0),
]
"""spec, scale, ready; desired, allowed."""


def test_budgets_allow_the_same(both: Both) -> None:
    """The table of what follows from scale and ready pods, each row a ReplicaSet of its own under its own budget."""
    for row, (spec, scale, _, _, _) in enumerate(TABLE):
        both.create(replica_set(f"s{row}", scale))
        both.create(budget(f"b{row}", {"set": f"s{row}"}, **spec))
    total = sum(row[1] for row in TABLE)
    both.each(lambda side: side.wait(lambda: len(side.list("Pod")) == total, 20))
    for side in both.sides:
        for row, (_, _, ready, _, _) in enumerate(TABLE):
            for name in pods_of(side, f"s{row}")[:ready]:
                side.report(name)
    found = both.settled(budgets, "the reports of readiness")
    for row, (_, _, ready, desired, allowed) in enumerate(TABLE):
        status = found[f"b{row}"]
        numbers = (status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"])
        assert numbers == (ready, desired, allowed), f"row {row}"


def pods_of(side: Side, name: str) -> list[str]:
    return [each["metadata"]["name"] for each in side.list("Pod") if each["metadata"]["labels"].get("set") == name]


def web(both: Both, replicas: int, ready: int) -> None:
    """The ReplicaSet web with so many pods, the first of them Ready."""
    both.create(replica_set("web", replicas))
    both.each(lambda side: side.wait(lambda: len(side.list("Pod")) == replicas, 10))
    both.report(*range(ready))


def test_evictions_are_allowed_charged_and_refused_alike(both: Both) -> None:
    """Two may go, the third is refused with 429 and the cause; one that has come back Ready makes room for another."""
    web(both, 5, 5)
    both.create(budget(maxUnavailable=2))
    both.settled(budgets, "five ready pods")
    assert both.evict(0, dryRun=["All"]).code == 200
    assert both.settled(budgets, "a dry run")["guard"]["disruptionsAllowed"] == 2
    # Before the controller has counted anew the first charge alone has made it less.
    assert both.evict(0).code == 200
    both.settled(budgets, "one eviction")
    assert both.evict(1).code == 200
    both.settled(budgets, "two evictions")
    refused = both.evict(2)
    assert (refused.code, refused.retry_after) == (429, 0)
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused.causes == ("The disruption budget guard needs 3 healthy pods and has 3 currently",)
    both.report(5)
    assert both.settled(budgets, "a replacement")["guard"]["disruptionsAllowed"] == 1
    assert both.evict(2).code == 200
    assert both.settled(workloads, "three evictions")["Pod"] == [{"count": 5}]


def test_pods_that_are_not_ready_are_evicted_by_the_same_policy(both: Both) -> None:
    """By default only while the budget's desired number is there; with AlwaysAllow at any time; Pending ones anyway."""
    web(both, 4, 3)
    both.create(budget(maxUnavailable=1))
    both.report(3, ready=False)
    both.settled(budgets, "three of four ready")
    assert both.evict(0).code == 429
    assert both.evict(3).code == 200  # the desired three are there without it
    both.settled(budgets, "an eviction that costs nothing")
    both.report(2, ready=False)
    both.settled(budgets, "two of four ready")
    assert both.evict(2).code == 429
    assert both.evict(4).code == 200  # the replacement is Pending
    both.settled(budgets, "an eviction of a pending pod")
    both.each(lambda side: side.change("PodDisruptionBudget", "guard", {"unhealthyPodEvictionPolicy": "AlwaysAllow"}))
    both.settled(budgets, "another policy")
    assert both.evict(2).code == 200
    both.report(0, phase="Failed", ready=False)
    both.settled(budgets, "a failed pod")


def test_two_budgets_over_a_pod_and_none_at_all_answer_alike(both: Both) -> None:
    """Two are an error of the server; a pod that no budget selects goes."""
    web(both, 2, 2)
    both.create(budget("first", maxUnavailable=1))
    both.create(budget("second", maxUnavailable=1))
    answer = both.evict(0)
    assert answer.code == 500
    assert "more than one PodDisruptionBudget" in answer.message
    for name in ("first", "second"):
        both.each(lambda side, name=name: side.delete("PodDisruptionBudget", name))  # type: ignore[misc]
    assert both.evict(0).code == 200


def test_an_eviction_on_a_node_leaves_the_pod_in_termination_alike(both: Both) -> None:
    """Nobody ends the pod there: it counts as not healthy, is replaced, and can be evicted again without a charge."""
    web(both, 3, 3)
    both.each(lambda side: side.bind(both.pod(side, 0)))
    both.report(0)
    both.create(budget(maxUnavailable=1))
    both.settled(budgets, "three ready pods")
    assert both.evict(0, gracePeriodSeconds=600).code == 200
    found = both.settled(budgets, "an eviction")["guard"]
    assert (found["currentHealthy"], found["disruptionsAllowed"], found["disruptedPods"]) == (2, 0, 0)
    assert both.evict(0).code == 200
    assert both.evict(1).code == 429
    assert both.settled(workloads, "an eviction")["Pod"] == [{"count": 4}]


def test_a_rollout_is_seen_by_a_budget_alike(both: Both) -> None:
    """The scale stays that of the Deployment while ready pods of both its ReplicaSets count."""
    both.create(deployment(4))
    both.create(budget(maxUnavailable=1))
    both.each(lambda side: side.wait(lambda: len(side.list("Pod")) == 4, 10))
    both.report(0, 1, 2, 3)
    assert both.settled(budgets, "four ready pods")["guard"]["disruptionsAllowed"] == 1
    both.settled(workloads, "four ready pods")
    new = {"template": {"spec": {"containers": [{"name": "main", "image": "web:2"}]}}}
    both.each(lambda side: side.change("Deployment", "web", new))
    rolling = both.settled(workloads, "a new template")
    assert rolling["Pod"] == [{"count": 5}]
    found = both.settled(budgets, "a new template")["guard"]
    assert (found["expectedPods"], found["desiredHealthy"], found["currentHealthy"]) == (4, 3, 3)


def test_pods_without_a_controller_are_counted_alike(both: Both) -> None:
    """A number of healthy pods can be kept of bare pods too; a share of them cannot be known."""
    names = ("p0", "p1", "p2")
    for name in names:
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}}
        both.create({**manifest, "spec": {"containers": [{"name": "main", "image": "web:1"}]}})
    both.report(0, 1, 2)
    both.create(budget("number", minAvailable=2))
    found = both.settled(budgets, "three bare pods")["number"]
    assert (found["expectedPods"], found["disruptionsAllowed"]) == (3, 1)
    assert both.evict(0).code == 200
    both.settled(budgets, "an eviction")
    assert both.evict(1).code == 429
    both.each(lambda side: side.delete("PodDisruptionBudget", "number"))
    both.create(budget("share", minAvailable="50%"))
    assert both.settled(budgets, "a share of bare pods")["share"]["expectedPods"] == 0
    assert both.evict(1).code == 429
