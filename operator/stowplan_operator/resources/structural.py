"""From the JSON schema of a model to the structural schema of a CustomResourceDefinition.

The server takes no references, no null beside a type, and no `additionalProperties: false` (it prunes instead). What it
does not know is refused here, so that no rule of a model is lost on the way in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from pydantic import BaseModel

from stowplan_autoscaling.resources.findings import model_of_field
from stowplan_autoscaling.resources.schema import model_schema

from .cel_rules import Rule

_KNOWN: Final = frozenset(
    {
        "type", "description", "default", "properties", "required", "items", "additionalProperties", "enum", "pattern",
        "format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
        "maxProperties", "oneOf", "anyOf", "const",
    }
)  # fmt: skip
_EXTENSION: Final = "x-kubernetes-"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MAX_AMOUNT: Final = 64
"""Longest text of a quantity, so that its cost is known."""


def structural_schema(
    model: type[BaseModel],
    *,
    rules: Iterable[Rule],
    list_keys: Mapping[str, tuple[str, ...]],
    defaults: bool,
) -> dict[str, Any]:
    """spec and status of a model as openAPIV3Schema. Raises ValueError for a rule or list that is not there.

    `defaults`: whether the server fills in what is left out. If not, the descriptions say what it stands for.
    """
    schema = model_schema(model)
    properties = schema["properties"]
    spec = _Converter(defaults=Defaults.FILLED if defaults else Defaults.SAID, list_keys=list_keys)
    # What is not known yet must not be made up by the server.
    status = _Converter(defaults=Defaults.NONE, list_keys=list_keys)
    whole = {
        "type": "object",
        "description": schema["description"],
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of this kind."},
            "kind": {"type": "string", "description": "This kind."},
            "metadata": {"type": "object"},
            "spec": spec.node("spec", properties["spec"], model_of_field(model, "spec")),
            "status": status.node("status", properties["status"], model_of_field(model, "status")),
        },
    }
    for rule in rules:
        _value_at(whole, rule.at).setdefault("x-kubernetes-validations", []).append(rule.as_schema())
    for path in list_keys:
        _value_at(whole, path)
    return whole


class Defaults(Enum):
    """What becomes of defaults: the server fills them in, or descriptions say them, or they are nobody's business."""

    FILLED = auto()
    SAID = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Converter:
    defaults: Defaults
    list_keys: Mapping[str, tuple[str, ...]]

    def node(self, path: str, given: Mapping[str, Any], model: type[BaseModel] | None) -> dict[str, Any]:
        """The value at a path. `model`: of the value, or of the entries of the list."""
        _check_known(path, given)
        node: dict[str, Any] = {key: value for key, value in given.items() if key not in {"default", "const"}}
        if "const" in given:
            node["enum"] = [given["const"]]
        if "default" in given:
            self._put_default(node, given["default"])
        if node.get("additionalProperties") is False:
            del node["additionalProperties"]
        if node.get(_INT_OR_STRING):
            node.pop("type", None)
            node.setdefault("maxLength", MAX_AMOUNT)
        if node.get("type") == "integer":
            _put_format(node)
        if "properties" in node:
            node["properties"] = self._properties(path, node["properties"], model)
            if not node["properties"]:
                # The server stores no empty map: with one, every apply would look like a change.
                del node["properties"]
        if isinstance(node.get("additionalProperties"), Mapping):
            node["additionalProperties"] = self.node(f"{path}{{}}", node["additionalProperties"], model)
        if "items" in node:
            node["items"] = self.node(f"{path}[]", node["items"], model)
            self._put_list_type(path, node)
        return node

    def _properties(
        self, path: str, given: Mapping[str, Mapping[str, Any]], model: type[BaseModel] | None
    ) -> dict[str, Any]:
        fields = {} if model is None else {info.alias or own: info for own, info in model.model_fields.items()}
        found = {}
        for name, value in given.items():
            node = self.node(f"{path}.{name}", value, None if model is None else model_of_field(model, name))
            if (
                self.defaults is Defaults.FILLED
                and name in fields
                and fields[name].default == {}
                and "properties" in node
            ):
                # So that the defaults inside of it are filled in, too.
                node["default"] = {}
            found[name] = node
        return found

    def _put_default(self, node: dict[str, Any], value: Any) -> None:
        if value == "":
            return  # absent and empty mean the same wherever the models have it
        if self.defaults is Defaults.FILLED:
            node["default"] = value
        elif self.defaults is Defaults.SAID and not isinstance(value, dict | list):
            if "Default" not in node["description"]:
                node["description"] += f" Default: {str(value).lower() if isinstance(value, bool) else value}."

    def _put_list_type(self, path: str, node: dict[str, Any]) -> None:
        keys = self.list_keys.get(path)
        node["x-kubernetes-list-type"] = "map" if keys else "atomic"
        if keys:
            node["x-kubernetes-list-map-keys"] = list(keys)


def _check_known(path: str, given: Mapping[str, Any]) -> None:
    unknown = [key for key in given if key not in _KNOWN and not key.startswith(_EXTENSION)]
    if unknown:
        raise ValueError(f"{path}: a definition cannot say {unknown[0]}")


def _put_format(node: dict[str, Any]) -> None:
    limit = node.get("maximum", MAX_INT64)
    if limit >= MAX_INT64:
        # The server reads limits as floats, and the nearest one is no int64 any more.
        node.pop("maximum", None)
    node["format"] = "int32" if limit <= MAX_INT32 else "int64"


def _value_at(whole: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The schema at a path. Raises ValueError."""
    node: Any = whole
    for step in path.split("."):
        name, entries, _ = step.partition("[]")
        node = node.get("properties", {}).get(name)
        if node is None or (entries and "items" not in node):
            raise ValueError(f"{path}: no such field")
        if entries:
            node = node["items"]
    found: dict[str, Any] = node
    return found
