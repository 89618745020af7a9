"""NodeClaims: what Karpenter keeps about each machine that it asked for.

Follows pkg/apis/v1/nodeclaim.go and nodeclaim_status.go of Karpenter core v1.15.0; conditions are the moments at which
they became true.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stowplan_scheduler.objects import Taint


class NodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that has been launched. Times in nanoseconds since 1970, amounts in nano units; None: not (yet).

    `labels` must name pool, zone, capacity type and instance type. `consolidatable`, `drifted` and `initialized` are
    the moments since when the condition holds. `deleting`: the claim has a deletion time stamp; `terminating`: its
    machine is being taken back already. A struct, for it is made anew when a pod comes to its node.
    """

    name: str
    provider_id: str
    created: int
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, int] = {}
    allocatable: Mapping[str, int] = {}
    expire_after: int | None = None
    termination_grace_period: int | None = None
    initialized: int | None = None
    consolidatable: int | None = None
    drifted: int | None = None
    last_pod_event: int | None = None
    deleting: bool = False
    terminating: bool = False
