"""Admission: what is filled in, what is refused with which words, and what quotas are charged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from autoscaling.cluster.small_world import World, make_node, make_pod
from stowplan_autoscaling.cluster.admission import Admission, pod_usage
from stowplan_autoscaling.cluster.admission.amounts import Amount, parse_amount
from stowplan_autoscaling.cluster.admission.pod_usage import PodUsages
from stowplan_autoscaling.cluster.errors import ForbiddenError
from stowplan_autoscaling.cluster.objects.apps import Deployment, DeploymentSpec
from stowplan_autoscaling.cluster.objects.quota import (
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    ScopeRequirement,
    ScopeSelector,
)
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_scheduler.objects import (
    Affinity,
    Container,
    LabelSelector,
    ObjectMeta,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodTemplateSpec,
    PriorityClass,
    ResourceRequirements,
    Toleration,
)
from stowplan_scheduler.quantity import parse_quantity

Map = dict[str, str | int | float]


def admitted_world(**options: bool) -> World:
    """A world with admission."""
    admission = Admission(**options)
    world = World(admit=admission.admit)
    admission.connect(world.server)
    return world


def add_limit_range(world: World, *items: LimitRangeItem, name: str = "limits") -> LimitRange:
    limit_range = LimitRange(
        metadata=ObjectMeta(name=name, namespace="default"), spec=LimitRangeSpec(limits=tuple(items))
    )
    stored: LimitRange = world.server.create("LimitRange", limit_range)
    return stored


def add_quota(world: World, hard: Map, name: str = "quota", used: Map | None = None, **spec: object) -> None:
    """A quota whose status is known: nothing is used, or what `used` says."""
    meta = ObjectMeta(name=name, namespace="default")
    quota = ResourceQuota(metadata=meta, spec=ResourceQuotaSpec(hard=hard, **spec))  # type: ignore[arg-type]
    stored = world.server.create("ResourceQuota", quota)
    status = ResourceQuotaStatus(hard=hard, used={**dict.fromkeys(hard, "0"), **(used or {})})
    world.server.update_status("ResourceQuota", replace(stored, status=status))


def used(world: World, name: str = "quota") -> Map:
    found: ResourceQuota = world.server.get("ResourceQuota", f"default/{name}")
    return found.status.used or {}


def create(world: World, pod: ClusterPod) -> ClusterPod:
    stored: ClusterPod = world.server.create("Pod", pod)
    return stored


def refusal(world: World, pod: ClusterPod) -> str:
    with pytest.raises(ForbiddenError) as refused:
        world.server.create("Pod", pod)
    return str(refused.value)


# ---- defaults --------------------------------------------------------------------------------------------------------


def test_a_pod_gets_the_api_servers_defaults() -> None:
    """Requests from limits, priority 0, scheduler, grace period, and the two tolerations of 300 s."""
    pod = create(admitted_world(), make_pod("a", limits={"cpu": "1"}))
    assert pod.spec.containers[0].resources.requests == {"cpu": "1"}
    assert (pod.spec.priority, pod.spec.scheduler_name, pod.spec.termination_grace_period_seconds) == (
        0,
        "default-scheduler",
        30,
    )
    assert [(each.key, each.toleration_seconds) for each in pod.spec.tolerations] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]


def test_default_tolerations_can_be_switched_off_and_give_way_to_the_pods_own() -> None:
    """A toleration of everything covers both keys."""
    assert create(admitted_world(default_tolerations=False), make_pod("a")).spec.tolerations == ()
    all_of_it = Toleration(operator="Exists")
    assert create(admitted_world(), make_pod("a", tolerations=[all_of_it])).spec.tolerations == (all_of_it,)


def test_pods_of_one_template_share_their_admitted_spec() -> None:
    """Whatever depends on the spec alone, in the scheduler too, is then known for all of them."""
    world = admitted_world()
    first = make_pod("a", requests={"cpu": "1"})
    second = replace(first, metadata=replace(first.metadata, name="b"))
    assert create(world, first).spec is create(world, second).spec


def test_label_keys_are_folded_with_the_labels_of_each_pod() -> None:
    """Two pods of one spec with different labels must not share the folded selector."""
    term = PodAffinityTerm(label_selector=LabelSelector(), topology_key="zone", match_label_keys=("hash",))
    affinity = Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,)))
    world = admitted_world()
    pod = make_pod("a")
    pod = replace(pod, spec=replace(pod.spec, affinity=affinity))
    values = []
    for name in ("x", "y"):
        stored = create(world, replace(pod, metadata=replace(pod.metadata, name=name, labels={"hash": name})))
        folded = stored.spec.affinity.pod_anti_affinity  # type: ignore[union-attr]
        selector = folded.required_during_scheduling_ignored_during_execution[0].label_selector  # type: ignore[union-attr]
        values.append(selector.match_expressions[0].values)  # type: ignore[union-attr]
    assert values == [("x",), ("y",)]


def test_templates_of_workloads_get_the_defaults_of_a_template() -> None:
    """So that a ReplicaSet made from a Deployment has the template that the Deployment has."""
    template = PodTemplateSpec(spec=PodSpec(containers=(Container(name="main"),)))
    stored: Deployment = admitted_world().server.create(
        "Deployment",
        Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=DeploymentSpec(template=template)),
    )
    assert stored.spec.template.spec.scheduler_name == "default-scheduler"
    assert stored.spec.template.spec.restart_policy == "Always"


def test_new_nodes_can_be_made_with_their_taint() -> None:
    """As the plugin TaintNodesByCondition does; nodes that are loaded as they are do not want it."""
    assert admitted_world().server.create("Node", make_node("a")).spec.taints == ()
    tainted = admitted_world(taints_new_nodes=True).server.create("Node", make_node("a")).spec.taints
    assert [(taint.key, taint.effect) for taint in tainted] == [("node.kubernetes.io/not-ready", "NoSchedule")]


# ---- priority --------------------------------------------------------------------------------------------------------


def test_priorities_come_from_classes_even_after_a_pod_of_the_template_was_made() -> None:
    """What is known about a template is forgotten when a class changes."""
    world = admitted_world()
    pod = make_pod("a")
    assert create(world, pod).spec.priority == 0
    world.server.create("PriorityClass", PriorityClass(metadata=ObjectMeta(name="usual"), value=7, global_default=True))
    again = create(world, replace(pod, metadata=replace(pod.metadata, name="b")))
    assert (again.spec.priority, again.spec.priority_class_name) == (7, "usual")


def test_an_unknown_class_and_a_second_default_are_refused() -> None:
    """A pod that has no name yet is called by the beginning of its name, as upstream's mutating plugins do."""
    world = admitted_world()
    pod = make_pod("")
    pod = replace(
        pod,
        metadata=replace(pod.metadata, generate_name="web-"),
        spec=replace(pod.spec, priority_class_name="gold"),
    )
    assert refusal(world, pod) == 'pods "web-" is forbidden: no PriorityClass with name gold was found'
    for name in ("first", "second"):
        new = PriorityClass(metadata=ObjectMeta(name=name), value=1, global_default=True)
        if name == "first":
            world.server.create("PriorityClass", new)
            continue
        with pytest.raises(ForbiddenError, match="PriorityClass first is already marked as default"):
            world.server.create("PriorityClass", new)


# ---- limit ranges ----------------------------------------------------------------------------------------------------


def test_limit_ranges_complete_themselves_and_then_containers() -> None:
    """max 2 becomes the default limit, the default limit of memory its request; min becomes the request of storage."""
    world = admitted_world()
    stored = add_limit_range(
        world,
        LimitRangeItem(
            type="Container",
            max={"cpu": "2"},
            min={"ephemeral-storage": "1Gi"},
            default={"memory": "1Gi"},
            default_request={"cpu": "100m"},
        ),
    )
    item = stored.spec.limits[0]
    assert item.default == {"cpu": "2", "memory": "1Gi"}
    assert item.default_request == {"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1Gi"}
    pod = create(world, make_pod("a", requests={"memory": "512Mi"}))
    resources = pod.spec.containers[0].resources
    assert resources.requests == {"memory": "512Mi", "cpu": "100m", "ephemeral-storage": "1Gi"}
    assert resources.limits == {"cpu": "2", "memory": "1Gi"}
    assert pod.metadata.annotations["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, ephemeral-storage request for container main; "
        "cpu, memory limit for container main"
    )


def test_a_limit_without_request_is_not_touched_by_a_default_request() -> None:
    """The API server fills in the request from the limit before any plugin runs."""
    world = admitted_world()
    add_limit_range(world, LimitRangeItem(type="Container", default_request={"cpu": "100m"}))
    pod = create(world, make_pod("a", limits={"cpu": "3"}))
    assert pod.spec.containers[0].resources.requests == {"cpu": "3"}


@pytest.mark.parametrize(
    ("kind", "bound", "requests", "limits", "text"),
    [
        (
            "Container",
            {"min": {"cpu": "200m"}},
            {"cpu": "0.1"},
            None,
            "minimum cpu usage per Container is 200m, but request is 100m",
        ),
        (
            "Pod",
            {"min": {"memory": "1Gi"}},
            None,
            None,
            "minimum memory usage per Pod is 1Gi.  No request is specified",
        ),
        ("Pod", {"max": {"cpu": "1"}}, {"cpu": "2"}, None, "maximum cpu usage per Pod is 1.  No limit is specified"),
        (
            "Container",
            {"max": {"memory": "1Gi"}},
            None,
            {"memory": "2048Mi"},
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            "Container",
            {"max_limit_request_ratio": {"cpu": 2}},
            {"cpu": "1"},
            {"cpu": "3"},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            "Container",
            {"max_limit_request_ratio": {"cpu": 2}},
            None,
            None,
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
    ],
)
def test_limit_ranges_refuse_in_upstreams_words(
    kind: str, bound: dict[str, Map], requests: Map | None, limits: Map | None, text: str
) -> None:
    """Amounts are written in their canonical form: 0.1 is 100m, 2048Mi is 2Gi."""
    world = admitted_world()
    add_limit_range(world, LimitRangeItem(type=kind, **bound))
    assert refusal(world, make_pod("a", requests=requests, limits=limits)) == f'pods "a" is forbidden: {text}'


def test_several_complaints_stand_in_brackets() -> None:
    """Each text once, in the order of containers and resources."""
    world = admitted_world()
    add_limit_range(world, LimitRangeItem(type="Pod", min={"cpu": "1", "memory": "1Gi"}))
    assert refusal(world, make_pod("a")) == (
        'pods "a" is forbidden: [minimum cpu usage per Pod is 1.  No request is specified, '
        "minimum memory usage per Pod is 1Gi.  No request is specified]"
    )


# ---- quotas ----------------------------------------------------------------------------------------------------------


def test_a_quota_is_charged_at_creation_and_refuses_what_does_not_fit() -> None:
    """3 pods of 500m and 1Gi into 1600m and 10Gi: the fourth is refused for its cpu alone."""
    world = admitted_world()
    add_quota(world, {"requests.cpu": "1600m", "memory": "10Gi", "pods": "10", "count/pods": 10})
    for number in range(3):
        create(world, make_pod(f"p{number}", requests={"cpu": "0.5", "memory": "1Gi"}))
    assert used(world) == {"requests.cpu": "1500m", "memory": "3Gi", "pods": "3", "count/pods": "3"}
    assert refusal(world, make_pod("p3", requests={"cpu": "500m", "memory": "1Gi"})) == (
        'pods "p3" is forbidden: exceeded quota: quota, requested: requests.cpu=500m, '
        "used: requests.cpu=1500m, limited: requests.cpu=1600m"
    )
    assert used(world)["pods"] == "3"
    assert len(world.server.all("Pod")) == 3


def test_all_quotas_must_have_room_and_none_is_charged_otherwise() -> None:
    """The second quota refuses; the first one keeps what it had."""
    world = admitted_world()
    add_quota(world, {"pods": "5"}, "a-wide")
    add_quota(world, {"pods": "0"}, "b-closed")
    assert "exceeded quota: b-closed, requested: pods=1, used: pods=0, limited: pods=0" in refusal(world, make_pod("p"))
    assert used(world, "a-wide") == {"pods": "0"}


def test_a_quota_on_cpu_demands_that_every_container_states_it() -> None:
    """Init containers too; a pod with pod-level resources need not."""
    world = admitted_world()
    add_quota(world, {"limits.cpu": "10", "requests.memory": "10Gi"})
    pod = make_pod("a", requests={"memory": "1Gi"})
    pod = replace(pod, spec=replace(pod.spec, init_containers=(Container(name="init"),)))
    assert refusal(world, pod) == (
        'pods "a" is forbidden: failed quota: quota: must specify limits.cpu for: init,main; requests.memory for: init'
    )
    whole = ResourceRequirements(requests={"memory": "1Gi"}, limits={"cpu": "2"})
    create(world, replace(make_pod("b"), spec=replace(pod.spec, resources=whole)))
    assert used(world) == {"limits.cpu": "2", "requests.memory": "1Gi"}


def test_limit_ranges_fill_in_before_quotas_look() -> None:
    """A namespace with a quota on cpu and a default request takes pods that name none."""
    world = admitted_world()
    add_limit_range(world, LimitRangeItem(type="Container", default_request={"cpu": "250m"}))
    add_quota(world, {"requests.cpu": "1"})
    create(world, make_pod("a"))
    assert used(world) == {"requests.cpu": "250m"}


def test_a_quota_that_its_controller_has_not_seen_restricts_nothing() -> None:
    """status.hard is what is enforced; with a status that lacks the usage of a resource the pod is refused."""
    world = admitted_world()
    meta = ObjectMeta(name="new", namespace="default")
    stored = world.server.create(
        "ResourceQuota", ResourceQuota(metadata=meta, spec=ResourceQuotaSpec(hard={"pods": 0}))
    )
    create(world, make_pod("a"))
    status = ResourceQuotaStatus(hard={"pods": "0"}, used={})
    world.server.update_status("ResourceQuota", replace(stored, status=status))
    assert refusal(world, make_pod("b")) == 'pods "b" is forbidden: status unknown for quota: new, resources: pods'


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        ({"scopes": ("BestEffort",)}, {"plain"}),
        ({"scopes": ("NotBestEffort",)}, {"gold", "silver"}),
        ({"scopes": ("NotTerminating",)}, {"plain", "gold", "silver"}),
        ({"scopes": ("Terminating",)}, set()),
        ({"scopes": ("PriorityClass",)}, {"gold", "silver"}),
        ({"scope_selector": ("PriorityClass", "In", ("gold",))}, {"gold"}),
        ({"scope_selector": ("PriorityClass", "NotIn", ("gold",))}, {"plain", "silver"}),
        ({"scope_selector": ("PriorityClass", "DoesNotExist", ())}, {"plain"}),
        ({"scopes": ("NotBestEffort", "PriorityClass")}, {"gold", "silver"}),
        ({"scopes": ("CrossNamespacePodAffinity",)}, set()),
    ],
)
def test_scopes_say_which_pods_a_quota_counts(spec: dict[str, tuple[str, ...]], counted: set[str]) -> None:
    """One pod without requests and class, two with requests, of the classes gold and silver."""
    world = admitted_world()
    for name in ("gold", "silver"):
        world.server.create("PriorityClass", PriorityClass(metadata=ObjectMeta(name=name), value=1))
    extra: dict[str, object] = {}
    if "scopes" in spec:
        extra["scopes"] = spec["scopes"]
    else:
        name, operator, values = spec["scope_selector"]
        requirement = ScopeRequirement(scope_name=name, operator=operator, values=tuple(values))
        extra["scope_selector"] = ScopeSelector(match_expressions=(requirement,))
    add_quota(world, {"count/pods": "9"}, **extra)  # type: ignore[arg-type]
    seen = set()
    for name in ("plain", "gold", "silver"):
        before = used(world)
        pod = make_pod(name, requests=None if name == "plain" else {"cpu": "1"})
        create(world, pod if name == "plain" else replace(pod, spec=replace(pod.spec, priority_class_name=name)))
        if used(world) != before:
            seen.add(name)
    assert seen == counted


def test_init_containers_overhead_and_devices_are_charged_as_the_scheduler_counts_them() -> None:
    """main 1 + sidecar 0.5 against init 2 (+ sidecar, started before it: 0.5) = 2.5, and 0.25 of overhead."""
    world = admitted_world()
    add_quota(world, {"requests.cpu": "100", "limits.cpu": "100", "requests.nvidia.com/gpu": "8"})

    def container(name: str, cpu: str, restart: str | None = None, **more: str) -> Container:
        amounts: Map = {"cpu": cpu, **more}
        return Container(
            name=name, restart_policy=restart, resources=ResourceRequirements(requests=amounts, limits=amounts)
        )

    pod = make_pod("a")
    spec = PodSpec(
        containers=(container("main", "1", **{"nvidia.com/gpu": "2"}),),
        init_containers=(container("sidecar", "500m", "Always"), container("init", "2")),
        overhead={"cpu": "250m"},
    )
    create(world, replace(pod, spec=spec))
    assert used(world) == {"requests.cpu": "2750m", "limits.cpu": "2750m", "requests.nvidia.com/gpu": "2"}


def test_quotas_count_objects_of_other_kinds() -> None:
    """Under count/RESOURCE.GROUP; a quota with scopes counts pods only."""
    world = admitted_world()
    add_quota(world, {"count/deployments.apps": 1})
    add_quota(world, {"count/deployments.apps": "0", "pods": "9"}, "scoped", scopes=("BestEffort",))
    for name in ("one", "two"):
        deployment = Deployment(metadata=ObjectMeta(name=name, namespace="default"))
        if name == "one":
            world.server.create("Deployment", deployment)
            continue
        with pytest.raises(ForbiddenError) as refused:
            world.server.create("Deployment", deployment)
        assert str(refused.value) == (
            'deployments.apps "two" is forbidden: exceeded quota: quota, requested: count/deployments.apps=1, '
            "used: count/deployments.apps=1, limited: count/deployments.apps=1"
        )


def test_pods_of_one_template_are_looked_into_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is worked out anew for a pod of a known spec, not even when it has been bound in the meantime."""
    looked = []

    def counted(where: object, name: str) -> None:
        function = getattr(where, name)

        def noted(*given: object) -> object:
            looked.append(name)
            return function(*given)

        monkeypatch.setattr(where, name, noted)

    counted(Admission, "_make_template")
    counted(pod_usage, "_usage")
    world = admitted_world()
    add_quota(world, {"requests.cpu": "1000", "memory": "1Ti", "pods": "1000"})
    pod = make_pod("p", requests={"cpu": "500m", "memory": "1Gi"})
    usages = PodUsages()
    for number in range(500):
        create(world, replace(pod, metadata=replace(pod.metadata, name=f"p{number}")))
        stored = world.server.get("Pod", f"default/p{number}")
        usages.of(replace(stored, spec=replace(stored.spec, node_name=f"n{number}")))
    assert used(world) == {"requests.cpu": "250", "memory": "500Gi", "pods": "500"}
    assert sorted(looked) == ["_make_template", "_usage", "_usage"], "the quota and the other table: once each"


# ---- amounts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_text", "text"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1e3", "1e3"), ("12e6", "12e6"),
        ("100000", "100k"), ("2000", "2k"), ("1500", "1500"), ("0", "0"), ("0Gi", "0"), ("512Ki", "512Ki"),
        ("1000Ki", "1000Ki"), ("0.5Ki", "512"), ("100n", "100n"), ("1.5", "1500m"), ("-2Gi", "-2Gi"), ("3E", "3E"),
        ("5E3", "5E3"), ("1025", "1025"), ("0.1Mi", "104857600m"), ("1001Pi", "1001Pi"), ("1e0", "1e0"),
        ("1.500", "1.500"), ("007", "007"),
    ],
)  # fmt: skip
def test_amounts_are_written_as_an_api_server_writes_them(given_text: str, text: str) -> None:
    """Canonical form: no fraction, the largest suffix, in the family of suffixes in which it was written.

    A text that upstream's quick check takes for canonical stays as it is: 5E3, 1e0, 1.500 and 007.
    """
    assert parse_amount(given_text).text == text


def test_a_sum_is_written_like_its_first_term_that_is_not_zero() -> None:
    """1Gi + 1G in Gi; 0 + 1Gi in Gi; 1G + 1Gi in decimal."""
    gibi, giga = parse_amount("1Gi"), parse_amount("1G")
    assert gibi.plus(giga).text == "2073741824"
    assert parse_amount("0").plus(gibi).text == "1Gi"
    assert gibi.plus(gibi, 3).text == "4Gi"
    assert giga.plus(gibi).text == "2073741824"
    assert giga.plus(giga).text == "2G"


@given(st.integers(0, 10**30), st.sampled_from(["", "i", "e"]))
def test_the_text_of_an_amount_means_the_amount(nanos: int, form: str) -> None:
    """Whatever the way of writing, up to the size at which upstream caps quantities."""
    amount = Amount(nanos, form)
    if form == "i":
        nanos = min(nanos, (2**63 - 1) * 10**9)
        amount = Amount(nanos, form)
    assert parse_quantity(amount.text) == nanos


def test_equal_usages_are_one_object() -> None:
    """Two templates with the same amounts are counted together."""
    usages = PodUsages()
    first, second = (make_pod(name, requests={"cpu": "1"}) for name in ("a", "b"))
    assert first.spec is not second.spec
    assert usages.of(first) is usages.of(second)
