"""Priority classes at admission, in a real cluster and in ours."""

from __future__ import annotations

import pytest

from integration.manifests import priority_class, simple_pod
from integration.side_by_side import Both

pytestmark = [pytest.mark.rig, pytest.mark.any_cluster]


def test_priorities_are_resolved_and_refused_alike(both: Both) -> None:
    """Known, unknown, built-in, contradicted, and by default."""
    gold, gentle = f"gold-{both.namespace}", f"gentle-{both.namespace}"
    both.create_classes(priority_class(gold, 1000), priority_class(gentle, -5, preemptionPolicy="Never"))
    first = both.create_all(
        [
            simple_pod("plain"),
            simple_pod("gold", priorityClassName=gold),
            simple_pod("gentle", priorityClassName=gentle),
            simple_pod("unknown", priorityClassName="no-such-class"),
            simple_pod("system-node", priorityClassName="system-node-critical"),
            simple_pod("system-cluster", priorityClassName="system-cluster-critical"),
            simple_pod("same-number", priorityClassName=gold, priority=1000),
            simple_pod("other-number", priorityClassName=gold, priority=7),
            simple_pod("number-alone", priority=7),
            simple_pod("zero-alone", priority=0),
            simple_pod("same-policy", priorityClassName=gentle, preemptionPolicy="Never"),
            simple_pod("other-policy", priorityClassName=gentle, preemptionPolicy="PreemptLowerPriority"),
            simple_pod("policy-alone", preemptionPolicy="Never"),
        ]
    )
    assert {name for name, answer in first.items() if answer.code == 403} == {
        "unknown",
        "other-number",
        "number-alone",
        "other-policy",
        "policy-alone",
    }
    assert first["gold"].pod is not None
    assert first["gold"].pod["priority"] == 1000


def test_a_global_default_is_given_to_pods_alike(both: Both) -> None:
    """Pods that name no class get it by name; a second default is refused; without it all is as before."""
    usual = f"usual-{both.namespace}"
    both.create_classes(priority_class(usual, 42, globalDefault=True, preemptionPolicy="Never"))
    second = both.create(priority_class(f"second-{both.namespace}", 1, globalDefault=True))
    assert second.code == 403
    answers = both.create_all(
        [
            simple_pod("by-default"),
            simple_pod("number", priority=42),
            simple_pod("other-number", priority=41),
            simple_pod("policy", preemptionPolicy="PreemptLowerPriority"),
        ]
    )
    assert answers["by-default"].pod is not None
    assert answers["by-default"].pod["priorityClassName"] == usual
    both.delete_classes()
    again = both.create(simple_pod("afterwards"))
    assert again.pod is not None
    assert again.pod["priority"] == 0
