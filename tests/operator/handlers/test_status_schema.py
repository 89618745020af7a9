"""A status with a field that the schema does not declare is answered with 500: all that is written must be declared."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_operator.handlers.choosing import ProblemError
from stowplan_operator.handlers.model_status import ModelVerdict, model_status
from stowplan_operator.handlers.names import NODE_POOL, SIMULATION
from stowplan_operator.handlers.observed import Health, observed
from stowplan_operator.resources import SchedulerProfileStatus
from stowplan_operator.resources.definitions import KINDS, definition
from stowplan_operator.resources.envelope import ModelStatus
from support.situations import BAD, PACK, START, Cluster, profile


def declared(value: Any, schema: dict[str, Any], where: str = "status") -> None:
    """Every field of the value is declared in the schema, with its type."""
    match schema["type"]:
        case "object" if "properties" in schema:
            assert isinstance(value, dict), where
            for name, inner in value.items():
                assert name in schema["properties"], f"{where}.{name} is not declared"
                declared(inner, schema["properties"][name], f"{where}.{name}")
        case "object":
            assert isinstance(value, dict), where
            for name, inner in value.items():
                declared(inner, schema["additionalProperties"], f"{where}.{name}")
        case "array":
            assert isinstance(value, list), where
            for entry in value:
                declared(entry, schema["items"], where)
        case "integer":
            assert type(value) is int, f"{where}: {value!r}"
        case "boolean":
            assert type(value) is bool, f"{where}: {value!r}"
        case "string":
            assert isinstance(value, str), f"{where}: {value!r}"
        case other:
            raise AssertionError(f"{where}: {other}")


def schema_of(kind: str) -> dict[str, Any]:
    found = next(definition(each) for each in KINDS if each.kind == kind)
    schema: dict[str, Any] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    return schema


def statuses() -> dict[str, dict[str, Any]]:
    """Every status of a SchedulerProfile that has another shape than the others."""
    cluster = Cluster(
        profile("good", PACK), profile("bad", BAD), profile("shadow", {"rollout": {"mode": "Shadow"}}),
        profile("edited", PACK),
    )  # fmt: skip
    cluster.settle()
    cluster.edit("edited", **BAD)
    cluster.later(60)
    cluster.step(
        cluster.reports(
            pending={name: 3 for name in cluster.objects},
            utilization={"cpu": 12, "memory": 20},
            shadow={"shadow": {"decided": 4, "wouldNotFit": 1}},
        )
    )
    cluster.step(cluster.reports(Health.SILENT, is_leading=False, detail="gone"))
    assert cluster.status("shadow")["shadow"] == {"decided": 4, "wouldNotFit": 1}
    return {name: cluster.status(name) for name in cluster.objects}


@pytest.mark.parametrize("name", ["good", "bad", "shadow", "edited"])
def test_every_field_of_a_profile_s_status_is_declared(name: str) -> None:
    status = statuses()[name]
    declared(status, schema_of("SchedulerProfile"))
    SchedulerProfileStatus.model_validate(status)


@pytest.mark.parametrize("kind", [NODE_POOL, SIMULATION])
@pytest.mark.parametrize("problem", [None, ProblemError("spec.max", "is too much"), ProblemError("", "is wrong")])
def test_every_field_of_a_model_s_status_is_declared(kind: str, problem: ProblemError | None) -> None:
    about = observed({"metadata": {"name": "x", "uid": "u", "generation": 2}})
    status = model_status(about, ModelVerdict(problem), START)
    declared(status, schema_of(kind))
    ModelStatus.model_validate(status)
