"""What both sides of the live check are told is the same, and the simulations can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from live import hpa_step, karpenter_pods
from live.comparison import Step
from live.prediction import SCENARIOS, manifests, write_catalogue, write_scale_in
from stowplan_autoscaling.demand.simkube import ObjectKey, read_trace
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.prices.catalog import read_catalog
from stowplan_autoscaling.resources import LoadedSimulation, load_simulation
from stowplan_autoscaling.supply.karpenter.kwok_catalogue import CPU_LABEL, kwok_instance_types


@pytest.fixture
def karpenter(tmp_path: Path) -> LoadedSimulation:
    """The scenario with the files that the driver writes for it."""
    for name in ("karpenter.yaml", "batch.yaml"):
        (tmp_path / name).write_bytes((SCENARIOS / name).read_bytes())
    write_catalogue(tmp_path / "kwok-instance-types.json")
    write_scale_in(tmp_path / "scale-in.sktrace", manifests("batch.yaml"), karpenter_pods.LEFT, karpenter_pods.SCALE_IN)
    return load_simulation(str(tmp_path / "karpenter.yaml"))


def test_the_pools_of_the_simulation_and_of_karpenter_say_the_same(karpenter: LoadedSimulation) -> None:
    """Types by the requirement on cores, terms, zones, consolidation, budgets, expiry."""
    _, real = manifests("nodepool.yaml")
    spec, disruption = real["spec"]["template"]["spec"], real["spec"]["disruption"]
    wanted = {each["key"]: (each["operator"], each["values"]) for each in spec["requirements"]}
    operator, (bound,) = wanted[CPU_LABEL]
    assert operator == "Lt"
    fitting = {
        kind.name
        for kind in kwok_instance_types()
        if int(kind.requirements.get(CPU_LABEL).single or 0) < int(bound)
        and kind.name.endswith(f"-{wanted['kubernetes.io/arch'][1][0]}-{wanted['kubernetes.io/os'][1][0]}")
    }
    (pool,) = karpenter.pools
    assert {machine.name for machine in pool.types} == fitting
    offers = {(offer.capacity_type, offer.zone) for machine in pool.types for offer in machine.offers}
    zones = {offer.zone for kind in kwok_instance_types() for offer in kind.offerings}
    assert offers == {(terms, zone) for terms in wanted["karpenter.sh/capacity-type"][1] for zone in zones}
    ours = pool.spec.disruption
    assert ours.consolidation_policy == disruption["consolidationPolicy"]
    assert ours.consolidate_after == disruption["consolidateAfter"]
    assert [each.nodes for each in ours.budgets] == [each["nodes"] for each in disruption["budgets"]]
    assert ours.expire_after == spec["expireAfter"]


def test_limits_of_clients_are_those_of_the_flags(karpenter: LoadedSimulation) -> None:
    """The driver gives them to the controllers and the scheduler."""
    controllers = karpenter.spec.controllers
    expected = (f"--kube-api-qps={controllers.client_qps:g}", f"--kube-api-burst={controllers.client_burst}")
    assert expected == karpenter_pods.CLIENT_FLAGS


def test_the_driver_plays_the_demand_and_the_phase_of_the_simulation() -> None:
    """At each of its steps and a moment before; nodes are as many and as big."""
    loaded = load_simulation(str(SCENARIOS / "hpa-step.yaml"))
    (visits,) = loaded.spec.demand
    assert visits.web is not None
    assert visits.series is not None
    assert visits.series.steps is not None
    points = visits.series.steps.points
    assert [point.at / SECOND for point in points] == [0, 60, 200]
    for point in points:
        cores = float(point.value) * float(visits.web.cpu_per_request)
        assert hpa_step.demand_at(point.at / SECOND) == pytest.approx(cores)
    assert hpa_step.demand_at(59.99) == 0.1
    assert hpa_step.demand_at(199.99) == 0.9
    assert loaded.spec.metrics.server.phase == hpa_step.SCRAPE_PHASE * SECOND
    assert loaded.spec.duration == hpa_step.DURATION * SECOND
    (group,) = loaded.spec.cluster.node_groups
    assert group.count == hpa_step.NODES
    assert dict(group.capacity) == hpa_step.node("node-1")["status"]["allocatable"]


def test_the_catalogue_file_has_every_type_with_all_its_prices(tmp_path: Path) -> None:
    """As kwok's provider has them, to the last bit."""
    path = tmp_path / "types.json"
    write_catalogue(path)
    read = {each.name: each for each in read_catalog(path.read_bytes(), str(path))}
    assert len(read) == 144
    for kind in kwok_instance_types():
        offers = {(offer.zone, offer.capacity_type, offer.price) for offer in kind.offerings}
        assert {tuple(offer) for offer in read[kind.name].offers} == offers
    assert read["s-8x-arm64-windows"].resources["memory"] == str(32 * 2**30)
    assert (read["s-8x-arm64-windows"].architecture, read["s-8x-arm64-windows"].os) == ("arm64", "windows")


def test_the_trace_leaves_forty_pods_of_each(tmp_path: Path) -> None:
    """At the second that the driver scales at."""
    path = tmp_path / "scale-in.sktrace"
    write_scale_in(path, manifests("batch.yaml"), karpenter_pods.LEFT, karpenter_pods.SCALE_IN)
    trace = read_trace(str(path))
    assert trace.duration == karpenter_pods.SCALE_IN
    for name in ("a", "b"):
        replicas = trace.replicas(ObjectKey("apps/v1.Deployment", "default", name))
        assert replicas.at(karpenter_pods.SCALE_IN + 1) == 40


def test_a_story_is_read_off_the_tables_of_a_run() -> None:
    """Two machines in the first round, a third later; one is emptied after the scale-in, and goes."""
    blank = {"ended": "", "disrupted": ""}
    nodes = [
        {"instance_type": "c-16x-amd64-linux", "requested": "1.2", "registered": "1.5", **blank},
        {"instance_type": "s-8x-amd64-linux", "requested": "1.2", "registered": "2", "disrupted": "45", "ended": "51"},
        {"instance_type": "c-2x-amd64-linux", "requested": "12", "registered": "12.5", **blank},
    ]
    pods = [
        {"created": "0", "ready": "3"},
        {"created": "0", "ready": "13"},
        {"created": "0", "ready": ""},
        {"created": "47", "ready": "48"},
    ]
    story = karpenter_pods.story_of(nodes, pods)
    nodes_over_time = [Step(1.5, 1), Step(2, 2), Step(12.5, 3), Step(51, 2)]
    assert story == karpenter_pods.Story("1 × c-16x, 1 × s-8x", 1.2, 13, 3, 45, 2, nodes_over_time)


def test_a_story_is_read_off_the_readings() -> None:
    """Types are those of the first claims, by the number that Karpenter's log gives for its first round."""
    sample = karpenter_pods.Sample
    samples = [
        sample(0, 200, 0, 0, 0, 0, ""),
        sample(2, 200, 0, 2, 1, 0, ""),
        sample(14, 200, 200, 3, 3, 1, ""),
        sample(46, 80, 80, 3, 3, 1, ""),
        sample(52, 80, 80, 2, 2, 0, ""),
    ]
    claims = ["c-16x-amd64-linux", "c-16x-amd64-linux", "s-8x-amd64-linux"]
    log = ["not JSON", json.dumps({"message": karpenter_pods.COMPUTED, "nodeclaims": 2})]
    story = karpenter_pods.story_of_samples(samples, claims, karpenter_pods.first_round([*log, log[1]]))
    nodes = [Step(0, 0), Step(2, 1), Step(14, 3), Step(52, 2)]
    assert story == karpenter_pods.Story("2 × c-16x", 2, 14, 3, 46, 2, nodes)
    assert karpenter_pods.first_round(log[:1]) == 0


def test_replicas_are_those_after_each_look_of_the_autoscaler() -> None:
    """A look without an answer changes nothing."""
    rows = [
        {"seconds": "0", "current": "2", "desired": ""},
        {"seconds": "75", "current": "2", "desired": "4"},
        {"seconds": "90", "current": "4", "desired": "4"},
    ]
    assert hpa_step.replicas_of(rows) == [Step(0, 2), Step(75, 4)]


def test_all_readings_are_written(tmp_path: Path) -> None:
    """With a header."""
    hpa_step.write(tmp_path / "o.csv", [hpa_step.Sample(0.5, 0.1, 2, 2, 0, None)])
    text = (tmp_path / "o.csv").read_text(encoding="utf-8")
    assert text.splitlines() == ["seconds,demand,running,replicas,desired,utilization", "0.5,0.1,2,2,0,"]
