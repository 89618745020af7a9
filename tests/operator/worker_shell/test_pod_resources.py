"""/metrics/resources for pods by hand; tests/integration/test_worker_metrics.py compares it with kube-scheduler's."""

from __future__ import annotations

from msgspec.structs import replace

from stowplan_operator.worker.pod_resources import pod_resources
from stowplan_scheduler.objects import Container, Pod, PodSpec, PodStatus, ResourceMap, ResourceRequirements
from stowplan_scheduler.objects.meta import ObjectMeta


def container(
    requests: ResourceMap | None = None, limits: ResourceMap | None = None, restart_policy: str | None = None
) -> Container:
    asked = ResourceRequirements(requests=requests, limits=limits)
    return Container(resources=asked, restart_policy=restart_policy)


def a_pod(name: str, *containers: Container, node: str = "n1", **spec: object) -> Pod:
    made = PodSpec(containers=containers, node_name=node, scheduler_name="dense", priority=7)
    return Pod(metadata=ObjectMeta(name=name, namespace="shop"), spec=replace(made, **spec))


def samples(*pods: Pod) -> list[str]:
    """Lines without comments and without the labels that are the same for all."""
    lines = [line for line in pod_resources(pods).decode().splitlines() if not line.startswith("#")]
    return [line.replace('namespace="shop",', "").replace('scheduler="dense",', "") for line in lines]


def test_each_resource_has_its_unit_and_gos_number() -> None:
    asked: ResourceMap = {
        "cpu": "9m",
        "memory": "64Mi",
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi",
        "attachable-volumes-aws-ebs": "3",
        "example.com/gpu": "2",
    }
    common = 'kube_pod_resource_request{node="n1",pod="p",priority="7",resource='
    assert samples(a_pod("p", container(asked))) == [
        f'{common}"attachable-volumes-aws-ebs",unit="integer"}} 3',
        f'{common}"cpu",unit="cores"}} 0.009000000000000001',
        f'{common}"ephemeral-storage",unit="bytes"}} 1.073741824e+09',
        f'{common}"example.com/gpu",unit=""}} 2',
        f'{common}"hugepages-2Mi",unit="bytes"}} 4.194304e+06',
        f'{common}"memory",unit="bytes"}} 6.7108864e+07',
    ]


def values(metric: str, *pods: Pod) -> dict[str, str]:
    """Resource -> number."""
    found = {}
    for line in samples(*pods):
        if line.startswith(f"kube_pod_resource_{metric}{{"):
            found[line.partition('resource="')[2].partition('"')[0]] = line.rpartition(" ")[2]
    return found


def test_limits_count_sidecars_and_the_largest_init_container() -> None:
    """Init 3 beside the sidecar's 1 is more than containers 1 + 1 and sidecar 1; memory has no limit in one of them."""
    pod = a_pod(
        "p",
        container(limits={"cpu": "1", "memory": "1Gi"}),
        container(limits={"cpu": "1"}),
        init_containers=(container(limits={"cpu": "1"}, restart_policy="Always"), container(limits={"cpu": "3"})),
    )
    assert values("limit", pod) == {"cpu": "4", "memory": "1.073741824e+09"}


def test_overhead_is_added_to_requests_and_to_limits_that_there_are() -> None:
    pod = a_pod("p", container({"cpu": "1"}, {"cpu": "2"}), overhead={"cpu": "250m", "memory": "16Mi"})
    assert values("request", pod) == {"cpu": "1.25", "memory": "1.6777216e+07"}
    assert values("limit", pod) == {"cpu": "2.25"}


def test_what_the_pod_as_a_whole_says_takes_the_place_of_its_containers() -> None:
    whole = ResourceRequirements(requests={"cpu": "3"}, limits={"cpu": "5", "example.com/gpu": "9"})
    pod = a_pod("p", container({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}), resources=whole)
    assert values("request", pod) == {"cpu": "3"}
    assert values("limit", pod) == {"cpu": "5", "memory": "1.073741824e+09"}


def test_amounts_of_nothing_and_finished_pods_are_left_out() -> None:
    finished = replace(a_pod("done", container({"cpu": "1"})), status=PodStatus(phase="Succeeded"))
    assert samples(a_pod("p", container({"cpu": "0", "memory": "0"})), finished) == []


def test_a_pod_without_node_and_priority_has_empty_labels() -> None:
    waiting = a_pod("w", container({"cpu": "500m"}), node="", priority=None)
    assert samples(waiting) == [
        'kube_pod_resource_request{node="",pod="w",priority="",resource="cpu",unit="cores"} 0.5'
    ]


def test_help_and_type_are_kube_schedulers() -> None:
    text = pod_resources([a_pod("p", container({"cpu": "1"}, {"cpu": "1"}))]).decode()
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert [line.partition(" workloads")[0] for line in comments] == [
        "# HELP kube_pod_resource_limit [STABLE] Resources limit for",
        "# TYPE kube_pod_resource_limit gauge",
        "# HELP kube_pod_resource_request [STABLE] Resources requested by",
        "# TYPE kube_pod_resource_request gauge",
    ]
