"""Limit ranges: what they fill in and what they refuse, in a real cluster and in ours."""

from __future__ import annotations

import pytest

from integration.manifests import container, limit_range, pod, quota, resources, sidecar, simple_pod
from integration.side_by_side import Both

pytestmark = [pytest.mark.rig, pytest.mark.any_cluster]

BOUNDS = limit_range(
    {
        "type": "Container",
        "default": {"cpu": "500m", "memory": "256Mi"},
        "defaultRequest": {"cpu": "100m", "memory": "128Mi"},
        "min": {"cpu": "50m", "memory": "64Mi"},
        "max": {"cpu": "2", "memory": "1Gi"},
        "maxLimitRequestRatio": {"cpu": "10"},
    },
    {"type": "Pod", "max": {"cpu": "3", "memory": "2Gi"}},
)

PODS = [
    simple_pod("nothing"),
    simple_pod("request-only", {"cpu": "200m"}),
    simple_pod("limit-only", None, {"cpu": "1", "memory": "512Mi"}),
    simple_pod("both", {"cpu": "0.5", "memory": "100M"}, {"cpu": "1000m", "memory": "0.5Gi"}),
    simple_pod("other-resource", {"ephemeral-storage": "1Gi", "example.com/gpu": "1"}, {"example.com/gpu": "1"}),
    simple_pod("request-above-default-limit", {"cpu": "600m"}, {"cpu": "600m", "memory": "1Gi"}),
    simple_pod("too-little-cpu", {"cpu": "10m", "memory": "64Mi"}),
    simple_pod("too-little-of-both", {"cpu": "10m", "memory": "1Mi"}, {"cpu": "100m", "memory": "2Mi"}),
    simple_pod("too-much-memory", {"memory": "1.5Gi"}, {"memory": "1.5Gi"}),
    simple_pod("too-much-of-both", None, {"cpu": "2500m", "memory": "1025Mi"}),
    simple_pod("ratio", {"cpu": "100m"}, {"cpu": "1001m"}),
    simple_pod("ratio-just-so", {"cpu": "100m"}, {"cpu": "1"}),
    simple_pod("ratio-of-the-default", {"cpu": "60m"}, {"cpu": "2"}),
    pod("sum-too-much", *(container(f"c{number}", {"cpu": "1"}, {"cpu": "1100m"}) for number in range(3))),
    pod("init", container(), initContainers=[container("prepare", {"cpu": "2"}, {"cpu": "2"})]),
    pod("init-too-much", container(), initContainers=[container("prepare", {"cpu": "3"}, {"cpu": "3"})]),
    pod("sidecar", container(), initContainers=[sidecar("proxy"), container("prepare")]),
    pod(
        "sidecars-too-much",
        container("c", {"cpu": "2"}, {"cpu": "2"}),
        initContainers=[sidecar("p", {"cpu": "1500m"}, {"cpu": "1500m"})],
    ),
    pod("pod-level", container(), resources=resources({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})),
    pod("pod-level-too-much", container(), resources=resources({"cpu": "3500m"}, {"cpu": "4"})),
]


def test_pods_get_the_same_resources_and_refusals(both: Both) -> None:
    """Twenty pods; which of them are refused is known, the words are the real server's."""
    both.create(BOUNDS)
    answers = both.create_all(PODS)
    refused = {name for name, answer in answers.items() if answer.code == 403}
    assert refused == {
        "too-little-cpu",
        "too-little-of-both",
        "too-much-memory",
        "too-much-of-both",
        "ratio",
        "ratio-of-the-default",
        "sum-too-much",
        "init-too-much",
        "sidecars-too-much",
        "pod-level-too-much",
    }
    assert all(answer.pod is not None for name, answer in answers.items() if name not in refused)
    assert answers["ratio"].message == (
        'pods "ratio" is forbidden: cpu max limit to request ratio per Container is 10, but provided ratio is 10.010000'
    )


PARTIAL = limit_range(
    {"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "32Mi"}},
    {"type": "Pod", "min": {"cpu": "100m"}, "maxLimitRequestRatio": {"memory": "2"}},
    name="partial",
)

BIG = simple_pod("big", {"memory": "2Gi"}, {"memory": "2Gi"})


def test_what_a_limit_range_leaves_out_is_filled_in_alike(both: Both) -> None:
    """A maximum is the default limit and request, a minimum the default request; a bound on what nobody has refuses.

    Two limit ranges bind both. Which of them comes first is chance upstream, so no pod fails in both.
    """
    both.create(PARTIAL)
    first = both.create_all(
        [
            simple_pod("nothing"),
            simple_pod("memory", {"memory": "64Mi"}, {"memory": "100Mi"}),
            simple_pod("memory-ratio", {"memory": "64Mi"}, {"memory": "200Mi"}),
            simple_pod("limit-only", None, {"memory": "200Mi"}),
            simple_pod("cpu", {"cpu": "50m"}, {"memory": "40Mi"}),
            simple_pod("cpu-and-memory", {"cpu": "500m", "memory": "1Gi"}, {"cpu": "500m", "memory": "1Gi"}),
        ]
    )
    assert [name for name, answer in first.items() if answer.code == 200] == ["memory", "limit-only", "cpu-and-memory"]
    assert first["nothing"].message.endswith("is 2, but no limit is specified or limit is 0")
    both.create(limit_range({"type": "Pod", "max": {"memory": "1Gi"}}, name="also"))
    both.real.wait(lambda: not both.real.rehearse(BIG).is_success, 10)
    assert both.create(BIG).message == (
        'pods "big" is forbidden: maximum memory usage per Pod is 1Gi, but limit is 2Gi'
    )
    assert both.create(simple_pod("small", {"memory": "64Mi"}, {"memory": "100Mi"})).code == 200


def test_amounts_finer_than_a_milli_are_rounded_up_alike(both: Both) -> None:
    """In limit ranges, quotas and pods: 1.0001Mi is stored as 1048680858m, and half a milli of cpu as one."""
    both.create(limit_range({"type": "Container", "defaultRequest": {"memory": "1.0001Mi"}, "min": {"cpu": "0.0004"}}))
    both.create(quota({"requests.memory": "2.50001Mi", "requests.cpu": "2.1m"}))
    both.counted("the first count")
    first = both.create(simple_pod("first", {"cpu": "0.0005"})).pod
    assert first is not None
    assert first["containers"]["main"]["requests"] == {"cpu": 1_000_000, "memory": 1_048_680_858_000_000}
    both.create(simple_pod("second", {"cpu": "1m"}))
    assert both.create(simple_pod("third", {"cpu": "2m", "memory": "1"})).message == (
        'pods "third" is forbidden: exceeded quota: quota, requested: requests.cpu=2m, used: requests.cpu=2m, '
        "limited: requests.cpu=3m"
    )
    both.counted("three pods")
