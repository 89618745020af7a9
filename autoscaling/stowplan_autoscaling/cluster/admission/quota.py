"""ResourceQuota admission: whether an object fits into what is left of the quotas of its namespace, and its charge.

The charge goes into the status of the quotas before the object is stored, as upstream; nothing is counted here, so a
creation costs the same whatever the namespace holds. A quota that its controller has not seen yet restricts nothing.

Follows staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go (CheckRequest) and
staging/src/k8s.io/apiserver/pkg/quota/v1 of Kubernetes v1.37.2, without resources that are limited by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.objects.quota import ResourceQuota, ResourceQuotaStatus
from stowplan_autoscaling.cluster.pods import ClusterPod

from .amounts import ONE, Amounts, add, listed, masked, parse_amounts, texts
from .pod_usage import PodUsages, tracked_for_pods
from .resources import counts_of_kind, forbidden, tracked_counts


def charge(kind: str, obj: Any, quotas: Iterable[ResourceQuota], usages: PodUsages) -> list[ResourceQuota]:
    """The quotas that an object changes, with their new status. Raises ForbiddenError, QuantityError."""
    if kind == "Pod":
        return _charge_pod(obj, quotas, usages)
    return _charge_object(kind, obj.metadata.name, quotas)


def _charge_pod(pod: ClusterPod, quotas: Iterable[ResourceQuota], usages: PodUsages) -> list[ResourceQuota]:
    usage = usages.of(pod)
    name = pod.metadata.name
    matching = []
    for quota in quotas:
        tracked = tracked_for_pods(quota.status.hard or ())
        if tracked and all(usage.matches(requirement) for requirement in quota.spec.requirements):
            complaint = usage.complaint(tracked)
            if complaint:
                raise ForbiddenError(forbidden("Pod", name, f"failed quota: {quota.metadata.name}: {complaint}"))
            _check_known("Pod", name, quota, tracked)
            matching.append(quota)
    amounts = {resource: amount for resource, amount in usage.amounts if amount.nanos}
    return [_charged("Pod", name, quota, amounts) for quota in matching]


def _charge_object(kind: str, name: str, quotas: Iterable[ResourceQuota]) -> list[ResourceQuota]:
    """Scopes are for pods: a quota that has any does not count other objects."""
    matching = []
    for quota in quotas:
        tracked = tracked_counts(kind, quota.status.hard or ())
        if tracked and not quota.spec.requirements:
            _check_known(kind, name, quota, tracked)
            matching.append(quota)
    amounts = dict.fromkeys(counts_of_kind(kind), ONE)
    return [_charged(kind, name, quota, amounts) for quota in matching]


def _check_known(kind: str, name: str, quota: ResourceQuota, tracked: Sequence[str]) -> None:
    if any(resource not in (quota.status.used or ()) for resource in tracked):
        reason = f"status unknown for quota: {quota.metadata.name}, resources: {','.join(tracked)}"
        raise ForbiddenError(forbidden(kind, name, reason))


def _charged(kind: str, name: str, quota: ResourceQuota, amounts: Amounts) -> ResourceQuota:
    hard, used = parse_amounts(quota.status.hard), parse_amounts(quota.status.used)
    requested = masked(amounts, hard)
    total = dict(used)
    add(total, requested)
    exceeded = [resource for resource in requested if total[resource].nanos > hard[resource].nanos]
    if exceeded:
        reason = (
            f"exceeded quota: {quota.metadata.name}, requested: {listed(masked(requested, exceeded))}, "
            f"used: {listed(masked(used, exceeded))}, limited: {listed(masked(hard, exceeded))}"
        )
        raise ForbiddenError(forbidden(kind, name, reason))
    status = ResourceQuotaStatus(hard=quota.status.hard, used=texts(total))
    return replace(quota, status=status)
