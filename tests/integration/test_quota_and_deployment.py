"""A quota that leaves room for 3 of a Deployment's 10 pods, in a real cluster and in ours."""

from __future__ import annotations

import re

import pytest

from integration.manifests import deployment, quota
from integration.side_by_side import Both, quotas, workloads
from integration.sides import Side

pytestmark = pytest.mark.rig

SLACK = 3.0
"""Seconds beyond what is stated, for a busy machine."""

FULL = (
    'pods "web-#-#" is forbidden: exceeded quota: quota, requested: requests.cpu=1, used: requests.cpu=3, '
    "limited: requests.cpu=3"
)


def pods(side: Side) -> int:
    return len(side.list("Pod"))


def without_amounts(side: Side) -> str:
    """The workloads, whatever was used when the quota refused."""
    return re.sub(r"(used|limited): requests\.cpu=\d+", r"\1", str(workloads(side)))


def test_a_full_quota_stops_a_deployment_and_more_room_lets_it_go_on(both: Both) -> None:
    """Nothing but its back-off wakes the ReplicaSet when the quota grows; a pod that goes wakes it at once.

    In between all statuses and texts are the same.
    """
    both.create(quota({"requests.cpu": "3", "pods": "20"}))
    both.counted("the first count")
    started = {id(side): side.clock() for side in both.sides}
    both.create(deployment(10, {"cpu": "1"}))
    both.each(lambda side: side.wait(lambda: pods(side) == 3, 10))
    stuck = both.settled(workloads, "three pods")
    assert stuck["Pod"] == [{"count": 3}]
    (replica_set,) = stuck["ReplicaSet"]
    assert replica_set["conditions"] == [("ReplicaFailure", "True", "FailedCreate", FULL)]
    assert [each[0] for each in stuck["Deployment"][0]["conditions"]] == ["Available", "Progressing", "ReplicaFailure"]
    assert both.counted("three pods")["quota"]["used"] == {"requests.cpu": "3", "pods": "3"}

    # The back-off has doubled with every failure: the next attempt is no further away than twice all that has passed.
    enlarge(both, 5)
    for side in both.sides:
        limit = 2 * (side.clock() - started[id(side)]) + SLACK
        assert side.wait(lambda side=side: pods(side) == 5, 60) < limit  # type: ignore[misc]
    # The text of a failure stays until a sync does not fail: whether one comes in between is a matter of milliseconds.
    both.settled(without_amounts, "five pods")
    assert both.counted("five pods")["quota"]["used"] == {"requests.cpu": "5", "pods": "5"}

    # By now they would wait long; a pod that goes wakes them at once, and there is room for all.
    enlarge(both, 12)
    both.each(lambda side: side.delete("Pod", both.pod(side, 0)))
    for side in both.sides:
        assert side.wait(lambda side=side: pods(side) == 10, 60) < SLACK  # type: ignore[misc]
    done = both.settled(workloads, "all pods")
    assert (done["Pod"], done["ReplicaSet"][0]["conditions"]) == ([{"count": 10}], [])
    # The real controller may have counted while pods were being made, and then it misses some until it counts again.
    enlarge(both, 13)
    assert both.counted("the last count")["quota"]["used"] == {"requests.cpu": "10", "pods": "10"}


def enlarge(both: Both, cpu: int) -> None:
    """Raise the quota, and wait until it is enforced."""
    hard = {"requests.cpu": str(cpu), "pods": "20"}
    both.each(lambda side: side.change("ResourceQuota", "quota", {"hard": hard}))
    both.each(lambda side: side.wait(lambda: quotas(side)["quota"]["hard"] == hard, 20))
    both.real.catch_up()


def test_a_quota_on_objects_counts_them_alike(both: Both) -> None:
    """Deployments and their ReplicaSets by number: the second Deployment is refused, with the same text."""
    both.create(quota({"count/deployments.apps": "1", "count/replicasets.apps": "2", "count/pods": "4"}))
    both.counted("the first count")
    both.create(deployment(2))
    refused = deployment(1)
    refused["metadata"] = {"name": "second"}
    answer = both.create(refused)
    assert answer.code == 403
    assert "exceeded quota: quota, requested: count/deployments.apps=1" in answer.message
    used = both.counted("one Deployment")["quota"]["used"]
    assert used == {"count/deployments.apps": "1", "count/replicasets.apps": "1", "count/pods": "2"}
