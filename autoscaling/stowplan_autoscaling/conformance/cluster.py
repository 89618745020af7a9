"""Mode `cluster`: real controllers' timelines, answered by the virtual cluster.

The scenario's kubelets, metrics server, node supply and user are played by `ClusterWorld`; everything else is the
product's: API server, controllers, autoscalers, scheduler. Formats: tests/conformance/controllers/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.apps import Deployment
from stowplan_autoscaling.cluster.objects.autoscaling import HorizontalPodAutoscaler
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.objects.policy import PodDisruptionBudget
from stowplan_autoscaling.hpa.validation import InvalidHPAError, admit
from stowplan_autoscaling.inputs.decode import without_nulls
from stowplan_scheduler.config import ConfigurationError, configuration_error_text, load_configuration
from stowplan_scheduler.defaulting import default_object, default_pod_spec
from stowplan_scheduler.objects import DEFAULT_NAMESPACE, PriorityClass

from .cluster_world import ClusterWorld

KINDS: Final[Mapping[str, tuple[str, type]]] = {
    "priorityClasses": ("PriorityClass", PriorityClass),
    "nodes": ("Node", Node),
    "pdbs": ("PodDisruptionBudget", PodDisruptionBudget),
    "deployments": ("Deployment", Deployment),
}
"""Lists of a scenario, in the order of creation."""

_CLUSTER_SCOPED: Final = frozenset({"priorityClasses", "nodes"})


def run_cluster(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result line of one scenario."""
    try:
        hpas = [decode_hpa(raw) for raw in scenario["objects"].get("hpas") or ()]
        config = load_configuration(scenario.get("scheduler"))
    except InvalidHPAError as failure:
        return {"id": scenario["id"], "invalid": str(failure)}
    except ConfigurationError as failure:
        return {"id": scenario["id"], "invalid": configuration_error_text(failure)}
    world = ClusterWorld(scenario, config)
    for listed, (kind, type_) in KINDS.items():
        for raw in scenario["objects"].get(listed) or ():
            world.create(kind, decode(type_, raw, namespaced=listed not in _CLUSTER_SCOPED))
    return {"id": scenario["id"], **world.run(hpas)}


def decode(kind: type, raw: Any, *, namespaced: bool) -> Any:
    """An object with the API server's defaults."""
    found: Any = msgspec.convert(without_nulls(raw), kind)
    if namespaced and not found.metadata.namespace:
        found = replace(found, metadata=replace(found.metadata, namespace=DEFAULT_NAMESPACE))
    if isinstance(found, Node):
        capacity = found.status.capacity
        found = replace(found, status=replace(found.status, allocatable=found.status.allocatable or capacity))
    elif hasattr(found, "spec") and hasattr(found.spec, "template"):
        template = replace(found.spec.template, spec=default_pod_spec(found.spec.template.spec))
        found = replace(found, spec=replace(found.spec, template=template))
    elif isinstance(found, PriorityClass):
        found = default_object(found)
    return found


def decode_hpa(raw: Any) -> HorizontalPodAutoscaler:
    """An autoscaler as the API server admits it. Raises InvalidHPAError."""
    found = msgspec.convert(without_nulls(raw), HorizontalPodAutoscaler)
    if not found.metadata.namespace:
        found = replace(found, metadata=replace(found.metadata, namespace=DEFAULT_NAMESPACE))
    return admit(found)
