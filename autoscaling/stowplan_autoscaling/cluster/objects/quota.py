"""ResourceQuota and LimitRange (core/v1, staging/src/k8s.io/api/core/v1/types.go of Kubernetes v1.37.2)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stowplan_scheduler.objects import ObjectMeta, ResourceMap
from stowplan_scheduler.objects.meta import ApiStruct

CONTAINER: Final = "Container"
POD: Final = "Pod"

TERMINATING: Final = "Terminating"
NOT_TERMINATING: Final = "NotTerminating"
BEST_EFFORT: Final = "BestEffort"
NOT_BEST_EFFORT: Final = "NotBestEffort"
PRIORITY_CLASS: Final = "PriorityClass"
CROSS_NAMESPACE_POD_AFFINITY: Final = "CrossNamespacePodAffinity"


class ScopeRequirement(ApiStruct, frozen=True, kw_only=True):
    """spec.scopeSelector.matchExpressions[]: In, NotIn, Exists or DoesNotExist."""

    scope_name: str = ""
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ScopeSelector(ApiStruct, frozen=True, kw_only=True):
    """spec.scopeSelector: all expressions must hold."""

    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a quota."""

    hard: ResourceMap = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None

    @property
    def requirements(self) -> tuple[ScopeRequirement, ...]:
        """The scopes and the scope selector as one list."""
        plain = tuple(ScopeRequirement(scope_name=scope) for scope in self.scopes)
        return plain + (self.scope_selector.match_expressions if self.scope_selector is not None else ())


class ResourceQuotaStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a quota: what is enforced, and what is in use. None until the quota controller has seen it."""

    hard: ResourceMap | None = None
    used: ResourceMap | None = None


class ResourceQuota(ApiStruct, frozen=True, kw_only=True):
    """A quota of a namespace. `created`: nanoseconds since 1970."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
    version: int = 0
    created: int = 0


class LimitRangeItem(ApiStruct, frozen=True, kw_only=True):
    """spec.limits[] of a limit range; type is Container or Pod."""

    type: str = ""
    max: ResourceMap = {}
    min: ResourceMap = {}
    default: ResourceMap = {}
    default_request: ResourceMap = {}
    max_limit_request_ratio: ResourceMap = {}


class LimitRangeSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a limit range."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(ApiStruct, frozen=True, kw_only=True):
    """A limit range of a namespace. `created`: nanoseconds since 1970."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()
    version: int = 0
    created: int = 0


def default_limit_range(limit_range: LimitRange) -> LimitRange:
    """With the API server's defaults: a default limit from the maximum; a default request from the default limit, or
    else from the minimum (pkg/apis/core/v1/defaults.go, SetDefaults_LimitRangeItem).
    """
    limits = tuple(map(_default_item, limit_range.spec.limits))
    return replace(limit_range, spec=replace(limit_range.spec, limits=limits))


def _default_item(item: LimitRangeItem) -> LimitRangeItem:
    if item.type != CONTAINER:
        return item
    default = {**item.max, **item.default}
    return replace(item, default=default, default_request={**item.min, **default, **item.default_request})
