"""From spec.supply to the settings of the engines."""

from __future__ import annotations

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions

from .supply import ClusterAutoscalerSpec


def autoscaling_options(spec: ClusterAutoscalerSpec) -> AutoscalingOptions:
    """The flags of the Cluster Autoscaler."""
    return AutoscalingOptions(
        scan_interval=spec.scan_interval,
        expander=tuple(spec.expander),
        balance_similar_node_groups=spec.balance_similar_node_groups,
        max_nodes_total=spec.max_nodes_total,
        new_pod_scale_up_delay=spec.new_pod_scale_up_delay,
        max_node_provision_time=spec.max_node_provision_time,
        initial_node_group_backoff_duration=spec.initial_node_group_backoff_duration,
        max_node_group_backoff_duration=spec.max_node_group_backoff_duration,
        scale_down_enabled=spec.scale_down_enabled,
        scale_down_delay_after_add=spec.scale_down_delay_after_add,
        scale_down_delay_after_delete=spec.scale_down_delay_after_delete,
        scale_down_unneeded_time=spec.scale_down_unneeded_time,
        scale_down_unready_time=spec.scale_down_unready_time,
        scale_down_utilization_threshold=spec.scale_down_utilization_threshold,
        max_scale_down_parallelism=spec.max_scale_down_parallelism,
        max_drain_parallelism=spec.max_drain_parallelism,
        max_graceful_termination_sec=spec.max_graceful_termination // SECOND,
        node_delete_delay_after_taint=spec.node_delete_delay_after_taint,
        skip_nodes_with_local_storage=spec.skip_nodes_with_local_storage,
        skip_nodes_with_system_pods=spec.skip_nodes_with_system_pods,
    )
