"""Taints and cordons that a supply loop puts on a Node and takes away again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_scheduler.objects import Taint


def add_taint(server: ApiServer, name: str, taint: Taint) -> None:
    """Put it on, in the place of one with the same key. Does nothing where the Node is gone, or has it."""
    node: Node | None = server.find("Node", name)
    if node is None or taint in node.spec.taints:
        return
    kept = tuple(each for each in node.spec.taints if each.key != taint.key)
    server.update("Node", replace(node, spec=replace(node.spec, taints=(*kept, taint))))


def remove_taint(server: ApiServer, name: str, key: str) -> None:
    """Take away the taints with that key. Does nothing where the Node is gone, or has none."""
    node: Node | None = server.find("Node", name)
    if node is None or all(each.key != key for each in node.spec.taints):
        return
    kept = tuple(each for each in node.spec.taints if each.key != key)
    server.update("Node", replace(node, spec=replace(node.spec, taints=kept)))


def set_unschedulable(server: ApiServer, name: str, *, unschedulable: bool) -> None:
    """Cordon a Node, or uncordon it. Does nothing where it is gone, or so already."""
    node: Node | None = server.find("Node", name)
    if node is not None and node.spec.unschedulable != unschedulable:
        server.update("Node", replace(node, spec=replace(node.spec, unschedulable=unschedulable)))
