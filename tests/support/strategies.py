"""Hypothesis strategies: small clusters and pods in which every scheduling rule has something to say.

Few values of everything, so that labels, taints, ports, images and domains meet often. An API server would take the
objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan_scheduler.objects import (
    LabelSelector,
    Namespace,
    Node,
    NodeSelectorTerm,
    Pod,
    PodDisruptionBudget,
    Quantity,
    ReplicaSet,
    Service,
)

from .builders import (
    HOSTNAME,
    ZONE,
    NodeBuilder,
    PodBuilder,
    budget,
    manifest,
    name_term,
    namespace,
    node,
    node_term,
    pod,
    replica_set,
    selector,
    service,
)

APPS = ("web", "db", "job")
NAMESPACES = ("default", "team-a", "team-b")
KEYS = (HOSTNAME, ZONE, "rack")
IMAGES = ("app", "web:1", "registry.example.com:5000/db", "big@sha256:ab")
PRIORITIES = (-10, 0, 5, 100)
EFFECTS = ("PreferNoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoSchedule", "NoExecute")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster, a pod to place, and pods that were promised to nodes. `configuration` is valid or None."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    pod: Pod
    nominated: tuple[Pod, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    services: tuple[Service, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    configuration: Mapping[str, Any] | None = None

    def line(self, name: str) -> dict[str, Any]:
        """The scenario as a line for the oracle."""
        return {
            "id": name,
            "config": self.configuration,
            "objects": {
                "namespaces": [manifest(each) for each in self.namespaces],
                "services": [manifest(each) for each in self.services],
                "replicaSets": [manifest(each) for each in self.replica_sets],
                "podDisruptionBudgets": [manifest(each) for each in self.budgets],
                "nodes": [manifest(each) for each in self.nodes],
                "pods": [manifest(each) for each in self.pods],
            },
            "pod": manifest(self.pod),
            "nominated": [manifest(each) for each in self.nominated],
        }


def maybe(draw: st.DrawFn, one_in: int = 3) -> bool:
    """True about once in `one_in` times; False is the simpler example."""
    return draw(st.integers(0, one_in - 1)) == one_in - 1


def requests() -> st.SearchStrategy[dict[str, Quantity]]:
    """The requests of a container; absent, zero and odd amounts included."""
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(["0", "100m", "250m", "0.5", "1", "1500m", "33m"]),
            "memory": st.sampled_from(["0", "64Mi", "200Mi", "1Gi", "500M", "3Gi", "1025Ki"]),
        },
    )


@st.composite
def all_requests(draw: st.DrawFn) -> dict[str, Quantity]:
    """The same, now and then with the rarer resources."""
    found = draw(requests())
    if maybe(draw, 10):
        found["ephemeral_storage"] = draw(st.sampled_from(["1Gi", "0", "20Gi"]))
    if maybe(draw, 8):
        found["gpu"] = draw(st.sampled_from(["1", "2"]))
    return found


@st.composite
def label_selectors(draw: st.DrawFn, *, nothing: bool = True) -> LabelSelector | None:
    """Selectors over the labels that pods have; with `nothing` also the absent one."""
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return None if nothing else selector()
    if kind == 1:
        return selector()
    if kind == 2:
        values = draw(st.lists(st.sampled_from(APPS), min_size=1, max_size=2, unique=True))
        return selector(("app", draw(st.sampled_from(["In", "NotIn"])), values))
    if kind == 3:
        return selector(("tier", draw(st.sampled_from(["Exists", "DoesNotExist"])), ()))
    return selector(app=draw(st.sampled_from(APPS)))


@st.composite
def namespace_selectors(draw: st.DrawFn) -> LabelSelector | None:
    """Selectors over the labels that namespaces have."""
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return selector()
    if kind == 1:
        return selector(team="a")
    if kind == 2:
        return selector(("team", draw(st.sampled_from(["NotIn", "In"])), ["a"]))
    return None


@st.composite
def node_terms(draw: st.DrawFn, count: int = 4) -> NodeSelectorTerm:
    """Terms over the labels and names of nodes."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        names = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=1))
        operator = draw(st.sampled_from(["In", "NotIn"]))
        return name_term(*(f"n{name}" for name in names), operator=operator)
    if kind == 1:
        return node_term("size", draw(st.sampled_from(["Gt", "Lt"])), draw(st.sampled_from(["1", "2", "10"])))
    if kind == 2:
        return node_term(draw(st.sampled_from(["rack", "size"])), draw(st.sampled_from(["Exists", "DoesNotExist"])))
    if kind == 3:
        return node_term("rack", draw(st.sampled_from(["In", "NotIn"])), "r1", "r2")
    return node_term("zone", draw(st.sampled_from(["In", "NotIn"])), draw(st.sampled_from(["a", "b"])))


@st.composite
def nodes(draw: st.DrawFn, name: str = "n0") -> Node:
    """A node with some of: zone, rack, size, taints, images, extended resources, oddities."""
    made = node(name)
    made.capacity(
        cpu=draw(st.sampled_from(["2", "4", "1930m"])),
        memory=draw(st.sampled_from(["4Gi", "8Gi", "3.5Gi"])),
        pods=draw(st.sampled_from(["110", "110", "110", "110", "3"])),
    )
    if maybe(draw):
        made.capacity(ephemeral_storage="47Gi")
    if maybe(draw):
        made.capacity(gpu=draw(st.sampled_from(["1", "2", "8"])))
    for key, values in (("zone", ["a", "b", "c"]), ("rack", ["r1", "r2", ""]), ("size", ["1", "2", "10", "big"])):
        if not maybe(draw, 4):
            made.label(key, draw(st.sampled_from(values)))
    if maybe(draw, 12):
        made.no_label("hostname")
    if maybe(draw, 16):
        made.unschedulable()
    _taint(draw, made)
    for image in draw(st.lists(st.sampled_from(IMAGES), max_size=2, unique=True)):
        tagged = image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"
        made.image(tagged, size=draw(st.sampled_from([10, 90, 300, 700, 1500])) * MIB)
    if maybe(draw):
        made.features("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")
    return made.build()


def _taint(draw: st.DrawFn, made: NodeBuilder) -> None:
    for key in draw(st.sampled_from([(), (), (), ("dedicated",), ("spot",), ("dedicated", "spot")])):
        effect = draw(st.sampled_from(EFFECTS))
        made.taint(key, draw(st.sampled_from(["x", "y", ""])), effect)


@st.composite
def pods(draw: st.DrawFn, name: str = "p", *, on: str | None = None, rich: bool = True, count: int = 4) -> Pod:
    """A pod; `on` binds it to a node, `rich` gives it rules of its own. `count` is the number of nodes n0, n1, ..."""
    made = pod(name, draw(st.sampled_from((*NAMESPACES, "default", "default"))))
    made.req(**draw(all_requests()))
    if not maybe(draw, 8):
        made.labels(app=draw(st.sampled_from(APPS)))
    if maybe(draw):
        made.labels(tier="front")
    if maybe(draw, 6):
        made.port(draw(st.sampled_from([80, 81])), ip=draw(st.sampled_from(["", "10.0.0.1", "0.0.0.0"])))
    made.priority(draw(st.sampled_from(PRIORITIES if on else (*PRIORITIES, 100, 100))))
    if rich:
        _placement_rules(draw, made, count)
    if maybe(draw, 2 if rich else 4):
        _pod_rules(draw, made)
    if on is not None:
        made.on(on, draw(st.sampled_from(["1999-12-01T00:00:00Z", "1999-12-02T00:00:00Z", None])))
        if maybe(draw, 10):
            made.deleting()
    return made.build()


def _placement_rules(draw: st.DrawFn, made: PodBuilder, count: int) -> None:
    """Images, init containers, tolerations, node affinity, spreading, an owner."""
    made.image(draw(st.sampled_from(IMAGES)))
    if maybe(draw):
        made.init(draw(st.sampled_from(IMAGES)), sidecar=draw(st.booleans()), **draw(requests()))
    if maybe(draw, 6):
        made.image_volume(draw(st.sampled_from(IMAGES)))
    if maybe(draw, 6):
        made.overhead(cpu="50m", memory="10Mi")
    if maybe(draw, 6):
        made.pod_level(cpu="2", memory="2Gi")
    for key in draw(st.lists(st.sampled_from(["dedicated", "spot", ""]), max_size=2)):
        made.tolerate(
            key, draw(st.sampled_from(["", "x"])) if key else "", effect=draw(st.sampled_from(["", "NoSchedule"]))
        )
    if maybe(draw, 6):
        made.require_node(*draw(st.lists(node_terms(count), min_size=1, max_size=2)))
    if maybe(draw, 12):
        made.node_selector(rack="r1")
    if maybe(draw, 8):
        made.require_node(*(name_term(f"n{i}") for i in draw(st.lists(st.integers(0, count), min_size=1, max_size=2))))
    if maybe(draw, 16):
        made.wants_node(f"n{draw(st.integers(0, count))}")
    for term in draw(st.lists(node_terms(count), max_size=2)):
        made.prefer_node(draw(st.integers(1, 100)), term)
    for _ in range(draw(st.integers(0, 2))):
        made.spread(
            draw(st.sampled_from(KEYS)),
            draw(label_selectors()),
            max_skew=draw(st.integers(1, 3)),
            soft=(soft := draw(st.booleans())),
            min_domains=None if soft else draw(st.sampled_from([None, 1, 3])),
            affinity_policy=draw(st.sampled_from([None, "Honor", "Ignore"])),
            taints_policy=draw(st.sampled_from([None, "Honor", "Ignore"])),
        )
    if maybe(draw):
        made.owner("ReplicaSet", "rs")


def _pod_rules(draw: st.DrawFn, made: PodBuilder) -> None:
    """Affinity and anti-affinity, required and preferred."""
    for _ in range(draw(st.integers(1, 2))):
        made.affinity(
            draw(st.sampled_from(KEYS)),
            draw(label_selectors()),
            anti=draw(st.booleans()),
            weight=draw(st.one_of(st.none(), st.integers(1, 100))),
            namespaces=draw(st.sampled_from([(), (), ("team-a",), ("default", "team-b")])),
            namespace_selector=draw(namespace_selectors()),
        )


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any] | None:
    """A valid KubeSchedulerConfiguration with one changed aspect, or None."""
    kind = draw(st.integers(0, 7))
    args: dict[str, Any] = {}
    plugins: dict[str, Any] = {}
    if kind == 1:
        points = [{"utilization": 0, "score": 0}, {"utilization": 37, "score": 7}, {"utilization": 100, "score": 2}]
        strategy = draw(st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]))
        weights = {"cpu": 3, "memory": 1, "example.com/gpu": 5}
        resources = [{"name": name, "weight": weight} for name, weight in weights.items()]
        args["NodeResourcesFit"] = {"scoringStrategy": {"type": strategy, "resources": resources}}
        if strategy == "RequestedToCapacityRatio":
            args["NodeResourcesFit"]["scoringStrategy"]["requestedToCapacityRatio"] = {"shape": points}
        balanced = ["cpu", "memory", "ephemeral-storage", "example.com/gpu"]
        args["NodeResourcesBalancedAllocation"] = {"resources": [{"name": name, "weight": 1} for name in balanced]}
    elif kind == 2:
        hard, ignore = draw(st.sampled_from([0, 1, 100])), draw(st.booleans())
        args["InterPodAffinity"] = {"hardPodAffinityWeight": hard, "ignorePreferredTermsOfExistingPods": ignore}
    elif kind == 3:
        when = draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]))
        constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when}
        args["PodTopologySpread"] = {"defaultingType": "List", "defaultConstraints": [constraint]}
    elif kind == 4:
        name = draw(st.sampled_from(["ImageLocality", "NodeAffinity", "NodeResourcesFit", "TaintToleration"]))
        plugins[draw(st.sampled_from(["score", "multiPoint"]))] = {"enabled": [{"name": name, "weight": 7}]}
    elif kind == 5:
        disabled = draw(st.sampled_from(["*", "TaintToleration", "NodeResourcesFit", "InterPodAffinity"]))
        plugins["score"] = {"disabled": [{"name": disabled}]}
    elif kind == 6:
        disabled = draw(st.sampled_from(["NodeResourcesFit", "NodeAffinity", "TaintToleration", "NodePorts"]))
        plugins["filter"] = {"disabled": [{"name": disabled}]}
    elif kind == 7:
        term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
        added = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": term}],
        }
        args["NodeAffinity"] = {"addedAffinity": dict([draw(st.sampled_from(sorted(added.items())))])}
    if not args and not plugins:
        return None
    profile: dict[str, Any] = {"schedulerName": "default-scheduler", "plugins": plugins}
    profile["pluginConfig"] = [{"name": name, "args": value} for name, value in args.items()]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


@st.composite
def scenarios(draw: st.DrawFn, max_nodes: int = 6, max_pods: int = 12) -> Scenario:
    """A cluster with a pod to place. Priorities and full nodes make preemption common."""
    count = draw(st.integers(min(2, max_nodes), max_nodes))
    names = [f"n{i}" for i in range(count)]
    running = draw(st.integers(max_pods // 3, max_pods))
    placed = [draw(pods(f"e{i}", on=draw(st.sampled_from(names)), rich=False)) for i in range(running)]
    incoming = draw(pods("incoming", count=count))
    if maybe(draw, 5):
        incoming = _with_nomination(incoming, draw(st.sampled_from(names)))
    promised = [
        _with_nomination(draw(pods(f"q{i}", rich=False)), draw(st.sampled_from(names)))
        for i in range(draw(st.integers(0, 2)) if maybe(draw) else 0)
    ]
    return Scenario(
        nodes=tuple(draw(nodes(name)) for name in names),
        pods=tuple(placed),
        pod=incoming,
        nominated=tuple(promised),
        namespaces=(namespace("default"), namespace("team-a", team="a"), namespace("team-b")),
        services=(service("web", app="web"),) if maybe(draw) else (),
        replica_sets=(replica_set("rs", draw(label_selectors(nothing=False))),),
        budgets=(budget("b", draw(label_selectors(nothing=False)), draw(st.integers(0, 2))),) if maybe(draw) else (),
        configuration=draw(configurations()),
    )


def _with_nomination(made: Pod, name: str) -> Pod:
    return replace(made, status=replace(made.status, nominated_node_name=name))
