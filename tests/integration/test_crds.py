"""The files in crds/ in a real API server: it takes them, serves them, fills in defaults and prints columns."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.control_plane import ControlPlane
from integration.crd_cases import POOL, PROFILE, SIMULATION, manifest
from integration.crds import DEFINITIONS, SERVER_SIDE, apply, install, objects_path, wait_until_served
from integration.kube_api import KubeApi, sure
from stowplan_operator.resources.definitions import KINDS, CustomKind

pytestmark = pytest.mark.rig

BY_KIND = {kind.kind: kind for kind in KINDS}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def api(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApi]:
    """An API server of its own: other tests must not lose their definitions here."""
    folder = tmp_path_factory.mktemp("crds")
    with ControlPlane(rig, folder, components=()) as plane, closing(plane.api) as client:
        yield client


@pytest.fixture
def served(api: KubeApi) -> KubeApi:
    """The same with all definitions."""
    install(api)
    return api


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_definition_can_be_created_with_the_annotation_of_kubectl_apply(
    api: KubeApi, repository: Path, kind: CustomKind
) -> None:
    """`kubectl apply` without --server-side keeps the whole object in an annotation, which the server limits."""
    found = yaml.safe_load((repository / "crds" / kind.file).read_text(encoding="utf-8"))
    text = json.dumps(found, separators=(",", ":")) + "\n"
    found["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": text}
    assert api.request("POST", f"{DEFINITIONS}?fieldValidation=Strict", found).message == ""
    wait_until_served(api, kind)
    _remove(api, kind)


def test_a_definition_is_applied_by_the_server_and_applying_it_again_changes_nothing(api: KubeApi) -> None:
    for kind in KINDS:
        first = sure(apply(api, kind))
        wait_until_served(api, kind)
        again = sure(apply(api, kind))
        assert again["metadata"]["generation"] == first["metadata"]["generation"]
        # What the server stores says the same as the file: nothing was pruned, and defaults of its own are few.
        stored = again["spec"]["versions"][0]
        assert stored["schema"] == first["spec"]["versions"][0]["schema"]


def test_what_is_left_out_of_a_profile_is_filled_in(served: KubeApi) -> None:
    made = sure(served.request("POST", objects_path(PROFILE, query="dryRun=All"), manifest(PROFILE, {})))
    assert made["spec"] == {
        "schedulerName": "dense",
        "takeOver": False,
        "rollout": {"mode": "Active", "shadowOf": "default-scheduler"},
        "workers": {"group": "default", "replicas": 1},
    }


def test_what_is_left_out_of_a_pool_is_filled_in_and_of_a_simulation_it_is_not(served: KubeApi) -> None:
    """Candidates are merge patches of a simulation's spec, which defaults would get in the way of."""
    pool = sure(served.request("POST", objects_path(POOL, query="dryRun=All"), manifest(POOL, {})))["spec"]
    assert (pool["min"], pool["capacityTypes"]) == (0, ["on-demand"])
    assert pool["disruption"]["budgets"] == [{"nodes": "10%"}]
    simulation = manifest(SIMULATION, {})
    made = sure(served.request("POST", objects_path(SIMULATION, query="dryRun=All"), simulation))
    assert made["spec"] == simulation["spec"]


def test_the_status_of_a_new_object_is_dropped_and_the_subresource_leaves_the_spec_alone(served: KubeApi) -> None:
    given = {**manifest(PROFILE, {}, "with-status"), "status": {"pending": 7}}
    made = sure(served.request("POST", objects_path(PROFILE), given))
    assert "status" not in made
    change = {"spec": {"percentageOfNodesToScore": 3}, "status": {"pending": 8}}
    stored = sure(served.patch(made, change, subresource="status"))
    assert stored["status"] == {"pending": 8}
    assert stored["metadata"]["generation"] == 1
    assert "percentageOfNodesToScore" not in stored["spec"]
    sure(served.delete(made))


def test_two_managers_own_conditions_of_their_own(served: KubeApi) -> None:
    """Conditions are a map by type, so that what one manager applies leaves the others alone."""
    made = stored = sure(served.request("POST", objects_path(PROFILE), manifest(PROFILE, {}, "conditions")))
    for manager, type in (("stowplan-status", "Ready"), ("stowplan-sim", "Predicted")):
        condition = {
            "type": type,
            "status": "True",
            "reason": "Known",
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-03-02T08:00:00Z",
        }
        body = {**_identity(made), "status": {"conditions": [condition]}}
        path = objects_path(PROFILE, name="conditions") + f"/status?fieldManager={manager}"
        stored = sure(served.request("PATCH", path, body, content=SERVER_SIDE))
    assert [entry["type"] for entry in stored["status"]["conditions"]] == ["Ready", "Predicted"]
    sure(served.delete(made))


def test_kubectl_get_shows_scheduler_mode_and_state(served: KubeApi) -> None:
    made = sure(served.request("POST", objects_path(PROFILE), manifest(PROFILE, {}, "columns")))
    status = {
        "pending": 3,
        "utilizationPercent": 71,
        "appliedHash": "68c4a4689002d602",
        "workers": [{"name": "default-1", "leading": True}],
        "conditions": [_condition("Ready", "True", "Running")],
    }
    sure(served.patch(made, {"status": status}, subresource="status"))
    table = sure(served.request("GET", objects_path(PROFILE, name="columns"), accept=TABLE))
    names = [column["name"] for column in table["columnDefinitions"]]
    row = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert {name: row[name] for name in ("SCHEDULER", "MODE", "READY", "PENDING", "UTIL%")} == {
        "SCHEDULER": "dense",
        "MODE": "Active",
        "READY": "True",
        "PENDING": 3,
        "UTIL%": 71,
    }
    assert {name: row[name] for name in ("REASON", "STRATEGY", "GROUP", "WORKERS", "LEADER", "HASH")} == {
        "REASON": "Running",
        "STRATEGY": None,
        "GROUP": "default",
        "WORKERS": 1,
        "LEADER": "default-1",
        "HASH": "68c4a4689002d602",
    }
    assert [column["name"] for column in table["columnDefinitions"] if not column["priority"]] == [
        "Name",
        "SCHEDULER",
        "MODE",
        "READY",
        "PENDING",
        "UTIL%",
        "AGE",
    ]
    sure(served.delete(made))


def test_profiles_are_selected_by_the_name_of_their_scheduler(served: KubeApi) -> None:
    for name in ("dense", "sparse"):
        sure(served.request("POST", objects_path(PROFILE), manifest(PROFILE, {"schedulerName": name}, name)))
    query = "fieldSelector=spec.schedulerName%3Dsparse"
    found = sure(served.request("GET", objects_path(PROFILE, query=query)))["items"]
    assert [item["metadata"]["name"] for item in found] == ["sparse"]
    for name in ("dense", "sparse"):
        sure(served.delete(manifest(PROFILE, {}, name)))


def test_short_names_and_the_category_are_known_to_discovery(served: KubeApi) -> None:
    found = sure(served.request("GET", "/apis/stowplan.io/v1alpha1"))["resources"]
    kinds = [each for each in found if "/" not in each["name"]]
    assert {each["kind"]: (each["shortNames"], each["categories"], each["namespaced"]) for each in kinds} == {
        PROFILE: (["sprof"], ["stowplan"], False),
        POOL: (["spnp"], ["stowplan"], False),
        SIMULATION: (["sim"], ["stowplan"], False),
    }


def _identity(made: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "metadata": {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"]},
    }


def _condition(type: str, status: str, reason: str) -> dict[str, Any]:
    return {"type": type, "status": status, "reason": reason, "lastTransitionTime": "2026-03-02T08:00:00Z"}


def _remove(api: KubeApi, kind: CustomKind) -> None:
    path = f"{DEFINITIONS}/{kind.name}"
    sure(api.request("DELETE", path))
    deadline = time.monotonic() + 60
    while api.request("GET", path).is_success:
        assert time.monotonic() < deadline, f"{kind.name} is still there"
        time.sleep(0.05)
