"""What makes a label key, a label value and a resource name, and the errors upstream gives for the others.

Follows staging/src/k8s.io/apimachinery/pkg/api/validate/content/{kube,dns,errors}.go and, for resource names,
pkg/apis/core/v1/helper/helpers.go and pkg/scheduler/util/utils.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_NAME})?"
_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_name_pattern: Final = re.compile(_NAME)
_value_pattern: Final = re.compile(_LABEL_VALUE)
_subdomain_pattern: Final = re.compile(_SUBDOMAIN)

_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)

_DEFAULT_PREFIX: Final = "kubernetes.io/"
_REQUESTS_PREFIX: Final = "requests."
HUGEPAGES_PREFIX: Final = "hugepages-"
_ATTACHABLE_VOLUMES_PREFIX: Final = "attachable-volumes-"
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""An extended resource that names a device class directly (dynamic resource allocation)."""


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _byte_length(text: str) -> int:
    return len(text.encode())


def subdomain_errors(text: str) -> tuple[str, ...]:
    """Why the text is not a DNS subdomain; empty if it is one."""
    errors = []
    if _byte_length(text) > 253:
        errors.append(_too_long(253))
    if not _subdomain_pattern.fullmatch(text):
        errors.append(_SUBDOMAIN_RULE)
    return tuple(errors)


@lru_cache(maxsize=16384)
def label_key_errors(key: str) -> tuple[str, ...]:
    """Why the text is not a label key (a "qualified name"); empty if it is one."""
    parts = key.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    errors = [f"prefix part {error}" for error in _prefix_errors(parts[0])] if len(parts) == 2 else []
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif _byte_length(name) > 63:
        errors.append(f"name part {_too_long(63)}")
    if not _name_pattern.fullmatch(name):
        errors.append(f"name part {_NAME_RULE}")
    return tuple(errors)


def _prefix_errors(prefix: str) -> tuple[str, ...]:
    return subdomain_errors(prefix) if prefix else ("must be non-empty",)


@lru_cache(maxsize=65536)
def label_value_errors(text: str) -> tuple[str, ...]:
    """Why the text is not a label value; empty if it is one."""
    errors = []
    if _byte_length(text) > 63:
        errors.append(_too_long(63))
    if not _value_pattern.fullmatch(text):
        errors.append(_VALUE_RULE)
    return tuple(errors)


def is_prefixed_native_resource(name: str) -> bool:
    """Whether the name stands in a kubernetes.io domain."""
    return _DEFAULT_PREFIX in name


def is_native_resource(name: str) -> bool:
    """Whether the name belongs to Kubernetes: unprefixed, or in a kubernetes.io domain."""
    return "/" not in name or is_prefixed_native_resource(name)


def is_hugepage_resource(name: str) -> bool:
    """Whether the name is one of huge pages."""
    return name.startswith(HUGEPAGES_PREFIX)


def is_attachable_volume_resource(name: str) -> bool:
    """Whether the name counts attachable volumes (an old convention)."""
    return name.startswith(_ATTACHABLE_VOLUMES_PREFIX)


@lru_cache(maxsize=4096)
def is_extended_resource(name: str) -> bool:
    """Whether the name is one of an extended resource, such as "nvidia.com/gpu"."""
    if is_native_resource(name) or name.startswith(_REQUESTS_PREFIX):
        return False
    return not label_key_errors(_REQUESTS_PREFIX + name)


@lru_cache(maxsize=4096)
def is_scalar_resource(name: str) -> bool:
    """Whether the scheduler counts the resource besides cpu, memory, ephemeral storage and pods."""
    return (
        is_extended_resource(name)
        or is_hugepage_resource(name)
        or is_prefixed_native_resource(name)
        or is_attachable_volume_resource(name)
    )


def is_dra_extended_resource(name: str) -> bool:
    """Whether devices of a device class may serve the resource."""
    return is_extended_resource(name) or name.startswith(DEVICE_CLASS_PREFIX)


def is_pod_level_resource(name: str) -> bool:
    """Whether the resource may be set for the pod as a whole (component-helpers/resource/helpers.go)."""
    return name in {"cpu", "memory"} or is_hugepage_resource(name)
