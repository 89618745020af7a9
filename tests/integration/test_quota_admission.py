"""Quotas at admission: scopes, requests, limits, counts, and what must be stated, in a real cluster and in ours."""

from __future__ import annotations

import pytest

from integration.manifests import (
    container,
    of_class,
    pod,
    priority_class,
    quota,
    resources,
    sidecar,
    simple_pod,
)
from integration.side_by_side import Both

pytestmark = [pytest.mark.rig, pytest.mark.any_cluster]


def test_requests_limits_and_counts_are_charged_and_refused_alike(both: Both) -> None:
    """Eighteen pods one after the other against one quota: each answer, and what is in use at the end."""
    hard = {"requests.cpu": "4", "limits.cpu": "6", "requests.memory": "4Gi", "limits.memory": "6Gi", "count/pods": "8"}
    both.create(quota({**hard, "requests.example.com/gpu": "2"}))
    both.counted("the first count")
    full = {"cpu": "1", "memory": "1Gi"}
    answers = both.create_all(
        [
            simple_pod("nothing"),
            simple_pod("cpu-only", {"cpu": "1"}, {"cpu": "1"}),
            simple_pod("no-limits", {"cpu": "1", "memory": "1Gi"}),
            simple_pod("limits-only", None, {"cpu": "500m", "memory": "500Mi"}),
            simple_pod("fits", full, full),
            pod("two-silent", container("b"), container("a", full, full), container("c", {"cpu": "1"})),
            pod("silent-init", container("a", full, full), initContainers=[container("prepare")]),
            simple_pod("too-much-cpu", {"cpu": "3", "memory": "1Gi"}, {"cpu": "3", "memory": "1Gi"}),
            simple_pod("too-high-limit", {"cpu": "1", "memory": "1Gi"}, {"cpu": "5", "memory": "1Gi"}),
            simple_pod("too-much-of-all", {"cpu": "9", "memory": "9Gi"}, {"cpu": "9", "memory": "9Gi"}),
            pod(
                "init-peak",
                container("a", full, full),
                initContainers=[container("i", {**full, "cpu": "1500m"}, {**full, "cpu": "1500m"})],
            ),
            pod(
                "with-sidecar",
                container("a", {"cpu": "100m", "memory": "100M"}, full),
                initContainers=[sidecar("s", {"cpu": "100m", "memory": "100Mi"}, {"cpu": "200m", "memory": "200Mi"})],
            ),
            pod(
                "pod-level",
                container("a"),
                resources=resources({"cpu": "200m", "memory": "64Mi"}, {"cpu": "200m", "memory": "64Mi"}),
            ),
            simple_pod(
                "gpu",
                {**full, "cpu": "10m", "memory": "1Ki", "example.com/gpu": "1"},
                {"cpu": "10m", "memory": "1Ki", "example.com/gpu": "1"},
            ),
            simple_pod(
                "two-gpus",
                {"cpu": "10m", "memory": "1Ki", "example.com/gpu": "2"},
                {"cpu": "10m", "memory": "1Ki", "example.com/gpu": "2"},
            ),
            simple_pod("small", {"cpu": "0.001", "memory": "1k"}, {"cpu": "1m", "memory": "1e3"}),
            simple_pod("the-last", {"cpu": "1m", "memory": "1"}, {"cpu": "1m", "memory": "1"}),
            simple_pod("one-too-many", {"cpu": "1m", "memory": "1"}, {"cpu": "1m", "memory": "1"}),
        ]
    )
    reasons = {answer.message.rpartition("forbidden: ")[2].split(":")[0] for answer in answers.values()}
    assert reasons == {"", "failed quota", "exceeded quota"}
    assert answers["nothing"].message == (
        'pods "nothing" is forbidden: failed quota: quota: must specify limits.cpu for: main; limits.memory for: main; '
        "requests.cpu for: main; requests.memory for: main"
    )
    assert "count/pods=1, used: count/pods=8" in answers["one-too-many"].message
    used = both.counted("eighteen pods")["quota"]["used"]
    assert used["count/pods"] == "8"
    assert used["requests.example.com/gpu"] == "1"


def test_a_quota_counts_what_is_given_back_alike(both: Both) -> None:
    """A pod that has ended keeps its place in count/pods only; one that is gone leaves nothing behind."""
    both.create(quota({"cpu": "3", "memory": "3Gi", "pods": "3", "count/pods": "4"}))
    both.counted("the first count")
    both.create_all([simple_pod(f"p{number}", {"cpu": "1", "memory": "1Gi"}) for number in range(4)])
    both.report(0, phase="Succeeded", ready=False)
    ended = both.counted("a pod that has ended")["quota"]["used"]
    assert ended == {"cpu": "2", "memory": "2Gi", "pods": "2", "count/pods": "3"}
    both.create(simple_pod("p4", {"cpu": "1", "memory": "1Gi"}))
    both.each(lambda side: side.delete("Pod", "p1"))
    assert both.counted("a pod that is gone")["quota"]["used"]["count/pods"] == "3"


def test_scoped_quotas_take_their_own_pods_alike(both: Both) -> None:
    """Best effort and not, by priority class, by affinity across namespaces: who counts where, and who is refused.

    No pod fails in two quotas: which of them it hears of first is chance upstream.
    """
    names = {"gold": f"gold-{both.namespace}", "silver": f"silver-{both.namespace}"}
    both.create_classes(priority_class(names["gold"], 100), priority_class(names["silver"], 50))
    both.create(quota({"pods": "2"}, "loose", scopes=["BestEffort"]))
    both.create(quota({"requests.memory": "3Gi", "pods": "9"}, "tight", scopes=["NotBestEffort"]))
    both.create(quota({"requests.cpu": "1"}, "golden", scopeSelector=of_class("In", names["gold"])))
    both.create(quota({"pods": "2"}, "classy", scopeSelector=of_class("Exists")))
    both.create(quota({"pods": "9"}, "plain", scopeSelector=of_class("DoesNotExist")))
    both.create(quota({"pods": "9"}, "other", scopeSelector=of_class("NotIn", names["gold"])))
    both.create(quota({"pods": "1"}, "reaching", scopes=["CrossNamespacePodAffinity"]))
    both.counted("the first counts")
    answers = both.create_all(
        [
            simple_pod("free-1"),
            simple_pod("free-zero", {"cpu": "0"}),
            simple_pod("free-3"),
            simple_pod("storage-only", {"ephemeral-storage": "1Gi"}),
            simple_pod("bound-1", {"cpu": "1", "memory": "1Gi"}),
            simple_pod("memory-only", {"memory": "1Gi"}),
            simple_pod("cpu-only", {"cpu": "1"}),
            simple_pod("too-much", {"memory": "1025Mi"}),
            simple_pod("gold-silent", {"memory": "1Mi"}, priorityClassName=names["gold"]),
            simple_pod("gold-1", {"cpu": "600m", "memory": "1Mi"}, priorityClassName=names["gold"]),
            simple_pod("gold-2", {"cpu": "500m", "memory": "1Mi"}, priorityClassName=names["gold"]),
            simple_pod("silver-1", {"memory": "1Mi"}, priorityClassName=names["silver"]),
            simple_pod("silver-2", {"memory": "1Mi"}, priorityClassName=names["silver"]),
            simple_pod("system", {"memory": "1Mi"}, priorityClassName="system-node-critical"),
            simple_pod("near", {"memory": "1Mi"}, affinity=affinity()),
            simple_pod("far-1", {"memory": "1Mi"}, affinity=affinity(namespaces=["elsewhere"])),
            simple_pod("far-2", {"memory": "1Mi"}, affinity=affinity(namespaceSelector={})),
        ]
    )
    refused = {"free-3", "storage-only", "cpu-only", "too-much", "gold-silent", "gold-2", "silver-2", "system", "far-2"}
    assert {name for name, answer in answers.items() if answer.code == 403} == refused
    both.counted("seventeen pods")


def affinity(**term: object) -> dict[str, object]:
    """A pod affinity with one required term."""
    rule = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **term}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
