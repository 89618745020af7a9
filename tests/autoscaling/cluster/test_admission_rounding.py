"""Amounts finer than a milli in what limits pods: the API server stores them rounded up."""

from __future__ import annotations

from stowplan_autoscaling.cluster.admission import Admission
from stowplan_autoscaling.cluster.objects.quota import (
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    ResourceQuota,
    ResourceQuotaSpec,
)
from stowplan_scheduler.objects import ObjectMeta

META = ObjectMeta(name="it", namespace="default")


def test_limit_ranges_hold_whole_milli() -> None:
    """1.0001Mi are 1048680.8576 bytes; what is whole keeps its text, and so do the defaults made of it."""
    item = LimitRangeItem(type="Container", max={"memory": "1.0001Mi", "cpu": "1.50"}, min={"cpu": "0.0001"})
    stored = Admission().admit("LimitRange", LimitRange(metadata=META, spec=LimitRangeSpec(limits=(item,))))
    (found,) = stored.spec.limits
    assert found.max == found.default == {"memory": "1048680858m", "cpu": "1.50"}
    assert found.min == {"cpu": "1m"}
    assert found.default_request == {"memory": "1048680858m", "cpu": "1.50"}


def test_quotas_hold_whole_milli() -> None:
    """2.1m of cpu are enforced as 3m."""
    quota = ResourceQuota(metadata=META, spec=ResourceQuotaSpec(hard={"requests.cpu": "2.1m", "pods": "3"}))
    assert Admission().admit("ResourceQuota", quota).spec.hard == {"requests.cpu": "3m", "pods": "3"}
