"""Flags: defaults, values, and what cannot be read."""

from __future__ import annotations

import pytest

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupConfig
from stowplan_autoscaling.supply.cluster_autoscaler.options import (
    GIB,
    AutoscalingOptions,
    FlagError,
    GroupOptions,
)

from .builders import make_group


def test_the_defaults_are_those_of_the_flags() -> None:
    options = AutoscalingOptions()
    assert options.expander == ("least-waste",)
    assert options.scale_down_delay_after_delete == 0
    assert options.max_memory_total == 6_400_000 * GIB
    assert options == AutoscalingOptions.from_flags({})


def test_values_are_read_by_the_type_of_the_flag() -> None:
    options = AutoscalingOptions.from_flags(
        {
            "scale-down-unneeded-time": "1m30s",
            "expander": "priority,least-waste",
            "cores-total": "2:48",
            "memory-total": "0:16",
            "scale-down-utilization-threshold": "0.65",
            "balance-similar-node-groups": "true",
            "max-nodes-total": "12",
        }
    )
    assert options.scale_down_unneeded_time == 90 * SECOND
    assert options.expander == ("priority", "least-waste")
    assert (options.min_cores_total, options.max_cores_total) == (2, 48)
    assert options.max_memory_total == 16 * GIB
    assert options.scale_down_utilization_threshold == 0.65
    assert options.balance_similar_node_groups
    assert options.max_nodes_total == 12


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("no-such-flag", "1"),
        ("cores-total", "5"),
        ("cores-total", "9:5"),
        ("max-nodes-total", "many"),
        ("scale-down-unneeded-time", "soon"),
        ("scale-down-enabled", "perhaps"),
    ],
)
def test_a_flag_that_cannot_be_read_is_an_error_that_names_it(flag: str, text: str) -> None:
    with pytest.raises(FlagError, match=flag):
        AutoscalingOptions.from_flags({flag: text})


def test_labels_to_compare_and_labels_to_ignore_exclude_each_other() -> None:
    with pytest.raises(FlagError, match="exclude each other"):
        AutoscalingOptions.from_flags({"balancing-label": "pool", "balancing-ignore-label": "rack"})


def test_a_group_may_have_its_own_values() -> None:
    config = GroupConfig(AutoscalingOptions())
    own = make_group(options=GroupOptions(scale_down_unneeded_time=MINUTE, scale_down_utilization_threshold=0.0))
    other = make_group()
    assert config.removal_time(own, ready=True) == MINUTE
    assert config.removal_time(own, ready=False) == 20 * MINUTE
    assert config.utilization_threshold(own, gpu=False) == 0.0
    assert config.utilization_threshold(other, gpu=False) == 0.5
