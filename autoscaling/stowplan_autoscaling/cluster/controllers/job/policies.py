"""What failures and successes mean to a Job that says so itself.

Follows pkg/controller/job/{pod_failure_policy,success_policy}.go of Kubernetes v1.37.2. Exit codes are those that the
kubelet wrote on the pod (`ClusterPod.exit_codes`).
"""

from __future__ import annotations

from typing import NamedTuple

from stowplan_autoscaling.cluster.objects.batch import (
    OnExitCodes,
    OnPodCondition,
    PodFailurePolicy,
    PodFailureRule,
    SuccessPolicy,
)
from stowplan_autoscaling.cluster.pods import ClusterPod

from .indexes import Intervals, overlap, parse, total


class Verdict(NamedTuple):
    """What a failed pod means: the action of the rule that matched ("" for none), and why the Job fails, if it does."""

    action: str = ""
    message: str | None = None

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the limits."""
        return self.action != "Ignore"


_NO_RULE = Verdict()


def judge_failure(policy: PodFailurePolicy | None, pod: ClusterPod) -> Verdict:
    """What the first rule that matches says of a failed pod."""
    if policy is None:
        return _NO_RULE
    for number, rule in enumerate(policy.rules):
        cause = _cause(rule, pod)
        if cause is None:
            continue
        if rule.action != "FailJob":
            return Verdict(rule.action)
        return Verdict(rule.action, f"{cause} matching {rule.action} rule at index {number}")
    return _NO_RULE


def _cause(rule: PodFailureRule, pod: ClusterPod) -> str | None:
    """What of the pod matches the rule."""
    if rule.on_exit_codes is not None:
        found = _matching_container(rule.on_exit_codes, pod)
        if found is not None:
            return f"Container {found[0]} for pod {pod.key} failed with exit code {found[1]}"
        return None
    kind = _matching_condition(rule.on_pod_conditions, pod)
    return None if kind is None else f"Pod {pod.key} has condition {kind}"


def _matching_container(codes: OnExitCodes, pod: ClusterPod) -> tuple[str, int] | None:
    for name, code in pod.exit_codes:
        if code == 0 or codes.container_name not in {None, name}:
            continue
        if (code in codes.values) == (codes.operator == "In"):
            return name, code
    return None


def _matching_condition(patterns: tuple[OnPodCondition, ...], pod: ClusterPod) -> str | None:
    held = [(condition.type, condition.status) for condition in pod.status.conditions]
    if pod.ready:
        held.append(("Ready", pod.ready))
    for kind, status in held:
        if any(pattern.type == kind and pattern.status == status for pattern in patterns):
            return kind
    return None


def find_success(policy: SuccessPolicy | None, completions: int, succeeded: Intervals) -> str | None:
    """The message of the first rule that the indexes which have succeeded fulfil."""
    if policy is None or not succeeded:
        return None
    for number, rule in enumerate(policy.rules):
        if rule.succeeded_indexes is not None:
            required = parse(rule.succeeded_indexes, completions)
            if not required:
                continue
            found, needed = overlap(required, succeeded), total(required)
        else:
            found, needed = total(succeeded), None
        if found == needed or (rule.succeeded_count is not None and found >= rule.succeeded_count):
            return f"Matched rules at index {number}"
    return None
