"""The words that operator, status and objects share: conditions, reasons, field managers, labels, names."""

from __future__ import annotations

from typing import Final

GROUP: Final = "stowplan.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

PROFILE: Final = "SchedulerProfile"
NODE_POOL: Final = "NodePool"
SIMULATION: Final = "Simulation"
KINDS: Final = (PROFILE, NODE_POOL, SIMULATION)
"""The kinds that the operator watches."""

PLURALS: Final = {PROFILE: "schedulerprofiles", NODE_POOL: "nodepools", SIMULATION: "simulations"}

# ---- conditions ------------------------------------------------------------------------------------------------------

READY: Final = "Ready"
ACCEPTED: Final = "Accepted"
PROGRAMMED: Final = "Programmed"
DEGRADED: Final = "Degraded"
PAUSED: Final = "Paused"

PROFILE_CONDITIONS: Final = (READY, ACCEPTED, PROGRAMMED, DEGRADED, PAUSED)
"""In the order in which they are written. Degraded and Paused are good when False, the others when True."""

# ---- who writes what -------------------------------------------------------------------------------------------------

OPERATOR_MANAGER: Final = "stowplan-operator"
"""Field manager of the objects that the operator makes."""

STATUS_MANAGER: Final = "stowplan-status"
"""Field manager of status."""

COMPONENT: Final = "stowplan-operator"
"""The reportingController of events."""

LEASE: Final = "stowplan-operator"
"""Whoever holds this Lease is the operator."""

MEMORY: Final = "stowplan-accepted"
"""The ConfigMap that holds the last good specification of each SchedulerProfile."""

WORKER_PREFIX: Final = "stowplan-worker-"
"""Of what belongs to a group of workers: its Lease, and its ConfigMap, Deployment and PodDisruptionBudget."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
GROUP_LABEL: Final = "stowplan.io/worker-group"


def worker_name(group: str) -> str:
    """What a group's Lease, ConfigMap, Deployment and PodDisruptionBudget are called."""
    return f"{WORKER_PREFIX}{group}"
