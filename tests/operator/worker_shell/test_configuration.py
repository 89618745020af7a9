"""What a worker reads: its own kind and kube-scheduler's, and one clear line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from stowplan_autoscaling.inputs.errors import InputError
from stowplan_operator.resources.scheduler_profile import Rollout
from stowplan_operator.worker.configuration import (
    LeaseSettings,
    WorkerConfiguration,
    parse_configuration,
    read_configuration,
)
from stowplan_operator.worker.settings import Mode


def scheduler(*names: str, **fields: Any) -> dict[str, Any]:
    profiles = [{"schedulerName": name} for name in names]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
        **fields,
    }


def document(**fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": "WorkerConfiguration",
        "configuration": scheduler("dense", "wide"),
        **fields,
    }


def parse(value: object) -> Any:
    return parse_configuration(json.dumps(value).encode(), "worker.yaml")


def complaint(value: object) -> str:
    with pytest.raises(InputError) as refused:
        parse(value)
    return str(refused.value)


def test_a_worker_configuration_says_where_profiles_come_from_and_how_they_run() -> None:
    entries = [
        {"schedulerName": "wide", "profile": "wide", "mode": "Shadow", "shadowOf": "default-scheduler"},
        {"schedulerName": "dense", "profile": "dense", "uid": "u1", "generation": 3, "hash": "abc"},
    ]
    loaded = parse(document(name="batch", profiles=entries, maxBindsInFlight=8))
    # In the configuration's order, whatever the order of the entries is.
    assert [(each.scheduler_name, each.mode, each.generation, each.hash) for each in loaded.profiles] == [
        ("dense", "Active", 3, "abc"),
        ("wide", "Shadow", 0, ""),
    ]
    assert loaded.lease == LeaseSettings(
        enabled=True,
        namespace="stowplan-system",
        name="stowplan-worker-batch",
        duration=15,
        renew_deadline=10,
        retry_period=2,
    )
    machine = loaded.for_machine()
    assert (machine.max_binds_in_flight, machine.active) == (8, {"dense"})
    assert [each.mode for each in machine.profiles] == [Mode.ACTIVE, Mode.SHADOW]


def test_without_entries_every_profile_is_active() -> None:
    assert parse(document()).for_machine().active == {"dense", "wide"}


def test_a_plain_scheduler_configuration_is_read_as_kube_scheduler_reads_it() -> None:
    """Its leader election is kube-scheduler's: of two schedulers with one Lease only one acts."""
    election = {"leaseDuration": "30s", "renewDeadline": "20s", "resourceName": "mine", "resourceNamespace": "apps"}
    loaded = parse(scheduler("dense", leaderElection=election))
    assert [(each.scheduler_name, each.mode) for each in loaded.profiles] == [("dense", "Active")]
    assert loaded.lease == LeaseSettings(
        enabled=True, namespace="apps", name="mine", duration=30, renew_deadline=20, retry_period=2
    )
    assert parse(scheduler("dense")).lease.name == "kube-scheduler"


def test_what_the_operator_writes_is_read_as_the_same() -> None:
    written = WorkerConfiguration.model_validate(document(name="batch", profiles=[{"schedulerName": "dense"}]))
    assert WorkerConfiguration.model_validate(written.as_document()) == written


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (document(maxBinds=3), "maxBinds: unknown field; did you mean maxBindsInFlight?"),
        (document(maxBindsInFlight=0), "maxBindsInFlight: 0: must be at least 1"),
        (document(kind="Pod"), 'kind: "Pod": must be WorkerConfiguration or KubeSchedulerConfiguration'),
        (document(apiVersion="v1"), 'apiVersion: "v1": must be stowplan.io/v1alpha1'),
        ({"kind": "WorkerConfiguration"}, "apiVersion: must be set"),
        (document(configuration=7), "configuration: must be a mapping, got 7"),
        (
            document(profiles=[{"schedulerName": "dense", "mode": "On"}]),
            'profiles[0].mode: "On": must be Active, Shadow or Paused',
        ),
        (
            document(profiles=[{"schedulerName": "other"}]),
            'profiles[0].schedulerName: "other": the configuration has no such profile, but dense, wide',
        ),
        (
            document(profiles=[{"schedulerName": "dense"}]),
            "profiles: has no entry for the profile wide of the configuration",
        ),
        (
            document(profiles=[{"schedulerName": "dense"}, {"schedulerName": "dense"}]),
            'profiles[1].schedulerName: "dense": occurs twice',
        ),
        (
            document(
                profiles=[{"schedulerName": "dense", "mode": "Shadow", "shadowOf": "wide"}, {"schedulerName": "wide"}]
            ),
            'profiles[0].shadowOf: "wide": must be a scheduler that this worker does not run',
        ),
        (
            document(leaderElection={"renewDeadlineSeconds": 15}),
            "leaderElection.renewDeadlineSeconds: 15: must be less than leaseDurationSeconds, 15",
        ),
        (
            document(leaderElection={"retryPeriodSeconds": 9}),
            "leaderElection.retryPeriodSeconds: 9: 1.2 times it must be less than renewDeadlineSeconds, 10",
        ),
        (
            document(configuration=scheduler("dense", extenders=[{"urlPrefix": "https://x", "filterVerb": "f"}])),
            "configuration.extenders: are not asked yet, and decisions without them would be others: take them out",
        ),
        (
            scheduler("dense", leaderElection={"leaseDuration": "15500ms"}),
            "leaderElection.leaseDuration: must be whole seconds",
        ),
        ([], "must be a WorkerConfiguration or KubeSchedulerConfiguration, got a list"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(value: object, expected: str) -> None:
    assert complaint(value) == f"worker.yaml: {expected}"


def test_a_profile_that_kube_scheduler_would_refuse_is_refused_with_its_field() -> None:
    wrong = {**scheduler(), "profiles": [{"schedulerName": "dense", "percentageOfNodesToScore": 101}]}
    assert complaint(document(configuration=wrong)) == (
        "worker.yaml: configuration: profiles[0].percentageOfNodesToScore: Invalid value: 101: "
        "not in valid range [0-100]"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty: one WorkerConfiguration or KubeSchedulerConfiguration is expected"),
        (b"a: 1\n---\nb: 2\n", "holds 2 documents: one WorkerConfiguration or KubeSchedulerConfiguration is expected"),
        (b"x" * (5 << 20), "is larger than 4 MiB: not a WorkerConfiguration"),
    ],
)
def test_a_file_that_is_none_is_refused(content: bytes, expected: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_configuration(content, "worker.yaml")
    assert str(refused.value) == f"worker.yaml: {expected}"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_configuration(tmp_path / "absent.yaml")


def test_the_modes_of_a_worker_are_those_that_a_scheduler_profile_can_ask_for() -> None:
    """The definition of the resource spells them out by itself."""
    assert set(get_args(Rollout.model_fields["mode"].annotation)) == {mode.value for mode in Mode}
