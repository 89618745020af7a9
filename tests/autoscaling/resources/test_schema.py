"""The published schema is that of the models, and such that a custom resource definition can take it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stowplan_autoscaling.resources import reference_text, schema_text, simulation_schema
from stowplan_autoscaling.resources.measures import measures_text

ROOT = Path(__file__).parents[3]


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of the schema with its path."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from fields(field, f"{path}.{name}")
        if isinstance(field.get("items"), dict):
            yield from fields(field["items"], f"{path}.{name}[]")


def test_the_published_schema_is_that_of_the_models() -> None:
    """Written by `python -m stowplan_autoscaling.resources schema`; never by hand."""
    assert (ROOT / "crds" / "simulation.schema.json").read_text() == schema_text()


def test_the_reference_in_the_documentation_is_that_of_the_models() -> None:
    """Written by `python -m stowplan_autoscaling.resources reference`, between the two marks."""
    text = (ROOT / "docs" / "simulation.md").read_text()
    assert text.split("<!-- fields -->\n")[1] == reference_text()


def test_every_field_has_a_description() -> None:
    """kubectl explain shows it. Fields inside of Kubernetes' own objects are described by Kubernetes."""
    lacking = [
        path
        for path, field in fields(simulation_schema())
        if not field.get("description")
        and not path.endswith(("objects[].apiVersion", "objects[].kind", "objects[].metadata"))
    ]
    assert lacking == []


def test_a_default_that_upstream_has_names_its_source() -> None:
    """A delay without a source is a guess. These are settings of Kubernetes' own parts."""
    settings = (".spec.controllers.", ".spec.metrics.", ".spec.kubelet.")
    ours = {  # what no upstream flag says: nothing happens by default
        *(
            f".spec.metrics.{part}.chance.{name}"
            for part in ("server", "prometheus")
            for name in ("missing", "late", "lateBy")
        ),
        ".spec.metrics.sources[].whenStale",
        ".spec.metrics.sources[].freshFor",
        ".spec.kubelet.defaultImageSize",
        ".spec.kubelet.containerStart",
        ".spec.kubelet.startups[].sigma",
        ".spec.kubelet.startups[].stop",
        ".spec.kubelet.images[].missing",
        ".spec.controllers.watchLatency",
    }
    lacking = [
        path
        for path, field in fields(simulation_schema())
        if path.startswith(settings)
        and field.get("default") not in (None, {}, "")
        and "kind" not in path
        and "namespace" not in path
        and "Default from" not in field["description"]
    ]
    assert sorted(lacking) == sorted(ours)


def test_the_schema_is_structural() -> None:
    """No references and no null; anyOf only where a field is an integer or a text (x-kubernetes-int-or-string)."""
    text = json.dumps(simulation_schema())
    assert '"$ref"' not in text
    assert '"null"' not in text
    for path, field in fields(simulation_schema()):
        assert ("anyOf" in field) == bool(field.get("x-kubernetes-int-or-string")), path
        assert field.get("type") != "number", f"{path}: floats have no place in a custom resource"


def test_every_list_of_the_schema_is_bounded() -> None:
    """The API server estimates the cost of rules by the bounds."""
    unbounded = [
        path for path, field in fields(simulation_schema()) if field.get("type") == "array" and "maxItems" not in field
    ]
    assert unbounded == []


def test_the_schema_is_small_enough_for_kubectl_apply() -> None:
    """Client-side apply keeps a copy in an annotation of at most 262,144 bytes."""
    assert len(json.dumps(simulation_schema(), separators=(",", ":"))) < 200_000


def test_the_metrics_in_the_documentation_are_those_there_are() -> None:
    """Written by `python -m stowplan_autoscaling.resources metrics`, below the mark."""
    text = (ROOT / "docs" / "compare.md").read_text()
    assert text.split("<!-- metrics -->\n")[1] == measures_text()
