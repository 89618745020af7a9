"""NodePools and Simulations are checked as `stowplan simulate` checks them, and every finding names its field."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_operator.handlers.choosing import ProblemError
from stowplan_operator.handlers.model_checking import ModelChecking
from stowplan_operator.handlers.model_checks import check_model
from stowplan_operator.handlers.model_status import verdict_key
from stowplan_operator.handlers.names import NODE_POOL, SIMULATION
from stowplan_operator.handlers.observed import observed

POOL: Final[dict[str, Any]] = {
    "machines": [{"name": "m5.large", "capacity": {"cpu": "2", "memory": "8Gi"}}],
    "zones": ["a", "b"],
    "max": 10,
}
RUN: Final[dict[str, Any]] = {
    "duration": "1h",
    "cluster": {"nodeGroups": [{"name": "general", "count": 3, "capacity": {"cpu": "4", "memory": "16Gi"}}]},
}
CLASHING: Final = {"queueSort": {"disabled": [{"name": "*"}]}}


EXTENDED: Final[dict[str, Any]] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "extenders": [{"urlPrefix": "http://127.0.0.1", "filterVerb": "filter"}],
}


def finding(kind: str, spec: Mapping[str, Any]) -> str:
    """What is wrong, as status says it; "" if nothing is."""
    try:
        check_model(kind, "one", spec)
    except ProblemError as problem:
        return f"{problem.field}: {problem.message}"
    return ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"min": 2}, ""),
        ({"capacityTypes": ["on-demand", "spot"]}, ""),
        ({"machines": []}, "spec.machines: "),
        ({"machines": [{"name": "x", "capacity": {"cpu": "2"}}]}, "spec.machines[0].capacity.memory: must be set"),
        ({"machines": [{"name": "x", "capacity": {"cpu": "0", "memory": "1Gi"}}]}, "spec.machines[0].capacity.cpu: "),
        ({"machines": POOL["machines"] * 2}, "spec.machines[1].name: "),
        ({"max": 0}, "spec.max: 0: the pool can never have a node"),
        ({"max": -1}, "spec.max: "),
        ({"zones": ["a", "a"]}, 'spec.zones[1]: "a": occurs twice'),
        ({"labels": {"-": "x"}}, "spec.labels"),
        ({"taints": [{"key": "\x1f", "effect": "NoSchedule"}]}, 'spec.taints[0].key: "\\x1f": name part must'),
        ({"disruption": {"consolidateAfter": "soon"}}, "spec.disruption.consolidateAfter: "),
        ({"min": 2, "capacityTypes": ["on-demand", "spot"]}, "spec.capacityTypes: "),
        ({"nonsense": 1}, "spec.nonsense: unknown field"),
    ],
)
def test_a_node_pool_is_good_or_its_field_is_named(changes: dict[str, Any], expected: str) -> None:
    found = finding(NODE_POOL, {**POOL, **changes})
    assert found.startswith(expected), found
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"duration": "0s"}, "spec.duration: "),
        ({"cluster": {}}, "spec.cluster: has no nodes"),
        ({"cluster": {"files": ["/etc/passwd"]}}, "spec.cluster.files[0]: a Simulation in a cluster has no files"),
        ({"cluster": {"snapshot": "/etc/passwd"}}, "spec.cluster.snapshot"),
        ({"workloads": {"files": ["*"]}}, "spec.workloads.files[0]: a Simulation in a cluster has no files"),
        ({"prices": {"file": "/etc/passwd"}}, "spec.prices.file: a Simulation in a cluster has no files"),
        ({"instanceTypesFile": "x"}, "spec.instanceTypesFile: a Simulation in a cluster has no files"),
        ({"schedulerProfiles": {"file": "/etc/passwd"}}, "spec.schedulerProfiles.file: a Simulation in a cluster"),
        ({"schedulerProfiles": {"configuration": {"profiles": [{"plugins": CLASHING}]}}}, "spec.schedulerProfiles"),
        # The one place where a URL could stand in it.
        (
            {"schedulerProfiles": {"configuration": EXTENDED}},
            "spec.schedulerProfiles.configuration: extenders: not decided yet",
        ),
        ({"workloads": {"objects": [{"apiVersion": "v1", "kind": "Pod"}]}}, "spec.workloads.objects[0]"),
        ({"candidates": [{"name": "a", "spec": {"duration": "0s"}}]}, "spec.candidates[0]: spec.duration: "),
        ({"nonsense": 1}, "spec.nonsense: unknown field"),
    ],
)
def test_a_simulation_is_good_or_its_field_is_named(changes: dict[str, Any], expected: str) -> None:
    found = finding(SIMULATION, {**RUN, **changes})
    assert found.startswith(expected), found
    assert bool(found) == bool(expected)


ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from([NODE_POOL, SIMULATION]), st.data(), ANYTHING)
@settings(max_examples=200)
def test_any_value_in_any_field_is_taken_or_refused(kind: str, data: st.DataObject, value: Any) -> None:
    spec = POOL if kind == NODE_POOL else RUN
    name = data.draw(st.sampled_from([*spec, "taints", "labels", "provider", "supply", "demand", "workloads"]))
    found = finding(kind, {**spec, name: value})
    assert not found or found.startswith("spec"), found


def test_a_check_runs_in_a_process_of_its_own_and_its_verdict_is_kept_while_the_object_is_of_interest() -> None:
    good = observed({"metadata": {"name": "good", "uid": "u1", "generation": 1}, "spec": POOL})
    bad = observed({"metadata": {"name": "bad", "uid": "u2", "generation": 3}, "spec": {**POOL, "max": 0}})

    async def main() -> None:
        changed = asyncio.Event()
        checking = ModelChecking(changed.set)
        running = asyncio.create_task(checking.run())
        objects = [(NODE_POOL, good), (NODE_POOL, bad)]
        checking.want(objects)
        while len(checking.verdicts) < 2:
            changed.clear()
            await asyncio.wait_for(changed.wait(), 60)
        assert checking.verdicts[verdict_key(NODE_POOL, good)].problem is None
        problem = checking.verdicts[verdict_key(NODE_POOL, bad)].problem
        assert problem is not None
        assert problem.field == "spec.max"
        checking.want([(NODE_POOL, good)])
        assert set(checking.verdicts) == {verdict_key(NODE_POOL, good)}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_a_check_that_takes_too_long_is_given_up() -> None:
    group = {"name": "g", "count": 100_000, "capacity": {"cpu": "4", "memory": "1Gi"}}
    huge = {**RUN, "cluster": {"nodeGroups": [group]}}
    about = observed({"metadata": {"name": "huge", "uid": "u", "generation": 1}, "spec": huge})

    async def main() -> str:
        changed = asyncio.Event()
        checking = ModelChecking(changed.set, seconds=1.0)
        running = asyncio.create_task(checking.run())
        checking.want([(SIMULATION, about)])
        await asyncio.wait_for(changed.wait(), 60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return str(checking.verdicts[verdict_key(SIMULATION, about)].problem)

    assert asyncio.run(main()) == "spec: is too large to be checked here: that took more than 1 s"


def test_no_file_of_this_machine_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pods.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: secret}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for pattern in ("pods.yaml", str(tmp_path / "*.yaml"), "absent.yaml"):
        found = finding(SIMULATION, {**RUN, "workloads": {"files": [pattern]}})
        assert found.startswith("spec.workloads.files[0]: a Simulation in a cluster has no files")
