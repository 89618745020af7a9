"""spec.supply: who decides about nodes, and with which settings; the defaults are upstream's flags."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import model_validator

from .base import Choice, FromList, GrownPart, Part, option
from .values import Duration, PositiveDuration, Share, problem

_AUTOSCALER = "cluster-autoscaler, main, August 2026"
_KARPENTER = "Karpenter v1.15.0"

Expander = Literal["least-waste", "random", "most-pods", "least-nodes", "price", "priority"]


class ClusterAutoscalerSpec(GrownPart):
    """The Cluster Autoscaler: a loop that simulates filters on template nodes. Flags of the same names."""

    LATER: ClassVar[tuple[str, ...]] = ("termination_handler",)

    scan_interval: PositiveDuration = option("10s", "Time between two loops (--scan-interval).", source=_AUTOSCALER)
    expander: Annotated[tuple[Expander, ...], FromList] = option(
        ("least-waste",),
        "How one of several pools is chosen (--expander).",
        source=_AUTOSCALER,
        min_length=1,
        max_length=6,
    )
    balance_similar_node_groups: bool = option(
        False, "Spread new nodes over pools that are alike (--balance-similar-node-groups).", source=_AUTOSCALER
    )
    max_nodes_total: int = option(0, "Most nodes in all; 0: any (--max-nodes-total).", source=_AUTOSCALER, ge=0)
    new_pod_scale_up_delay: Duration = option(
        "0s", "Pods younger than this are left alone (--new-pod-scale-up-delay).", source=_AUTOSCALER
    )
    max_node_provision_time: PositiveDuration = option(
        "15m", "A node that has not come by then is given up (--max-node-provision-time).", source=_AUTOSCALER
    )
    initial_node_group_backoff_duration: PositiveDuration = option(
        "5m", "First pause of a pool that failed (--initial-node-group-backoff-duration).", source=_AUTOSCALER
    )
    max_node_group_backoff_duration: PositiveDuration = option(
        "30m", "Longest pause (--max-node-group-backoff-duration).", source=_AUTOSCALER
    )
    scale_down_enabled: bool = option(True, "Whether nodes are removed (--scale-down-enabled).", source=_AUTOSCALER)
    scale_down_delay_after_add: Duration = option(
        "10m", "No node is removed for so long after one was added (--scale-down-delay-after-add).", source=_AUTOSCALER
    )
    scale_down_delay_after_delete: Duration = option(
        "0s", "The same after one was removed (--scale-down-delay-after-delete).", source=_AUTOSCALER
    )
    scale_down_unneeded_time: Duration = option(
        "10m", "How long a node must be unneeded (--scale-down-unneeded-time).", source=_AUTOSCALER
    )
    scale_down_unready_time: Duration = option(
        "20m", "The same for a node that is not ready (--scale-down-unready-time).", source=_AUTOSCALER
    )
    scale_down_utilization_threshold: Share = option(
        "0.5",
        "Share of requests up to which a node can be unneeded (--scale-down-utilization-threshold).",
        source=_AUTOSCALER,
    )
    max_scale_down_parallelism: int = option(
        10, "Nodes that are removed at once (--max-scale-down-parallelism).", source=_AUTOSCALER, ge=1
    )
    max_drain_parallelism: int = option(
        1, "Of those, nodes with pods (--max-drain-parallelism).", source=_AUTOSCALER, ge=1
    )
    max_graceful_termination: PositiveDuration = option(
        "10m", "Longest grace period of an evicted pod (--max-graceful-termination-sec).", source=_AUTOSCALER
    )
    node_delete_delay_after_taint: Duration = option(
        "5s", "From the taint to the removal (--node-delete-delay-after-taint).", source=_AUTOSCALER
    )
    skip_nodes_with_local_storage: bool = option(
        True, "Keep nodes whose pods have local storage (--skip-nodes-with-local-storage).", source=_AUTOSCALER
    )
    skip_nodes_with_system_pods: bool = option(
        True, "Keep nodes with pods of kube-system (--skip-nodes-with-system-pods).", source=_AUTOSCALER
    )

    termination_handler: bool = option(
        True,
        "Whether something beside it, such as AWS Node Termination Handler, cordons and drains spot machines at the "
        "notice. The Cluster Autoscaler itself does not hear of notices.",
        source="EKS managed node groups, which do that",
    )

    @model_validator(mode="after")
    def _check(self) -> ClusterAutoscalerSpec:
        """Upstream refuses to start with such lists."""
        for index, name in enumerate(self.expander):
            if name in self.expander[:index]:
                raise problem(f"expander: {name} occurs twice")
            if "random" in self.expander[:index]:
                raise problem(f"expander: {name} comes after random, which leaves one choice only")
        return self


class KarpenterSpec(Part):
    """Karpenter: it packs pending pods onto machines it chooses, and consolidates."""

    batch_idle_duration: PositiveDuration = option(
        "1s", "A batch closes after so long without a new pod (--batch-idle-duration).", source=_KARPENTER
    )
    batch_max_duration: PositiveDuration = option(
        "10s", "Longest time that a batch stays open (--batch-max-duration).", source=_KARPENTER
    )
    preference_policy: Literal["Respect", "Ignore"] = option(
        "Respect", "Whether preferences of pods count (--preference-policy).", source=_KARPENTER
    )
    spot_to_spot_consolidation: bool = option(False, "Feature gate SpotToSpotConsolidation.", source=_KARPENTER)


class NoSupply(Part):
    """Nodes stay as they are."""


class SupplySpec(Choice):
    """Who decides about nodes."""

    CHOICES = ("cluster_autoscaler", "karpenter", "none")

    cluster_autoscaler: ClusterAutoscalerSpec | None = option(None, "The Cluster Autoscaler.")
    karpenter: KarpenterSpec | None = option(None, "Karpenter.")
    none: NoSupply | None = option(None, "Nobody: pools keep their initial nodes.")
