"""The shape of the v1 API as Go declares it: what strict decoding needs to know about names and types.

Follows kube-scheduler `config/v1/types.go`, `types_pluginargs.go`, component-base `config/v1alpha1/types.go` and the
parts of core/v1 and meta/v1 that plugin args contain. The Go names appear in error texts ("cannot unmarshal string into
Go struct field Plugin.profiles.plugins.score.enabled.weight of type int32").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

GROUP = "kubescheduler.config.k8s.io"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
CONFIGURATION_KIND = "KubeSchedulerConfiguration"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A bool, a string (perhaps of a named type), an integer of some width or a float32."""

    go: str
    kind: Literal["bool", "string", "int", "float"]
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Bytes:
    """[]byte, base64 in JSON."""

    go: str = "[]uint8"


@dataclass(frozen=True, slots=True)
class Duration:
    """metav1.Duration, a string such as "1m30s". A pointer may be null."""

    pointer: bool = False
    go: str = "v1.Duration"


@dataclass(frozen=True, slots=True)
class Raw:
    """runtime.RawExtension: any JSON, looked at later."""

    go: str = "runtime.RawExtension"


@dataclass(frozen=True, slots=True)
class StringMap:
    """map[string]string."""

    go: str = "map[string]string"


@dataclass(frozen=True, slots=True)
class Sequence:
    """A slice."""

    element: Type

    @property
    def go(self) -> str:
        """[]element."""
        return f"[]{self.element.go}"


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct; `embedded` names, per field, the embedded struct that it is promoted from."""

    go: str
    fields: Mapping[str, Type]
    embedded: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name without its package."""
        return self.go.rpartition(".")[2]


Type = Scalar | Bytes | Duration | Raw | StringMap | Sequence | Struct

BOOL = Scalar("bool", "bool")
STRING = Scalar("string", "string")
INT32 = Scalar("int32", "int", 32)
INT64 = Scalar("int64", "int", 64)
FLOAT32 = Scalar("float32", "float", 32)
DURATION = Duration()
DURATION_POINTER = Duration(pointer=True)
STRINGS = Sequence(STRING)


def _named(go: str) -> Scalar:
    return Scalar(go, "string")


def _root(go: str, fields: Mapping[str, Type], embedded: Mapping[str, str] | None = None) -> Struct:
    """A kind: its own fields plus apiVersion and kind."""
    meta: dict[str, Type] = {"kind": STRING, "apiVersion": STRING}
    return Struct(go, {**meta, **fields}, {"kind": "TypeMeta", "apiVersion": "TypeMeta", **(embedded or {})})


EXTENSION_POINTS = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit", "preBind",
    "bind", "postBind", "multiPoint", "placementGenerate", "placementScore", "podGroupPostFilter",
)  # fmt: skip
"""The plugin sets of a profile, in the order of their declaration."""

_PLUGINS = Sequence(Struct("v1.Plugin", {"name": STRING, "weight": INT32}))
_PLUGIN_SET = Struct("v1.PluginSet", {"enabled": _PLUGINS, "disabled": _PLUGINS})
_PROFILE = Struct(
    "v1.KubeSchedulerProfile",
    {
        "schedulerName": STRING,
        "percentageOfNodesToScore": INT32,
        "plugins": Struct("v1.Plugins", dict.fromkeys(EXTENSION_POINTS, _PLUGIN_SET)),
        "pluginConfig": Sequence(Struct("v1.PluginConfig", {"name": STRING, "args": Raw()})),
    },
)
_TLS = Struct(
    "v1.ExtenderTLSConfig",
    {
        "insecure": BOOL, "serverName": STRING, "certFile": STRING, "keyFile": STRING, "caFile": STRING,
        "certData": Bytes(), "keyData": Bytes(), "caData": Bytes(),
    },
)  # fmt: skip
_MANAGED_RESOURCE = Struct("v1.ExtenderManagedResource", {"name": STRING, "ignoredByScheduler": BOOL})
_EXTENDER = Struct(
    "v1.Extender",
    {
        "urlPrefix": STRING, "filterVerb": STRING, "preemptVerb": STRING, "prioritizeVerb": STRING, "weight": INT64,
        "bindVerb": STRING, "enableHTTPS": BOOL, "tlsConfig": _TLS, "httpTimeout": DURATION, "nodeCacheCapable": BOOL,
        "managedResources": Sequence(_MANAGED_RESOURCE),
        "ignorable": BOOL,
    },
)  # fmt: skip
_LEADER_ELECTION = Struct(
    "v1alpha1.LeaderElectionConfiguration",
    {
        "leaderElect": BOOL, "leaseDuration": DURATION, "renewDeadline": DURATION, "retryPeriod": DURATION,
        "resourceLock": STRING, "resourceName": STRING, "resourceNamespace": STRING,
    },
)  # fmt: skip
_CLIENT_CONNECTION = Struct(
    "v1alpha1.ClientConnectionConfiguration",
    {"kubeconfig": STRING, "acceptContentTypes": STRING, "contentType": STRING, "qps": FLOAT32, "burst": INT32},
)
CONFIGURATION = _root(
    "v1.KubeSchedulerConfiguration",
    {
        "parallelism": INT32,
        "leaderElection": _LEADER_ELECTION,
        "clientConnection": _CLIENT_CONNECTION,
        "enableProfiling": BOOL,
        "enableContentionProfiling": BOOL,
        "percentageOfNodesToScore": INT32,
        "podInitialBackoffSeconds": INT64,
        "podMaxBackoffSeconds": INT64,
        "profiles": Sequence(_PROFILE),
        "extenders": Sequence(_EXTENDER),
        "delayCacheUntilActive": BOOL,
    },
    dict.fromkeys(("enableProfiling", "enableContentionProfiling"), "DebuggingConfiguration"),
)

_REQUIREMENTS = Sequence(
    Struct(
        "v1.NodeSelectorRequirement",
        {"key": STRING, "operator": _named("v1.NodeSelectorOperator"), "values": STRINGS},
    )
)
_SELECTOR_TERM = Struct("v1.NodeSelectorTerm", {"matchExpressions": _REQUIREMENTS, "matchFields": _REQUIREMENTS})
_PREFERRED_TERM = Struct("v1.PreferredSchedulingTerm", {"weight": INT32, "preference": _SELECTOR_TERM})
_NODE_AFFINITY = Struct(
    "v1.NodeAffinity",
    {
        "requiredDuringSchedulingIgnoredDuringExecution": Struct(
            "v1.NodeSelector", {"nodeSelectorTerms": Sequence(_SELECTOR_TERM)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": Sequence(_PREFERRED_TERM),
    },
)
_LABEL_SELECTOR = Struct(
    "v1.LabelSelector",
    {
        "matchLabels": StringMap(),
        "matchExpressions": Sequence(
            Struct(
                "v1.LabelSelectorRequirement",
                {"key": STRING, "operator": _named("v1.LabelSelectorOperator"), "values": STRINGS},
            )
        ),
    },
)
_SPREAD_CONSTRAINT = Struct(
    "v1.TopologySpreadConstraint",
    {
        "maxSkew": INT32,
        "topologyKey": STRING,
        "whenUnsatisfiable": _named("v1.UnsatisfiableConstraintAction"),
        "labelSelector": _LABEL_SELECTOR,
        "minDomains": INT32,
        "nodeAffinityPolicy": _named("v1.NodeInclusionPolicy"),
        "nodeTaintsPolicy": _named("v1.NodeInclusionPolicy"),
        "matchLabelKeys": STRINGS,
    },
)
_RESOURCES = Sequence(Struct("v1.ResourceSpec", {"name": STRING, "weight": INT64}))
_SHAPE = Sequence(Struct("v1.UtilizationShapePoint", {"utilization": INT32, "score": INT32}))
_SCORING_STRATEGY = Struct(
    "v1.ScoringStrategy",
    {
        "type": _named("v1.ScoringStrategyType"),
        "resources": _RESOURCES,
        "requestedToCapacityRatio": Struct("v1.RequestedToCapacityRatioParam", {"shape": _SHAPE}),
    },
)


def _args(kind: str, fields: Mapping[str, Type]) -> tuple[str, Struct]:
    return kind, _root(f"v1.{kind}", fields)


KINDS: Mapping[str, Struct] = dict(
    [
        (CONFIGURATION_KIND, CONFIGURATION),
        _args("DefaultPreemptionArgs", {"minCandidateNodesPercentage": INT32, "minCandidateNodesAbsolute": INT32}),
        _args("InterPodAffinityArgs", {"hardPodAffinityWeight": INT32, "ignorePreferredTermsOfExistingPods": BOOL}),
        _args("NodeResourcesBalancedAllocationArgs", {"resources": _RESOURCES}),
        _args(
            "NodeResourcesFitArgs",
            {"ignoredResources": STRINGS, "ignoredResourceGroups": STRINGS, "scoringStrategy": _SCORING_STRATEGY},
        ),
        _args(
            "PodTopologySpreadArgs",
            {
                "defaultConstraints": Sequence(_SPREAD_CONSTRAINT),
                "defaultingType": _named("v1.PodTopologySpreadConstraintsDefaulting"),
            },
        ),
        _args("VolumeBindingArgs", {"bindTimeoutSeconds": INT64, "shape": _SHAPE}),
        _args("NodeAffinityArgs", {"addedAffinity": _NODE_AFFINITY}),
        _args("DynamicResourcesArgs", {"filterTimeout": DURATION_POINTER, "bindingTimeout": DURATION_POINTER}),
    ]
)
"""Every kind of the group version, by name."""
