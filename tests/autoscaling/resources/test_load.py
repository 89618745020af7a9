"""A simulation becomes its models, the objects that it names, and the loads of its demand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.resources import LoadedSimulation, autoscaler_of, fault_nodes, load_simulation
from support.simulations import DEPLOYMENT, HPA, small, write

ROOT = Path(__file__).parents[3]


def loaded(folder: Path, simulation: Any, **options: Any) -> LoadedSimulation:
    return load_simulation(write(folder, simulation), **options)


def test_the_bookshop_can_be_read() -> None:
    """The example has two profiles, two pools, and Jobs that come by chance: 120 an hour for a day."""
    found = load_simulation(str(ROOT / "examples" / "bookshop" / "simulation.yaml"))
    assert found.warnings == ()
    assert [profile.scheduler_name for profile in found.scheduler.profiles] == ["default-scheduler", "batch-packer"]
    assert [(pool.name, len(pool.types[0].offers)) for pool in found.pools] == [("general", 3), ("batch", 3)]
    arrivals = found.loads["image-resize"].arrivals
    assert arrivals is not None
    assert 2600 < len(arrivals) < 3160  # five standard deviations of 2,880 on either side


def test_defaults_are_those_of_upstream(tmp_path: Path) -> None:
    """Durations come in nanoseconds, quantities as numbers."""
    spec = loaded(tmp_path, small()).spec
    assert spec.controllers.hpa.sync_period == 15 * 10**9
    assert spec.controllers.hpa.tolerance == 0.1
    assert (spec.controllers.client_qps, spec.controllers.client_burst) == (20, 30)
    assert spec.kubelet.serialize_image_pulls


def test_a_node_group_becomes_nodes_with_what_pods_can_have(tmp_path: Path) -> None:
    """allocatable = capacity - kube - system - evictionHard: 4 - 0.08 - 0.02 cores, 16Gi - 1Gi - 100Mi.

    Of 50Gi a tenth, which the kubelet keeps as a 32-bit float: 5,368,709,200 bytes.
    """
    simulation = small()
    simulation["spec"]["cluster"]["nodeGroups"] = [
        {
            "name": "general",
            "count": 3,
            "capacity": {"cpu": 4, "memory": "16Gi", "ephemeral-storage": "50Gi"},
            "reserved": {"kube": {"cpu": "80m", "memory": "1Gi"}, "system": {"cpu": "20m"}},
            "labels": {"tier": "web"},
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            "zones": ["a", "b"],
            "instanceType": "m5.xlarge",
        }
    ]
    nodes = [manifest.value for manifest in loaded(tmp_path, simulation).of("Node")]
    assert [node["metadata"]["name"] for node in nodes] == ["general-1", "general-2", "general-3"]
    assert [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes] == ["a", "b", "a"]
    assert nodes[0]["metadata"]["labels"]["stowplan.io/node-group"] == "general"
    assert nodes[0]["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m5.xlarge"
    assert nodes[0]["spec"]["taints"] == [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    assert nodes[0]["status"]["allocatable"] == {
        "cpu": "3900m",
        "memory": str(15 * 2**30 - 100 * 2**20),
        "ephemeral-storage": str(50 * 2**30 - 5_368_709_200),
        "pods": "110",
    }


def test_files_folders_patterns_and_snapshots_add_up(tmp_path: Path) -> None:
    """Paths are relative to the simulation; a List counts by its items; a dump may be compressed."""
    (tmp_path / "more").mkdir()
    write(tmp_path / "more", {**DEPLOYMENT, "metadata": {"name": "a"}}, "a.yaml")
    write(tmp_path / "more", {**DEPLOYMENT, "metadata": {"name": "b"}}, "b.yml")
    write(tmp_path, {**DEPLOYMENT, "metadata": {"name": "c"}}, "c-1.yaml")
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "old", "uid": "1"},
        "status": {"allocatable": {"cpu": "1"}},
    }
    dump = {"kind": "List", "apiVersion": "v1", "items": [node]}
    (tmp_path / "dump.json.gz").write_bytes(gzip.compress(json.dumps(dump).encode()))
    simulation = small()
    simulation["spec"]["workloads"]["files"] = ["more", "c-*.yaml"]
    simulation["spec"]["cluster"]["snapshot"] = "dump.json.gz"
    found = loaded(tmp_path, simulation)
    assert [manifest.key for manifest in found.of("Deployment")] == ["shop/web", "default/a", "default/b", "default/c"]
    assert (found.of("Node")[0].name, found.of("Node")[0].dumped) == ("old", True)


def test_the_configuration_may_stand_in_the_simulation_or_in_a_file(tmp_path: Path) -> None:
    """Both give the same profiles."""
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "one"}, {"schedulerName": "two"}],
    }
    inline, beside = small(), small()
    inline["spec"]["schedulerProfiles"] = {"configuration": configuration}
    beside["spec"]["schedulerProfiles"] = {"file": "scheduler.yaml"}
    write(tmp_path, configuration, "scheduler.yaml")
    assert loaded(tmp_path, inline).scheduler == loaded(tmp_path, beside).scheduler


def test_series_are_per_second_and_count_from_the_start(tmp_path: Path) -> None:
    """600 per minute are 10 per second; a peak at 14:00 is 6 h after a start at 08:00; a spike adds to it."""
    simulation = small()
    simulation["spec"].update(duration="24h", start="2026-03-02T08:00:00Z")
    simulation["spec"]["demand"][0]["series"] = {
        "diurnal": {"low": 0, "high": 600, "peak": "14h"},
        "per": "1m",
        "spikes": [{"at": "18h", "duration": "10m", "height": 60}],
    }
    curve = loaded(tmp_path, simulation).loads["visits"].curve
    assert curve is not None
    assert curve.at(6 * 3600) == pytest.approx(10)
    assert curve.at(18 * 3600) == pytest.approx(1)


def test_a_recorded_series_is_read_from_its_file(tmp_path: Path) -> None:
    """Rows hold until the next; 300 per five minutes are one per second; the last value holds."""
    (tmp_path / "day.csv").write_text("timestamp,value\n2026-01-01 00:00:00,300\n2026-01-01 00:05:00,600\n")
    simulation = small()
    simulation["spec"]["demand"][0]["series"] = {"csv": {"file": "day.csv"}, "per": "5m"}
    curve = loaded(tmp_path, simulation).loads["visits"].curve
    assert curve is not None
    assert [curve.at(seconds) for seconds in (0, 299, 300, 9000)] == [1, 1, 2, 2]


def test_jobs_may_come_at_equal_distances(tmp_path: Path) -> None:
    """Six per hour for one hour: one at the end of each ten minutes."""
    simulation = small()
    simulation["spec"]["duration"] = "1h"
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}}
    simulation["spec"]["demand"] = [
        {
            "name": "resize",
            "series": {"constant": {"value": 6}, "per": "1h"},
            "jobs": {"template": template, "arrivals": "Even", "runTime": {"median": "3m"}},
        }
    ]
    arrivals = loaded(tmp_path, simulation).loads["resize"].arrivals
    assert arrivals is not None
    assert arrivals.times.tolist() == pytest.approx([600, 1200, 1800, 2400, 3000, 3600])


def test_a_trace_is_replayed_as_it_was_recorded(tmp_path: Path) -> None:
    """SimKube's format: MessagePack, version 2."""
    events = [
        {"ts": 100, "applied_objs": [], "deleted_objs": []},
        {"ts": 160, "applied_objs": [DEPLOYMENT], "deleted_objs": []},
    ]
    trace = {"version": 2, "config": {"trackedObjects": {}}, "events": events, "index": {}, "pod_lifecycles": {}}
    (tmp_path / "day.sktrace").write_bytes(msgspec.msgpack.encode(trace))
    simulation = small()
    simulation["spec"]["demand"].append({"name": "replay", "trace": {"file": "day.sktrace"}})
    found = loaded(tmp_path, simulation).loads["replay"].trace
    assert found is not None
    assert found.duration == 60


def test_an_autoscaler_of_version_1_is_read_as_one_of_version_2(tmp_path: Path) -> None:
    """targetCPUUtilizationPercentage is a Resource metric of cpu."""
    simulation = small()
    old = {**HPA, "apiVersion": "autoscaling/v1"}
    old["spec"] = {
        "scaleTargetRef": HPA["spec"]["scaleTargetRef"],
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 60,
    }
    simulation["spec"]["workloads"]["objects"][1] = old
    (manifest,) = loaded(tmp_path, simulation).of("HorizontalPodAutoscaler")
    resource = autoscaler_of(manifest).spec.metrics[0].resource
    assert resource is not None
    assert (resource.name, resource.target.average_utilization) == ("cpu", 60)


def test_a_fault_names_its_nodes(tmp_path: Path) -> None:
    """Those of a zone, the first of a group, or those that are named."""
    simulation = small()
    simulation["spec"]["cluster"]["nodeGroups"] = [
        {"name": "web", "count": 3, "capacity": {"cpu": 4}, "zones": ["a", "b"]}
    ]
    simulation["spec"]["faults"] = [
        {"at": "1m", "zoneLost": {"zone": "a"}},
        {"at": "1m", "nodeLost": {"nodeGroup": "web", "count": 2}},
        {"at": "1m", "duration": "2m", "cordon": {"names": ["web-3"]}},
    ]
    found = loaded(tmp_path, simulation)
    nodes = [fault_nodes(fault, found.spec, found.objects) for fault in found.spec.faults]
    assert nodes == [["web-1", "web-3"], ["web-1", "web-2"], ["web-3"]]


def test_seed_and_duration_of_the_command_line_win(tmp_path: Path) -> None:
    """And they count in the digest, as if they stood in the file."""
    written = small()
    written["spec"].update(seed=7, duration="1h")
    changed = loaded(tmp_path, small(), seed=7, duration=3600 * 10**9)
    assert (changed.spec.seed, changed.spec.duration) == (7, 3600 * 10**9)
    assert changed.digest == loaded(tmp_path, written).digest


def test_the_digest_is_of_contents_not_of_places(tmp_path: Path) -> None:
    """The same in another folder is the same; a byte more in a file that it names is another simulation."""
    simulation = small()
    simulation["spec"]["workloads"]["files"] = ["more.yaml"]
    digests = []
    for name, text in (("a", "kind: Namespace"), ("b", "kind: Namespace"), ("c", "kind: Namespace #")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "more.yaml").write_text(text + "\napiVersion: v1\nmetadata: {name: shop}\n")
        digests.append(loaded(tmp_path / name, simulation).digest)
    assert digests[0] == digests[1] != digests[2]


def test_what_cannot_be_meant_is_warned_about(tmp_path: Path) -> None:
    """Pods of a scheduler that is not here; an HPA without demand; kinds that are left out."""
    simulation = small()
    simulation["spec"]["demand"] = []
    simulation["spec"]["workloads"]["objects"][0]["spec"]["template"]["spec"]["schedulerName"] = "default-schedule"
    simulation["spec"]["workloads"]["objects"].append(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    )
    assert loaded(tmp_path, simulation).warnings == (
        "1 objects of other kinds ignored: ConfigMap (1)",
        "HorizontalPodAutoscaler shop/web: no demand for Deployment shop/web: its pods use nothing",
        (
            'Deployment shop/web: schedulerName "default-schedule" is no profile here, its pods stay pending; did you '
            "mean default-scheduler?"
        ),
    )


def test_the_yaml_that_was_written_is_read_back(tmp_path: Path) -> None:
    """What the models write is a simulation again, with the same digest."""
    first = loaded(tmp_path, small())
    text = yaml.safe_dump(first.simulation.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert loaded(tmp_path, text).digest == first.digest


def test_a_run_that_is_cut_short_leaves_out_what_comes_later(tmp_path: Path) -> None:
    """Without --duration the same spike is an error: it would never come."""
    simulation = small()
    simulation["spec"]["demand"][0]["series"]["spikes"] = [{"at": "8m", "duration": "1m", "height": 5}]
    path = write(tmp_path, simulation)
    assert load_simulation(path, duration=60 * 10**9).spec.duration == 60 * 10**9
    simulation["spec"]["duration"] = "1m"
    with pytest.raises(InputError, match=r"spikes\[0\]\.at.*must be before the end of the run, 1m"):
        load_simulation(write(tmp_path, simulation))
