"""spec.faults and spec.slo: what goes wrong, and what must hold all the same."""

from __future__ import annotations

from typing import Annotated

from pydantic import model_validator

from .base import NAME_PATTERN, Choice, FromList, Names, ObjectRef, Part, needed, option, parts
from .values import Duration, PositiveDuration, Share, problem


class Nodes(Part):
    """Which nodes: by name, or a number of them from a group or pool."""

    names: Names = parts("Names of nodes.", max_length=1000)
    node_group: str = option("", "A node group.", max_length=50)
    node_pool: str = option("", "A node pool: those of its nodes that are there at that moment.", max_length=50)
    count: int = option(1, "How many of the group or pool, the first by number.", ge=1)

    @model_validator(mode="after")
    def _check(self) -> Nodes:
        if bool(self.names) + bool(self.node_group) + bool(self.node_pool) != 1:
            raise problem("exactly one of names, nodeGroup, nodePool must be set")
        return self


class Zone(Part):
    """All nodes with a value of the label topology.kubernetes.io/zone."""

    zone: str = needed("The zone.", min_length=1, max_length=63)


class Fault(Choice):
    """Something that happens to nodes. With `duration` it is undone at the end."""

    CHOICES = ("node_lost", "zone_lost", "cordon")

    at: Duration = needed("When, from the start of the run.")
    duration: PositiveDuration | None = option(None, "How long. Absent: to the end of the run.")
    node_lost: Nodes | None = option(
        None, "Nodes fall silent: their kubelets report no more, their pods answer no more."
    )
    zone_lost: Zone | None = option(None, "All nodes of a zone fall silent.")
    cordon: Nodes | None = option(None, "Nodes become unschedulable; with `duration` they are uncordoned at the end.")


class Objective(Part):
    """A service level objective. The result says how often, and for how long, it was missed."""

    name: str = needed("Name for results.", pattern=NAME_PATTERN, max_length=63)
    demand: str = option("", "Entry of spec.demand that latency and queueAge are about.", max_length=63)
    target: ObjectRef | None = option(None, "Workload that pending is about. Absent: all pods.")
    latency: PositiveDuration | None = option(None, "Requests must be answered within this.")
    queue_age: PositiveDuration | None = option(None, "No item may wait longer.")
    pending: PositiveDuration | None = option(None, "Pods must be ready within this from their creation.")
    share: Share = option("0.99", "Share of requests, of time or of pods for which it must hold.")

    @model_validator(mode="after")
    def _check(self) -> Objective:
        given = [name for name in ("latency", "queue_age", "pending") if getattr(self, name) is not None]
        if len(given) != 1:
            raise problem("exactly one of latency, queueAge, pending must be set")
        if (given[0] == "pending") == bool(self.demand):
            raise problem("demand must be set with latency and queueAge, and only then")
        return self


Faults = Annotated[tuple[Fault, ...], FromList]
Objectives = Annotated[tuple[Objective, ...], FromList]
