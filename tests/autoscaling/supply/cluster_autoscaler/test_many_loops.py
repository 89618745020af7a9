"""Runs of many loops in a toy cloud: what is remembered to save work changes nothing, and limits are kept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stowplan_autoscaling.supply.cluster_autoscaler.observation import ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.scale_down.actuator import ActuationStatus
from stowplan_autoscaling.supply.cluster_autoscaler.scale_down.planner import Planner

from .builders import make_group
from .toy_cloud import ToyCloud

FLAGS: tuple[dict[str, str], ...] = (
    {},
    {"scale-down-unneeded-time": "1m", "scale-down-delay-after-add": "30s", "max-drain-parallelism": "3"},
    {"salvo-scale-up": "true", "max-nodes-total": "12", "scale-down-unneeded-time": "2m", "expander": "least-nodes"},
    {"balance-similar-node-groups": "true", "scale-down-delay-type-local": "true", "scale-down-unneeded-time": "2m"},
    {"enforce-node-group-min-size": "true", "unremovable-node-recheck-timeout": "40s", "cores-total": "4:40"},
)


def count_looks(planner: Planner, looks: list[int], index: int) -> None:
    """Count how often the planner really looks at the nodes."""
    update = planner.update

    def counted(
        destinations: Sequence[ObservedNode], candidates: Sequence[ObservedNode], status: ActuationStatus, now: int
    ) -> None:
        looks[index] += 1
        update(destinations, candidates, status, now)

    planner.update = counted  # type: ignore[method-assign]


@pytest.mark.parametrize("number", range(len(FLAGS)))
def test_findings_that_are_kept_save_work_and_nothing_else(number: int) -> None:
    """One autoscaler works every loop out from nothing, the other does not: their results are the same."""
    groups = [make_group("a", most=8), make_group("b", least=1, most=8, cpu="8"), make_group("c", most=6)]
    cloud = ToyCloud(groups, AutoscalingOptions.from_flags(FLAGS[number]), seed=number, count=2)
    grown = shrunk = 0
    looks = [0, 0]
    for index, autoscaler in enumerate(cloud.autoscalers):
        count_looks(autoscaler.scale_down.planner, looks, index)
    for _ in range(400):
        cloud.autoscalers[1].forget_findings()
        kept, anew = cloud.step()
        assert repr(kept) == repr(anew)
        grown += bool(kept.scale_up.plan)
        shrunk += len(kept.scale_down.deleted)
        for group in groups:
            assert 0 <= cloud.targets[group.id] <= group.max_size
    assert grown > 3
    assert shrunk > 3
    if "scale-down-delay-type-local" not in FLAGS[number]:
        assert looks[0] < looks[1]
