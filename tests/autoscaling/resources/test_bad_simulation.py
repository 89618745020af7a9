"""Whatever a person gets wrong in a simulation is one line: the file, the path in the YAML, what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.resources import load_simulation
from support.simulations import DEPLOYMENT, HPA, Change, at, small, without, write

EXTERNAL: dict[str, Any] = {
    "type": "External",
    "external": {"metric": {"name": "queue_age"}, "target": {"type": "Value", "value": "30"}},
}
WORKER = {"cpuPerMessage": 1}
SCALED: dict[str, Any] = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "scaleTargetRef": {"name": "web"},
        "triggers": [{"type": "kafka", "metadata": {"topic": "orders", "consumerGroup": "web", "lagThreshold": "50"}}],
    },
}

BUDGET: dict[str, Any] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "shop"},
}


def cron_job(restart: str = "Never", **spec: Any) -> dict[str, Any]:
    """One that an API server takes, unless told otherwise."""
    pod = {"restartPolicy": restart, "containers": [{"name": "main"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "shop"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}, **spec},
    }


CRON = "spec.workloads.objects[1]: CronJob shop/nightly"
WORKLOAD = "spec.workloads.objects[0]: Deployment shop/web"
AUTOSCALER = "spec.workloads.objects[1]: HorizontalPodAutoscaler shop/web"
SCALER = "spec.workloads.objects[1]: ScaledObject shop/web"
SHAPES = "exactly one of constant, steps, ramp, diurnal, csv must be set"

CASES: dict[str, tuple[Change, str]] = {
    "unknown field, near": (
        at("spec.demand.0.serie", {"constant": {"value": 1}}),
        "spec.demand[0].serie: unknown field; did you mean series?",
    ),
    "unknown field, far": (
        at("spec.sampling", {"colour": 1}),
        "spec.sampling.colour: unknown field; known are period",
    ),
    "unknown field, deep": (
        at("spec.controllers", {"hpa": {"syncperiod": "15s"}}),
        "spec.controllers.hpa.syncperiod: unknown field; did you mean syncPeriod?",
    ),
    "other kind": (
        at("kind", "Deployment"),
        'kind: "Deployment": must be Simulation; stowplan simulate takes manifests as arguments, without -f',
    ),
    "other version": (at("apiVersion", "stowplan.io/v1"), 'apiVersion: "stowplan.io/v1": must be stowplan.io/v1alpha1'),
    "no duration": (without("spec.duration"), "spec.duration: must be set"),
    "duration without unit": (
        at("spec.duration", 600),
        'spec.duration: must be a duration such as 500ms, 15s, 10m or 1h30m, got 600: "600s" is that many seconds',
    ),
    "duration in days": (
        at("spec.duration", "1d"),
        'spec.duration: "1d": must be a duration such as 500ms, 15s, 10m or 1h30m; there are no days, 24h is one',
    ),
    "no duration at all": (at("spec.duration", "0s"), 'spec.duration: "0s": must be greater than zero'),
    "float": (
        at("spec.demand.0.series.constant.value", 0.5),
        'spec.demand[0].series.constant.value: must be a whole number or a text, got 0.5: write "0.5"',
    ),
    "negative demand": (
        at("spec.demand.0.series.constant.value", -3),
        "spec.demand[0].series.constant.value: -3: must not be negative",
    ),
    "no quantity": (
        at("spec.demand.0.web.memory", "4x"),
        (
            'spec.demand[0].web.memory: "4x": quantities must match the regular expression '
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ),
    ),
    "boolean for a name": (
        at("metadata.name", True),
        "metadata.name: must be a string, got true (YAML reads y, n, yes, no, on and off as true or false: quote it)",
    ),
    "name with capitals": (
        at("metadata.name", "Small"),
        "metadata.name: \"Small\": must be lower case letters, digits, '-' and '.', without the latter at either end",
    ),
    "mapping for a list": (at("spec.demand", {}), "spec.demand: must be a list, got a mapping"),
    "text for a mapping": (at("spec.cluster", "x"), 'spec.cluster: must be a mapping, got "x"'),
    "no such choice": (
        at("spec.demand.0.target.kind", "Pod"),
        (
            'spec.demand[0].target.kind: "Pod": must be Deployment, StatefulSet, ReplicaSet, ReplicationController, '
            "DaemonSet, Job or CronJob"
        ),
    ),
    "two shapes": (
        at("spec.demand.0.series.ramp", {"start": 1, "end": 2, "over": "1m"}),
        f"spec.demand[0].series: {SHAPES}; constant and ramp are set",
    ),
    "no shape": (
        at("spec.demand.0.series", {}),
        f"spec.demand[0].series: {SHAPES}",
    ),
    "steps out of order": (
        at("spec.demand.0.series", {"steps": {"points": [{"at": "1m", "value": 1}, {"at": "30s", "value": 2}]}}),
        "spec.demand[0].series.steps.points[1].at: 30: must be later than the point before, 60",
    ),
    "spike after the end": (
        at("spec.demand.0.series.spikes", [{"at": "10m", "duration": "1m", "height": 5}]),
        'spec.demand[0].series.spikes[0].at: "10m": must be before the end of the run, 10m',
    ),
    "demand on nothing": (
        at("spec.demand.0.target.name", "wep"),
        "spec.demand[0].target: no Deployment shop/wep in spec.workloads or spec.cluster; did you mean shop/web?",
    ),
    "demand without target": (without("spec.demand.0.target"), "spec.demand[0].target: must be set"),
    "demand without series": (without("spec.demand.0.series"), "spec.demand[0].series: must be set"),
    "no such downstream": (
        at("spec.demand.0.web.downstreams", ["db"]),
        'spec.demand[0].web.downstreams[0]: no "db" in spec.downstreams; there are none',
    ),
    "no nodes": (
        at("spec.cluster", {}),
        "spec.cluster: has no nodes: give nodeGroups, or Nodes as objects, files or snapshot; or spec.nodePools",
    ),
    "more reserved than there is": (
        at("spec.cluster.nodeGroups.0.reserved", {"kube": {"cpu": 3}, "system": {"cpu": 2}}),
        "spec.cluster.nodeGroups[0].reserved: leaves no cpu of 4 to pods",
    ),
    "a group twice": (
        lambda s: s["spec"]["cluster"]["nodeGroups"].append(s["spec"]["cluster"]["nodeGroups"][0]),
        'spec.cluster.nodeGroups[1].name: "plain": occurs twice',
    ),
    "a bad taint": (
        at("spec.cluster.nodeGroups.0.taints", [{"key": "a", "effect": "NoRun"}]),
        'spec.cluster.nodeGroups[0].taints[0].effect: "NoRun": must be NoSchedule, PreferNoSchedule or NoExecute',
    ),
    "no such file": (
        at("spec.workloads.files", ["none.yaml"]),
        "{folder}/none.yaml: no such file or folder",
    ),
    "pattern without match": (
        at("spec.workloads.files", ["*.yml"]),
        'spec.workloads.files[0]: "*.yml": no file matches',
    ),
    "bad object": (
        at("spec.workloads.objects.0.spec.template.spec.containers", []),
        f"{WORKLOAD}: spec.template.spec.containers: must have at least one container",
    ),
    "object without kind": (
        at("spec.workloads.objects.0.kind", None),
        "spec.workloads.objects[0]: kind: must be set: not a Kubernetes object",
    ),
    "an object twice": (
        lambda s: s["spec"]["cluster"].update(objects=[{**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 1}}]),
        (
            f"{WORKLOAD}: metadata.name: occurs twice, first in {{folder}}/simulation.yaml: "
            "spec.cluster.objects[0]: names must be unique"
        ),
    ),
    "simulation among the workloads": (
        at("spec.workloads.objects.0.kind", "Simulation"),
        'spec.workloads.objects[0]: kind: "Simulation": there is one simulation, in a file of its own',
    ),
    "HPA on nothing": (
        at("spec.workloads.objects.1.spec.scaleTargetRef.name", "wep"),
        (f"{AUTOSCALER}: spec.scaleTargetRef: there is no Deployment shop/wep to scale; did you mean shop/web?"),
    ),
    "HPA that upstream refuses": (
        at("spec.workloads.objects.1.spec.maxReplicas", 0),
        (f"{AUTOSCALER}: spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`"),
    ),
    "HPA of an unknown version": (
        at("spec.workloads.objects.1.apiVersion", "autoscaling/v2beta2"),
        (f'{AUTOSCALER}: apiVersion: "autoscaling/v2beta2": must be autoscaling/v2 or autoscaling/v1'),
    ),
    "metric without source": (
        at("spec.workloads.objects.1.spec.metrics", [EXTERNAL]),
        (
            f'{AUTOSCALER}: spec.metrics[0].external.metric.name: "queue_age": no '
            "source of type External in spec.metrics.sources; there are none"
        ),
    ),
    "metric of another resource": (
        at("spec.workloads.objects.1.spec.metrics.0.resource.name", "ephemeral-storage"),
        (f'{AUTOSCALER}: spec.metrics[0].resource.name: "ephemeral-storage": is not measured: must be cpu or memory'),
    ),
    "source of nothing": (
        at("spec.metrics", {"sources": [{"name": "rps", "type": "Pods", "demand": "visit", "value": "Rate"}]}),
        'spec.metrics.sources[0].demand: no "visit" in spec.demand; did you mean visits?',
    ),
    "queue of a web service": (
        at("spec.metrics", {"sources": [{"name": "age", "type": "External", "demand": "visits", "value": "QueueAge"}]}),
        'spec.metrics.sources[0].value: "QueueAge": visits is web: must be one of Rate, Latency, InFlight',
    ),
    "outage of no pods": (
        at("spec.metrics", {"outages": [{"at": "1m", "duration": "1m", "api": "Resource", "effect": "Pods"}]}),
        "spec.metrics.outages[0].pods: must be set with effect Pods, and only then",
    ),
    "scrapes that are too close": (
        at("spec.metrics", {"server": {"resolution": "5s"}}),
        "spec.metrics.server.resolution: must be at least 10s, as metrics-server wants it",
    ),
    "work that takes no time": (
        lambda s: (without("spec.demand.0.web")(s), at("spec.demand.0.worker", {"concurrency": 2})(s)),
        "spec.demand[0].worker: a message must take some time: set cpuPerMessage or waitPerMessage",
    ),
    "warm-up that makes faster": (
        at("spec.demand.0.web.warmup", {"factor": "500m"}),
        "spec.demand[0].web.warmup.factor: 0.5: must be at least 1",
    ),
    "trigger without source": (
        at("spec.workloads.objects.1", SCALED),
        (
            f"{SCALER}: spec.triggers[0]: no source of type External called "
            '"s0-kafka-orders" in spec.metrics.sources; there are none'
        ),
    ),
    "scaled object that KEDA refuses": (
        at("spec.workloads.objects.1", {**SCALED, "spec": {**SCALED["spec"], "pollingInterval": 0}}),
        f"{SCALER}: spec.pollingInterval: 0: must be at least 1",
    ),
    "scaled object on nothing": (
        at("spec.workloads.objects.1", {**SCALED, "spec": {**SCALED["spec"], "scaleTargetRef": {"name": "api"}}}),
        (f"{SCALER}: spec.scaleTargetRef: there is no Deployment shop/api to scale; did you mean shop/web?"),
    ),
    "fault after the end": (
        at("spec.faults", [{"at": "1h", "nodeLost": {"names": ["plain-1"]}}]),
        'spec.faults[0].at: "1h": must be before the end of the run, 10m',
    ),
    "fault without effect": (
        at("spec.faults", [{"at": "1m"}]),
        "spec.faults[0]: exactly one of nodeLost, zoneLost, cordon must be set",
    ),
    "no such node": (
        at("spec.faults", [{"at": "1m", "nodeLost": {"names": ["plain-3"]}}]),
        'spec.faults[0].nodeLost.names[0]: no node "plain-3"; did you mean plain-2?',
    ),
    "no such zone": (
        at("spec.faults", [{"at": "1m", "zoneLost": {"zone": "a"}}]),
        'spec.faults[0].zoneLost.zone: no node is in "a"; there are none',
    ),
    "more nodes than the group has": (
        at("spec.faults", [{"at": "1m", "cordon": {"nodeGroup": "plain", "count": 3}}]),
        "spec.faults[0].cordon.count: 3: plain has 2 nodes",
    ),
    "objective about two things": (
        at("spec.slo", [{"name": "a", "latency": "1s", "pending": "1s", "demand": "visits"}]),
        "spec.slo[0]: exactly one of latency, queueAge, pending must be set",
    ),
    "latency of nothing": (
        at("spec.slo", [{"name": "a", "latency": "1s"}]),
        "spec.slo[0]: demand must be set with latency and queueAge, and only then",
    ),
    "latency of a worker": (
        lambda s: (
            at("spec.slo", [{"name": "a", "latency": "1s", "demand": "visits"}])(s),
            without("spec.demand.0.web")(s),
            at("spec.demand.0.worker", WORKER)(s),
        ),
        "spec.slo[0].demand: visits is no web service: it has no latency",
    ),
    "negative seed": (at("spec.seed", -1), "spec.seed: -1: must be at least 0"),
    "no time": (
        at("spec.start", "tomorrow"),
        'spec.start: "tomorrow": must be a time in RFC 3339 such as 2026-03-02T08:00:00Z',
    ),
    "two sources of profiles": (
        at("spec.schedulerProfiles", {"configuration": {}, "file": "a"}),
        "spec.schedulerProfiles: at most one of configuration, file must be set",
    ),
    "bad profile": (
        at(
            "spec.schedulerProfiles.configuration",
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"percentageOfNodesToScore": 101}],
            },
        ),
        (
            "spec.schedulerProfiles.configuration: profiles[0].percentageOfNodesToScore: Invalid value: 101: not in "
            "valid range [0-100]"
        ),
    ),
    "a start that 64 bits do not hold": (
        at("spec.start", "9999-12-31T00:00:00Z"),
        'spec.start: "9999-12-31T00:00:00Z": the run must lie between 1970 and 2261-01-01T00:00:00Z',
    ),
    "a start before 1970": (
        at("spec.start", "0001-01-01T00:00:00Z"),
        'spec.start: "0001-01-01T00:00:00Z": the run must lie between 1970 and 2261-01-01T00:00:00Z',
    ),
    "a run beyond the end of time": (
        at("spec.duration", "2562047h"),
        'spec.start: "2026-01-05T00:00:00Z": the run must lie between 1970 and 2261-01-01T00:00:00Z',
    ),
    "rows without end": (
        at("spec.sampling", {"period": "1ns"}),
        'spec.sampling.period: "1ns": 600,000,000,000 rows in the run: at most 10,000,000',
    ),
    "scrapes without end": (
        at("spec.metrics", {"prometheus": {"scrapeInterval": "1us"}}),
        'spec.metrics.prometheus.scrapeInterval: "1us": 600,000,000 times in the run: at most 10,000,000',
    ),
    "measurements without end": (
        at("spec.metrics", {"housekeeping": {"interval": "1ns"}}),
        'spec.metrics.housekeeping.interval: "1ns": 600,000,000,000 times in the run: at most 10,000,000',
    ),
    "start-ups that spread beyond numbers": (
        at("spec.kubelet", {"startups": [{"target": {"name": "web"}, "median": "1s", "sigma": 900}]}),
        "spec.kubelet.startups[0].sigma: 900: must be between 0 and 10",
    ),
    "a run time below its minimum": (
        at(
            "spec.demand.0",
            {
                "name": "resize",
                "series": {"constant": {"value": 1}},
                "jobs": {"template": {}, "runTime": {"median": "1m", "minimum": "5m", "maximum": "2m"}},
            },
        ),
        'spec.demand[0].jobs.runTime.maximum: "2m": must be at least minimum, 5m',
    ),
    "unknown field of an object": (
        at("spec.workloads.objects.0.spec.replica", 3),
        f"{WORKLOAD}: spec.replica: unknown field; did you mean replicas?",
    ),
    "unknown field of an HPA": (
        at("spec.workloads.objects.1.spec.minReplica", 3),
        f"{AUTOSCALER}: spec.minReplica: unknown field; did you mean minReplicas?",
    ),
    "selector of other pods": (
        at("spec.workloads.objects.0.spec.template.metadata.labels", {"app": "wep"}),
        f"{WORKLOAD}: spec.template.metadata.labels: must match spec.selector",
    ),
    "no selector": (
        without("spec.workloads.objects.0.spec.selector"),
        f"{WORKLOAD}: spec.selector: must be set",
    ),
    "surge that is no amount": (
        at("spec.workloads.objects.0.spec.strategy", {"rollingUpdate": {"maxSurge": "a lot"}}),
        (f'{WORKLOAD}: spec.strategy.rollingUpdate.maxSurge: "a lot": must be an integer or a percentage such as 25%'),
    ),
    "a rollout that cannot move": (
        at("spec.workloads.objects.0.spec.strategy", {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}),
        (
            f"{WORKLOAD}: spec.strategy.rollingUpdate.maxUnavailable: must not be 0 where maxSurge is 0: nothing could "
            "be replaced"
        ),
    ),
    "no such strategy": (
        at("spec.workloads.objects.0.spec.strategy", {"type": "BlueGreen"}),
        f'{WORKLOAD}: spec.strategy.type: "BlueGreen": must be one of RollingUpdate, Recreate',
    ),
    "a probe that runs backwards": (
        at("spec.workloads.objects.0.spec.template.spec.containers.0.readinessProbe", {"periodSeconds": -5}),
        f"{WORKLOAD}: spec.template.spec.containers[0].readinessProbe.periodSeconds: -5: must be at least 0",
    ),
    "a schedule that does not parse": (
        at("spec.workloads.objects.1", cron_job(schedule="99 * * * *")),
        f'{CRON}: spec.schedule: "99 * * * *": end of range (99) above maximum (59): 99',
    ),
    "a schedule in no zone": (
        at("spec.workloads.objects.1", cron_job(timeZone="Mars/Olympus")),
        f'{CRON}: spec.timeZone: "Mars/Olympus": must be a time zone such as Europe/Berlin',
    ),
    "a Job that restarts for ever": (
        at("spec.workloads.objects.1", cron_job("Always")),
        (f'{CRON}: spec.jobTemplate.spec.template.spec.restartPolicy: "Always": must be OnFailure or Never for a Job'),
    ),
    "a budget that says two things": (
        at("spec.workloads.objects.1", {**BUDGET, "spec": {"minAvailable": 1, "maxUnavailable": 1}}),
        (
            "spec.workloads.objects[1]: PodDisruptionBudget shop/web: spec: minAvailable and maxUnavailable exclude "
            "each other"
        ),
    ),
    "bad template of a Job": (
        at(
            "spec.demand.0",
            {
                "name": "resize",
                "series": {"constant": {"value": 1}},
                "jobs": {"template": {"spec": {}}, "runTime": {"median": "1m"}},
            },
        ),
        (
            "spec.demand[0].jobs.template: Job default/resize-1: spec.template.spec.containers: must have at least one "
            "container"
        ),
    ),
}


@pytest.mark.parametrize(("change", "message"), CASES.values(), ids=CASES)
def test_a_mistake_is_one_line_with_its_path(change: Change, message: str, tmp_path: Path) -> None:
    """The exact text, so that a change of it is a decision."""
    simulation = small()
    change(simulation)
    path = write(tmp_path, simulation)
    with pytest.raises(InputError) as failure:
        load_simulation(path)
    expected = message.replace("{folder}", str(tmp_path))
    assert str(failure.value) == (expected if message.startswith("{folder}") else f"{path}: {expected}")


RECORDINGS: dict[str, tuple[str, str]] = {
    "negative": (
        "timestamp,value\n2026-01-01 00:00:00,5\n2026-01-01 00:05:00,-1\n",
        'line 3: value: "-1": must be a number of at least 0',
    ),
    "gap": (
        "timestamp,value\n0,5\n60,5\n120,5\n900,5\n",
        "line 5: timestamp: a gap before 900: no rows for 780 s where the usual step is 60 s; `gaps: Hold` bridges it",
    ),
    "clock jumps back": (
        "timestamp,value\n0,5\n60,5\n30,5\n",
        "line 4: timestamp: 30 is 30 s before line 3: the clock jumped back; rows must ascend",
    ),
    "beyond numbers": ("timestamp,value\n0,1e308\n", 'line 2: value: "1e308": must be at most 1e+15'),
    "no rows": ("timestamp,value\n", "there are no rows after the header"),
}


@pytest.mark.parametrize(("text", "message"), RECORDINGS.values(), ids=RECORDINGS)
def test_a_recording_that_cannot_be_used_names_its_line(text: str, message: str, tmp_path: Path) -> None:
    """The path in the YAML, then the place in the file."""
    (tmp_path / "day.csv").write_text(text)
    simulation = small()
    simulation["spec"]["demand"][0]["series"] = {"csv": {"file": "day.csv"}}
    path = write(tmp_path, simulation)
    with pytest.raises(InputError) as failure:
        load_simulation(path)
    place = f"{path}: spec.demand[0].series.csv.file: {tmp_path}/day.csv: "
    assert str(failure.value) == place + message


def test_a_recording_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    """At its place in the YAML."""
    simulation = small()
    simulation["spec"]["demand"][0]["series"] = {"csv": {"file": "day.csv"}}
    path = write(tmp_path, simulation)
    with pytest.raises(InputError) as failure:
        load_simulation(path)
    assert str(failure.value) == f"{path}: spec.demand[0].series.csv.file: {tmp_path}/day.csv: no such file"


def test_bins_without_end_are_refused_before_there_is_memory_for_them(tmp_path: Path) -> None:
    """Ten minutes of nanoseconds."""
    (tmp_path / "day.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,1,1\n2024-05-10 00:10:00,1,1\n"
    )
    simulation = small()
    simulation["spec"]["demand"][0]["series"] = {"csv": {"file": "day.csv", "bin": "1ns"}}
    with pytest.raises(InputError, match=r"bin: 1e-09 s over 600 s: at most 5,000,000 bins$"):
        load_simulation(write(tmp_path, simulation))


def test_a_recording_that_would_repeat_without_end_is_refused(tmp_path: Path) -> None:
    """Two minutes, played in less than a microsecond."""
    (tmp_path / "day.csv").write_text("timestamp,value\n0,1\n60,2\n")
    simulation = small()
    simulation["spec"]["demand"][0]["series"] = {"csv": {"file": "day.csv", "repeat": True, "stretch": "1n"}}
    with pytest.raises(
        InputError, match=r"spec.demand\[0\].series.csv.repeat: .* more than 1,000,000 times in the run"
    ):
        load_simulation(write(tmp_path, simulation))


def test_a_trace_whose_clock_jumps_is_refused(tmp_path: Path) -> None:
    """Events must ascend: what happened in between is not known."""
    events: list[dict[str, Any]] = [{"ts": ts, "applied_objs": [], "deleted_objs": []} for ts in (100, 160, 130)]
    trace = {"version": 2, "config": {"trackedObjects": {}}, "events": events, "index": {}, "pod_lifecycles": {}}
    (tmp_path / "day.sktrace").write_bytes(msgspec.msgpack.encode(trace))
    simulation = small()
    simulation["spec"]["demand"].append({"name": "replay", "trace": {"file": "day.sktrace"}})
    path = write(tmp_path, simulation)
    with pytest.raises(InputError) as failure:
        load_simulation(path)
    place = f"{path}: spec.demand[1].trace.file: {tmp_path}/day.sktrace: events[2].ts: "
    assert str(failure.value).startswith(place)
    assert "jump" in str(failure.value)


def test_two_autoscalers_of_one_workload_are_a_warning(tmp_path: Path) -> None:
    """The API server takes both, and the HPA controller then scales with neither."""
    simulation = small()
    second = {**HPA, "metadata": {"name": "web-2", "namespace": "shop"}}
    simulation["spec"]["workloads"]["objects"].append(second)
    assert load_simulation(write(tmp_path, simulation)).warnings == (
        (
            "HorizontalPodAutoscaler shop/web-2 and HorizontalPodAutoscaler shop/web both scale Deployment shop/web: "
            "neither will (AmbiguousSelector)"
        ),
    )


FILES: dict[str, tuple[str, str]] = {
    "empty": ("", "is empty: a Simulation is expected"),
    "a list": ("[1]", "must be a Simulation, got a list"),
    "two documents": (
        "a: 1\n---\nb: 1\n",
        "holds 2 documents: one Simulation is expected; other objects go into spec.workloads",
    ),
    "a key twice": ("kind: a\nkind: b\n", 'not valid (line 2, column 1): the key "kind" occurs twice'),
}


@pytest.mark.parametrize(("text", "message"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_simulation_is_said_so(text: str, message: str, tmp_path: Path) -> None:
    """Before anything else is read."""
    path = write(tmp_path, text)
    with pytest.raises(InputError) as failure:
        load_simulation(path)
    assert str(failure.value) == f"{path}: {message}"


def test_an_autoscaler_in_a_file_is_named_by_its_file(tmp_path: Path) -> None:
    """Not by the simulation that names the file."""
    wrong = {
        **HPA,
        "spec": {**HPA["spec"], "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x"}},
    }
    write(tmp_path, wrong, "hpa.yaml")
    simulation = small()
    simulation["spec"]["workloads"] = {"objects": [DEPLOYMENT], "files": ["hpa.yaml"]}
    with pytest.raises(InputError) as failure:
        load_simulation(write(tmp_path, simulation))
    assert str(failure.value) == (
        f"{tmp_path}/hpa.yaml: document 1: HorizontalPodAutoscaler shop/web: spec.scaleTargetRef.kind: "
        '"DaemonSet": must be one of Deployment, StatefulSet, ReplicaSet, ReplicationController'
    )
