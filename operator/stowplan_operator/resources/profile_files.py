"""Profiles in files: SchedulerProfiles and KubeSchedulerConfigurations, side by side and in any number.

documents = read_documents(text, "profiles.yaml")       # InputError
for document in documents:
    document.kind, document.value

A List, as `kubectl get -o yaml` prints one, counts as the objects in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stowplan_autoscaling.inputs.errors import InputError, shown
from stowplan_autoscaling.inputs.yaml_reader import read_yaml
from stowplan_scheduler.config.schema import API_VERSION as CONFIGURATION_VERSION
from stowplan_scheduler.config.schema import CONFIGURATION_KIND

from .envelope import API_VERSION
from .scheduler_profile import KIND

_VERSIONS: Final[Mapping[str, str]] = {KIND: API_VERSION, CONFIGURATION_KIND: CONFIGURATION_VERSION}
_EXPECTED: Final = f"a {KIND} ({API_VERSION}) or a {CONFIGURATION_KIND} ({CONFIGURATION_VERSION}) is expected"


@dataclass(frozen=True, slots=True)
class ProfileDocument:
    """One object of a file. `place` names the file, and the document in it if there are several."""

    place: str
    kind: str
    value: dict[str, Any]

    @property
    def is_configuration(self) -> bool:
        """Whether it is kube-scheduler's, else ours."""
        return self.kind == CONFIGURATION_KIND


def read_documents(text: str, source: str) -> list[ProfileDocument]:
    """All documents of a YAML or JSON text, in order. Raises InputError, also if there is none."""
    found = list(read_yaml(text.encode(), source))
    documents: list[ProfileDocument] = []
    for document in found:
        place = f"{source}: document {document.number}" if len(found) > 1 else source
        documents.extend(_documents(document.value, place))
    if not documents:
        raise InputError(source, "", "", f"is empty: {_EXPECTED}")
    return documents


def _documents(value: Any, place: str) -> Iterator[ProfileDocument]:
    if not isinstance(value, dict):
        raise InputError(place, "", "", f"{shown(value)}: {_EXPECTED}")
    kind, version = value.get("kind"), value.get("apiVersion")
    items = value.get("items")
    if kind in ("List", f"{KIND}List") and isinstance(items, list):
        for index, item in enumerate(items):
            yield from _documents(item, f"{place}: items[{index}]")
        return
    if not isinstance(kind, str) or kind not in _VERSIONS:
        raise InputError(place, "", "kind", f"{shown(kind)}: {_EXPECTED}" if kind else f"must be set: {_EXPECTED}")
    if version != _VERSIONS[kind]:
        raise InputError(place, "", "apiVersion", f"{shown(version)}: must be {_VERSIONS[kind]}")
    yield ProfileDocument(place, kind, value)
