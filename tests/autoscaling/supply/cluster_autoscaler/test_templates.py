"""What a new node of a group is taken to be like."""

from __future__ import annotations

from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet, DaemonSetSpec
from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.taints import DELETION_CANDIDATE, TaintConfig
from stowplan_autoscaling.supply.cluster_autoscaler.templates import (
    HOST_NAME,
    TEMPLATE_LABEL,
    TemplateNode,
    TemplateProvider,
)
from stowplan_scheduler.objects import (
    Container,
    ObjectMeta,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Taint,
)

from .builders import T0, Cluster, make_group, make_node, make_pod


def templates(cluster: Cluster, now: int = T0, provider: TemplateProvider | None = None) -> dict[str, TemplateNode]:
    if provider is None:
        provider = new_provider(cluster.options)
    nodes = [seen for _, seen in sorted(cluster.observation.nodes.items())]
    return provider.process(cluster.observation, nodes, cluster.autoscaler.table.groups, now)


def new_provider(options: AutoscalingOptions) -> TemplateProvider:
    return TemplateProvider(options, TaintConfig(options))


def daemon_set(name: str, *, priority_class: str = "") -> DaemonSet:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": "100m"}))
    spec = PodSpec(containers=(container,), priority_class_name=priority_class)
    return DaemonSet(
        metadata=ObjectMeta(name=name, namespace="kube-system", uid=f"DaemonSet-{name}"),
        spec=DaemonSetSpec(template=PodTemplateSpec(metadata=ObjectMeta(labels={"app": name}), spec=spec)),
    )


def test_a_ready_node_of_the_group_is_the_model_without_what_is_its_own() -> None:
    """Its name, passing taints and ordinary pods are its own; labels, other taints and daemons are the group's."""
    taints = [
        Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"),
        Taint(key=DELETION_CANDIDATE, effect="PreferNoSchedule"),
        Taint(key="startup-taint.cluster-autoscaler.kubernetes.io/cni", effect="NoSchedule"),
        Taint(key="status-taint.cluster-autoscaler.kubernetes.io/x", effect="NoSchedule"),
        Taint(key="gpu", effect="NoSchedule"),
    ]
    cluster = Cluster()
    cluster.add_node(make_node("n", "3", labels={"pool": "x"}, taints=taints[1:]))
    cluster.add_pods(make_pod("web", node="n"), make_pod("log", node="n", kind="DaemonSet", app="log"))
    found = templates(cluster)["ng"]
    labels = found.node.metadata.labels
    assert labels["pool"] == "x"
    assert labels[HOST_NAME] == found.name == "template-node-for-ng-0"
    assert labels[TEMPLATE_LABEL] == "true"
    assert [taint.key for taint in found.node.spec.taints] == ["gpu"]
    assert [pod.key for pod in found.info.pods] == ["default/log"]
    assert found.info.allocatable.milli_cpu == 3000


def test_an_unready_young_or_cordoned_node_is_the_last_resort() -> None:
    for bad in ({"ready": False}, {"unschedulable": True}):
        cluster = Cluster()
        cluster.add_node(make_node("n", "3", **bad))  # type: ignore[arg-type]
        assert templates(cluster)["ng"].info.allocatable.milli_cpu == 4000
    cluster = Cluster()
    cluster.add_node(make_node("n", "3"), age=MINUTE)
    assert templates(cluster)["ng"].info.allocatable.milli_cpu == 4000
    assert templates(cluster, T0 + 1)["ng"].info.allocatable.milli_cpu == 3000


def test_the_last_model_is_kept_when_the_nodes_are_gone() -> None:
    cluster = Cluster(flags={"node-info-cache-expire-time": "1m"})
    provider = new_provider(cluster.options)
    cluster.add_node(make_node("n", "3"))
    assert templates(cluster, T0, provider)["ng"].info.allocatable.milli_cpu == 3000
    assert templates(cluster, T0 + 30 * SECOND, provider)["ng"].info.allocatable.milli_cpu == 3000
    cluster.observation.remove_node("n")
    assert templates(cluster, T0 + 90 * SECOND, provider)["ng"].info.allocatable.milli_cpu == 3000
    assert templates(cluster, T0 + 90 * SECOND + 1, provider)["ng"].info.allocatable.milli_cpu == 4000


def test_a_group_without_nodes_gets_the_daemons_that_would_run_there() -> None:
    cluster = Cluster([make_group("empty"), make_group("ng")])
    cluster.observation.set_daemon_sets([daemon_set("log"), daemon_set("net", priority_class="system-node-critical")])
    cluster.add_node(make_node("n"))
    found = templates(cluster)
    assert [pod.shape.labels["app"] for pod in found["empty"].info.pods] == ["log", "net"]
    assert [pod.shape.labels["app"] for pod in found["ng"].info.pods] == ["net"]
    forced = Cluster(flags={"force-ds": "true"})
    forced.observation.set_daemon_sets([daemon_set("log")])
    forced.add_node(make_node("n"))
    assert [pod.shape.labels["app"] for pod in templates(forced)["ng"].info.pods] == ["log"]


def test_a_fresh_node_has_a_name_of_its_own_and_the_same_pods() -> None:
    cluster = Cluster()
    cluster.add_node(make_node("n"))
    cluster.add_pods(make_pod("log", node="n", kind="DaemonSet", app="log"))
    fresh = templates(cluster)["ng"].fresh("upcoming-1")
    assert fresh.node is not None
    assert fresh.name == fresh.node.metadata.labels[HOST_NAME] == "template-node-for-ng-0-upcoming-1"
    assert fresh.requested.milli_cpu == 1000
