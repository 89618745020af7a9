"""The objects of workers that are Deployments, and what is said where there can be none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from deploy.linter import lint
from stowplan_operator.api.client import ApiClient
from stowplan_operator.handlers import deployments
from stowplan_operator.handlers.deployments import DeployedWorkers, DeploymentSettings, objects_of, trouble_of
from stowplan_operator.handlers.groups import GroupPlan
from stowplan_operator.handlers.observed import Health

PLAN: Final = GroupPlan(name="batch", text="{}", replicas=2, runtime="Deployment")
SETTINGS: Final = DeploymentSettings(namespace="stowplan-system", image="stowplan:0.1.0")


def test_another_configuration_is_another_config_map_and_nothing_else() -> None:
    before, after = objects_of(PLAN, SETTINGS), objects_of(replace(PLAN, text='{"other": 1}'), SETTINGS)
    assert before["Deployment"] == after["Deployment"]
    assert after["ConfigMap"]["data"] == {"worker.json": '{"other": 1}'}


def test_one_worker_has_no_budget_which_could_only_keep_its_node_from_being_drained() -> None:
    assert set(objects_of(replace(PLAN, replicas=1), SETTINGS)) == {"ConfigMap", "Deployment"}
    budget = objects_of(PLAN, SETTINGS)["PodDisruptionBudget"]["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_the_labels_that_select_are_on_the_pods_and_name_the_group() -> None:
    objects = objects_of(PLAN, SETTINGS)
    deployment = objects["Deployment"]["spec"]
    selector = deployment["selector"]["matchLabels"]
    assert selector["stowplan.io/worker-group"] == "batch"
    assert selector.items() <= deployment["template"]["metadata"]["labels"].items()
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == selector


def test_its_pods_are_placed_by_a_scheduler_that_does_not_wait_for_them() -> None:
    """kube-scheduler's by default; whoever takes that name over names another one."""

    def scheduler(settings: DeploymentSettings) -> str:
        name: str = objects_of(PLAN, settings)["Deployment"]["spec"]["template"]["spec"]["schedulerName"]
        return name

    assert scheduler(SETTINGS) == "default-scheduler"
    assert scheduler(replace(SETTINGS, scheduler_name="system-scheduler")) == "system-scheduler"


def test_its_pods_may_do_no_more_than_those_of_the_shipped_manifests() -> None:
    manifests: list[dict[str, Any]] = [
        {"kind": kind, **body, "metadata": {**body["metadata"], "name": "x", "namespace": "stowplan-system"}}
        for kind, body in objects_of(PLAN, SETTINGS).items()
    ]
    assert lint(manifests) == []


def test_without_an_image_the_group_says_what_is_missing_and_nothing_is_written() -> None:
    class NoCalls:
        """An API client must not be used at all."""

    async def main() -> list[tuple[Health, str]]:
        client = cast(ApiClient, NoCalls())
        workers = DeployedWorkers(client, replace(SETTINGS, image=""), lambda: None)
        await workers.apply({"batch": PLAN})
        found = [(report.health, report.detail) for report in workers.reports()]
        await workers.close()
        return found

    expected = "runtime Deployment needs an image: start the operator with --worker-image"
    assert asyncio.run(main()) == [(Health.SILENT, expected)]


# ---- what is said of pods -------------------------------------------------------------------------------------------


class Pods:
    """The pods that a server lists, what answers at their addresses, and a clock, in the place of the real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.listed: list[dict[str, Any]] = []
        self.answers: dict[str, dict[str, Any]] = {}
        self.now = 0.0

        async def list_all(*_: object, **__: object) -> tuple[list[dict[str, Any]], str]:
            return self.listed, ""

        async def ask(_: DeployedWorkers, address: str, group: str) -> dict[str, Any] | None:
            return self.answers.get(address)

        monkeypatch.setattr(deployments, "list_all", list_all)
        monkeypatch.setattr(DeployedWorkers, "_ask", ask)

    def looks(self, *steps: Callable[[], None]) -> list[list[tuple[str, Health, str, bool]]]:
        """Reports after each step: name, health, detail, and whether it leads."""

        async def main() -> list[list[tuple[str, Health, str, bool]]]:
            workers = DeployedWorkers(cast(ApiClient, None), SETTINGS, lambda: None, clock=lambda: self.now)
            workers._plans = {"batch": PLAN}
            found = []
            for step in steps:
                step()
                await workers._look()
                found.append([(each.name, each.health, each.detail, each.is_leading) for each in workers.reports()])
            await workers.close()
            return found

        return asyncio.run(main())

    def pod(self, name: str = "p", **status: Any) -> Callable[[], None]:
        """A step: this is the only pod, with this status."""
        labels = {"stowplan.io/worker-group": "batch"}
        meta: dict[str, Any] = {"name": name, "labels": labels}
        if status.pop("ending", False):
            meta["deletionTimestamp"] = "2026-11-30T10:00:00Z"

        def step() -> None:
            self.listed = [{"metadata": meta, "status": status}]

        return step

    def passes(self, seconds: float) -> Callable[[], None]:
        """A step: time."""

        def step() -> None:
            self.now += seconds

        return step

    def says(self, **status: Any) -> Callable[[], None]:
        """A step: this is answered at the address 10.0.0.7 from now on; nothing if nothing is said."""

        def step() -> None:
            self.answers = {"10.0.0.7": {"name": "batch", **status}} if status else {}

        return step


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Pods:
    return Pods(monkeypatch)


LEADS: Final = ("p", Health.ANSWERS, "", True)
ADDRESS: Final = "10.0.0.7"


def test_a_group_is_without_a_pod_for_five_seconds_before_that_is_wrong(pods: Pods) -> None:
    nothing = "it has no pod yet"
    found = pods.looks(pods.passes(0), pods.passes(4.9), pods.passes(0.2))
    assert [report[:3] for (report,) in found] == [
        ("stowplan-worker-batch", Health.STARTING, nothing),
        ("stowplan-worker-batch", Health.STARTING, nothing),
        ("stowplan-worker-batch", Health.SILENT, nothing),
    ]


def test_a_new_pod_has_thirty_seconds_to_answer(pods: Pods) -> None:
    """Without an address, and with one."""
    found = pods.looks(
        pods.pod(phase="Pending"),
        pods.pod(phase="Running", podIP=ADDRESS),
        pods.passes(29.9),
        pods.passes(0.2),
        pods.says(leading=True),
    )
    assert [report[1:3] for (report,) in found] == [
        (Health.STARTING, "starts"),
        (Health.STARTING, "starts"),
        (Health.STARTING, "starts"),
        (Health.SILENT, "does not answer"),
        (Health.ANSWERS, ""),
    ]


def test_a_pod_that_has_answered_may_be_silent_for_ten_seconds(pods: Pods) -> None:
    """Until then its last word stands; afterwards it does, but for leading."""
    here = pods.pod(phase="Running", podIP=ADDRESS)
    lead, gone = pods.says(leading=True), pods.says()

    def both() -> None:
        here()
        lead()

    found = pods.looks(both, gone, pods.passes(9.9), pods.passes(0.2))
    assert [report for (report,) in found] == [LEADS, LEADS, LEADS, ("p", Health.SILENT, "does not answer", False)]
    found = pods.looks(both, pods.passes(9), pods.passes(9), pods.passes(9))
    assert [report for (report,) in found] == [LEADS] * 4


def test_a_pod_that_is_to_end_leads_no_more_as_soon_as_it_is_silent(pods: Pods) -> None:
    """It gives back its Lease at once; another one leads then."""
    status = {"phase": "Running", "podIP": ADDRESS}

    def first() -> None:
        pods.pod(**status)()
        pods.says(leading=True)()

    def last() -> None:
        pods.pod(**status, ending=True)()
        pods.says()()

    found = pods.looks(first, pods.pod(**status, ending=True), last)
    assert [report for (report,) in found] == [LEADS, LEADS, ("p", Health.SILENT, "is to end", False)]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_not_spoken_of(phase: str, pods: Pods) -> None:
    """Whatever answers at the address that it had."""
    found = pods.looks(pods.says(leading=True), pods.pod(phase=phase, podIP=ADDRESS))
    assert [report[2] for (report,) in found] == ["it has no pod yet"] * 2


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]},
            "ErrImagePull: no such image",
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, "CrashLoopBackOff"),
        (
            {"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]},
            "its container ended: OOMKilled, exit code 137",
        ),
        (
            {
                "containerStatuses": [
                    {"state": {"running": {}}, "lastState": {"terminated": {"reason": "Error", "exitCode": 2}}}
                ]
            },
            "its container ended: Error, exit code 2",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]},
            "waits: 0/3 nodes are available",
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({"conditions": [{"type": "Ready", "status": "False", "message": "containers are not ready"}]}, ""),
        ({"containerStatuses": "none", "conditions": [7]}, ""),
        ({}, ""),
    ],
)
def test_what_keeps_a_pod_from_answering_is_said_at_once(status: dict[str, Any], said: str, pods: Pods) -> None:
    """In the words of its status; what passes by itself is not said."""
    assert trouble_of({"status": status}) == said
    ((report,),) = pods.looks(pods.pod(phase="Pending", **status))
    assert report[1:3] == ((Health.SILENT, said) if said else (Health.STARTING, "starts"))


def test_an_address_that_another_group_answers_at_is_not_the_pod_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server forgets addresses of pods later than they are given to others."""

    async def main() -> tuple[Any, Any]:
        async def status(_: web.Request) -> web.Response:
            return web.json_response({"name": "other", "leading": True})

        application = web.Application()
        application.router.add_get("/status", status)
        async with TestServer(application) as server:
            monkeypatch.setattr(deployments, "PORT", server.port)
            workers = DeployedWorkers(cast(ApiClient, None), SETTINGS, lambda: None)
            found = await workers._ask("127.0.0.1", "batch"), await workers._ask("127.0.0.1", "other")
            await workers.close()
        return found

    assert asyncio.run(main()) == (None, {"name": "other", "leading": True})
