"""Who decides about nodes, and the pools: times that must follow each other, and settings without effect."""

from __future__ import annotations

from collections.abc import Iterator

from .known import at_least, within
from .simulation import SimulationSpec


def check_supply(spec: SimulationSpec) -> Iterator[str]:
    """Yields warnings. Raises FieldError."""
    boot, karpenter = spec.provider.boot, spec.supply.karpenter
    if boot.maximum is not None:
        at_least(boot.maximum, boot.minimum, "spec.provider.boot.maximum", "minimum")
    if karpenter is not None:
        field = "spec.supply.karpenter.batchMaxDuration"
        at_least(karpenter.batch_max_duration, karpenter.batch_idle_duration, field, "batchIdleDuration")
    for index, pool in enumerate(spec.node_pools):
        before = 0
        for number, change in enumerate(pool.changes):
            field = f"spec.nodePools[{index}].changes[{number}].at"
            within(change.at, spec, field)
            at_least(change.at, before, field, "that of the change before")
            before = change.at
    if not spec.node_pools and spec.supply.none is None:
        name = "karpenter" if karpenter is not None else "clusterAutoscaler"
        yield f"spec.supply.{name}: there are no spec.nodePools: it has nothing to decide about"
