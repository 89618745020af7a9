"""Every CEL rule of the definitions, in a real API server: what it accepts and what it refuses, at which field."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from integration.control_plane import ControlPlane
from integration.crd_cases import BASES, CASES, Case, Spec, manifest
from integration.crds import install, objects_path
from integration.kube_api import Answer, KubeApi, sure

pytestmark = [pytest.mark.rig, pytest.mark.any_cluster]

DRY_RUN = "dryRun=All&fieldValidation=Strict"


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[KubeApi]:
    with closing(control_plane.api) as client:
        install(client)
        yield client


@pytest.mark.parametrize("kind", sorted(BASES))
def test_the_smallest_spec_is_accepted(api: KubeApi, kind: str) -> None:
    """All cases begin with it."""
    assert api.request("POST", objects_path(kind, query=DRY_RUN), manifest(kind, {})).message == ""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_accepts_and_refuses(api: KubeApi, case: Case) -> None:
    stored = None
    if case.old is not None:
        stored = sure(api.request("POST", objects_path(case.kind), manifest(case.kind, case.old)))
    try:
        for spec in case.accepts:
            assert _tried(api, case, spec, stored).message == "", spec
        for spec in case.refuses:
            answer = _tried(api, case, spec, stored)
            assert answer.code == 422, spec
            causes = answer.body["details"]["causes"]
            ours = [cause for cause in causes if cause["message"].endswith(case.message)]
            assert [cause["field"] for cause in ours] == [case.field], causes
            reasons = {"FieldValueForbidden" if case.rule.immutable else "FieldValueInvalid"}
            assert {cause["reason"] for cause in ours} == reasons
    finally:
        if stored is not None:
            sure(api.delete(stored))


def _tried(api: KubeApi, case: Case, spec: Spec, stored: Spec | None) -> Answer:
    if stored is None:
        return api.request("POST", objects_path(case.kind, query=DRY_RUN), manifest(case.kind, spec))
    changed = {**manifest(case.kind, spec), "metadata": stored["metadata"]}
    return api.request("PUT", objects_path(case.kind, name=stored["metadata"]["name"], query=DRY_RUN), changed)
