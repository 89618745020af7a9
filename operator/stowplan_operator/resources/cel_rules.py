"""What the API server checks beyond types and ranges, in CEL, by the path of the value that a rule looks at.

`self` is that value. Every rule has a case that it accepts and one that it refuses, run by a real API server
(tests/integration/test_crds_cel.py). The rules about SchedulerProfiles have their twins in `spec_checks`, for files.

The server estimates the cost of a rule by the longest lists and texts that the schema allows, so a rule may only go
over lists with maxItems and texts with maxLength.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stowplan_autoscaling.supply.pools import INSTANCE_TYPE_LABEL, ZONE_LABEL
from stowplan_scheduler.config.schema import EXTENSION_POINTS

from . import node_pool, scheduler_profile, simulation
from .scheduler_profile import ALL, DEFAULT_SCHEDULER, FIT, RATIO
from .spec_checks import SINGLE, WEIGHTED

_NEVER_OR_DURATION: Final = r"^(Never|([0-9]+(\\.[0-9]+)?(h|ms|us|ns|m|s))+)$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of x-kubernetes-validations. `at` is a path such as spec.plugins.filter.enabled[]."""

    at: str
    rule: str
    message: str
    field: str = ""
    """fieldPath: the part of `self` that the message is about."""
    immutable: bool = False
    """Whether it compares with the old object."""

    def as_schema(self) -> dict[str, Any]:
        """As the definition has it."""
        found = {"rule": self.rule, "message": self.message}
        if self.field:
            found["fieldPath"] = self.field
        if self.immutable:
            found["reason"] = "FieldValueForbidden"
        return found


# ---- SchedulerProfile ------------------------------------------------------------------------------------------------


def _plugin_rules() -> list[Rule]:
    rules = []
    for point in EXTENSION_POINTS:
        at = f"spec.plugins.{point}.enabled"
        rules.append(Rule(at=f"{at}[]", rule=f"self.name != '{ALL}'", message="* can be disabled only", field=".name"))
        if point not in WEIGHTED:
            message = f"a weight counts at {', '.join(WEIGHTED)} only"
            rule = "!has(self.weight) || self.weight == 0"
            rules.append(Rule(at=f"{at}[]", rule=rule, message=message, field=".weight"))
        if point in SINGLE:
            rules.append(Rule(at=at, rule="size(self) <= 1", message=f"at most one plugin at {point}"))
    return rules


_PROFILE: Final = (
    Rule(
        at="spec",
        rule=f"self.schedulerName != '{DEFAULT_SCHEDULER}' || self.takeOver",
        message=f"{DEFAULT_SCHEDULER} needs takeOver: true, since kube-scheduler binds the pods of this name",
        field=".schedulerName",
    ),
    Rule(
        at="spec.schedulerName",
        rule="self == oldSelf",
        message="schedulerName cannot be changed: make another profile",
        immutable=True,
    ),
    Rule(
        at="spec.workers.group",
        rule="self == oldSelf",
        message="group cannot be changed: delete the profile and make it anew",
        immutable=True,
    ),
    Rule(
        at="spec",
        rule="!has(self.scoringStrategy) || !has(self.pluginConfig) || "
        f"!self.pluginConfig.exists(c, c.name == '{FIT}')",
        message=f"scoringStrategy is short for args of {FIT}: keep it or the entry in pluginConfig",
        field=".scoringStrategy",
    ),
    Rule(
        at="spec",
        rule="self.rollout.mode != 'Shadow' || self.rollout.shadowOf != self.schedulerName",
        message="shadowOf must be another scheduler than schedulerName",
        field=".rollout.shadowOf",
    ),
    Rule(
        at="spec.workers",
        rule="!has(self.runtime) || self.runtime != 'Child' || self.replicas == 1",
        message="replicas must be 1 with runtime Child, which has no stand-by",
        field=".replicas",
    ),
    Rule(
        at="spec.scoringStrategy",
        rule=f"(self.type == '{RATIO}') == has(self.requestedToCapacityRatio)",
        message=f"requestedToCapacityRatio must be set for the type {RATIO}, and for that only",
        field=".requestedToCapacityRatio",
    ),
    Rule(
        at="spec.scoringStrategy.requestedToCapacityRatio.shape",
        rule="self.all(i, p, i == 0 || self[i - 1].utilization < p.utilization)",
        message="points must stand by rising utilization, each once",
    ),
    *_plugin_rules(),
)

# ---- NodePool --------------------------------------------------------------------------------------------------------

RESTRICTED_LABELS: Final = (
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    INSTANCE_TYPE_LABEL,
    ZONE_LABEL,
    "karpenter.sh/capacity-type",
    "karpenter.sh/nodepool",
    "stowplan.io/node-group",
    "stowplan.io/node-pool",
)
"""Labels that nodes have of the machine, the zone or the pool that they are of."""

_RESTRICTED: Final = "[" + ", ".join(f"'{label}'" for label in RESTRICTED_LABELS) + "]"


def _pool_rules(at: str) -> tuple[Rule, ...]:
    """Of a pool, wherever it stands. `min` may be left out where there are no defaults."""
    least = "(has(self.min) ? self.min : 0)"
    first = "(has(self.initial) ? self.initial : (has(self.min) ? self.min : 0))"
    budget = f"{at}.disruption.budgets[]"
    return (
        Rule(at=at, rule=f"!has(self.max) || self.max >= {least}", message="max must be at least min", field=".max"),
        Rule(
            at=at,
            rule=f"!has(self.initial) || self.initial >= {least}",
            message="initial must be at least min",
            field=".initial",
        ),
        Rule(
            at=at,
            rule=f"!has(self.max) || {first} <= self.max",
            message="initial must be at most max",
            field=".initial",
        ),
        Rule(
            at=budget,
            rule="(has(self.schedule) && self.schedule != '') == has(self.duration)",
            message="schedule and duration must be set together",
        ),
    )


def _node_pool_only() -> tuple[Rule, ...]:
    message = "labels that say which machine, zone or pool a node is of cannot be set"
    rule = f"self.all(k, !(k in {_RESTRICTED}))"
    return (
        Rule(at="spec.labels", rule=rule, message=message),
        Rule(at="spec.machines[].labels", rule=rule, message=message),
        *(
            Rule(
                at=f"spec.disruption.{field}",
                rule=f"self.matches('{_NEVER_OR_DURATION}')",
                message=f"{field} must be a duration such as 10m, or Never",
            )
            for field in ("consolidateAfter", "expireAfter")
        ),
    )


# ---- Simulation ------------------------------------------------------------------------------------------------------


def _file_rules() -> tuple[Rule, ...]:
    message = "a custom resource has no files beside it: give the content, or use stowplan simulate -f"
    return (
        *(Rule(at=field, rule="size(self) == 0", message=message) for field in simulation.FILE_FIELDS),
        *(
            Rule(at=at, rule=f"!has(self.{choice})", message=message, field=f".{choice}")
            for at, choice in simulation.FILE_CHOICES
        ),
    )


_SIMULATION: Final = (
    *_file_rules(),
    Rule(
        at="spec",
        rule="!has(self.baseline) || self.baseline == '' || "
        "(has(self.candidates) && self.candidates.exists(c, c.name == self.baseline))",
        message="baseline must be the name of a candidate",
        field=".baseline",
    ),
    Rule(
        at="spec",
        rule="(has(self.cluster.objects) && size(self.cluster.objects) > 0) || "
        "(has(self.cluster.nodeGroups) && size(self.cluster.nodeGroups) > 0) || "
        "(has(self.nodePools) && size(self.nodePools) > 0)",
        message="has no nodes: give nodeGroups, or Nodes as objects; or spec.nodePools",
        field=".cluster",
    ),
)

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    scheduler_profile.KIND: _PROFILE,
    node_pool.KIND: (*_pool_rules("spec"), *_node_pool_only()),
    simulation.KIND: (*_pool_rules("spec.nodePools[]"), *_SIMULATION),
}

# ---- lists -----------------------------------------------------------------------------------------------------------

_CONDITIONS: Final = {"status.conditions": ("type",)}

LIST_KEYS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    scheduler_profile.KIND: {
        **_CONDITIONS,
        **{f"spec.plugins.{point}.enabled": ("name",) for point in EXTENSION_POINTS},
        "spec.pluginConfig": ("name",),
        "spec.scoringStrategy.resources": ("name",),
        "status.workers": ("name",),
    },
    node_pool.KIND: {**_CONDITIONS, "spec.machines": ("name",)},
    simulation.KIND: {
        **_CONDITIONS,
        **{
            f"spec.{field}": ("name",)
            for field in ("cluster.nodeGroups", "instanceTypes", "nodePools", "demand", "slo", "candidates")
        },
    },
}
"""Lists whose entries are told apart by a key, which must be unique. All others are replaced as a whole."""
