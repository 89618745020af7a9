"""Whatever dies, is away or runs twice: the operator comes to the same state, and no pod is lost or bound twice.

It runs with the rights of its ServiceAccount, so after a restart of the API server it is refused (403) for a moment.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from integration.accounts import kubeconfig_of
from integration.control_plane import API_SERVER
from integration.fault_seeds import MORE
from integration.kube_api import sure
from integration.operator_bench import OperatorBench, operator_bench, until
from integration.operator_process import NAMESPACE, OperatorProcess
from support.processes import is_alive

pytestmark = [pytest.mark.rig, pytest.mark.slow]

PACK: Final[dict[str, Any]] = {"scoringStrategy": {"type": "MostAllocated"}}
SPREAD: Final[dict[str, Any]] = {"scoringStrategy": {"type": "LeastAllocated"}}
BAD: Final[dict[str, Any]] = {"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1000}}]}
DEFINITION: Final = "schedulerprofiles.stowplan.io"
APPLY: Final = f"apply the definitions with kubectl apply -f crds/{DEFINITION}.yaml"


@pytest.fixture(scope="module")
def bench(rig: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorBench]:
    with operator_bench(rig, repository, tmp_path_factory.mktemp("operator")) as made:
        yield made


@pytest.fixture(autouse=True)
def _clean(bench: OperatorBench) -> None:
    bench.profiles.delete_all()


LONG_LEASE: Final = (
    *("--leader-elect-lease-duration", "90s", "--leader-elect-renew-deadline", "60s"),
    *("--leader-elect-retry-period", "2s"),
)
"""Outlasts an API server that starts on a busy machine. Of the options of one name the last one counts."""

TOO_OFTEN: Final = "status changes too often: does somebody else write it, too?"


def worker_pids(operator: OperatorProcess) -> list[int]:
    """Of all workers that an operator ever started."""
    return [record["child"] for record in operator.records("worker started")]


def test_what_was_edited_made_and_deleted_while_the_operator_was_away_is_made_up_for(
    bench: OperatorBench, tmp_path: Path
) -> None:
    profiles = bench.profiles
    for name in ("edited", "refused", "deleted", "same"):
        profiles.create(name, **PACK)
    with bench.operator(tmp_path) as operator:
        for name in profiles.names():
            bench.wait(operator, name, Ready="True")
        before = profiles.read("same")
        assert operator.stop() == 0
        assert not any(is_alive(pid) for pid in worker_pids(operator))
        profiles.edit("edited", **SPREAD)
        profiles.edit("refused", **BAD)
        profiles.delete("deleted")
        profiles.create("made", **PACK)
        names = bench.create_pods("refused", "away", 3)

        operator.start()
        bench.wait(operator, "edited", Ready="True", Programmed="True")
        bench.wait(operator, "made", Ready="True")
        bench.wait(operator, "refused", Accepted="False Invalid", Degraded="True", Programmed="True")
        assert profiles.read("edited")["status"]["lastGood"]["generation"] == 2
        assert profiles.read("refused")["status"]["lastGood"]["generation"] == 1
        # What ran before runs on, though this operator never saw it.
        bench.wait_bound_once(operator, names)
        assert profiles.names() == {"edited", "refused", "made", "same"}
        bench.wait(operator, "same", Ready="True")
        after = profiles.read("same")
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert after["status"]["appliedHash"] == before["status"]["appliedHash"]
        assert operator.stop() == 0


@pytest.mark.parametrize("seed", [1, *MORE])
def test_an_operator_that_is_killed_takes_its_workers_along_and_the_next_one_goes_on(
    bench: OperatorBench, tmp_path: Path, seed: int
) -> None:
    """Once while its worker places pods, and once while it starts or has just started."""
    rng = random.Random(seed)
    bench.profiles.create("dense", **PACK)
    with bench.operator(tmp_path) as operator:
        bench.wait(operator, "dense", Ready="True")
        with bench.stream_of_pods("dense", f"killed-{seed}", rate=20) as names:
            until(lambda: len(names) > 10, "pods are made")
            for longest in (1.0, 4.0):
                time.sleep(rng.uniform(0.0, longest))
                operator.kill()
                pids = worker_pids(operator)
                until(lambda: not any(is_alive(pid) for pid in pids), "the workers end with their operator")  # noqa: B023
                operator.start()
            bench.wait(operator, "dense", Ready="True")
        bench.wait_bound_once(operator, names)
        # No half of anything: one worker, one entry of memory, the status of one generation.
        assert len(operator.status()["workers"]) == 1
        memory = bench.kubectl.get("configmap", "stowplan-accepted", "--namespace", NAMESPACE)
        assert set(memory["data"]) == {"dense"}
        assert operator.stop() == 0


def test_an_api_server_that_is_gone_for_seconds_ends_nothing(bench: OperatorBench, tmp_path: Path) -> None:
    bench.profiles.create("dense", **PACK)
    with bench.operator(tmp_path, options=LONG_LEASE) as operator:
        bench.wait(operator, "dense", Ready="True")
        started = worker_pids(operator)
        bench.plane.kill(API_SERVER)
        time.sleep(3)
        bench.plane.restart(API_SERVER)
        bench.api.close()
        generation = bench.profiles.edit("dense", **SPREAD)
        bench.wait(operator, "dense", Ready="True", Programmed="True")
        assert bench.profiles.read("dense")["status"]["workers"][0]["generation"] == generation
        bench.wait_bound_once(operator, bench.create_pods("dense", "restart", 3))
        assert worker_pids(operator) == started
        assert operator.stop() == 0


def test_an_api_server_that_is_gone_for_longer_than_the_leases_is_waited_for(
    bench: OperatorBench, tmp_path: Path
) -> None:
    """Operator and worker stop acting when they cannot renew, and begin anew when they can."""
    bench.profiles.create("dense", **PACK)
    with bench.operator(tmp_path) as operator:
        bench.wait(operator, "dense", Ready="True")
        bench.plane.kill(API_SERVER)
        operator.until(lambda: not operator.status()["leading"], "the operator acts no longer")
        operator.until(lambda: not any(map(is_alive, worker_pids(operator))), "its worker has ended")
        bench.plane.restart(API_SERVER)
        bench.api.close()
        bench.profiles.edit("dense", **SPREAD)
        bench.wait(operator, "dense", Ready="True", Programmed="True")
        bench.wait_bound_once(operator, bench.create_pods("dense", "long-gone", 3))
        assert operator.stop() == 0


def test_of_two_operators_one_acts_and_the_other_takes_over(bench: OperatorBench, tmp_path: Path) -> None:
    bench.profiles.create("dense", **PACK)
    with bench.operator(tmp_path, "one") as one, bench.operator(tmp_path, "two") as two:
        one.until(lambda: one.status()["leading"] or two.status()["leading"], "one of the two acts")
        first, second = (one, two) if one.status()["leading"] else (two, one)
        bench.wait(first, "dense", Ready="True")
        # A follower is ready to take over, and runs nothing.
        second.until(lambda: second.get("/readyz")[0] == 200, "the follower is ready")
        assert worker_pids(second) == []
        assert not second.status()["leading"]
        with bench.stream_of_pods("dense", "two", rate=10) as names:
            began = time.monotonic()
            first.kill()
            second.wait_acting()
            took = time.monotonic() - began
            bench.wait(second, "dense", Ready="True")
        bench.wait_bound_once(second, names)
        # 4 s after the last renewal, up to 1.2 s for the next try, and a list; the rest is for a machine that is busy.
        assert took < 30
        assert second.stop() == 0


def test_operators_without_a_lease_that_run_twice_by_mistake_bind_nothing_twice(
    bench: OperatorBench, tmp_path: Path
) -> None:
    """The workers have Leases of their own: those of one operator act, those of the other one stand by."""
    bench.profiles.create("dense", **PACK)
    options = ("--no-leader-election",)
    with bench.operator(tmp_path, "one", options) as one, bench.operator(tmp_path, "two", options) as two:
        for each in (one, two):
            each.until(lambda each=each: bool(each.status()["workers"]), "it has a worker")  # type: ignore[misc]
            each.until(
                lambda each=each: each.status()["workers"][0]["health"] == "Answers",  # type: ignore[misc]
                "its worker answers",
            )
        names = bench.create_pods("dense", "mistake", 40)
        bench.wait_bound_once(one, names)
        # Each puts right what the other one writes; but not without end.
        one.until(lambda: bool(one.records(TOO_OFTEN) or two.records(TOO_OFTEN)), "one of the two notices")
        leading = [worker["leading"] for each in (one, two) for worker in each.status()["workers"]]
        assert sorted(leading) == [False, True]
        assert one.stop() == two.stop() == 0


def test_an_operator_that_is_frozen_does_not_write_over_its_successor_when_it_wakes(
    bench: OperatorBench, tmp_path: Path
) -> None:
    bench.profiles.create("dense", **PACK)
    with bench.operator(tmp_path, "old") as old:
        bench.wait(old, "dense", Ready="True")
        assert old.process is not None
        old.process.send_signal(signal.SIGSTOP)
        with bench.operator(tmp_path, "new") as new:
            new.wait_acting()
            bench.profiles.edit("dense", **SPREAD)
            new.until(lambda: bench.profiles.read("dense")["status"]["observedGeneration"] == 2, "the new one writes")
            old.process.send_signal(signal.SIGCONT)
            old.until(lambda: not old.status()["leading"], "the old one follows")
            old.until(lambda: not any(map(is_alive, worker_pids(old))), "its workers have ended")
            bench.wait(new, "dense", Ready="True", Programmed="True")
            bench.wait_bound_once(new, bench.create_pods("dense", "frozen", 5))
            assert new.status()["leading"]
            assert new.stop() == 0
        assert old.stop() == 0


def test_an_account_without_rights_is_told_which_ones_are_missing(bench: OperatorBench, tmp_path: Path) -> None:
    sure(
        bench.api.create(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": NAMESPACE}}
        )
    )
    kubeconfig = kubeconfig_of(bench.plane, "nobody", NAMESPACE, tmp_path)
    with OperatorProcess(bench.plane, tmp_path, kubeconfig=kubeconfig) as operator:
        assert operator.ended() == 3
        (line,) = [line for line in operator.last_lines().splitlines() if line.startswith("stowplan: error: ")]
        assert "the operator may not: list/watch schedulerprofiles.stowplan.io, " in line
        assert "patch schedulerprofiles.stowplan.io/status" in line
        assert "create pods/binding" in line


def test_a_kind_that_vanishes_ends_the_operator_with_a_reason_and_the_next_says_what_to_apply(
    bench: OperatorBench, repository: Path, tmp_path: Path
) -> None:
    with bench.operator(tmp_path) as operator:
        operator.wait_acting()
        bench.kubectl("delete", "customresourcedefinition", DEFINITION, "--timeout=60s")
        assert operator.ended() == 1
        lines = operator.last_lines(1000).splitlines()
        (said,) = [line for line in lines if line.startswith("stowplan: error: ")]
        assert said == f"stowplan: error: the API server does not know {DEFINITION} any more: {APPLY}"
        # One line is enough.
        loud = [record for record in map(json.loads, set(lines) - {said}) if record["level"] in {"warning", "error"}]
        assert loud == []
        lease = bench.kubectl.get("lease", "stowplan-operator", "--namespace", NAMESPACE)
        assert not lease["spec"].get("holderIdentity"), "it was not given back"
        operator.start()
        assert operator.ended() == 3
        assert f"(stowplan.io/v1alpha1): {APPLY}" in operator.last_lines()
        bench.kubectl("apply", "--kustomize", str(repository / "crds"))
        bench.wait_served()
        operator.start()
        operator.wait_acting()
        assert operator.stop() == 0


def test_a_namespace_that_is_not_there_is_named_before_anything_is_done(bench: OperatorBench, tmp_path: Path) -> None:
    with OperatorProcess(bench.plane, tmp_path, options=("--namespace", "nowhere")) as operator:
        assert operator.ended() == 3
        assert "there is no namespace nowhere: " in operator.last_lines()
