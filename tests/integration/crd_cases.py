"""For every CEL rule of the custom resources: objects that it accepts and objects that it refuses.

A case is a small change of an object that is right otherwise, so that nothing but the rule can refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stowplan_operator.resources.cel_rules import RESTRICTED_LABELS, RULES, Rule
from stowplan_operator.resources.spec_checks import SINGLE, WEIGHTED
from stowplan_scheduler.config.schema import EXTENSION_POINTS

Spec = dict[str, Any]

PROFILE: Final = "SchedulerProfile"
POOL: Final = "NodePool"
SIMULATION: Final = "Simulation"

_MACHINE: Final = {"name": "general-8", "capacity": {"cpu": 8, "memory": "32Gi"}}
_GROUP: Final = {"name": "general", "count": 3, "capacity": {"cpu": "8", "memory": "32Gi"}}

BASES: Final[Mapping[str, Spec]] = {
    PROFILE: {"schedulerName": "dense"},
    POOL: {"machines": [_MACHINE]},
    SIMULATION: {"duration": "1h", "cluster": {"nodeGroups": [_GROUP]}},
}
"""The smallest spec of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A rule by its place and message, and specs on both sides of it. `field`: where the server sees the error.

    `old`: what is stored before, for rules about changes.
    """

    kind: str
    at: str
    message: str
    field: str
    accepts: tuple[Spec, ...]
    refuses: tuple[Spec, ...]
    old: Spec | None = None

    @property
    def rule(self) -> Rule:
        """The rule that the case is about."""
        return next(rule for rule in RULES[self.kind] if (rule.at, rule.message) == (self.at, self.message))

    def __str__(self) -> str:
        return f"{self.kind} {self.at}: {self.message}"


def manifest(kind: str, spec: Spec, name: str = "case") -> dict[str, Any]:
    """The object with the smallest spec of its kind and these fields instead of those of the same names."""
    return {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**BASES[kind], **spec},
    }


def _profile(at: str, message: str, field: str, *, accepts: list[Spec], refuses: list[Spec], **more: Any) -> Case:
    return Case(
        kind=PROFILE, at=at, message=message, field=field, accepts=tuple(accepts), refuses=tuple(refuses), **more
    )


def _ratio(*points: tuple[int, int]) -> Spec:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return {
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}
        }
    }  # fmt: skip


_FIT_ARGS: Final = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "LeastAllocated"}}}
_SPREAD_ARGS: Final = {"name": "PodTopologySpread", "args": {"defaultingType": "System"}}
_MOST: Final = {"type": "MostAllocated"}
_RATIO_RULE: Final = (
    "requestedToCapacityRatio must be set for the type RequestedToCapacityRatio, and for that only"
)  # fmt: skip

_PROFILES: Final = (
    _profile(
        "spec",
        "default-scheduler needs takeOver: true, since kube-scheduler binds the pods of this name",
        "spec.schedulerName",
        accepts=[
            {"schedulerName": "default-scheduler", "takeOver": True},
            {"schedulerName": "default-scheduler-2"},
            {"takeOver": True},
        ],
        refuses=[{"schedulerName": "default-scheduler"}, {"schedulerName": "default-scheduler", "takeOver": False}],
    ),
    _profile(
        "spec.schedulerName",
        "schedulerName cannot be changed: make another profile",
        "spec.schedulerName",
        old={},
        accepts=[{"percentageOfNodesToScore": 50}],
        refuses=[{"schedulerName": "denser"}],
    ),
    _profile(
        "spec.workers.group",
        "group cannot be changed: delete the profile and make it anew",
        "spec.workers.group",
        old={"workers": {"group": "batch"}},
        accepts=[{"workers": {"group": "batch", "replicas": 2}}],
        # What is left out is the default's, which is another group, too.
        refuses=[{"workers": {"group": "other"}}, {"workers": {}}, {}],
    ),
    _profile(
        "spec",
        "scoringStrategy is short for args of NodeResourcesFit: keep it or the entry in pluginConfig",
        "spec.scoringStrategy",
        accepts=[
            {"scoringStrategy": _MOST},
            {"pluginConfig": [_FIT_ARGS]},
            {"scoringStrategy": _MOST, "pluginConfig": [_SPREAD_ARGS]},
        ],
        refuses=[{"scoringStrategy": _MOST, "pluginConfig": [_SPREAD_ARGS, _FIT_ARGS]}],
    ),
    _profile(
        "spec",
        "shadowOf must be another scheduler than schedulerName",
        "spec.rollout.shadowOf",
        accepts=[
            {"rollout": {"mode": "Shadow"}},
            {"rollout": {"mode": "Shadow", "shadowOf": "sparse"}},
            {"rollout": {"mode": "Paused", "shadowOf": "dense"}},
        ],
        refuses=[
            {"rollout": {"mode": "Shadow", "shadowOf": "dense"}},
            {"schedulerName": "default-scheduler", "takeOver": True, "rollout": {"mode": "Shadow"}},
        ],
    ),
    _profile(
        "spec.workers",
        "replicas must be 1 with runtime Child, which has no stand-by",
        "spec.workers.replicas",
        accepts=[
            {"workers": {"runtime": "Child"}},
            {"workers": {"runtime": "Deployment", "replicas": 2}},
            {"workers": {"replicas": 2}},
        ],
        refuses=[{"workers": {"runtime": "Child", "replicas": 2}}],
    ),
    _profile(
        "spec.scoringStrategy",
        _RATIO_RULE,
        "spec.scoringStrategy.requestedToCapacityRatio",
        accepts=[{"scoringStrategy": _MOST}, _ratio((0, 0), (100, 10))],
        refuses=[
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            {"scoringStrategy": {**_ratio((0, 0))["scoringStrategy"], "type": "LeastAllocated"}},
        ],
    ),
    _profile(
        "spec.scoringStrategy.requestedToCapacityRatio.shape",
        "points must stand by rising utilization, each once",
        "spec.scoringStrategy.requestedToCapacityRatio.shape",
        accepts=[_ratio((50, 5)), _ratio((0, 0), (80, 10), (100, 5))],
        refuses=[_ratio((80, 10), (0, 0)), _ratio((0, 0), (0, 1)), _ratio((0, 0), (100, 10), (99, 0))],
    ),
)


def _plugin_cases() -> Iterator[Case]:
    for point in EXTENSION_POINTS:
        at = f"spec.plugins.{point}.enabled"
        yield _profile(
            f"{at}[]",
            "* can be disabled only",
            f"{at}[0].name",
            accepts=[_plugins(point, {"name": "Any"}), {"plugins": {point: {"disabled": [{"name": "*"}]}}}],
            refuses=[_plugins(point, {"name": "*"})],
        )
        if point not in WEIGHTED:
            yield _profile(
                f"{at}[]",
                f"a weight counts at {', '.join(WEIGHTED)} only",
                f"{at}[0].weight",
                accepts=[_plugins(point, {"name": "Any"}), _plugins(point, {"name": "Any", "weight": 0})],
                refuses=[_plugins(point, {"name": "Any", "weight": 1})],
            )
        if point in SINGLE:
            yield _profile(
                at,
                f"at most one plugin at {point}",
                at,
                accepts=[_plugins(point, {"name": "Any"})],
                refuses=[_plugins(point, {"name": "Any"}, {"name": "Other"})],
            )


def _plugins(point: str, *entries: Spec) -> Spec:
    return {"plugins": {point: {"enabled": list(entries)}}}


# ---- pools -----------------------------------------------------------------------------------------------------------


def _pool_cases(kind: str) -> Iterator[Case]:
    """The rules that pools have as custom resources and inside of a Simulation."""

    def spec(pool: Spec) -> Spec:
        return pool if kind == POOL else {"nodePools": [{"name": "p", "instanceTypes": ["general-8"], **pool}]}

    def case(at: str, message: str, field: str, accepts: list[Spec], refuses: list[Spec]) -> Case:
        root, place = ("spec", "spec") if kind == POOL else ("spec.nodePools[]", "spec.nodePools[0]")
        return Case(
            kind=kind,
            at=root + at,
            message=message,
            field=place + field,
            accepts=tuple(map(spec, accepts)),
            refuses=tuple(map(spec, refuses)),
        )

    yield case(
        "",
        "max must be at least min",
        ".max",
        [{"min": 2, "max": 2}, {"max": 0}, {"min": 2}],
        [{"min": 3, "max": 2, "initial": 3}],
    )
    yield case(
        "",
        "initial must be at least min",
        ".initial",
        [{"min": 2, "initial": 2}, {"initial": 0}],
        [{"min": 2, "initial": 1}],
    )
    yield case(
        "",
        "initial must be at most max",
        ".initial",
        [{"max": 2, "initial": 2}, {"max": 0}],
        [{"max": 2, "initial": 3}],
    )

    def budget(**fields: str) -> Spec:
        return {"disruption": {"budgets": [fields]}}

    yield case(
        ".disruption.budgets[]",
        "schedule and duration must be set together",
        ".disruption.budgets[0]",
        [budget(nodes="0"), budget(schedule="@daily", duration="1h"), budget(schedule="")],
        [budget(schedule="@daily"), budget(duration="1h"), budget(schedule="", duration="1h")],
    )


def _node_pool_cases() -> Iterator[Case]:
    restricted = "labels that say which machine, zone or pool a node is of cannot be set"
    for at, field in (("spec.labels", "spec.labels"), ("spec.machines[].labels", "spec.machines[0].labels")):

        def spec(labels: Spec, at: str = at) -> Spec:
            return {"labels": labels} if at == "spec.labels" else {"machines": [{**_MACHINE, "labels": labels}]}

        yield Case(
            kind=POOL,
            at=at,
            message=restricted,
            field=field,
            accepts=(spec({}), spec({"team": "shop", "example.com/disk": "ssd"})),
            refuses=tuple(spec({"team": "shop", label: "x"}) for label in RESTRICTED_LABELS),
        )
    for name in ("consolidateAfter", "expireAfter"):
        yield Case(
            kind=POOL,
            at=f"spec.disruption.{name}",
            message=f"{name} must be a duration such as 10m, or Never",
            field=f"spec.disruption.{name}",
            accepts=tuple({"disruption": {name: value}} for value in ("Never", "0s", "1h30m", "1.5s", "720h")),
            refuses=tuple(
                {"disruption": {name: value}} for value in ("", "never", "1d", "10", "10m ", "1,5s", "NeverNever")
            ),
        )


# ---- simulations -----------------------------------------------------------------------------------------------------


def _file_cases() -> Iterator[Case]:
    group = BASES[SIMULATION]["cluster"]

    def demand(**fields: Any) -> Spec:
        return {"demand": [{"name": "visits", "target": {"name": "web"}, **fields}]}

    web = {"cpuPerRequest": "10m"}
    per_second = {"constant": {"value": 100}}
    given: dict[str, tuple[str, Spec, Spec]] = {
        "spec.instanceTypesFile": ("", {"instanceTypesFile": ""}, {"instanceTypesFile": "types.json"}),
        "spec.cluster.files": (
            "",
            {"cluster": {**group, "files": []}},
            {"cluster": {**group, "files": ["a.yaml"]}},
        ),
        "spec.cluster.snapshot": (
            "",
            {"cluster": {**group, "snapshot": ""}},
            {"cluster": {**group, "snapshot": "dump.json"}},
        ),
        "spec.schedulerProfiles.file": (
            "",
            {"schedulerProfiles": {"configuration": {"kind": "KubeSchedulerConfiguration"}}},
            {"schedulerProfiles": {"file": "profiles.yaml"}},
        ),
        "spec.workloads.files": ("", {"workloads": {"files": []}}, {"workloads": {"files": ["web.yaml"]}}),
        "spec.demand[].series": (
            ".csv",
            demand(web=web, series=per_second),
            demand(web=web, series={"csv": {"file": "day.csv"}}),
        ),
        "spec.demand[]": (".trace", demand(web=web, series=per_second), demand(trace={"file": "trace.json"})),
        "spec.prices.file": ("", {"prices": {"currency": "EUR"}}, {"prices": {"file": "prices.csv"}}),
    }
    for at, (choice, accepts, refuses) in given.items():
        yield Case(
            kind=SIMULATION,
            at=at,
            message="a custom resource has no files beside it: give the content, or use stowplan simulate -f",
            field=at.replace("[]", "[0]") + choice,
            accepts=(accepts,),
            refuses=(refuses,),
        )


_SIMULATIONS: Final = (
    Case(
        kind=SIMULATION,
        at="spec",
        message="baseline must be the name of a candidate",
        field="spec.baseline",
        accepts=({"baseline": ""}, {"baseline": "now", "candidates": [{"name": "then"}, {"name": "now"}]}),
        refuses=({"baseline": "now"}, {"baseline": "now", "candidates": [{"name": "then"}]}),
    ),
    Case(
        kind=SIMULATION,
        at="spec",
        message="has no nodes: give nodeGroups, or Nodes as objects; or spec.nodePools",
        field="spec.cluster",
        accepts=(
            {"cluster": {}, "nodePools": [{"name": "p", "instanceTypes": ["general-8"]}]},
            {"cluster": {"objects": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}]}},
        ),
        refuses=({"cluster": {}}, {"cluster": {"nodeGroups": []}, "nodePools": []}),
    ),
)

CASES: Final = (
    *_PROFILES,
    *_plugin_cases(),
    *_pool_cases(POOL),
    *_node_pool_cases(),
    *_pool_cases(SIMULATION),
    *_file_cases(),
    *_SIMULATIONS,
)
"""One case for each rule."""
