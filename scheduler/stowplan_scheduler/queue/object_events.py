"""Which events the update of a pod or a node stands for.

An update is reported as precisely as possible, one event per aspect that changed, so that only the plugins concerned
are asked. Follows pkg/scheduler/framework/events.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, Resource
from stowplan_scheduler.objects import Node, Pod, ResourceMap
from stowplan_scheduler.quantity import milli_value, parse_quantity
from stowplan_scheduler.resources import Requests, pod_requests


def pod_update_events(old: Pod, new: Pod, resource: Resource, *, alike: bool = False) -> tuple[ClusterEvent, ...]:
    """The aspects in which two versions of a pod differ, in upstream's order; a plain Update if none does.

    `resource`: TARGET_POD for the waiting pod itself, UNSCHEDULED_POD for the metrics of the handlers. A pod that has a
    node is always ASSIGNED_POD. `alike`: the shape of both is known to be the same, so that only what is no part of it
    is looked at. Raises QuantityError.
    """
    subject = Resource.ASSIGNED_POD if new.spec.node_name else resource
    if (
        alike
        and old.spec.scheduling_gates is new.spec.scheduling_gates
        and old.status.resource_claim_statuses is new.status.resource_claim_statuses
    ):
        return _PLAIN_UPDATES[subject]
    actions = _pod_actions(old, new)
    return tuple([ClusterEvent(subject, action) for action in actions]) if actions else _PLAIN_UPDATES[subject]


_PLAIN_UPDATES = {resource: (ClusterEvent(resource, Action.UPDATE),) for resource in Resource}


def _pod_actions(old: Pod, new: Pod) -> list[Action]:
    actions: list[Action] = []
    if old.metadata.labels is not new.metadata.labels and old.metadata.labels != new.metadata.labels:
        actions.append(Action.UPDATE_POD_LABEL)
    actions += _request_actions(old, new)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # Tolerations can only be added, so their number tells.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        actions.append(Action.UPDATE_POD_TOLERATION)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        actions.append(Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return actions


def _request_actions(old: Pod, new: Pod) -> list[Action]:
    """Scale down, scale up, both or none. Two resources may go in opposite directions."""
    if _request_inputs(old) == _request_inputs(new):
        return []  # most updates change a condition only, and the sums are the costly part
    before = pod_requests(old, use_status=True, pod_level=True)
    after = pod_requests(new, use_status=True, pod_level=True)
    actions = []
    if _asks_less(before, after):
        actions.append(Action.UPDATE_POD_SCALE_DOWN)
    if _asks_less(after, before):
        actions.append(Action.UPDATE_POD_SCALE_UP)
    return actions


def _request_inputs(pod: Pod) -> tuple[object, ...]:
    """Everything that `pod_requests` reads."""
    spec, status = pod.spec, pod.status
    return (
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        status.container_statuses,
        status.init_container_statuses,
        status.allocated_resources,
        status.resources,
        [c.reason for c in status.conditions if c.type == "PodResizePending"] if status.conditions else [],
    )


def _asks_less(before: Requests, after: Requests) -> bool:
    """Whether some resource of `before` is smaller in `after`, or gone. Compared in thousandths, as upstream does."""
    return any(name not in after or milli_value(amount) > milli_value(after[name]) for name, amount in before.items())


def node_update_events(old: Node, new: Node) -> tuple[ClusterEvent, ...]:
    """The aspects in which two versions of a node differ, in upstream's order; empty for a mere heartbeat.

    `spec.unschedulable` turning false is reported as a change of taints, turning true not at all. A node that is made
    schedulable and loses a taint in one update yields that event twice. Raises QuantityError.
    """
    return tuple(ClusterEvent(Resource.NODE, action) for action, differs in _NODE_ASPECTS if differs(old, new))


def _became_schedulable(old: Node, new: Node) -> bool:
    return old.spec.unschedulable and not new.spec.unschedulable


def _allocatable_differs(old: Node, new: Node) -> bool:
    before, after = old.status.allocatable, new.status.allocatable
    return before != after and _amounts(before) != _amounts(after)


def _amounts(resources: ResourceMap) -> dict[str, int]:
    """Amounts instead of texts: "1" and "1000m" are the same."""
    return {name: parse_quantity(amount) for name, amount in resources.items()}


def _conditions_differ(old: Node, new: Node) -> bool:
    if old.status.conditions == new.status.conditions:
        return False
    return {c.type: c.status for c in old.status.conditions} != {c.type: c.status for c in new.status.conditions}


_NODE_ASPECTS: tuple[tuple[Action, Callable[[Node, Node], bool]], ...] = (
    (Action.UPDATE_NODE_TAINT, _became_schedulable),
    (Action.UPDATE_NODE_ALLOCATABLE, _allocatable_differs),
    (Action.UPDATE_NODE_LABEL, lambda old, new: old.metadata.labels != new.metadata.labels),
    (Action.UPDATE_NODE_TAINT, lambda old, new: old.spec.taints != new.spec.taints),
    (Action.UPDATE_NODE_CONDITION, _conditions_differ),
    (Action.UPDATE_NODE_ANNOTATION, lambda old, new: old.metadata.annotations != new.metadata.annotations),
    (
        Action.UPDATE_NODE_DECLARED_FEATURE,
        lambda old, new: old.status.declared_features != new.status.declared_features,
    ),
)
