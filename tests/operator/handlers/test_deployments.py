"""The objects of workers that are Deployments, and what is said where there can be none."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final, cast

from deploy.linter import lint
from stowplan_operator.api.client import ApiClient
from stowplan_operator.handlers.deployments import DeployedWorkers, DeploymentSettings, objects_of
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
    assert objects_of(PLAN, SETTINGS)["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_the_labels_that_select_are_on_the_pods_and_name_the_group() -> None:
    objects = objects_of(PLAN, SETTINGS)
    deployment = objects["Deployment"]["spec"]
    selector = deployment["selector"]["matchLabels"]
    assert selector["stowplan.io/worker-group"] == "batch"
    assert selector.items() <= deployment["template"]["metadata"]["labels"].items()
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == selector


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
