"""Manifests get what an API server and the controllers would have done to them before a scheduler sees them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from stowplan_autoscaling.inputs import ClusterInput, load_cluster
from stowplan_autoscaling.inputs.workloads import template_hash
from stowplan_scheduler.objects import Pod, controller_of
from stowplan_scheduler.selectors import LabelQuery
from support.optional import node_affinity, pod_anti_affinity, required_terms, some

NODES = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, disk: ssd}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {kubernetes.io/hostname: n2}}
spec: {taints: [{key: gpu, value: "yes", effect: NoSchedule}]}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: n3, labels: {kubernetes.io/hostname: n3}}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
"""


Load = Callable[..., ClusterInput]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads texts, each as a file, after three nodes."""

    def load_texts(*texts: str) -> ClusterInput:
        for index, text in enumerate((NODES, *texts)):
            (tmp_path / f"{index}.yaml").write_text(dedent(text), encoding="utf-8")
        return load_cluster([str(tmp_path)])

    return load_texts


def workload(kind: str, spec: str = "", *, pod: str = "containers: [{name: main}]", api: str = "apps/v1") -> str:
    """A workload `w` with one container; `spec` goes in front of selector and template."""
    selector = "" if kind == "Job" else "selector: {matchLabels: {app: w}}, "
    template = f"template: {{metadata: {{labels: {{app: w}}}}, spec: {{{pod}}}}}"
    head = f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: w, namespace: shop}}\n"
    return f"{head}spec: {{{spec}{selector}{template}}}\n"


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [pod.key for pod in pods]


def test_a_pod_gets_the_defaults_of_an_api_server(load: Load) -> None:
    """Requests from limits, scheduler name, priority of the global default class, tolerations of 300 seconds."""
    cluster = load(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: web}
        spec: {containers: [{name: main, resources: {limits: {cpu: 500m}}}]}
        ---
        apiVersion: scheduling.k8s.io/v1
        kind: PriorityClass
        metadata: {name: usual}
        value: 7
        globalDefault: true
        """
    )
    (pod,) = cluster.pods
    assert pod.key == "default/web"
    assert pod.metadata.uid == "default/web"
    assert pod.spec.containers[0].resources.requests == {"cpu": "500m"}
    assert pod.spec.scheduler_name == "default-scheduler"
    assert (pod.spec.priority, pod.spec.priority_class_name) == (7, "usual")
    assert [toleration.toleration_seconds for toleration in pod.spec.tolerations] == [300, 300]


def test_a_node_without_allocatable_has_its_capacity(load: Load) -> None:
    """The API server copies it (pkg/apis/core/v1/defaults.go, SetDefaults_NodeStatus)."""
    assert load().nodes[1].status.allocatable == {"cpu": 4, "memory": "8Gi", "pods": 110}


def test_null_means_absent(load: Load) -> None:
    """Templating tools leave fields empty; Go reads them as not given."""
    (pod,) = load(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: web, labels: , creationTimestamp: null}
        spec:
          containers: [{name: main, resources: null, ports: ~}]
          nodeSelector: null
          tolerations:
        status:
        """
    ).pods
    assert pod.metadata.labels == {}
    assert pod.spec.node_selector == {}


def test_namespaces_that_pods_imply_exist_with_their_name_label(load: Load) -> None:
    """Namespace selectors read labels; every namespace of a cluster carries its name as one."""
    cluster = load(
        "kind: Namespace\napiVersion: v1\nmetadata: {name: shop, labels: {team: a}}\n", workload("ReplicaSet")
    )
    assert {n.metadata.name: n.metadata.labels for n in cluster.namespaces} == {
        "shop": {"team": "a", "kubernetes.io/metadata.name": "shop"}
    }
    cluster = load("kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n", "")
    assert cluster.namespaces[0].metadata.labels == {"kubernetes.io/metadata.name": "default"}


def test_a_deployment_becomes_a_replica_set_and_its_pods(load: Load) -> None:
    """Default spreading looks the ReplicaSet up by the pod's owner, and its selector must match the pods."""
    cluster = load(workload("Deployment", "replicas: 3, "))
    (replica_set,) = cluster.replica_sets
    digest = replica_set.metadata.labels["pod-template-hash"]
    assert replica_set.metadata.name == f"w-{digest}"
    assert names(cluster.pods) == [f"shop/w-{digest}-0000{number}" for number in (1, 2, 3)]
    assert all(LabelQuery.of(replica_set.spec.selector).matches(pod.metadata.labels) for pod in cluster.pods)
    owner = controller_of(cluster.pods[0].metadata)
    assert owner is not None
    assert (owner.api_version, owner.kind, owner.name) == ("apps/v1", "ReplicaSet", replica_set.metadata.name)
    assert some(controller_of(replica_set.metadata)).kind == "Deployment"
    assert cluster.origin["Pod", cluster.pods[2].key].endswith("1.yaml: document 1")


def test_replicas_share_one_spec(load: Load) -> None:
    """What a scheduler computes for a spec then holds for all of them, and a thousand replicas cost little memory."""
    pods = load(workload("Deployment", "replicas: 1000, ")).pods
    assert len({id(pod.spec) for pod in pods}) == 1
    assert len({id(pod.metadata.labels) for pod in pods}) == 1


def test_the_template_hash_depends_on_the_template_alone(load: Load) -> None:
    """Names must not change from run to run, but two versions of a deployment must not collide."""
    one, more, other = (
        load(workload("Deployment", *spec, **kw)).replica_sets[0]
        for spec, kw in (
            (["replicas: 1, "], {}),
            (["replicas: 2, "], {}),
            ([""], {"pod": "containers: [{name: other}]"}),
        )
    )
    assert one.metadata.name == more.metadata.name != other.metadata.name
    assert len(template_hash(one.spec.template)) == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (workload("ReplicaSet", "replicas: 2, "), ["shop/w-00001", "shop/w-00002"]),
        (workload("ReplicaSet"), ["shop/w-00001"]),
        (workload("ReplicaSet", "replicas: 0, "), []),
        (workload("StatefulSet", "replicas: 2, "), ["shop/w-0", "shop/w-1"]),
        (workload("Job", "", api="batch/v1"), ["shop/w-00001"]),
        (workload("Job", "parallelism: 3, ", api="batch/v1"), ["shop/w-00001", "shop/w-00002", "shop/w-00003"]),
        (workload("Job", "completions: 3, ", api="batch/v1"), ["shop/w-00001"]),
        (workload("Job", "completions: 2, parallelism: 5, ", api="batch/v1"), ["shop/w-00001", "shop/w-00002"]),
        (workload("Job", "suspend: true, ", api="batch/v1"), []),
        (
            workload("Job", "completionMode: Indexed, completions: 2, parallelism: 2, ", api="batch/v1"),
            ["shop/w-0", "shop/w-1"],
        ),
    ],
)
def test_workloads_make_as_many_pods_as_their_controllers_would(load: Load, text: str, expected: list[str]) -> None:
    """A Job runs `parallelism` pods at a time, no more than `completions`; one of each where nothing is said."""
    assert names(load(text).pods) == expected


def test_a_replication_controller_makes_pods_and_defaults_its_selector(load: Load) -> None:
    """Its selector comes from the template's labels where it has none."""
    text = workload("ReplicationController", "replicas: 2, ", api="v1").replace(
        "selector: {matchLabels: {app: w}}, ", ""
    )
    cluster = load(text)
    assert names(cluster.pods) == ["shop/w-00001", "shop/w-00002"]
    assert cluster.replication_controllers[0].spec.selector == {"app": "w"}


def test_pods_of_a_stateful_set_carry_their_identity(load: Load) -> None:
    """Selectors for single members go by these labels."""
    pod = load(workload("StatefulSet", "replicas: 2, ")).pods[1]
    assert pod.metadata.labels["statefulset.kubernetes.io/pod-name"] == "w-1"
    assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == "1"
    assert pod.metadata.labels["app"] == "w"


def test_pods_that_fold_a_label_of_their_own_have_their_own_spec(load: Load) -> None:
    """matchLabelKeys on the pod index: the API server writes each pod's value into its selector."""
    affinity = (
        "containers: [{name: main}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "[{topologyKey: zone, labelSelector: {}, matchLabelKeys: [apps.kubernetes.io/pod-index]}]}}"
    )
    pods = load(workload("StatefulSet", "replicas: 2, ", pod=affinity)).pods
    selectors = [
        some(pod_anti_affinity(pod).required_during_scheduling_ignored_during_execution[0].label_selector)
        for pod in pods
    ]
    assert [selector.match_expressions[0].values for selector in selectors] == [("0",), ("1",)]


def test_claim_templates_become_volumes_and_are_named_in_a_warning(load: Load) -> None:
    """As the controller makes them. Volumes are not decided: without them the pods would be placed anywhere."""
    cluster = load(workload("StatefulSet", "volumeClaimTemplates: [{metadata: {name: data}}], "))
    claims = [some(pod.spec.volumes[0].persistent_volume_claim).claim_name for pod in cluster.pods]
    assert claims == [f"data-{pod.metadata.name}" for pod in cluster.pods]
    text = "their pods stay pending, because volumes are not decided yet"
    assert cluster.warnings == (f"1 StatefulSets with volumeClaimTemplates: {text}",)


def test_a_daemon_set_runs_on_nodes_that_it_tolerates(load: Load) -> None:
    """Not on the tainted n2, but on the cordoned n3: the controller adds that toleration itself."""
    cluster = load(workload("DaemonSet"))
    assert names(cluster.pods) == ["shop/w-n1", "shop/w-n3"]
    tolerations = cluster.pods[0].spec.tolerations
    assert sorted(t.key.removeprefix("node.kubernetes.io/") for t in tolerations if t.toleration_seconds is None) == [
        "disk-pressure",
        "memory-pressure",
        "not-ready",
        "pid-pressure",
        "unreachable",
        "unschedulable",
    ]
    # The controller's tolerations without end leave nothing for the admission plugin to add.
    assert all(t.toleration_seconds is None for t in tolerations)


def test_a_daemon_pod_is_tied_to_its_node_by_a_field(load: Load) -> None:
    """Its node affinity is replaced; what else the affinity says stays."""
    affinity = (
        "containers: [{name: main}], hostNetwork: true, affinity: {nodeAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: "
        "{nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}, "
        "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: "
        "{matchExpressions: [{key: a, operator: Exists}]}}]}}"
    )
    (pod,) = load(workload("DaemonSet", pod=affinity)).pods
    (term,) = required_terms(pod)
    assert term.match_expressions == ()
    assert [(f.key, f.operator, f.values) for f in term.match_fields] == [("metadata.name", "In", ("n1",))]
    assert len(node_affinity(pod).preferred_during_scheduling_ignored_during_execution) == 1
    assert "node.kubernetes.io/network-unavailable" in {t.key for t in pod.spec.tolerations}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ("containers: [{name: main}], nodeSelector: {disk: ssd}", ["shop/w-n1"]),
        ("containers: [{name: main}], nodeName: n3", ["shop/w-n3"]),
        ("containers: [{name: main}], tolerations: [{operator: Exists}]", ["shop/w-n1", "shop/w-n2", "shop/w-n3"]),
        (
            "containers: [{name: main}], tolerations: [{key: gpu, value: 'yes'}]",
            ["shop/w-n1", "shop/w-n2", "shop/w-n3"],
        ),
    ],
)
def test_a_daemon_set_picks_nodes_by_name_selector_and_toleration(load: Load, pod: str, expected: list[str]) -> None:
    """daemon_controller.go, NodeShouldRunDaemonPod."""
    cluster = load(workload("DaemonSet", pod=pod))
    assert names(cluster.pods) == expected
    assert {p.spec.node_name for p in cluster.pods} == {""}


def test_a_workload_whose_pods_are_there_makes_no_more(load: Load) -> None:
    """Half a cluster in one file: the controller has done its work."""
    owned = """
        apiVersion: v1
        kind: Pod
        metadata:
          name: w-x
          namespace: shop
          labels: {app: w}
          ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: w, uid: u, controller: true}]
        spec: {containers: [{name: main}]}
        """
    assert names(load(workload("ReplicaSet", "replicas: 5, "), owned).pods) == ["shop/w-x"]


def test_a_deployment_whose_replica_set_is_there_leaves_it_alone(load: Load) -> None:
    """The ReplicaSet then makes the pods, with its own number of replicas."""
    replica_set = workload("ReplicaSet", "replicas: 2, ").replace(
        "{name: w,",
        "{name: w-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: w, uid: u, controller: true}],",
    )
    assert names(load(workload("Deployment", "replicas: 9, "), replica_set).pods) == [
        "shop/w-1-00001",
        "shop/w-1-00002",
    ]


def test_lists_are_flattened_also_inside_lists_and_with_implied_kinds(load: Load) -> None:
    """`kind: List` and `kind: PodList`, whose items say neither kind nor version."""
    cluster = load(
        """
        apiVersion: v1
        kind: List
        items:
        - apiVersion: v1
          kind: PodList
          items:
          - {metadata: {name: a}, spec: {containers: [{name: main}]}}
          - {metadata: {name: b}, spec: {containers: [{name: main}]}}
        - apiVersion: v1
          kind: Service
          metadata: {name: s}
          spec: {selector: {app: a}}
        """
    )
    assert names(cluster.pods) == ["default/a", "default/b"]
    assert cluster.services[0].spec.selector == {"app": "a"}
    assert cluster.warnings == ()


def test_what_is_ignored_is_counted_in_warnings(load: Load) -> None:
    """Kinds that can change a decision say what is missing; the others only add up."""
    cluster = load(
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n",
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: b}\n---\nkind: Secret\napiVersion: v1\n",
        "kind: CronJob\napiVersion: batch/v1\nmetadata: {name: c}\n",
        "kind: Service\napiVersion: serving.knative.dev/v1\nmetadata: {name: d}\n",
    )
    assert cluster.warnings == (
        "1 CronJob ignored: their pods are not made",
        "4 objects of other kinds ignored: ConfigMap (2), Secret (1), Service of serving.knative.dev/v1 (1)",
    )


def test_an_unknown_version_is_read_with_a_warning(load: Load) -> None:
    """An old manifest mostly has the same fields; the reader must know that it was taken on trust."""
    cluster = load(
        workload("Deployment", api="extensions/v1beta1"), "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{}]}\n"
    )
    assert len(cluster.pods) == 2
    assert cluster.warnings == (
        "1 Deployment extensions/v1beta1 read as apps/v1",
        "1 Pod without apiVersion read as v1",
    )


def test_a_generated_name_is_numbered(load: Load) -> None:
    """`kubectl create` accepts generateName; upstream appends random letters, we count."""
    text = "kind: Pod\napiVersion: v1\nmetadata: {generateName: run-}\nspec: {containers: [{name: c}]}\n"
    assert names(load(text, text).pods) == ["default/run-00001", "default/run-00002"]


def test_a_bound_pod_of_a_manifest_stays_bound_and_a_finished_one_is_left_out(load: Load) -> None:
    """A manifest may describe a running cluster as well."""
    text = (
        "kind: Pod\napiVersion: v1\nmetadata: {{name: {0}}}\n"
        "spec: {{nodeName: {1}, containers: [{{name: c}}]}}\nstatus: {{phase: {2}}}\n"
    )
    cluster = load(
        text.format("a", "n1", "Running"), text.format("b", "n1", "Failed"), text.format("c", "n9", "Running")
    )
    assert [(pod.key, pod.spec.node_name) for pod in cluster.pods] == [("default/a", "n1"), ("default/c", "n9")]
    assert cluster.warnings == (
        "1 finished pods (Succeeded, Failed) left out",
        "1 pods are on nodes that are not in the input, such as default/c on n9",
    )


def test_files_are_read_in_order_of_name_and_folders_to_the_bottom(tmp_path: Path) -> None:
    """The order of pods decides the order of scheduling: it must not depend on the file system."""
    pod = "kind: Pod\napiVersion: v1\nmetadata: {{name: {0}}}\nspec: {{containers: [{{name: c}}]}}\n"
    for name in ("b/2.yml", "a.yaml", "b/1.yaml", "c.json", "ignored.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(pod.format(path.name.replace(".", "-")), encoding="utf-8")
    (tmp_path / "d.yaml").write_text(NODES, encoding="utf-8")
    assert names(load_cluster([str(tmp_path)]).pods) == [
        "default/a-yaml",
        "default/1-yaml",
        "default/2-yml",
        "default/c-json",
    ]


def test_the_bundled_demo_is_what_its_readme_says(repository: Path) -> None:
    """`make demo` promises more than a thousand pods on 93 nodes, read without a complaint."""
    cluster = load_cluster([str(repository / "examples" / "demo")])
    assert len(cluster.nodes) == 93
    assert 1000 < len(cluster.pods) < 1100
    assert cluster.warnings == ()
    assert len({node.metadata.labels["topology.kubernetes.io/zone"] for node in cluster.nodes}) == 3
    assert sum(pod.metadata.name.startswith("gpu-exporter-") for pod in cluster.pods) == 9


def test_the_nodes_of_the_demo_are_what_their_generator_writes(repository: Path) -> None:
    """A change of one without the other would be lost at the next run."""
    folder = repository / "examples" / "demo"
    made = subprocess.run([sys.executable, folder / "generate_nodes.py"], capture_output=True, check=True, text=True)
    assert made.stdout == (folder / "nodes.yaml").read_text(encoding="utf-8")
