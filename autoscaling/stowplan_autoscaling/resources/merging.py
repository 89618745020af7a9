"""Candidates say what is different: patches over a simulation and over Kubernetes objects.

A patch is a JSON merge patch (RFC 7396: mappings merge, null removes, all else replaces) with two additions that spare
the reader long lists. A list of things with names merges by name, also where the patch writes it as a mapping from
names, in which null removes one. And where exactly one of some fields can be set, the one that is given replaces the
other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from stowplan_autoscaling.inputs.decode import field_path
from stowplan_autoscaling.inputs.errors import FieldError

from .base import Choice
from .cluster import SchedulerSpec
from .findings import fields_of, model_of_field, near

_NAMES: Final = ("name", "schedulerName")
"""What the entries of a list are called by; profiles of a scheduler have the latter."""


def merged(value: Any, patch: Any, model: type[BaseModel] | None = None) -> Any:
    """The value with the patch. `model`: of the mapping, if it has one. Neither argument is changed."""
    if isinstance(patch, dict):
        key = _key_of(value)
        if key and all(entry is None or isinstance(entry, dict) for entry in patch.values()):
            return _merged_list(value, patch, key, model)
        return _merged_mapping(value if isinstance(value, dict) else {}, patch, model)
    if isinstance(patch, list):
        key = _key_of(patch)
        if key and _key_of(value) == key:
            return _merged_list(value, {entry[key]: entry for entry in patch}, key, model)
        return [merged(None, entry, model) for entry in patch]
    return patch


def check_removals(value: Any, patch: Any, model: type[BaseModel] | None, field: str) -> None:
    """Raises FieldError for a null that cannot remove anything: no such field of the model, no entry of that name.

    A field that could be there and is not may be removed: that says what is meant, whatever the simulation has.
    """
    key = _key_of(value)
    if key and isinstance(patch, list) and _key_of(patch) == key:
        patch = {entry[key]: entry for entry in patch}
    if not isinstance(patch, dict) or value == []:
        return
    found = {entry[key]: entry for entry in value} if key else value if isinstance(value, dict) else {}
    known = list(found) if key else [] if model is None else fields_of(model)
    for name, entry in patch.items():
        path = field_path(field, name)
        if entry is None and known and name not in known:
            hint = "" if value is None else near(name, known)
            raise FieldError(path, f"there is nothing to remove{hint}")
        inner = model if key or model is None else model_of_field(model, name)
        check_removals(found.get(name), entry, inner, path)


def _merged_mapping(value: Mapping[str, Any], patch: Mapping[str, Any], model: type[BaseModel] | None) -> Any:
    given = {name for name, entry in patch.items() if entry is not None}
    alternatives = _alternatives(model)
    dropped = alternatives - given if alternatives & given else set()
    result = {name: entry for name, entry in value.items() if name not in dropped}
    for name, entry in patch.items():
        if entry is None:
            result.pop(name, None)
        else:
            inner = None if model is None else model_of_field(model, name)
            result[name] = merged(result.get(name), entry, inner)
    return result


def _merged_list(value: list[Any], patch: Mapping[str, Any], key: str, model: type[BaseModel] | None) -> list[Any]:
    """Entries keep their places; new ones come last."""
    result: list[Any] = []
    for entry in value:
        name = entry[key]
        if name not in patch:
            result.append(entry)
        elif patch[name] is not None:
            result.append(merged(entry, patch[name], model))
    known = {entry[key] for entry in value}
    result.extend(
        merged({key: name}, entry, model) for name, entry in patch.items() if name not in known and entry is not None
    )
    return result


def _key_of(value: Any) -> str:
    """The field that names the entries of a list; "" if it is none of things with different names."""
    if not isinstance(value, list) or not value:
        return ""
    for key in _NAMES:
        names = [entry.get(key) if isinstance(entry, dict) else None for entry in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return key
    return ""


def _alternatives(model: type[BaseModel] | None) -> set[str]:
    if model is None:
        return set()
    if issubclass(model, Choice):
        return set(model.choices())
    return {"configuration", "file"} if model is SchedulerSpec else set()
