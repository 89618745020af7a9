"""SchedulerProfiles on a real control plane: from kubectl apply to pods that are placed, and every change after that.

One operator runs for all tests, with the rights of its ServiceAccount and no others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.kube_api import sure
from integration.operator_bench import OperatorBench, operator_bench
from integration.operator_process import NAMESPACE, PROFILES, OperatorProcess

pytestmark = [pytest.mark.rig, pytest.mark.slow]

NEWCOMER = """
apiVersion: stowplan.io/v1alpha1
kind: SchedulerProfile
metadata: {name: newcomer}
spec:
  schedulerName: newcomer
  scoringStrategy: {type: MostAllocated}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: default}
spec:
  schedulerName: newcomer
  containers: [{name: main, image: web:1, resources: {requests: {cpu: 100m}}}]
"""
BAD_ARGS = [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1000}}]
"""Only the operator can tell: args are free-form for the API server."""

WEIGHT = "spec.pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 1000: not in valid range [0, 100]"


@pytest.fixture(scope="module")
def bench(rig: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorBench]:
    with operator_bench(rig, repository, tmp_path_factory.mktemp("operator")) as made:
        yield made


@pytest.fixture(scope="module")
def operator(bench: OperatorBench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    with bench.operator(tmp_path_factory.mktemp("log"), options=("--worker-image", "stowplan:test")) as made:
        made.wait_acting()
        yield made
        assert made.stop() == 0
        # No round ever failed, whatever the tests did.
        assert made.records("a round failed") == []


@pytest.fixture(autouse=True)
def _clean(bench: OperatorBench) -> Iterator[None]:
    yield
    bench.profiles.delete_all()


def test_a_newcomer_needs_kubectl_alone(bench: OperatorBench, operator: OperatorProcess) -> None:
    kubectl = bench.kubectl
    kubectl("apply", "--filename", "-", stdin=NEWCOMER)
    kubectl("wait", "--for=condition=Ready", "sprof/newcomer", "--timeout=60s")
    kubectl("apply", "--filename", "-", stdin=POD)
    kubectl("wait", "--for=jsonpath={.spec.nodeName}", "pod/first", "--timeout=60s")
    header, row = kubectl("get", "sprof").splitlines()
    columns = dict(zip(header.split(), row.split(), strict=False))
    assert columns["NAME"] == columns["SCHEDULER"] == "newcomer"
    assert columns["READY"] == "True"
    described = kubectl("describe", "sprof", "newcomer")
    assert re.search(r"Normal +Ready .* stowplan-operator +worker default schedules its pods", described), described
    assert "Normal  Scheduled" in re.sub(" +", "  ", kubectl("describe", "pod", "first")).replace("   ", "  ")
    code, text = operator.get("/workers/default/metrics")
    assert code == 200
    assert 'scheduler_schedule_attempts_total{profile="newcomer",result="scheduled"} 1' in text
    assert operator.get("/workers/none/metrics")[0] == 404
    kubectl("delete", "sprof", "newcomer", "--timeout=30s")
    bench.wait_without_workers(operator)
    assert bench.kubectl.get("configmap", "stowplan-accepted", "--namespace", NAMESPACE).get("data", {}) == {}


def test_a_memory_that_somebody_deletes_or_edits_is_put_right_though_nothing_else_happens(
    bench: OperatorBench, operator: OperatorProcess
) -> None:
    bench.profiles.create("dense")
    bench.wait(operator, "dense", Ready="True")
    where = ("configmap", "stowplan-accepted", "--namespace", NAMESPACE)
    before = bench.kubectl.get(*where)
    bench.kubectl("delete", *where)

    def is_back() -> bool:
        listed = bench.kubectl.get("configmaps", "--namespace", NAMESPACE)["items"]
        found = [each for each in listed if each["metadata"]["name"] == "stowplan-accepted"]
        return bool(found) and found[0]["data"] == before["data"]

    operator.until(is_back, "it is made anew")
    bench.kubectl("patch", *where, "--type=merge", "--patch", '{"data": {"dense": "{}"}}')
    operator.until(is_back, "it is put right")
    assert bench.kubectl.get(*where)["metadata"]["uid"] != before["metadata"]["uid"]


def test_a_group_that_goes_takes_its_lease_along(bench: OperatorBench, operator: OperatorProcess) -> None:
    """One that was left by others goes with it, unless somebody still holds it."""

    def leases() -> set[str]:
        listed = bench.kubectl.get("leases", "--namespace", NAMESPACE)["items"]
        return {each["metadata"]["name"] for each in listed}

    bench.profiles.create("dense", workers={"group": "goes"})
    bench.wait(operator, "dense", Ready="True")
    assert "stowplan-worker-goes" in leases()

    def lease(name: str, holder: str) -> dict[str, Any]:
        meta = {"name": f"stowplan-worker-{name}", "namespace": NAMESPACE}
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}

    for each in (lease("left", ""), lease("held", "somebody")):
        sure(bench.api.create(each))
    bench.profiles.delete("dense")
    operator.until(lambda: not {"stowplan-worker-goes", "stowplan-worker-left"} & leases(), "they are gone")
    assert {"stowplan-operator", "stowplan-worker-held"} <= leases()
    sure(bench.api.delete(lease("held", "somebody")))


def test_status_is_written_by_one_manager_and_nothing_else_of_the_object_is_touched(
    bench: OperatorBench, operator: OperatorProcess
) -> None:
    made = bench.profiles.create("dense")
    bench.wait(operator, "dense", Ready="True")
    found = bench.profiles.read("dense")
    assert found["spec"] == made["spec"]
    assert "finalizers" not in found["metadata"]
    assert "annotations" not in found["metadata"]
    managers = {(each["manager"], each.get("subresource", "")) for each in found["metadata"]["managedFields"]}
    assert ("stowplan-status", "status") in managers
    assert {manager for manager, part in managers if part == "status"} == {"stowplan-status"}


def test_a_status_that_was_edited_by_hand_is_put_right_and_conditions_of_others_stay(
    bench: OperatorBench, operator: OperatorProcess
) -> None:
    made = bench.profiles.create("dense")
    bench.wait(operator, "dense", Ready="True")
    conditions = bench.profiles.read("dense")["status"]["conditions"]
    lied = [{**each, "status": "Unknown", "message": "by hand"} for each in conditions]
    foreign = {**conditions[0], "type": "Predicted", "status": "True", "reason": "Simulated", "message": "by another"}
    sure(bench.api.patch(made, {"status": {"conditions": [*lied, foreign], "pending": 7}}, subresource="status"))
    bench.wait(operator, "dense", Ready="True", Accepted="True", Programmed="True", Degraded="False", Paused="False")
    assert bench.profiles.conditions("dense")["Predicted"] == foreign


def test_a_refused_edit_leaves_the_last_good_profile_running(bench: OperatorBench, operator: OperatorProcess) -> None:
    bench.profiles.create("dense")
    bench.wait(operator, "dense", Ready="True")
    bench.profiles.edit("dense", pluginConfig=BAD_ARGS)
    bench.wait(operator, "dense", Accepted="False Invalid", Degraded="True OlderConfigurationRuns", Programmed="True")
    conditions = bench.profiles.conditions("dense")
    assert conditions["Accepted"]["message"] == WEIGHT
    assert conditions["Programmed"]["observedGeneration"] == 1
    bench.wait_bound_once(operator, bench.create_pods("dense", "refused", 3))
    bench.profiles.edit("dense", pluginConfig=None)
    bench.wait(operator, "dense", Ready="True", Degraded="False")
    assert bench.profiles.read("dense")["status"]["lastGood"]["generation"] == 3


def test_weights_are_changed_under_load_without_a_restart_and_without_losing_a_pod(
    bench: OperatorBench, operator: OperatorProcess
) -> None:
    bench.profiles.create("dense")
    bench.wait(operator, "dense", Ready="True")
    started, written = len(operator.records("worker started")), operator.metric("stowplan_operator_status_writes_total")
    with bench.stream_of_pods("dense", "weights", rate=30) as names:
        for weight in (5, 2, 9):
            plugins = {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": weight}]}}
            generation = bench.profiles.edit("dense", plugins=plugins)
            bench.wait(operator, "dense", Ready="True", Programmed="True")
            assert bench.profiles.read("dense")["status"]["workers"][0]["generation"] == generation
        bench.profiles.edit("dense", pluginConfig=BAD_ARGS)
        bench.wait(operator, "dense", Accepted="False Invalid", Programmed="True")
    bench.wait_bound_once(operator, names)
    assert len(operator.records("worker started")) == started
    # Per edit: what is waited for, and that it is there. Twice that for figures, and for a worker that answers late.
    assert operator.metric("stowplan_operator_status_writes_total") - written <= 2 * 2 * 4


def test_a_hundred_edits_in_a_row_end_with_the_last_one_and_are_few_writes(
    bench: OperatorBench, operator: OperatorProcess
) -> None:
    bench.profiles.create("dense")
    bench.wait(operator, "dense", Ready="True")
    written = operator.metric("stowplan_operator_status_writes_total")
    generation = 1
    for number in range(100):
        weight = 1000 if number % 3 == 1 else number % 100
        args = [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": weight}}]
        generation = bench.profiles.edit("dense", pluginConfig=args)
    bench.wait(operator, "dense", Ready="True", Programmed="True", Degraded="False")
    status = bench.profiles.read("dense")["status"]
    assert status["lastGood"]["generation"] == status["workers"][0]["generation"] == generation == 101
    # 20 at once, and one more every three seconds (write_budget).
    assert operator.metric("stowplan_operator_status_writes_total") - written < 60


def test_of_two_profiles_with_one_scheduler_name_the_older_runs_until_it_goes(
    bench: OperatorBench, operator: OperatorProcess
) -> None:
    bench.profiles.create("older", "shared")
    bench.wait(operator, "older", Ready="True")
    # Ages count in seconds; of one second, names decide.
    bench.profiles.create("z-newer", "shared", workers={"group": "other"})
    bench.wait(operator, "z-newer", Accepted="False Conflict", Ready="False Conflict", Programmed="False")
    assert "belongs to SchedulerProfile older" in bench.profiles.conditions("z-newer")["Accepted"]["message"]
    bench.wait(operator, "older", Ready="True")
    bench.profiles.delete("older")
    bench.wait(operator, "z-newer", Ready="True")
    assert {worker["group"] for worker in operator.status()["workers"]} == {"other"}
    bench.wait_bound_once(operator, bench.create_pods("shared", "shared", 3))


def test_pods_of_a_paused_profile_wait_and_go_on(bench: OperatorBench, operator: OperatorProcess) -> None:
    bench.profiles.create("dense", rollout={"mode": "Paused"})
    bench.wait(operator, "dense", Paused="True", Programmed="True", Ready="False Paused")
    names = bench.create_pods("dense", "paused", 2)
    bench.profiles.create("wide")
    bench.wait(operator, "wide", Ready="True")
    bench.wait_bound_once(operator, bench.create_pods("wide", "meanwhile", 2))
    assert bench.waiting(names) == names
    bench.profiles.edit("dense", rollout={"mode": "Active"})
    bench.wait_bound_once(operator, names)


def test_profiles_of_one_group_share_a_worker_and_one_that_goes_leaves_it_to_the_other(
    bench: OperatorBench, operator: OperatorProcess
) -> None:
    bench.profiles.create("a")
    bench.wait(operator, "a", Ready="True")
    started = len(operator.records("worker started"))
    bench.profiles.create("b")
    bench.wait(operator, "b", Ready="True")
    bench.profiles.delete("a")
    names = bench.create_pods("b", "stays", 2)
    bench.wait_bound_once(operator, names)
    assert len(operator.records("worker started")) == started


def test_workers_that_are_deployments_are_written_changed_in_place_and_taken_away(
    bench: OperatorBench, operator: OperatorProcess
) -> None:
    """No kubelet runs them here: what counts is what the API server is told, and what the profile says about it."""

    def found() -> dict[str, dict[str, Any]]:
        kinds = ("configmap", "deployment", "poddisruptionbudget")
        listed = bench.kubectl.get(",".join(kinds), "--namespace", NAMESPACE, "--selector", "stowplan.io/worker-group")
        return {each["kind"]: each for each in listed["items"]}

    bench.profiles.create("deployed", workers={"group": "deployed", "runtime": "Deployment", "replicas": 2})
    operator.until(lambda: len(found()) == 3, "all three objects are there")
    deployment = found()["Deployment"]
    assert deployment["metadata"]["name"] == "stowplan-worker-deployed"
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "stowplan:test"
    bench.wait(operator, "deployed", Accepted="True", Programmed="False WorkersStarting", Degraded="True WorkerSilent")
    assert "it has no pod yet" in bench.profiles.conditions("deployed")["Degraded"]["message"]

    before = found()
    bench.profiles.edit("deployed", scoringStrategy={"type": "MostAllocated"})
    operator.until(lambda: found()["ConfigMap"]["data"] != before["ConfigMap"]["data"], "the configuration is changed")
    assert "MostAllocated" in found()["ConfigMap"]["data"]["worker.json"]
    assert found()["Deployment"]["metadata"]["generation"] == before["Deployment"]["metadata"]["generation"]

    bench.profiles.edit("deployed", workers={"replicas": 1})
    operator.until(lambda: set(found()) == {"ConfigMap", "Deployment"}, "one worker has no budget")
    bench.profiles.delete("deployed")
    operator.until(lambda: found() == {}, "nothing is left")


def test_node_pools_and_simulations_are_judged_where_they_are(bench: OperatorBench, operator: OperatorProcess) -> None:
    machine = {"name": "m", "capacity": {"cpu": "2", "memory": "8Gi"}}
    group = {"name": "g", "count": 2, "capacity": {"cpu": "4", "memory": "8Gi"}}
    run = {"duration": "1h", "cluster": {"nodeGroups": [group]}}
    unsorted = {"profiles": [{"schedulerName": "x", "plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}]}
    objects: dict[str, tuple[str, dict[str, Any], str]] = {
        "good-pool": ("NodePool", {"machines": [machine]}, ""),
        "bad-pool": (
            "NodePool",
            {"machines": [{"name": "m", "capacity": {"cpu": "2"}}]},
            "spec.machines[0].capacity.memory: must be set",
        ),
        "good-run": ("Simulation", run, ""),
        "bad-run": (
            "Simulation",
            {**run, "schedulerProfiles": {"configuration": unsorted}},
            "spec.schedulerProfiles.configuration: ",
        ),
    }
    manifests = {
        name: {"apiVersion": "stowplan.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for name, (kind, spec, _) in objects.items()
    }
    for manifest in manifests.values():
        sure(bench.api.create(manifest))
    for name, (_, _, expected) in objects.items():

        def accepted(name: str = name) -> dict[str, Any]:
            status = sure(bench.api.read(manifests[name])).get("status") or {}
            found = {each["type"]: each for each in status.get("conditions", ())}
            entry: dict[str, Any] = found.get("Accepted", {})
            return entry

        operator.until(lambda: bool(accepted()), f"{name} is judged")
        assert accepted()["status"] == ("False" if expected else "True"), name
        assert expected in accepted()["message"]
        sure(bench.api.delete(manifests[name]))


NASTY: list[Any] = [
    None, True, -1, 2**63, 1.5, "", "\u0000", "\U0001f680" * 100, "*", "a" * 300, [], [None], {}, {"x": {"y": []}},
]  # fmt: skip


@pytest.mark.parametrize(
    "field",
    ["plugins", "pluginConfig", "scoringStrategy", "extenders", "rollout", "workers", "percentageOfNodesToScore"],
)
def test_whatever_the_api_server_lets_through_gets_a_verdict(
    bench: OperatorBench, operator: OperatorProcess, field: str
) -> None:
    """The server's schema refuses most of it; the operator answers for the rest, and goes on."""
    values = [*NASTY, *([{"name": "NodeResourcesFit", "args": value}] for value in NASTY)]
    stored: list[str] = []
    for number, value in enumerate(values):
        name = f"fuzz-{number}"
        manifest = {"schedulerName": name, "rollout": {"mode": "Paused"}, field: value}
        body = {
            "apiVersion": "stowplan.io/v1alpha1",
            "kind": "SchedulerProfile",
            "metadata": {"name": name},
            "spec": manifest,
        }
        answer = bench.api.request("POST", PROFILES, body)
        assert answer.code in {201, 400, 422}, f"{field}={json.dumps(value)}: {answer}"
        if answer.is_success:
            stored.append(name)

    def judged() -> bool:
        found = [bench.profiles.conditions(name).get("Accepted") for name in stored]
        return all(found)

    operator.until(judged, f"{len(stored)} profiles have a verdict")
    for name in stored:
        accepted = bench.profiles.conditions(name)["Accepted"]
        assert accepted["status"] == "True" or accepted["message"].startswith("spec"), accepted
    assert operator.metric("stowplan_operator_reconcile_errors_total") == 0
