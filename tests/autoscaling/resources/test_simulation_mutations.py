"""Any value in any place of a simulation either works or is an error of one line: never another exception."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.resources import load_simulation
from support.simulations import DEPLOYMENT, HPA, small

Place = tuple[str | int, ...]

JOB = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}}
FULL = """
scheduler: &scheduler
  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles: [{schedulerName: default-scheduler}]
objects: &objects
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: nightly, namespace: shop}
  spec:
    schedule: "0 3 * * *"
    jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}}
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: shop}, spec: {hard: {pods: "50"}}}
- apiVersion: v1
  kind: LimitRange
  metadata: {name: l, namespace: shop}
  spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}}]}
- apiVersion: keda.sh/v1alpha1
  kind: ScaledObject
  metadata: {name: web, namespace: shop}
  spec:
    scaleTargetRef: {name: web}
    triggers: [{type: kafka, name: age, metadata: {topic: t, consumerGroup: g, lagThreshold: "5"}}]
spec:
  seed: 1
  start: "2026-03-02T00:00:00Z"
  cluster:
    podIPs: 500
    nodeGroups:
    - name: plain
      count: 2
      capacity: {cpu: "4", memory: 16Gi}
      reserved: {kube: {cpu: 80m}, evictionHard: {memory.available: 200Mi}}
      labels: {tier: web}
      taints: [{key: a, effect: PreferNoSchedule}]
      zones: [a, b]
  schedulerProfiles: {configuration: *scheduler}
  downstreams: [{name: db, connections: {pool: 5, perPod: 1, held: 10ms}}]
  metrics:
    server: {resolution: 15s, chance: {missing: "0.1"}}
    sources: [{name: age, type: External, demand: orders, value: QueueAge, window: 1m}]
    outages: [{at: 1m, duration: 1m, api: Resource, effect: Pods, pods: [shop/web-1]}]
  kubelet:
    images: [{name: "web:1", size: 20Mi}]
    startups: [{target: {namespace: shop, name: web}, median: 3s, sigma: "0.2"}]
  controllers: {clientQPS: 20, hpa: {syncPeriod: 15s}, nodeLifecycle: {evictionRate: "0.1"}}
  faults:
  - {at: 1m, duration: 1m, cordon: {nodeGroup: plain, count: 1}}
  - {at: 2m, zoneLost: {zone: a}}
  slo: [{name: fast, demand: visits, latency: 300ms}, {name: starts, pending: 1m}]
  sampling: {period: 30s}
  bounds: {pods: 1000}
"""


def full() -> dict[str, Any]:
    """A simulation with something in nearly every field."""
    simulation = small()
    more = yaml.safe_load(FULL)
    simulation["spec"].update(more["spec"])
    simulation["spec"]["workloads"]["objects"].extend(more["objects"])
    web = simulation["spec"]["demand"][0]
    web["web"].update(idleCPU="10m", threads=8, downstreams=["db"], warmup={"duration": "10s", "factor": 2})
    web["series"]["spikes"] = [{"at": "1m", "duration": "1m", "rise": "5s", "height": 3}]
    target = {"namespace": "shop", "name": "web"}
    steps = {"points": [{"at": "0s", "value": 1}, {"at": "1m", "value": 2}], "interpolate": True}
    simulation["spec"]["demand"] += [
        {"name": "orders", "target": target, "series": {"steps": steps}, "worker": {"cpuPerMessage": 1}},
        {
            "name": "resize",
            "series": {"diurnal": {"low": 1, "high": 5, "noise": "0.1"}, "per": "1h"},
            "jobs": {"template": JOB, "runTime": {"median": "1m"}},
        },
    ]
    return simulation


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """The way to every value."""
    yield at
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in steps:
        yield from places(member, (*at, step))


def replaced(value: Any, place: Place, new: Any) -> Any:
    if not place:
        return new
    copy = deepcopy(value)
    target = copy
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = new
    return copy


GOOD = full()
PLACES = list(places(GOOD))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**63, -(2**70), 1.5, "", "x", "5", "1e99999999", "9999999h", "-1", "a b", "\n", "é" * 300]),
    st.sampled_from([[], {}, [None], [[]], {"x": None}, {"": ""}, {"a": {"b": []}}, "List", "Node", "v1", "10%", "*"]),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


def outcome(folder: Path, simulation: Any) -> str:
    """The message, or nothing."""
    path = folder / "simulation.yaml"
    path.write_text(yaml.safe_dump(simulation))
    try:
        load_simulation(str(path))
    except InputError as error:
        return str(error)
    return ""


def test_the_simulation_is_good_before_it_is_mutated(folder: Path) -> None:
    """Otherwise the property below would hold for nothing."""
    assert outcome(folder, GOOD) == ""
    assert {DEPLOYMENT["kind"], HPA["kind"]} <= {obj["kind"] for obj in GOOD["spec"]["workloads"]["objects"]}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), VALUES)
def test_a_wrong_value_anywhere_is_an_error_of_one_line(folder: Path, place: Place, value: Any) -> None:
    """Replaces one value."""
    message = outcome(folder, replaced(GOOD, place, value))
    assert "\n" not in message
    assert not message or message.startswith(str(folder))
