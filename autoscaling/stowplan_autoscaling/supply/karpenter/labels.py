"""Label keys and values that Karpenter knows, and which of them users may select on.

Follows pkg/apis/v1/labels.go and nodeclaim_validation.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.names import label_key_errors, label_value_errors

GROUP: Final = "karpenter.sh"

ARCH: Final = "kubernetes.io/arch"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
OS: Final = "kubernetes.io/os"
REGION: Final = "topology.kubernetes.io/region"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
ZONE: Final = "topology.kubernetes.io/zone"

CAPACITY_TYPE: Final = f"{GROUP}/capacity-type"
INITIALIZED: Final = f"{GROUP}/initialized"
NODE_POOL: Final = f"{GROUP}/nodepool"
REGISTERED: Final = f"{GROUP}/registered"

DO_NOT_DISRUPT: Final = f"{GROUP}/do-not-disrupt"
DISRUPTION_COST: Final = f"{GROUP}/disruption-cost"
NODE_POOL_HASH: Final = f"{GROUP}/nodepool-hash"
NODE_POOL_HASH_VERSION: Final = f"{GROUP}/nodepool-hash-version"

SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
RESERVED: Final = "reserved"

TRUE: Final = "true"

WELL_KNOWN: Final = frozenset({NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD})
"""Labels that a pod may ask for although the pool does not mention them. A provider may add its own."""

SIMULATION_KEYS: Final = frozenset({REGISTERED, INITIALIZED})
"""Every template claims these two, so that daemon sets that select on them are counted; they never leave the solver."""

_NORMALIZED: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
_CAPACITY_TYPES: Final = frozenset({SPOT, ON_DEMAND, RESERVED})
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"})
_NUMERIC: Final = frozenset({"Gt", "Lt", "Gte", "Lte"})


def normalized(key: str) -> str:
    """The stable name of a label with a beta name."""
    return _NORMALIZED.get(key, key)


def is_restricted(key: str, well_known: frozenset[str], domains: frozenset[str] = frozenset({GROUP})) -> bool:
    """Whether selecting on the label would interfere with provisioning (upstream's IsRestrictedLabel)."""
    if key in well_known:
        return False
    domain, slash, _ = key.partition("/")
    if slash and any(domain == taken or domain.endswith(f".{taken}") for taken in domains):
        return True
    return key == HOSTNAME


def requirement_is_valid(
    key: str, operator: str, values: tuple[str, ...], well_known: frozenset[str], domains: frozenset[str]
) -> bool:
    """Whether a pod's expression on node labels is one that Karpenter provisions for (ValidateRequirement)."""
    key = normalized(key)
    if operator not in _OPERATORS or is_restricted(key, well_known, domains) or label_key_errors(key):
        return False
    if any(label_value_errors(value) for value in values):
        return False
    if operator == "In":
        return bool(values) and (key != CAPACITY_TYPE or not _CAPACITY_TYPES.isdisjoint(values))
    if operator in _NUMERIC:
        return len(values) == 1 and values[0].isdecimal()
    return True
