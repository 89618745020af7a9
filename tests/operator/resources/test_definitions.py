"""The definitions as data: the same as the files, described, bounded, small; every CEL rule has a case of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.crd_cases import CASES
from stowplan_operator.resources.cel_rules import LIST_KEYS, RULES
from stowplan_operator.resources.definitions import KINDS, CustomKind, definition, definition_text
from stowplan_operator.resources.reference import profile_reference

OF_EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
MOST_BYTES = 262_144
"""Of all annotations of an object together; `kubectl apply` keeps the whole object in one."""

FREE = "x-kubernetes-preserve-unknown-fields"


def schema_of(kind: CustomKind) -> dict[str, Any]:
    found: dict[str, Any] = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema with its path, the root first."""
    yield path, schema
    for name, value in schema.get("properties", {}).items():
        yield from nodes(value, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


@OF_EACH
def test_the_file_is_what_make_crds_writes(repository: Path, kind: CustomKind) -> None:
    assert (repository / "crds" / kind.file).read_text(encoding="utf-8") == definition_text(kind)


@OF_EACH
def test_the_text_says_the_same_as_the_definition(kind: CustomKind) -> None:
    """Nothing is lost on the way through YAML, such as a key that reads as a boolean."""
    assert yaml.safe_load(definition_text(kind)) == definition(kind)


@OF_EACH
def test_a_definition_fits_into_the_annotation_of_kubectl_apply(kind: CustomKind) -> None:
    """With much room to grow: the largest one has 80 KB."""
    assert len(json.dumps(definition(kind), separators=(",", ":"))) < MOST_BYTES / 2


@OF_EACH
def test_every_field_is_described(kind: CustomKind) -> None:
    """Entries of lists and maps have the description of the list or map."""
    silent = [
        path
        for path, node in nodes(schema_of(kind))
        if not node.get("description") and not path.endswith(("[]", "{}")) and ".metadata" not in f".{path}"
    ]
    embedded = [path for path in silent if path.endswith((".apiVersion", ".kind"))]
    assert silent == embedded


@OF_EACH
def test_there_are_no_floats_and_every_integer_has_its_width(kind: CustomKind) -> None:
    for path, node in nodes(schema_of(kind)):
        assert node.get("type") != "number", path
        if node.get("type") == "integer":
            assert node["format"] in {"int32", "int64"}, path
            # A limit beyond what a float holds exactly would be another limit in the server.
            assert node.get("maximum", 0) <= 2**53, path


@OF_EACH
def test_every_node_is_structural(kind: CustomKind) -> None:
    """A type everywhere, no reference, no null, no `additionalProperties: false`."""
    for path, node in nodes(schema_of(kind)):
        assert node.get("type") or node.get("x-kubernetes-int-or-string"), path
        assert not {"$ref", "allOf", "not", "const", "title"} & set(node), path
        assert node.get("additionalProperties") is not False, path
        if not node.get("x-kubernetes-int-or-string"):
            assert "anyOf" not in node, path


@OF_EACH
def test_every_list_is_bounded_and_says_how_it_merges(kind: CustomKind) -> None:
    keyed = {path: list(keys) for path, keys in LIST_KEYS[kind.kind].items()}
    for path, node in nodes(schema_of(kind)):
        if node.get("type") != "array":
            continue
        assert "maxItems" in node, path
        assert node["x-kubernetes-list-type"] == ("map" if path in keyed else "atomic"), path
        if path in keyed:
            assert node["x-kubernetes-list-map-keys"] == keyed[path]
            assert set(keyed[path]) <= set(node["items"]["required"]), path


def test_texts_of_a_profile_are_bounded() -> None:
    """So that a rule may go over any of them."""
    (profile,) = (kind for kind in KINDS if kind.kind == "SchedulerProfile")
    for path, node in nodes(schema_of(profile)):
        if node.get("type") == "string" and path not in {"apiVersion", "kind"}:
            assert {"maxLength", "enum", "format"} & set(node), path


@OF_EACH
def test_only_args_manifests_and_patches_are_free_form(kind: CustomKind) -> None:
    free = {path for path, node in nodes(schema_of(kind)) if node.get(FREE)}
    assert (
        free
        == {
            "SchedulerProfile": {"spec.pluginConfig[].args"},
            "NodePool": set(),
            "Simulation": {
                "spec.cluster.objects[]",
                "spec.workloads.objects[]",
                "spec.demand[].jobs.template",
                "spec.schedulerProfiles.configuration",
                "spec.candidates[].spec",
                "spec.candidates[].patches[].patch",
            },
        }[kind.kind]
    )


@OF_EACH
def test_status_has_conditions_with_the_generation_that_they_are_about(kind: CustomKind) -> None:
    status = schema_of(kind)["properties"]["status"]
    assert "required" not in status
    assert "default" not in json.dumps([node for _, node in nodes(status)]).replace("default-scheduler", "")
    condition = status["properties"]["conditions"]["items"]
    assert set(condition["properties"]) == {
        "type",
        "status",
        "reason",
        "message",
        "observedGeneration",
        "lastTransitionTime",
    }
    assert "observedGeneration" in status["properties"]


@OF_EACH
def test_a_simulation_has_no_defaults_and_the_others_have_them(kind: CustomKind) -> None:
    """Candidates are merge patches of a simulation's spec, which filled-in defaults would contradict."""
    filled = [path for path, node in nodes(schema_of(kind)) if "default" in node]
    assert bool(filled) == kind.defaults


def test_every_rule_has_exactly_one_case() -> None:
    rules = sorted((kind, rule.at, rule.message) for kind, rules in RULES.items() for rule in rules)
    cases = sorted((case.kind, case.at, case.message) for case in CASES)
    assert rules == cases
    assert len(set(rules)) == len(rules)
    assert all(case.accepts and case.refuses for case in CASES)


def test_every_rule_of_a_definition_is_one_of_the_table() -> None:
    """No rule comes from elsewhere, such as a schema of a model."""
    for kind in KINDS:
        found = [
            (path, rule["rule"])
            for path, node in nodes(schema_of(kind))
            for rule in node.get("x-kubernetes-validations", ())
        ]
        assert sorted(found) == sorted((rule.at, rule.rule) for rule in RULES[kind.kind])


def test_the_tables_of_the_documentation_are_made_from_the_models(repository: Path) -> None:
    """`python -m stowplan_operator.resources reference`."""
    text = (repository / "docs/scheduler-profile.md").read_text(encoding="utf-8")
    assert text.endswith(profile_reference())
    assert "`spec.plugins.POINT.enabled[].weight`" in profile_reference()
