"""spec.instanceTypes and spec.nodePools: the kinds of machines there are, and the pools that nodes are taken from."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, field_validator, model_validator

from stowplan_autoscaling.cluster.controllers.cron_job.errors import ScheduleError
from stowplan_autoscaling.cluster.controllers.cron_job.schedule import parse_schedule
from stowplan_autoscaling.inputs.errors import shown

from .base import NAME_PATTERN, FromList, GrownPart, Labels, Names, Part, needed, option, parts
from .cluster import Amounts, Reservations, Taint
from .values import Duration, Number, PositiveDuration, problem

CapacityType = Literal["on-demand", "spot"]
NEVER = "Never"
_BUDGET_NODES: Final = r"^((100|[0-9]{1,2})%|[0-9]+)$"
_BUDGET_DURATION: Final = r"([0-9]+[hm]|[0-9]+h[0-9]+m)(0s)?"
"""As in Karpenter's CRD."""


class InstanceType(Part):
    """A kind of machine."""

    name: str = needed(
        "Name; every such node has it as label node.kubernetes.io/instance-type.", min_length=1, max_length=63
    )
    capacity: Amounts = needed(
        "Capacity by resource. Without pods it is 110, kubelet's --max-pods.", min_length=1, max_length=32
    )
    reserved: Reservations = option({}, "What pods cannot have of the capacity.")
    price: Number | None = option(
        None, "Price per hour on demand, in the currency of spec.prices. Absent: that of the price book."
    )
    spot_price: Number | None = option(
        None, "Price per hour as a spot machine. Absent: that of the price book; without one it is not offered as spot."
    )
    labels: Labels = option({}, "Labels of every such node.", max_length=64)
    architecture: str = option("amd64", "Label kubernetes.io/arch.", min_length=1, max_length=63)
    os: str = option("linux", "Label kubernetes.io/os.", min_length=1, max_length=63)


class Budget(Part):
    """How many nodes of a pool may be disrupted at once (Karpenter's spec.disruption.budgets)."""

    nodes: str = option("10%", "A number or a share of the pool's nodes.", pattern=_BUDGET_NODES, max_length=10)
    reasons: Annotated[tuple[Literal["Underutilized", "Empty", "Drifted", "Unhealthy"], ...], FromList] = parts(
        "Reasons that it is about; none: all.", max_length=4
    )
    schedule: str = option("", "Cron schedule (UTC) of its beginnings; empty: always.", max_length=128)
    duration: PositiveDuration | None = option(None, "How long after each beginning it holds.")

    @field_validator("nodes", mode="before")
    @classmethod
    def _check_nodes(cls, value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(_BUDGET_NODES, value):
            most = ", at most 100%" if re.fullmatch(r"[0-9]+%", value) else ""
            raise problem(f"{shown(value)}: must be a number or a percentage such as 3 or 10%{most}")
        return value

    @field_validator("duration", mode="before")
    @classmethod
    def _check_duration(cls, value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(_BUDGET_DURATION, value):
            raise problem(f"{shown(value)}: must be hours and whole minutes such as 30m, 8h or 1h30m")
        return value

    @field_validator("schedule")
    @classmethod
    def _check_schedule(cls, value: str) -> str:
        """Karpenter puts the time zone before it, so that no other can be given."""
        if not value:
            return value
        try:
            parse_schedule(f"TZ=UTC {value}")
        except ScheduleError as error:
            example = "must be a cron schedule in UTC such as 0 9 * * 1-5 or @daily"
            raise problem(f"{shown(value)}: {example}: {error}") from None
        return value

    @model_validator(mode="after")
    def _check(self) -> Budget:
        if bool(self.schedule) != (self.duration is not None):
            raise problem("schedule and duration must be set together")
        return self


_KARPENTER = "Karpenter v1.15.0"


class Disruption(Part):
    """When nodes of a pool may go. All of it is Karpenter's; the Cluster Autoscaler has settings for all pools."""

    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] = option(
        "WhenEmptyOrUnderutilized", "Which nodes are consolidated.", source=_KARPENTER
    )
    consolidate_after: str = option(
        "0s", "Time without change of a node's pods before it is looked at, or Never.", source=_KARPENTER, max_length=64
    )
    budgets: Annotated[tuple[Budget, ...], FromList] = option(
        ({"nodes": "10%"},), "How many nodes at once.", source=_KARPENTER, max_length=50
    )
    expire_after: str = option("720h", "Age at which a node is replaced, or Never.", source=_KARPENTER, max_length=64)
    termination_grace_period: PositiveDuration | None = option(
        None, "How long a node may take to be emptied before its pods are deleted. Absent: for ever."
    )


class PoolChange(Part):
    """What a pool asks for from a moment on; what is left out stays as it was by then."""

    at: Duration = needed("When, from the start of the run.")
    instance_types: Annotated[tuple[str, ...], Field(min_length=1, max_length=1000), FromList] | None = option(
        None, "Other types of machines."
    )
    capacity_types: Annotated[tuple[CapacityType, ...], Field(min_length=1, max_length=2), FromList] | None = option(
        None, "Other terms."
    )
    zones: Annotated[tuple[str, ...], Field(min_length=1, max_length=16), FromList] | None = option(
        None, "Other zones."
    )
    labels: Labels | None = option(None, "Labels of every new node, in the place of those before.", max_length=64)
    taints: Annotated[tuple[Taint, ...], Field(max_length=32), FromList] | None = option(
        None, "Taints of every new node, in the place of those before."
    )
    startup_taints: Annotated[tuple[Taint, ...], Field(max_length=32), FromList] | None = option(
        None, "Startup taints of every new node, in the place of those before."
    )

    @property
    def fields(self) -> dict[str, Any]:
        """What is different, by the name of the pool's attribute."""
        names = [name for name in type(self).model_fields if name != "at"]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _check(self) -> PoolChange:
        if not self.fields:
            raise problem("nothing changes: set at least one other field than at")
        return self


class NodePool(GrownPart):
    """Nodes that come and go."""

    LATER: ClassVar[tuple[str, ...]] = ("changes",)

    name: str = needed(
        "Name of the pool; its nodes have it as label stowplan.io/node-pool.", pattern=NAME_PATTERN, max_length=50
    )
    instance_types: Names = needed(
        "Types of machines, of spec.instanceTypes or its file; patterns (m-*) are allowed. The Cluster Autoscaler "
        "takes one per pool.",
        min_length=1,
        max_length=1000,
    )
    capacity_types: Annotated[tuple[CapacityType, ...], FromList] = option(
        ("on-demand",), "How machines may be bought.", min_length=1, max_length=2
    )
    zones: Names = parts(
        "Zones that machines are taken from; none: no label of a zone, with Karpenter zone-a.", max_length=16
    )
    min: int = option(0, "Fewest nodes. Karpenter knows no minimum: it must be 0 there.", ge=0, le=100_000)
    max: int | None = option(
        None,
        "Most nodes. Absent: as many as the limits allow (Cluster Autoscaler: 1000). Karpenter, as upstream, counts "
        "nodes between its rounds only, so that one round can go beyond.",
        ge=0,
        le=100_000,
    )
    initial: int | None = option(None, "Nodes at the start. Absent: min.", ge=0, le=100_000)
    labels: Labels = option({}, "Labels of every node.", max_length=64)
    taints: Annotated[tuple[Taint, ...], FromList] = parts("Taints of every node.", max_length=32)
    startup_taints: Annotated[tuple[Taint, ...], FromList] = parts(
        "Taints that a new node has until it is initialised.", max_length=32
    )
    weight: int = option(0, "Karpenter tries pools of higher weight first.", ge=0, le=100)
    limits: Amounts = option(
        {}, "Most that the nodes of the pool may have together (Karpenter's limits).", max_length=8
    )
    disruption: Disruption = option({}, "When nodes may go.")
    priority: int = option(
        0,
        "For the priority expander of the Cluster Autoscaler: pools of the highest value first.",
        ge=0,
        le=10**6,
    )
    changes: Annotated[tuple[PoolChange, ...], FromList] = parts(
        "Changes of the pool during the run, in the order of their times. Nodes that are no longer what the pool asks "
        "for have drifted, and Karpenter replaces them; it must be the one who decides.",
        max_length=64,
    )

    @property
    def first_count(self) -> int:
        """Nodes at the start."""
        return self.min if self.initial is None else self.initial

    @model_validator(mode="after")
    def _check(self) -> NodePool:
        if self.max is not None and self.max < self.min:
            raise problem(f"max: {self.max}: must be at least min, which is {self.min}")
        if self.initial is not None and self.initial < self.min:
            raise problem(f"initial: {self.initial}: must be at least min, which is {self.min}")
        if self.max is not None and self.first_count > self.max:
            raise problem(f"initial: {self.first_count}: must be at most max, which is {self.max}")
        return self


class SpotSettings(Part):
    """What becomes of spot machines."""

    interruptions_per_hour: Number = option(
        0, "Mean number of times per hour that a spot machine is taken back; each has its own draw."
    )
    notice: Duration = option("2m", "Time between the notice and the end.", source="Amazon EC2")


class StockOut(Part):
    """Machines that cannot be had for a time. Fields that are left out mean any."""

    at: Duration = needed("When, from the start of the run.")
    duration: PositiveDuration | None = option(None, "How long. Absent: to the end.")
    pool: str = option("", "Name of a pool.", max_length=50)
    instance_type: str = option("", "A type.", max_length=63)
    zone: str = option("", "A zone.", max_length=63)
    capacity_type: CapacityType | None = option(None, "on-demand or spot.")


class BootTime(Part):
    """How long a machine takes from its launch until its Node object exists."""

    median: PositiveDuration = option(
        "22s", "Half of the machines take longer.", source="a Karpenter node on EC2, 2022: registered after 22 s"
    )
    sigma: Number = option("0.35", "Standard deviation of its logarithm: nine of ten below 1.57 times the median.")
    minimum: Duration = option("0s", "Shortest time.")
    maximum: PositiveDuration | None = option(None, "Longest time.")


class ProviderSpec(Part):
    """Whoever rents out machines."""

    request: Duration = option(
        "2s", "From a request for a machine until it is launched and paid for.", source="EC2 CreateFleet, 2022: 2 s"
    )
    boot: BootTime = option({}, "From the launch to the Node object.")
    initialization: Duration = option(
        "4s",
        "From the Node object until the node is Ready and its not-ready taint is gone.",
        source="the same node: 4 s from registration to Ready",
    )
    shutdown: Duration = option("30s", "From the request to delete a machine until it is gone and no longer paid for.")
    failures: Number = option(0, "Share of machines that never register.", le=1)
    minimum_bill: Duration = option("60s", "Shortest time that is paid for.", source="Amazon EC2: a minute")
    stock_outs: Annotated[tuple[StockOut, ...], FromList] = parts("Machines that cannot be had.", max_length=256)
    spot: SpotSettings = option({}, "Spot machines.")
