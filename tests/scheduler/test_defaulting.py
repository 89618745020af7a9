"""What the API server does to an object before the scheduler sees it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_scheduler.defaulting import (
    SYSTEM_PRIORITY_CLASSES,
    PriorityConflictError,
    UnknownPriorityClassError,
    add_default_tolerations,
    admit_manifest_pod,
    default_object,
    default_pod,
    default_pod_level_resources,
    fold_label_keys,
    resolve_priority,
)
from stowplan_scheduler.objects import (
    DaemonSet,
    Deployment,
    DeviceClass,
    Job,
    LabelSelectorRequirement,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    Toleration,
)
from stowplan_scheduler.quantity import QuantityError


def pod(labels: dict[str, str] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    return msgspec.convert(
        {"metadata": {"name": "p", "labels": labels or {}}, "spec": spec, "status": status or {}}, Pod
    )


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


# ---- API defaults --------------------------------------------------------------------------------------------------


def test_a_bare_pod_gets_its_namespace_scheduler_and_restart_policy() -> None:
    """These decide which profile takes the pod and how its containers end."""
    made = default_pod(pod(containers=[{"name": "c", "ports": [{"containerPort": 80}]}]))
    assert made.key == "default/p"
    assert (made.spec.scheduler_name, made.spec.restart_policy) == ("default-scheduler", "Always")
    assert made.spec.termination_grace_period_seconds == 30
    assert made.spec.containers[0].ports[0].protocol == "TCP"
    assert made.spec.containers[0].ports[0].host_port == 0


def test_a_pod_that_needs_nothing_is_the_same_object() -> None:
    """Recorded pods pass through here in great numbers; a copy of each would cost memory."""
    made = default_pod(pod(containers=[container(limits={"cpu": "1"})], resources={"limits": {"memory": "1Gi"}}))
    assert default_pod(made) is made
    assert default_object(made) is made


def test_requests_are_copied_from_limits_where_they_are_missing() -> None:
    """By resource: the request for cpu stands, the one for memory is copied, in init containers too."""
    limits = {"cpu": "2", "memory": "1Gi"}
    made = default_pod(
        pod(
            containers=[container(requests={"cpu": "1"}, limits=limits), container()],
            initContainers=[container(limits={"cpu": "3"}), container(limits={})],
        )
    )
    first, second = made.spec.containers
    assert first.resources.requests == {"cpu": "1", "memory": "1Gi"}
    assert second.resources.requests is None
    assert [one.resources.requests for one in made.spec.init_containers] == [{"cpu": "3"}, {}]


def test_amounts_finer_than_a_milli_are_rounded_up() -> None:
    """The API server keeps milli units; this happens before anything is summed, so two times 0.1m are 2m."""
    made = default_pod(
        pod(
            containers=[container(requests={"cpu": "0.1m", "memory": "1"})],
            overhead={"cpu": "7u"},
            resources={"requests": {"cpu": "1n"}},
            status={
                "allocatedResources": {"cpu": "1u"},
                "resources": {"limits": {"cpu": "1u"}},
                "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1u"}}],
                "initContainerStatuses": [{"name": "i", "resources": {"requests": {"cpu": "1500u"}}}],
            },
        )
    )
    assert made.spec.containers[0].resources.requests == {"cpu": "1m", "memory": "1"}
    assert made.spec.overhead == {"cpu": "1m"}
    assert made.spec.resources is not None
    assert (made.spec.resources.requests or {})["cpu"] == "1m"
    assert made.status.allocated_resources == {"cpu": "1m"}
    assert made.status.resources is not None
    assert made.status.resources.limits == {"cpu": "1m"}
    assert made.status.container_statuses[0].allocated_resources == {"cpu": "1m"}
    resources = made.status.init_container_statuses[0].resources
    assert resources is not None
    assert resources.requests == {"cpu": "2m"}


def test_a_bad_quantity_is_refused() -> None:
    """The API server would not take the object either."""
    with pytest.raises(QuantityError):
        default_pod(pod(containers=[container(requests={"cpu": "many"})]))


def test_with_host_network_every_port_is_a_host_port() -> None:
    """A host port that is set stays."""
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 9000, "protocol": "UDP"}]
    made = default_pod(pod(containers=[{"name": "c", "ports": ports}], hostNetwork=True))
    assert [(port.host_port, port.protocol) for port in made.spec.containers[0].ports] == [(80, "TCP"), (9000, "UDP")]


def test_a_negative_grace_period_becomes_one_second() -> None:
    """Zero stays: it means at once."""
    assert default_pod(pod(terminationGracePeriodSeconds=-5)).spec.termination_grace_period_seconds == 1
    assert default_pod(pod(terminationGracePeriodSeconds=0)).spec.termination_grace_period_seconds == 0


def test_pod_level_requests_come_from_the_containers_and_then_from_the_pods_own_limits() -> None:
    """cpu: sum of the containers; memory: no container names it, so the pod's limit."""
    made = default_pod(
        pod(
            containers=[container(requests={"cpu": "1"}), container(requests={"cpu": "500m"})],
            resources={"limits": {"cpu": "4", "memory": "1Gi"}},
        )
    )
    assert made.spec.resources is not None
    assert made.spec.resources.requests == {"cpu": "1500m", "memory": "1Gi"}
    assert made.spec.resources.limits == {"cpu": "4", "memory": "1Gi"}


def test_pod_level_limits_need_a_limit_in_every_container() -> None:
    """cpu: both have one, and the request of the pod (5) is above their sum (3); memory: only one has."""
    made = default_pod(
        pod(
            containers=[container(limits={"cpu": "1", "memory": "1Gi"}), container(limits={"cpu": "2"})],
            resources={"requests": {"cpu": "5"}},
        )
    )
    assert made.spec.resources is not None
    assert made.spec.resources.limits == {"cpu": "5"}
    assert made.spec.resources.requests == {"cpu": "5", "memory": str(2**30)}


def test_huge_pages_of_the_pod_start_from_the_containers_limits() -> None:
    """They cannot be overcommitted: limit first, request from it. A request of the pod itself blocks that."""
    pages = container(limits={"hugepages-2Mi": "4Mi"})
    made = default_pod(pod(containers=[pages], resources={"requests": {"cpu": "1"}}))
    assert made.spec.resources is not None
    amount = str(4 * 2**20)
    assert made.spec.resources.limits == {"hugepages-2Mi": amount}
    assert made.spec.resources.requests == {"cpu": "1", "hugepages-2Mi": amount}


def test_a_pod_without_pod_level_resources_gets_none() -> None:
    """Absent and empty both leave the containers alone in charge."""
    cases: list[dict[str, Any] | None] = [None, {}, {"requests": {}}]
    for resources in cases:
        made = pod(containers=[container(requests={"cpu": "1"})], resources=resources)
        assert default_pod_level_resources(made) is made


def test_nodes_without_allocatable_offer_their_capacity() -> None:
    """Otherwise the node would admit no pod at all."""
    node = msgspec.convert({"status": {"capacity": {"cpu": "4", "pods": "0.5m"}}}, Node)
    made = default_object(node)
    assert made.status.allocatable == {"cpu": "4", "pods": "1m"}
    assert default_object(made) is made


def test_namespaces_carry_their_name_as_a_label() -> None:
    """Namespace selectors of pod affinity rely on it."""
    made = default_object(msgspec.convert({"metadata": {"name": "team", "labels": {"a": "b"}}}, Namespace))
    assert made.metadata.labels == {"a": "b", "kubernetes.io/metadata.name": "team"}
    assert default_object(made) is made
    nameless = Namespace()
    assert default_object(nameless) is nameless


def test_owners_get_replicas_a_namespace_and_a_defaulted_template() -> None:
    """One replica where nobody says how many."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    kinds: list[type[Deployment | ReplicaSet | StatefulSet]] = [Deployment, ReplicaSet, StatefulSet]
    for kind in kinds:
        made = default_object(msgspec.convert({"metadata": {"name": "w"}, "spec": {"template": template}}, kind))
        assert made.spec.replicas == 1
        assert made.metadata.namespace == "default"
        assert made.spec.template.spec.scheduler_name == "default-scheduler"
        assert default_object(made) is made
    zero = default_object(msgspec.convert({"spec": {"replicas": 0}}, Deployment))
    assert zero.spec.replicas == 0
    daemon_set = default_object(msgspec.convert({"spec": {"template": template}}, DaemonSet))
    assert daemon_set.spec.template.spec.restart_policy == "Always"


def test_a_replication_controller_takes_selector_and_labels_from_its_template() -> None:
    """A selector that is given stays."""
    template = {"metadata": {"labels": {"app": "web"}}}
    made = default_object(msgspec.convert({"spec": {"template": template}}, ReplicationController))
    assert made.spec.selector == made.metadata.labels == {"app": "web"}
    assert made.spec.replicas == 1
    other = default_object(
        msgspec.convert({"spec": {"selector": {"x": "y"}, "template": template}}, ReplicationController)
    )
    assert other.spec.selector == {"x": "y"}
    assert default_object(ReplicationController()).spec.selector == {}


def test_a_job_runs_one_pod_unless_it_says_more() -> None:
    """Completions stay absent for a work queue, which gives only a parallelism."""
    made = default_object(Job())
    assert (made.spec.completions, made.spec.parallelism, made.spec.suspend) == (1, 1, False)
    assert made.spec.completion_mode == "NonIndexed"
    queue = default_object(msgspec.convert({"spec": {"parallelism": 4}}, Job))
    assert (queue.spec.completions, queue.spec.parallelism) == (None, 4)


def test_other_kinds() -> None:
    """Namespaced kinds get a namespace, a priority class its policy, and a kind without defaults comes back."""
    assert default_object(Service()).metadata.namespace == "default"
    assert default_object(PodDisruptionBudget()).metadata.namespace == "default"
    assert default_object(PriorityClass()).preemption_policy == "PreemptLowerPriority"
    device_class = DeviceClass()
    assert default_object(device_class) is device_class


# ---- priority ------------------------------------------------------------------------------------------------------


def priority_class(name: str, value: int, *, default: bool = False, policy: str | None = None) -> PriorityClass:
    made = {"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": policy}
    return msgspec.convert(made, PriorityClass)


CLASSES = (
    priority_class("high", 1000, policy="Never"),
    priority_class("usual", 50, default=True),
    priority_class("low", 10, default=True, policy="PreemptLowerPriority"),
)


def test_priority_comes_from_the_class_or_from_the_smallest_global_default() -> None:
    """Two global defaults can appear by a race; the smaller value wins."""
    high = resolve_priority(pod(priorityClassName="high"), CLASSES)
    assert (high.spec.priority, high.spec.preemption_policy) == (1000, "Never")
    default = resolve_priority(pod(), CLASSES)
    assert (default.spec.priority, default.spec.priority_class_name) == (10, "low")
    assert default.spec.preemption_policy == "PreemptLowerPriority"


def test_recorded_pods_keep_their_priority_and_an_unknown_class_counts_zero() -> None:
    """As in the oracle: a record may not hold all classes of its cluster."""
    known = pod(priority=7, priorityClassName="gone")
    assert resolve_priority(known, CLASSES) is known
    gone = resolve_priority(pod(priorityClassName="gone"), CLASSES)
    assert (gone.spec.priority, gone.spec.priority_class_name, gone.spec.preemption_policy) == (0, "gone", None)
    assert resolve_priority(pod(), ()).spec.priority == 0


def test_a_manifest_with_an_unknown_class_is_refused() -> None:
    """The API server would refuse it; planning with priority 0 would mislead."""
    with pytest.raises(UnknownPriorityClassError, match="no PriorityClass with name gone was found"):
        resolve_priority(pod(priorityClassName="gone"), CLASSES, strict=True)


def test_a_manifest_may_repeat_but_not_contradict_its_class() -> None:
    """The admission plugin computes priority and policy; other values are refused."""
    same = resolve_priority(pod(priorityClassName="high", priority=1000), CLASSES, strict=True)
    assert same.spec.preemption_policy == "Never"
    with pytest.raises(PriorityConflictError, match=r"priority \(7\) must not be provided.* computed 1000"):
        resolve_priority(pod(priorityClassName="high", priority=7), CLASSES, strict=True)
    with pytest.raises(PriorityConflictError, match=r"PreemptionPolicy \(PreemptLowerPriority\).* computed Never"):
        resolve_priority(pod(priorityClassName="high", preemptionPolicy="PreemptLowerPriority"), CLASSES, strict=True)
    with pytest.raises(PriorityConflictError, match="computed 0"):
        resolve_priority(pod(priority=7), (), strict=True)
    assert resolve_priority(pod(), (), strict=True).spec.preemption_policy == "PreemptLowerPriority"


def test_system_classes_exist_in_every_cluster() -> None:
    """Their values are fixed."""
    assert [(one.metadata.name, one.value) for one in SYSTEM_PRIORITY_CLASSES] == [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ]
    critical = resolve_priority(pod(priorityClassName="system-node-critical"), (), strict=True)
    assert critical.spec.priority == 2_000_001_000


# ---- tolerations and label keys ------------------------------------------------------------------------------------


def test_every_pod_tolerates_a_lost_node_for_five_minutes() -> None:
    """One toleration each for not-ready and unreachable, behind the pod's own."""
    own = {"key": "x", "operator": "Exists"}
    made = add_default_tolerations(pod(tolerations=[own]))
    assert [(one.key, one.effect, one.toleration_seconds) for one in made.spec.tolerations] == [
        ("x", "", None),
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]
    assert add_default_tolerations(made) is made


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, ["node.kubernetes.io/unreachable"]),
        (
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"],
        ),
        ({"operator": "Exists"}, []),
    ],
)
def test_a_pods_own_tolerations_come_first(toleration: dict[str, str], added: list[str]) -> None:
    """The plugin looks at key and effect alone, not at operator or value."""
    made = add_default_tolerations(pod(tolerations=[toleration]))
    assert [one.key for one in made.spec.tolerations[1:]] == added


def test_label_keys_of_pod_affinity_are_folded_into_the_selectors() -> None:
    """matchLabelKeys adds In, mismatchLabelKeys NotIn, for labels that the pod has; a term without selector stays."""
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["rev", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    bare = {"topologyKey": "zone", "matchLabelKeys": ["rev"]}
    made = fold_label_keys(
        pod(
            labels={"rev": "7", "tenant": "t"},
            affinity={
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term, bare]},
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": term}]
                },
            },
        )
    )
    affinity = made.spec.affinity
    assert affinity is not None
    assert affinity.pod_affinity is not None
    assert affinity.pod_anti_affinity is not None
    first, second = affinity.pod_affinity.required_during_scheduling_ignored_during_execution
    expected = (
        LabelSelectorRequirement(key="rev", operator="In", values=("7",)),
        LabelSelectorRequirement(key="tenant", operator="NotIn", values=("t",)),
    )
    assert first.label_selector is not None
    assert first.label_selector.match_expressions == expected
    assert first.label_selector.match_labels == {"app": "web"}
    assert second.label_selector is None
    [weighted] = affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution
    assert weighted.pod_affinity_term == first
    assert weighted.weight == 5


def test_a_pod_without_label_keys_is_the_same_object() -> None:
    """Most pods have none."""
    term = {"topologyKey": "zone", "labelSelector": {}}
    plain = pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    assert fold_label_keys(plain) is plain
    bare = pod()
    assert fold_label_keys(bare) is bare


def test_a_manifest_pod_gets_everything_at_once() -> None:
    """What `kubectl apply` leaves in the cluster."""
    made = admit_manifest_pod(pod(containers=[container(limits={"cpu": "1"})], priorityClassName="high"), CLASSES)
    assert made.spec.containers[0].resources.requests == {"cpu": "1"}
    assert made.spec.priority == 1000
    assert Toleration(
        key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute", toleration_seconds=300
    ) in made.spec.tolerations  # fmt: skip


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "example.com/x"]),
    st.sampled_from(["0", "1", "100m", "3u", "2Mi"]),
)
resources = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})


@given(
    st.lists(resources, min_size=1, max_size=3), st.lists(resources, max_size=2), st.none() | resources, st.booleans()
)
def test_defaulting_twice_changes_nothing_more(
    containers: list[dict[str, Any]], init: list[dict[str, Any]], level: dict[str, Any] | None, host_network: bool
) -> None:
    """An object that has been through the API server comes back as it is: the second pass is the identity."""
    made = default_pod(
        pod(
            containers=[{"name": "c", "resources": one, "ports": [{"containerPort": 80}]} for one in containers],
            initContainers=[{"name": "i", "resources": one} for one in init],
            resources=level,
            hostNetwork=host_network,
        )
    )
    assert default_pod(made) is made
