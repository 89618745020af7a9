"""SchedulerProfiles in a real API server: the vocabulary of kube-scheduler, the examples, and whatever else is sent."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from integration.control_plane import ControlPlane
from integration.crds import install, objects_path
from integration.kube_api import KubeApi
from stowplan_operator.resources import ProfileError, compile_profile, read_profile
from support.profile_strategies import Path as FieldPath
from support.profile_strategies import specs, spoilt
from support.profiles import problems_of, profile_object

pytestmark = pytest.mark.rig

STRICT = "dryRun=All&fieldValidation=Strict"
PRUNED = "dryRun=All&fieldValidation=Ignore"
PROFILE = "SchedulerProfile"
NO_HEALTH_CHECK = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[KubeApi]:
    with closing(control_plane.api) as client:
        install(client)
        yield client


def documents(*paths: Path) -> Iterator[dict[str, Any]]:
    for path in paths:
        yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def pasted(profile: dict[str, Any]) -> dict[str, Any]:
    """A profile of a KubeSchedulerConfiguration as a spec, under a name of its own."""
    return profile_object(**{"schedulerName": "pasted", **profile, "takeOver": True})


@pytest.mark.any_cluster
def test_profiles_of_configurations_can_be_pasted(api: KubeApi, repository: Path) -> None:
    """Word for word, args with their apiVersion and kind included."""
    names = ("profiles/default", "profiles/most-allocated", "profiles/requested-to-capacity-ratio", "bookshop/profiles")
    count = 0
    for configuration in documents(*(repository / "examples" / f"{name}.yaml" for name in names)):
        for profile in configuration["profiles"]:
            count += 1
            answer = api.request("POST", objects_path(PROFILE, query=STRICT), pasted(profile))
            assert answer.message == ""
            compile_profile(read_profile(answer.body))
    assert count == 5


def test_what_kube_scheduler_writes_itself_can_be_pasted(
    api: KubeApi, control_plane: ControlPlane, rig: Path, tmp_path: Path
) -> None:
    """--write-config-to: all defaults, weights of 0, and every extension point with an empty set."""
    written = tmp_path / "configuration.yaml"
    arguments: list[str | Path] = [
        "kube-scheduler",
        "--kubeconfig",
        control_plane.kubeconfig,
        "--write-config-to",
        written,
    ]
    # It lives as long as its standard input is open, and it has written the file when it ends by itself.
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([rig, *arguments], stdin=subprocess.PIPE, stdout=log, stderr=log) as program,
    ):
        program.wait(60)
    assert written.is_file(), (tmp_path / "log").read_text()
    (configuration,) = documents(written)
    (profile,) = configuration["profiles"]
    assert len(profile["pluginConfig"]) == 8
    answer = api.request("POST", objects_path(PROFILE, query=STRICT), pasted(profile))
    assert answer.message == ""
    compile_profile(read_profile(answer.body))


@pytest.mark.any_cluster
def test_the_examples_are_accepted(api: KubeApi, repository: Path) -> None:
    names = ("profiles/spread", "profiles/pack", "profiles/pack-gpu", "bookshop/profile", "bookshop/node-pools")
    found = list(documents(*(repository / "examples" / f"{name}.yaml" for name in names)))
    assert len(found) == 6
    for value in found:
        answer = api.request("POST", objects_path(value["kind"], query=STRICT), value)
        assert answer.message == ""
        if value["kind"] == PROFILE:
            compile_profile(read_profile(answer.body))


@pytest.mark.any_cluster
@settings(max_examples=40, suppress_health_check=NO_HEALTH_CHECK)
@given(spec=specs())
def test_a_good_profile_is_accepted_and_reads_back_as_it_was(api: KubeApi, spec: dict[str, Any]) -> None:
    value = {**profile_object(), "spec": spec}
    answer = api.request("POST", objects_path(PROFILE, query=STRICT), value)
    assert answer.message == ""
    assert read_profile(answer.body).spec == read_profile(value).spec


@pytest.mark.any_cluster
@settings(max_examples=80, suppress_health_check=NO_HEALTH_CHECK)
@given(case=spoilt())
def test_whatever_the_server_accepts_is_compiled_or_refused_by_field(
    api: KubeApi, case: tuple[FieldPath, dict[str, Any]]
) -> None:
    """The server prunes what it does not know; what is left has the right types, and no rule of its own is broken."""
    _, spec = case
    answer = api.request("POST", objects_path(PROFILE, query=PRUNED), {**profile_object(), "spec": spec})
    if not answer.is_success:
        assert answer.code in {400, 422}, answer
        return
    profile = read_profile(answer.body)
    try:
        compile_profile(profile)
    except ProfileError as error:
        fields = [problem.field for problem in error.problems]
        assert all(field.startswith(("spec.plugin", "spec.extenders", "spec.scoringStrategy")) for field in fields), (
            fields
        )


@pytest.mark.any_cluster
@settings(max_examples=80, suppress_health_check=NO_HEALTH_CHECK)
@given(case=spoilt())
def test_what_is_good_in_a_file_is_good_for_the_server(api: KubeApi, case: tuple[FieldPath, dict[str, Any]]) -> None:
    """But for null, which a file may have where the server wants the field left out."""
    _, spec = case
    value = {**profile_object(), "spec": spec}
    if problems_of(value) or _has_null(spec):
        return
    answer = api.request("POST", objects_path(PROFILE, query=STRICT), value)
    assert answer.message == ""


def _has_null(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_null, value.values() if isinstance(value, dict) else value))
    return value is None
