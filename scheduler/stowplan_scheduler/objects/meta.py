"""Parts that all API kinds share: metadata, owners, label selectors.

Only the fields that a scheduler, an autoscaler or a controller of this project reads are declared; everything
else in a manifest or a dump is ignored when it is decoded. Field names are Kubernetes' names in snake case, lists are
tuples, and every object is frozen: a change is a new object (`msgspec.structs.replace`).

Types follow staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from typing import Final

import msgspec

DEFAULT_NAMESPACE = "default"


class AbsentList(tuple[str, ...]):
    """Go's nil list: equal to an empty one in every way, but messages show it as null instead of []."""

    __slots__ = ()


ABSENT_LIST: Final[tuple[str, ...]] = AbsentList()
"""The value of a list that the manifest does not have."""


class ApiStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of every API object and part: frozen, keyword-only, camelCase on the wire."""


class OwnerReference(ApiStruct, frozen=True, kw_only=True):
    """metadata.ownerReferences[]; `controller` marks the one owner that manages the object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(ApiStruct, frozen=True, kw_only=True):
    """metadata; time stamps stay RFC 3339 texts (see `timestamps.parse_time`)."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class LabelSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """One expression of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ABSENT_LIST


class LabelSelector(ApiStruct, frozen=True, kw_only=True):
    """A label query. An absent selector (None) matches nothing, an empty one everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


def key_of(metadata: ObjectMeta) -> str:
    """namespace/name, or the name of an object without a namespace."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """The owner reference that is marked as controller, if any."""
    for owner in meta.owner_references:
        if owner.controller:
            return owner
    return None
