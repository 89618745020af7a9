"""Which pods wait for capacity that Karpenter could launch.

Follows Validate and GetPendingPods of pkg/controllers/provisioning/provisioner.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from stowplan_scheduler.objects import PodSpec
from stowplan_scheduler.selectors import DOES_NOT_EXIST

from .cluster_state import ClusterState
from .labels import NODE_POOL, requirement_is_valid
from .options import Options
from .shapes import pod_requirements
from .state_nodes import KnownPod


def is_valid(spec: PodSpec, options: Options) -> bool:
    """Whether Karpenter takes a pod on: it does not shun its nodes, and selects on labels that it may select on."""
    wanted = pod_requirements(spec, preferences=True).find(NODE_POOL)
    if wanted is not None and wanted.operator == DOES_NOT_EXIST:
        return False
    expressions: list[tuple[str, str, tuple[str, ...]]] = [
        (key, "In", (value,)) for key, value in spec.node_selector.items()
    ]
    node = spec.affinity.node_affinity if spec.affinity else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    for term in required.node_selector_terms if required is not None else ():
        if term.match_fields:
            return False
        expressions += [(e.key, e.operator, tuple(e.values)) for e in term.match_expressions]
    return all(requirement_is_valid(*e, options.well_known, options.domains) for e in expressions)


def pending_pods(state: ClusterState, options: Options) -> list[KnownPod]:
    """The pods that wait for capacity, in the order in which they came."""
    found = []
    for known in state.pending.values():
        shape = known.shape
        if shape.is_valid is None:
            shape.is_valid = is_valid(shape.spec, options)
        if shape.is_valid:
            found.append(known)
    return found
