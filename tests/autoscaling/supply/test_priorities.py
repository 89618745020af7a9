"""The priorities of pools as the ConfigMap of the priority expander."""

from __future__ import annotations

from stowplan_autoscaling.resources.node_pools import NodePool
from stowplan_autoscaling.supply.cluster_autoscaler.expanders.priority import parse_priorities
from stowplan_autoscaling.supply.loops.autoscaler_setup import priorities_of
from stowplan_autoscaling.supply.pools import Pool


def pool(name: str, priority: int) -> Pool:
    """A pool without machines."""
    spec = NodePool.model_validate({"name": name, "instance_types": ["m"], "priority": priority})
    return Pool(spec=spec, types=())


def test_a_priority_is_that_of_the_pool_of_exactly_that_name() -> None:
    """A dot in it stands for itself."""
    names = ["a.b", "axb", "a.b-2", "c"]
    pools = [pool(name, priority) for name, priority in zip(names, [20, 10, 10, 0], strict=True)]
    found = parse_priorities(priorities_of(pools))
    assert found is not None
    chosen = {
        priority: [name for name in names if any(pattern.search(name) for pattern in patterns)]
        for priority, patterns in found.items()
    }
    assert chosen == {20: ["a.b"], 10: ["axb", "a.b-2"], 0: ["c"]}
