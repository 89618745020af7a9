"""Which changes of a Node matter to whoever decides about nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.nodes import Node


def is_same_node(old: Node, new: Node) -> bool:
    """Whether nothing has changed that a supply loop reads; the images that a node holds are none of its business."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.spec == new.spec
        and old.status.conditions == new.status.conditions
        and old.status.allocatable == new.status.allocatable
    )
