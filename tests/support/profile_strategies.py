"""Hypothesis strategies for scheduler profiles: good ones of either kind, and good ones with one thing spoilt."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from stowplan_scheduler.config import DEFAULT_PLUGINS, REGISTRY
from stowplan_scheduler.config.schema import API_VERSION, CONFIGURATION_KIND, EXTENSION_POINTS

Path = tuple[str | int, ...]

DEFAULT_NAMES = [plugin.name for plugin in DEFAULT_PLUGINS]
STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
POINTS = [point for point in EXTENSION_POINTS if point not in {"queueSort", "multiPoint", "bind"}]

_WEIGHTS = st.integers(0, 100)


@st.composite
def resources(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Of a scoring strategy; each once."""
    names = draw(st.lists(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "example.com/fpga"]), unique=True))
    return [{"name": name, **_maybe(draw, "weight", st.integers(1, 100))} for name in names]


@st.composite
def scoring_strategies(draw: st.DrawFn) -> dict[str, Any]:
    """Of NodeResourcesFit."""
    kind = draw(st.sampled_from(STRATEGIES))
    found: dict[str, Any] = {"type": kind, "resources": draw(resources())}
    if kind == STRATEGIES[2]:
        steps = sorted(draw(st.sets(st.integers(0, 100), min_size=1, max_size=5)))
        shape = [{"utilization": step, "score": draw(st.integers(0, 10))} for step in steps]
        found["requestedToCapacityRatio"] = {"shape": shape}
    return found


@st.composite
def plugin_configs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Args of some plugins, one that nobody knows among them."""
    choices: dict[str, st.SearchStrategy[dict[str, Any]]] = {
        "NodeResourcesFit": st.fixed_dictionaries(
            {}, optional={"scoringStrategy": scoring_strategies(), "ignoredResources": st.just(["example.com/license"])}
        ),
        "InterPodAffinity": st.fixed_dictionaries(
            {}, optional={"hardPodAffinityWeight": _WEIGHTS, "ignorePreferredTermsOfExistingPods": st.booleans()}
        ),
        "PodTopologySpread": st.sampled_from(
            [
                {},
                {"defaultingType": "System"},
                {"defaultingType": "List"},
                {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
                        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
                    ],
                },
            ]
        ),
        "DefaultPreemption": st.fixed_dictionaries({}, optional={"minCandidateNodesPercentage": st.integers(1, 100)}),
        "DynamicResources": st.fixed_dictionaries({}, optional={"filterTimeout": st.sampled_from(["0s", "1m30s"])}),
        "NodeAffinity": st.sampled_from(
            [
                {},
                {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]
                        }
                    }
                },
            ]
        ),
        "Unknown": st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([1, "x", [True], {"c": 2}])),
    }
    names = draw(st.lists(st.sampled_from(sorted(choices)), unique=True, max_size=4))
    return [{"name": name, **_maybe(draw, "args", choices[name])} for name in names]


@st.composite
def plugin_sets(draw: st.DrawFn) -> dict[str, Any]:
    """Plugins at points that they implement."""
    found: dict[str, Any] = {}
    for point in draw(st.lists(st.sampled_from(POINTS), unique=True, max_size=4)):
        able = [name for name in DEFAULT_NAMES if point in REGISTRY[name].points]
        enabled = draw(st.lists(st.sampled_from(able), unique=True, max_size=3)) if able else []
        weighted = point in {"score", "placementScore"}
        disabled = draw(st.lists(st.sampled_from([*able, "*"]), unique=True, max_size=3))
        found[point] = {
            "enabled": [{"name": name, **(_maybe(draw, "weight", _WEIGHTS) if weighted else {})} for name in enabled],
            "disabled": [{"name": name} for name in disabled],
        }
    everywhere = draw(st.lists(st.sampled_from(DEFAULT_NAMES), unique=True, max_size=3))
    if everywhere:
        entries = [{"name": name, **_maybe(draw, "weight", _WEIGHTS)} for name in everywhere]
        found["multiPoint"] = {"enabled": entries}
    return found


@st.composite
def configuration_profiles(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A profile of a KubeSchedulerConfiguration."""
    return {
        "schedulerName": name,
        **_maybe(draw, "percentageOfNodesToScore", st.integers(0, 100)),
        **_maybe(draw, "plugins", plugin_sets()),
        **_maybe(draw, "pluginConfig", plugin_configs()),
    }


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with one to three profiles, almost always a valid one."""
    names = draw(st.lists(st.sampled_from(["default-scheduler", "dense", "sparse"]), unique=True, min_size=1))
    return {
        "apiVersion": API_VERSION,
        "kind": CONFIGURATION_KIND,
        **_maybe(draw, "percentageOfNodesToScore", st.integers(0, 100)),
        "profiles": [draw(configuration_profiles(name)) for name in names],
    }


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """The spec of a SchedulerProfile, almost always a valid one."""
    spec: dict[str, Any] = draw(configuration_profiles("dense"))
    if all(config["name"] != "NodeResourcesFit" for config in spec.get("pluginConfig", ())):
        spec |= _maybe(draw, "scoringStrategy", scoring_strategies())
    rollout = st.fixed_dictionaries({}, optional={"mode": st.sampled_from(["Active", "Shadow", "Paused"])})
    workers = st.fixed_dictionaries(
        {}, optional={"group": st.sampled_from(["default", "batch"]), "replicas": st.integers(1, 3)}
    )
    return spec | _maybe(draw, "rollout", rollout) | _maybe(draw, "workers", workers)


def _maybe(draw: st.DrawFn, name: str, values: st.SearchStrategy[Any]) -> dict[str, Any]:
    return {name: draw(values)} if draw(st.booleans()) else {}


# ---- spoilt ----------------------------------------------------------------------------------------------------------

FULL: dict[str, Any] = {
    "schedulerName": "dense",
    "takeOver": False,
    "percentageOfNodesToScore": 50,
    "plugins": {
        "preEnqueue": {"enabled": [{"name": "SchedulingGates"}]},
        "queueSort": {"enabled": [{"name": "PrioritySort"}]},
        "filter": {"enabled": [{"name": "NodeName"}], "disabled": [{"name": "NodePorts", "weight": 0}]},
        "score": {"enabled": [{"name": "ImageLocality", "weight": 3}], "disabled": [{"name": "*"}]},
        "bind": {"enabled": [{"name": "DefaultBinder"}]},
        "multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 10}]},
    },
    "pluginConfig": [
        {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5, "ignorePreferredTermsOfExistingPods": True}},
        {
            "name": "PodTopologySpread",
            "args": {
                "defaultingType": "List",
                "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
            },
        },
        {"name": "DynamicResources", "args": {"filterTimeout": "10s"}},
        {
            "name": "NodeResourcesBalancedAllocation",
            "args": {"resources": [{"name": "cpu", "weight": 1}], "kind": "NodeResourcesBalancedAllocationArgs"},
        },
    ],
    "scoringStrategy": {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}],
        "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
    },
    "extenders": [
        {
            "urlPrefix": "https://extender.kube-system.svc/",
            "filterVerb": "filter",
            "weight": 1,
            "enableHTTPS": True,
            "tlsConfig": {"insecure": False, "caData": "YQ=="},
            "httpTimeout": "5s",
            "managedResources": [{"name": "example.com/fpga", "ignoredByScheduler": True}],
        }
    ],
    "rollout": {"mode": "Shadow", "shadowOf": "default-scheduler"},
    "workers": {"group": "batch", "replicas": 2, "runtime": "Deployment"},
}
"""A spec with every field; good, but for the extenders."""

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 101, 2**31, 2**63, 10**30, 1.5, -0.5])
    | st.sampled_from(
        ["", "*", "dense", "default-scheduler", "NodeResourcesFit", "ImageLocality", "1", "a\nb", "é" * 300]
    )
    | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "weight", "args", "x"]), inner)
    ),
    max_leaves=8,
)
"""Anything that JSON can hold, with a liking for what has a meaning somewhere."""


def paths(value: Any, here: Path = ()) -> list[Path]:
    """The paths of all members, at any depth."""
    members = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [path for key, member in members for path in ((*here, key), *paths(member, (*here, key)))]


PATHS = paths(FULL)


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Path, dict[str, Any]]:
    """FULL with one member spoilt, and its path; with extenders only if they are what is spoilt."""
    path, spec = draw(spoilt_one(FULL, VALUES))
    if path[0] != "extenders":
        del spec["extenders"]
    return path, spec


@st.composite
def spoilt_one(draw: st.DrawFn, full: dict[str, Any], values: st.SearchStrategy[Any]) -> tuple[Path, dict[str, Any]]:
    """A copy of a spec with one member replaced by a value, removed or added, and the path of that member."""
    path = draw(st.sampled_from(paths(full)))
    spec = deepcopy(full)
    holder: Any = spec
    for key in path[:-1]:
        holder = holder[key]
    match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
        case "replace":
            holder[path[-1]] = draw(values)
        case "remove":
            del holder[path[-1]]
        case _ if isinstance(holder, dict):
            name = draw(st.sampled_from(["x", "naem", "Weight"]))
            holder[name] = draw(values)
            path = (*path[:-1], name)
        case _:
            holder.append(draw(values))
    return path, spec


def related(field: str, path: Path) -> bool:
    """Whether a problem about `field` can come from a change at `path` of spec: the same part of it, or a partner."""
    top = f"spec.{path[0]}"
    partners = {
        "spec.pluginConfig": ("spec.scoringStrategy",),
        "spec.scoringStrategy": ("spec.pluginConfig",),
        "spec.schedulerName": ("spec.rollout.shadowOf",),
        "spec.plugins": ("spec.pluginConfig",),
    }
    return field == "spec" or field.startswith((top, *partners.get(top, ())))
