"""Metrics beside those of the real kube-scheduler: the same names, types, labels, buckets; and what a worker serves."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from integration.control_plane import API_SERVER, SCHEDULER, ControlPlane
from integration.kube_api import KubeApi, Manifest, sure
from integration.scheduling_load import HOSTNAME, create_all, node, pod, pods_of, unbound
from integration.worker_process import PATIENCE, WorkerProcess, worker_configuration
from stowplan_operator.worker.metric_table import KUBE_SCHEDULER
from support.metric_page import reasons

pytestmark = [pytest.mark.rig, pytest.mark.slow]

OURS: Final = "dense"
THEIRS: Final = "default-scheduler"
SCHEDULER_FLAGS: Final = (
    # It tells its metrics only to those who may see them, and asks the API server who may.
    *("--authentication-kubeconfig", "kubeconfig", "--authorization-kubeconfig", "kubeconfig"),
    *("--leader-elect=true", "--feature-gates", "SchedulerAsyncAPICalls=true"),
)


SMALL: Final = 80
"""Pods that are simply placed. kube-scheduler measures plugins in one attempt of ten, by chance: one is among them."""


HANDED_OUT: Final = 1.5
"""Seconds after which kube-scheduler has handed out what it observed: it does so once a second, and drops what comes
while 1,000 wait. The small pods alone fill that, so what is rarer comes after them."""


class Family(NamedTuple):
    """What a metric is like, whatever its values are. `help` begins with the stability, `buckets` are upper bounds."""

    type: str
    help: str
    labels: frozenset[str]
    buckets: tuple[str, ...]


@pytest.fixture(scope="module")
def plane(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    flags = {SCHEDULER: SCHEDULER_FLAGS, API_SERVER: ("--disable-admission-plugins", "TaintNodesByCondition")}
    with ControlPlane(rig, tmp_path_factory.mktemp("metrics"), components=(SCHEDULER,), flags=flags) as made:
        create_all(made, [node("node-a", cpu="4"), node("node-b", cpu="4"), priority_class()])
        yield made


def priority_class() -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }


@pytest.fixture(scope="module")
def worker(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """One that has done what there is to count: pods bound, pods that fit nowhere, a preemption."""
    with WorkerProcess(plane, tmp_path_factory.mktemp("worker"), worker_configuration(OURS)) as made:
        made.wait_leading()
        for scheduler in (OURS, THEIRS):
            busy(plane, scheduler)
        # kube-scheduler hands out these counts once a second; the last preemption's hints are the last of all.
        wait_until(lambda: "scheduler_queueing_hint_execution_duration_seconds_count" in exposition(plane))
        yield made


def busy(plane: ControlPlane, scheduler: str) -> None:
    """Pods that fit, one that fits nowhere, one that evicts another: each kind of count."""
    with contextlib.closing(plane.api) as api:
        name = scheduler[:5]
        low = pod(f"{name}-low", scheduler, cpu="3")
        create_all(plane, [pod(f"{name}-{number}", scheduler, cpu="1m", memory="1Mi") for number in range(SMALL)])
        wait_until(lambda: not unbound(pods_of(api, scheduler)))
        time.sleep(HANDED_OUT)
        create_all(plane, [pod(f"{name}-huge", scheduler, cpu="64"), low])
        wait_for_node(plane, f"{name}-low")
        other = pod(f"{name}-other", scheduler, cpu="3")
        sure(api.create(other))
        wait_for_node(plane, f"{name}-other")
        sure(api.create(pod(f"{name}-urgent", scheduler, cpu="3", priorityClassName="urgent")))
        wait_for_node(plane, f"{name}-urgent")
        for each in (low, other, pod(f"{name}-urgent", scheduler)):
            api.delete(each)


def wait_for_node(plane: ControlPlane, name: str) -> None:
    done = plane.kubectl("wait", "--for=condition=PodScheduled", f"pod/{name}", "--timeout=60s")
    assert done.returncode == 0, done.stderr


def exposition(plane: ControlPlane, path: str = "/metrics") -> str:
    """kube-scheduler's metrics."""
    status, text = plane.ask_scheduler(path)
    assert status == 200
    return text


def families(text: str) -> dict[str, Family]:
    """What is exposed, by name. A metric without samples is not."""
    found: dict[str, Family] = {}
    for block in re.split(r"^# HELP ", text, flags=re.MULTILINE)[1:]:
        head, kind, *lines = block.splitlines()
        name, _, help_text = head.partition(" ")
        labels: set[str] = set()
        bounds: dict[str, None] = {}
        for line in lines:
            for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', line):
                if label == "le":
                    bounds[value] = None
                else:
                    labels.add(label)
        found[name] = Family(kind.rpartition(" ")[2], help_text, frozenset(labels), tuple(bounds))
    return found


def test_metrics_with_names_of_kube_scheduler_are_like_kube_schedulers(
    plane: ControlPlane, worker: WorkerProcess
) -> None:
    """Type, help, stability, labels, and bounds digit for digit."""
    theirs, ours = families(exposition(plane)), families(worker.get("/metrics").text)
    named = {metric.name for metric in KUBE_SCHEDULER}
    compared = named & theirs.keys() & ours.keys()
    assert {name: ours[name] for name in sorted(compared)} == {name: theirs[name] for name in sorted(compared)}
    # Each metric of the table was compared, but for those that neither of the two has had an occasion for.
    assert named - compared == {"scheduler_permit_wait_duration_seconds"}


def test_what_only_kube_scheduler_has_is_listed_with_a_reason(
    plane: ControlPlane, worker: WorkerProcess, repository: Path
) -> None:
    """The list of differences is docs/metrics.md's: nothing is missing from it, and it names nothing that is served."""
    theirs, ours = families(exposition(plane)), families(worker.get("/metrics").text)
    patterns = reasons(repository)
    listed = {name for name in (*theirs, *ours) if any(fnmatchcase(name, pattern) for pattern in patterns)}
    assert listed == theirs.keys() - ours.keys()
    assert {name for name in ours.keys() - theirs.keys() if not name.startswith("stowplan_")} == set()


OF_EVERY_POD: Final = frozenset(
    {"PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "ScoreExtensionNormalize"}
    | {"Reserve", "PreBindPreFlight", "Bind"}
)
"""Extension points with plugins for a pod that is simply placed: of SMALL attempts both have sampled one."""


def test_extension_points_plugins_and_events_are_called_as_kube_scheduler_calls_them(
    plane: ControlPlane, worker: WorkerProcess
) -> None:
    """Label values after the same work; signatures of pods (Sign) are for batching."""
    theirs, ours = exposition(plane), worker.get("/metrics").text
    for metric, labels in (
        ("scheduler_framework_extension_point_duration_seconds_count", ("extension_point", "status")),
        ("scheduler_plugin_evaluation_total", ("plugin", "extension_point")),
        ("scheduler_event_handling_duration_seconds_count", ("event",)),
        ("scheduler_cache_size", ("type",)),
        ("scheduler_unschedulable_pods", ("plugin",)),
        ("scheduler_preemption_goroutines_execution_total", ("result",)),
    ):
        expected = {each for each in values(theirs, metric, *labels) if "Sign" not in each}
        assert values(ours, metric, *labels) == expected, metric
    # Sampled by chance, and a rule whose answers are remembered is called less often.
    metric = "scheduler_plugin_execution_duration_seconds_count"
    called = {each for each in values(ours, metric, "plugin", "extension_point") if each[1] in OF_EVERY_POD}
    assert called <= values(theirs, metric, "plugin", "extension_point")
    assert {("DefaultBinder", "Bind"), ("VolumeBinding", "Reserve"), ("NodeResourcesFit", "Filter")} <= called


def values(text: str, metric: str, *labels: str) -> set[tuple[str, ...]]:
    """The values of these labels in all samples of one metric."""
    lines = [line for line in text.splitlines() if line.startswith(f"{metric}{{")]
    return {tuple(re.findall(rf'[{{,]{label}="([^"]*)"', line)[0] for label in labels) for line in lines}


def evaluations(text: str) -> Counter[tuple[str, str]]:
    """(plugin, extension point) -> scheduler_plugin_evaluation_total, of the only profile."""
    pattern = r'^scheduler_plugin_evaluation_total\{extension_point="(\w+)",plugin="(\w+)",profile="[^"]+"\} (\S+)$'
    found = re.findall(pattern, text, flags=re.MULTILINE)
    return Counter({(plugin, point): int(float(number)) for point, plugin, number in found})


def test_counts_are_those_of_what_was_done(worker: WorkerProcess) -> None:
    lines = worker.get("/metrics").text.splitlines()
    for line in (
        'scheduler_schedule_attempts_total{profile="dense",result="scheduled"} 83',
        "scheduler_preemption_victims_sum 1",
        'scheduler_pending_pods{queue="unschedulable"} 1',
        'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="dense"} 1',
        'scheduler_cache_size{type="nodes"} 2',
        'scheduler_cache_size{type="assumed_pods"} 0',
        'stowplan_binds_total{code="201"} 83',
        'leader_election_master_status{name="stowplan-worker-default"} 1',
    ):
        assert line in lines


def test_the_preempted_pod_was_told_why(plane: ControlPlane, worker: WorkerProcess) -> None:
    """One event about the victim, as kube-scheduler writes it."""
    with contextlib.closing(plane.api) as api:
        events = sure(api.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    preempted = {
        (each["reportingController"], each["action"], each["type"], each["note"].partition(" by pod ")[0])
        for each in events
        if each["reason"] == "Preempted"
    }
    assert preempted == {(OURS, "Preempting", "Normal", "Preempted"), (THEIRS, "Preempting", "Normal", "Preempted")}


def test_health_and_documents(worker: WorkerProcess) -> None:
    assert worker.get("/healthz") == (200, "ok")
    assert worker.get("/livez?verbose") == (200, "[+]loop ok\nlivez check passed\n")
    assert worker.get("/readyz?verbose") == (200, "[+]loop ok\n[+]cluster ok\n[+]informers ok\nreadyz check passed\n")
    profiles = json.loads(worker.get("/configz").text)["kubescheduler.config.k8s.io"]["profiles"]
    assert [profile["schedulerName"] for profile in profiles] == [OURS]
    status = worker.status()
    assert (status["nodes"], status["leading"], status["synced"], status["error"]) == (2, True, True, "")
    assert status["profiles"][0]["pending"] == 1


# ---- what follows changes the cluster ----------------------------------------------------


RESOURCE_PODS: Final = [
    pod("resources-plain", OURS, cpu="9m", memory="100M"),
    pod("resources-overhead", THEIRS, cpu="1500m", memory="1Gi", priorityClassName="urgent"),
    pod("resources-none", "nobody"),
    pod(
        "resources-many",
        THEIRS,
        containers=[
            {
                "name": "main",
                "image": "web:1",
                "resources": {
                    "requests": {"cpu": "143m", "memory": "256Mi", "ephemeral-storage": "1Gi", "example.com/gpu": "2"},
                    "limits": {"cpu": "2", "memory": "512Mi", "ephemeral-storage": "2G", "example.com/gpu": "2"},
                },
            },
            {"name": "beside", "image": "web:1", "resources": {"limits": {"cpu": "36m", "hugepages-2Mi": "4Mi"}}},
        ],
        initContainers=[
            {"name": "sidecar", "image": "web:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "7m"}}},
            {"name": "first", "image": "web:1", "resources": {"limits": {"cpu": "3", "memory": "1Gi"}}},
        ],
    ),
]


def test_resources_of_pods_are_kube_schedulers_line_by_line(plane: ControlPlane, worker: WorkerProcess) -> None:
    """For pods on nodes and pods that wait, with init containers, overhead and limits, of any scheduler."""
    create_all(plane, RESOURCE_PODS)
    wait_until(lambda: resource_pods_in(worker.get("/metrics/resources").text) == len(RESOURCE_PODS))
    wait_until(lambda: resource_pods_in(exposition(plane, "/metrics/resources")) == len(RESOURCE_PODS))
    ours, theirs = worker.get("/metrics/resources").text, exposition(plane, "/metrics/resources")
    assert 'resource="example.com/gpu"' in ours
    assert ours == theirs


def resource_pods_in(text: str) -> int:
    """How many of RESOURCE_PODS the page has."""
    return len(set(re.findall(r'pod="(resources-[^"]*)"', text)))


def wait_until(is_so: Callable[[], bool]) -> None:
    """Look until it is so. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("what the test waits for has not come")
        time.sleep(0.1)


TAINT: Final = {"key": "dedicated", "value": "disks", "effect": "NoSchedule"}
KINDS_OF_PODS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}]}}},
    {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}}},
    {"labels": {"role": "spread"}, "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"role": "spread"}}}]},
    {"containers": [{"name": "main", "image": "web:1", "ports": [{"containerPort": 80, "hostPort": 8080}]}]},
    {"cpu": "64"},
    {"cpu": "64", "priorityClassName": "urgent"},
)  # fmt: skip
"""Those that find no node come last: what happens to the others must not wake them."""


def test_evaluations_are_those_of_kube_scheduler(plane: ControlPlane, worker: WorkerProcess) -> None:
    """The same pods, one after the other, from the same state: each plugin is asked as often by both.

    Pods that fit, that tolerate a taint, that ask for a label or for company; one that fits nowhere, and one that could
    fit nowhere even if all others were evicted.
    """
    with contextlib.closing(plane.api) as api:
        for waiting in (f"{OURS}-huge", f"{THEIRS[:5]}-huge", *(each["metadata"]["name"] for each in RESOURCE_PODS)):
            api.delete(pod(waiting, OURS))
        sure(api.create(node("node-c", cpu="4", labels={"disk": "ssd"}, taints=[TAINT])))
        wait_until(lambda: sees_nodes(plane, worker, 3))
        ours, theirs = (evaluations_of_kinds(api, scheduler, plane, worker) for scheduler in (OURS, THEIRS))
    assert ours == theirs
    assert ours["NodeName", "PreFilter"] == len(KINDS_OF_PODS)


def evaluations_of_kinds(
    api: KubeApi, scheduler: str, plane: ControlPlane, worker: WorkerProcess
) -> Counter[tuple[str, str]]:
    """What one pod of each kind adds to the scheduler's counts; they are gone afterwards."""
    before = evaluations(metrics_of(scheduler, plane, worker))
    pods = [
        pod(f"kind-{number}", scheduler, **{"cpu": "10m", "memory": "1Mi", **kind})
        for number, kind in enumerate(KINDS_OF_PODS)
    ]
    for made in pods:
        sure(api.create(made))
        wait_until(partial(was_tried, api, made))
    counted = evaluations(metrics_of(scheduler, plane, worker)) - before
    # First those that wait: whoever goes might wake them.
    for made in reversed(pods):
        api.delete(made)
    return counted


def metrics_of(scheduler: str, plane: ControlPlane, worker: WorkerProcess) -> str:
    return worker.get("/metrics").text if scheduler == OURS else exposition(plane)


def sees_nodes(plane: ControlPlane, worker: WorkerProcess, count: int) -> bool:
    """Whether both have heard of all nodes."""
    line = f'scheduler_cache_size{{type="nodes"}} {count}'
    return all(line in metrics_of(scheduler, plane, worker).splitlines() for scheduler in (OURS, THEIRS))


def was_tried(api: KubeApi, made: Manifest) -> bool:
    """Whether a scheduler has said of the pod that it has a node, or that there is none."""
    conditions = sure(api.read(made))["status"].get("conditions", [])
    return any(condition["type"] == "PodScheduled" for condition in conditions)
