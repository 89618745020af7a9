"""Which changes of a Node or a Pod matter to whoever decides about nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.cluster.pods import ClusterPod


def is_same_node(old: Node, new: Node) -> bool:
    """Whether nothing has changed that a supply loop reads; the images that a node holds are none of its business."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.spec == new.spec
        and old.status.conditions == new.status.conditions
        and old.status.allocatable == new.status.allocatable
    )


def is_same_placement(old: ClusterPod, new: ClusterPod) -> bool:
    """Whether the pod is as it was but for its conditions and phase, and meant for the same node."""
    return (
        old.spec is new.spec
        and old.metadata is new.metadata
        and old.deleted == new.deleted
        and old.status.nominated_node_name == new.status.nominated_node_name
    )
