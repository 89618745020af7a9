"""The configuration's file: its content counts, and one that is wrong changes nothing."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from stowplan_operator.worker.configuration import read_configuration
from stowplan_operator.worker.reload import ConfigurationFile


def document(generation: int, **fields: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "stowplan.io/v1alpha1",
            "kind": "WorkerConfiguration",
            "configuration": {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"schedulerName": "dense"}],
            },
            "profiles": [{"schedulerName": "dense", "generation": generation}],
            **fields,
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "worker.json"
    made.write_text(document(1))
    return made


def opened(path: Path) -> ConfigurationFile:
    return ConfigurationFile(path, read_configuration(path))


def test_the_same_content_is_nothing_new(path: Path) -> None:
    file = opened(path)
    path.touch()
    assert file.look() is None
    assert file.error == ""


def test_a_new_content_is_told_once(path: Path) -> None:
    file = opened(path)
    path.write_text(document(2))
    loaded = file.look()
    assert loaded is not None
    assert loaded.profiles[0].generation == 2
    file.accept(loaded)
    assert file.look() is None
    assert file.current is loaded


def test_a_file_that_is_wrong_is_an_error_until_it_is_right(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = opened(path)
    path.write_text("{")
    with caplog.at_level(logging.ERROR):
        assert file.look() is None
        assert file.look() is None
    assert len(caplog.records) == 1, "said once"
    assert str(path) in file.error
    assert file.current.profiles[0].generation == 1
    # Back to what runs: nothing to do.
    path.write_text(document(1))
    assert file.look() is None
    assert file.error == ""


def test_a_file_that_is_gone_is_an_error(path: Path) -> None:
    file = opened(path)
    path.unlink()
    assert file.look() is None
    assert file.error == f"{path}: cannot be read: No such file or directory"
    path.write_text(document(2))
    assert file.look() is not None


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"name": "other"}, "name"), ({"leaderElection": {"leaseDurationSeconds": 20}}, "leaderElection")],
)
def test_name_and_lease_cannot_change(path: Path, changed: dict[str, Any], field: str) -> None:
    file = opened(path)
    path.write_text(document(2, **changed))
    assert file.look() is None
    assert file.error == f"{path}: {field}: cannot change while the worker runs: start it anew"


def test_one_that_could_not_be_made_to_run_is_not_tried_again(path: Path) -> None:
    file = opened(path)
    path.write_text(document(2))
    loaded = file.look()
    assert loaded is not None
    file.refuse(loaded, "a plugin said no")
    assert file.error == f"{path}: a plugin said no"
    assert file.look() is None
    assert file.current.profiles[0].generation == 1
