"""Karpenter's decisions: which machines to launch for pending pods, and which nodes to take away.

    engine = Engine(options)                                     # what all rounds share
    catalogue = Catalogue(pools, tables, daemon_pods, options, engine.axis)
    state = ClusterState(engine.shapes)                          # fed with nodes, claims and pods as they change
    results = schedule(engine, catalogue, state, now)            # one provisioning round
    controller.advance(Scene(engine, catalogue, state), now)     # the disruption loop, see `disruption`

Everything is a function of what it is given, in virtual time. Follows Karpenter core v1.15.0;
docs/architecture/karpenter.md says what is left out and where an order is declared that upstream leaves to chance.
"""

from .batcher import Batcher
from .claims import Claim
from .cluster_state import ClusterState
from .instance_types import InstanceType, Offering, TypeTable
from .launch import LaunchRequest, cheapest, launch_request, node_labels, offerings
from .node_claims import NodeClaim
from .node_pools import Budget, Disruption, NodePool
from .options import Options
from .provisioner import may_launch, nominate, schedule
from .requirement import Requirement, exists, one_of
from .requirements import Requirements
from .scheduler import Catalogue, Engine, Results

__all__ = [
    "Batcher",
    "Budget",
    "Catalogue",
    "Claim",
    "ClusterState",
    "Disruption",
    "Engine",
    "InstanceType",
    "LaunchRequest",
    "NodeClaim",
    "NodePool",
    "Offering",
    "Options",
    "Requirement",
    "Requirements",
    "Results",
    "TypeTable",
    "cheapest",
    "exists",
    "launch_request",
    "may_launch",
    "node_labels",
    "nominate",
    "offerings",
    "one_of",
    "schedule",
]
