"""NodePools and Simulations in a real API server: what it stores is what the models read, or refuse by field."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.control_plane import ControlPlane
from integration.crd_cases import POOL, SIMULATION, manifest
from integration.crds import install, objects_path
from integration.kube_api import KubeApi, sure
from stowplan_autoscaling.resources import SimulationSpec
from stowplan_operator.handlers.choosing import ProblemError
from stowplan_operator.handlers.model_checks import check_model
from stowplan_operator.resources.node_pool import NodePool, as_simulated
from support.profile_strategies import Path, spoilt_one

pytestmark = [pytest.mark.rig, pytest.mark.any_cluster]

STRICT: Final = "dryRun=All&fieldValidation=Strict"
PRUNED: Final = "dryRun=All&fieldValidation=Ignore"

FULL_POOL: Final[dict[str, Any]] = {
    "machines": [
        {
            "name": "general-8",
            "capacity": {"cpu": "8", "memory": "32Gi", "example.com/gpu": 2},
            "reserved": {"kube": {"cpu": "80m"}, "system": {"memory": "200Mi"}},
            "price": "0.384",
            "spotPrice": "0.1",
            "labels": {"disk": "ssd"},
        }
    ],
    "capacityTypes": ["spot", "on-demand"],
    "zones": ["zone-a", "zone-b"],
    "max": 8,
    "initial": 2,
    "labels": {"team": "shop"},
    "taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
    "startupTaints": [{"key": "cold", "effect": "NoExecute"}],
    "weight": 10,
    "limits": {"cpu": 100},
    "disruption": {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "10m",
        "budgets": [{"nodes": "20%", "reasons": ["Empty"], "schedule": "0 9 * * *", "duration": "8h"}],
        "expireAfter": "Never",
        "terminationGracePeriod": "1h",
    },
    "provider": {
        "boot": {"median": "40s", "sigma": "0.2", "maximum": "5m"},
        "failures": "0.01",
        "spot": {"interruptionsPerHour": "0.04"},
    },
}
FULL_SIMULATION: Final[dict[str, Any]] = {
    "duration": "1h",
    "seed": 3,
    "start": "2026-03-02T00:00:00Z",
    "cluster": {
        "nodeGroups": [
            {
                "name": "general",
                "count": 2,
                "capacity": {"cpu": "4", "memory": "8Gi"},
                "zones": ["zone-a"],
                "taints": [{"key": "a", "effect": "NoSchedule"}],
                "price": "0.2",
            }
        ]
    },
    "supply": {"none": {}},
    "schedulerProfiles": {
        "configuration": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    },
    "workloads": {
        "objects": [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "100m"}}}]},
                    },
                },
            }
        ]
    },
    "demand": [
        {
            "name": "visits",
            "target": {"namespace": "shop", "name": "web"},
            "series": {"diurnal": {"low": 1, "high": 5, "peak": "14h"}},
            "web": {"cpuPerRequest": "10m", "timeout": "10s"},
        }
    ],
    "faults": [{"at": "10m", "duration": "5m", "cordon": {"names": ["general-1"]}}],
    "slo": [{"name": "fast", "demand": "visits", "latency": "300ms", "share": "0.99"}],
    "candidates": [{"name": "now"}, {"name": "then", "spec": {"supply": {"karpenter": {}}, "slo": None}}],
    "baseline": "now",
    "goals": [{"metric": "cost"}, {"metric": "waiting.p95", "limit": "60s", "tolerance": "1s"}],
    "seeds": 2,
}
FULL: Final = {POOL: FULL_POOL, SIMULATION: FULL_SIMULATION}

VALUES: Final[st.SearchStrategy[Any]] = st.recursive(
    # No large numbers: a check may build as many nodes.
    st.none()
    | st.booleans()
    | st.sampled_from(
        [-1, 0, 1, 5, 1.5, "", "0", "1", "10%", "5m", "-1", "1e3", "x", "Never", "zone-a", "web", "é" * 300]
    )
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "cpu", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
CASES: Final = st.sampled_from([POOL, SIMULATION]).flatmap(
    lambda kind: st.tuples(st.just(kind), spoilt_one(FULL[kind], VALUES))
)


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[KubeApi]:
    with closing(control_plane.api) as client:
        install(client)
        yield client


@pytest.mark.parametrize("kind", [POOL, SIMULATION])
def test_the_full_specs_are_good(api: KubeApi, kind: str) -> None:
    """So that what is spoilt in them is all that is wrong."""
    stored = sure(api.request("POST", objects_path(kind, query=STRICT), manifest(kind, FULL[kind])))
    check_model(kind, "case", stored["spec"])


def test_defaults_that_the_server_fills_in_are_those_of_the_models(api: KubeApi) -> None:
    """A pool reads the same with them and without."""
    for spec in ({}, FULL_POOL):
        value = manifest(POOL, spec)
        stored = sure(api.request("POST", objects_path(POOL, query=STRICT), value))
        assert stored["spec"] != value["spec"]
        assert NodePool.model_validate(stored).spec == NodePool.model_validate(value).spec
        assert as_simulated(NodePool.model_validate(stored)).name == "case"


def test_a_simulation_is_stored_as_it_was_given(api: KubeApi) -> None:
    """With the null of a candidate, which removes a field."""
    stored = sure(api.request("POST", objects_path(SIMULATION, query=STRICT), manifest(SIMULATION, FULL_SIMULATION)))
    assert stored["spec"] == FULL_SIMULATION
    SimulationSpec.model_validate(stored["spec"])


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(case=CASES)
def test_whatever_the_server_accepts_is_checked_or_refused_by_field(
    api: KubeApi, case: tuple[str, tuple[Path, dict[str, Any]]]
) -> None:
    kind, (_, spec) = case
    answer = api.request("POST", objects_path(kind, query=PRUNED), {**manifest(kind, {}), "spec": spec})
    if not answer.is_success:
        assert answer.code in {400, 422}, answer
        return
    problem = _problem(kind, answer.body["spec"])
    assert problem is None or (problem.field.startswith("spec") and str(problem).isprintable()), problem


def _problem(kind: str, spec: dict[str, Any]) -> ProblemError | None:
    try:
        check_model(kind, "case", spec)
    except ProblemError as problem:
        return problem
    return None
