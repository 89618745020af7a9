"""The published schema of the kind and its reference, both made from the models.

The schema is what a CustomResourceDefinition can take: no references, a description for every field, no floats, and
`oneOf` only to say which fields exclude each other. `additionalProperties: false` is for editors; a custom resource
definition leaves it out, because the API server prunes instead.

    python -m stowplan_autoscaling.resources schema       > crds/simulation.schema.json
    python -m stowplan_autoscaling.resources reference
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from .simulation import API_VERSION, KIND, Simulation
from .values import DURATION_PATTERN

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_FIRST: Final = ("$schema", "title", "description", "type", "default")


def simulation_schema() -> dict[str, Any]:
    """The schema as plain values."""
    whole = {**model_schema(Simulation), "$schema": _DIALECT, "title": f"{KIND} ({API_VERSION})"}
    ordered: dict[str, Any] = _ordered(whole)
    return ordered


def model_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model by its names in YAML, without references."""
    schema = model.model_json_schema(by_alias=True)
    ordered: dict[str, Any] = _ordered(_inlined(schema, schema.pop("$defs", {})))
    return ordered


def schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(simulation_schema(), indent=1, ensure_ascii=False) + "\n"


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """The node without references, without titles that pydantic makes up, and without null as a value."""
    if isinstance(node, list):
        return [_inlined(entry, definitions) for entry in node]
    if not isinstance(node, dict):
        return node
    node = dict(node)
    if "$ref" in node:
        node = {**definitions[node.pop("$ref").rpartition("/")[2]], **node}
        return _inlined(node, definitions)
    choices = [choice for choice in node.get("anyOf", ()) if choice != {"type": "null"}]
    if "anyOf" in node and len(choices) == 1:
        del node["anyOf"]
        return _inlined({**choices[0], **node}, definitions)
    if isinstance(node.get("title"), str):
        del node["title"]
    if node.get("default", "") in (None, [], {}) and "properties" not in node:
        del node["default"]
    if "properties" in node:
        properties = {name: _inlined(value, definitions) for name, value in node.pop("properties").items()}
        return {**_inlined(node, definitions), "properties": properties}
    return {
        key: value if key in {"default", "enum", "required"} else _inlined(value, definitions)
        for key, value in node.items()
    }


def _ordered(node: Any) -> Any:
    """What says most first; properties in the order of the models."""
    if isinstance(node, list):
        return [_ordered(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    keys = [key for key in _FIRST if key in node] + [key for key in node if key not in _FIRST]
    return {key: _ordered(node[key]) for key in keys}


# ---- reference -----------------------------------------------------------------------------------------------------


def reference_text(model: type[BaseModel] = Simulation, part: str = "spec") -> str:
    """Every field of a kind's spec as a Markdown table, in the order of the models; or of its status."""
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    lines.extend(_rows(part, model_schema(model)["properties"][part]))
    return "\n".join(lines) + "\n"


def _rows(path: str, schema: dict[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        default = "**required**" if name in required else _default(field)
        meaning = field.get("description", "").replace("|", "\\|")
        yield f"| `{where}` | {_type(field)} | {default} | {meaning} |"
        inner = field.get("items", field) if field.get("type") == "array" else field
        if not inner.get("x-kubernetes-preserve-unknown-fields"):
            yield from _rows(where + "[]" * (field.get("type") == "array"), inner)


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    return f"`{json.dumps(value) if not isinstance(value, str) else value}`" if value not in (None, {}, "") else ""


def _type(field: dict[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "const" in field or "enum" in field:
        return ", ".join(field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if field.get("x-kubernetes-embedded-resource"):
        return "object"
    if "properties" not in field and isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    if field.get("pattern") == DURATION_PATTERN:
        return "duration"
    if field["type"] == "string":
        return "time" if field.get("format") else "string"
    return "mapping" if field["type"] == "object" else str(field["type"])
