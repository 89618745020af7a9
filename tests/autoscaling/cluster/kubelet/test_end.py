"""Deletion, eviction, lost nodes, and the images that a node keeps."""

from __future__ import annotations

from msgspec.structs import replace

from autoscaling.cluster.kubelet.one_node import START, Cluster, asking, container
from stowplan_autoscaling.cluster.kubelet import ApplicationModel, ContainerModel, ImageCatalog, Probe, fixed
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_autoscaling.cluster.pods import RUNNING, TRUE, ClusterPod
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import ContainerImage, NodeSpec, NodeStatus, ObjectMeta, PodSpec, PodStatus, Taint

STOPPING = ApplicationModel(default=ContainerModel(stop=fixed(5)))


def test_a_deleted_pod_is_gone_when_its_container_has_handled_sigterm() -> None:
    """Deleted at 10 s, 5 s to stop: the last status and the removal come at 15 s; nothing is reported before."""
    cluster = Cluster(STOPPING).start()
    key = cluster.bind()
    cluster.run(10)
    cluster.server.delete("Pod", key)
    cluster.run(14.9)
    assert cluster.last("web") == (1, "Running", "True", 0)
    cluster.run(30)
    assert cluster.log["web"][-2:] == [(15, "Succeeded", "False", 0), (15, "gone", "", 0)]


def test_the_grace_period_cuts_off_a_container_that_takes_too_long() -> None:
    """60 s to stop but a grace of 30 s: killed at 40 s with 137, so the pod has failed."""
    cluster = Cluster(ApplicationModel(default=ContainerModel(stop=fixed(60)))).start()
    key = cluster.bind()
    cluster.run(10)
    cluster.server.delete("Pod", key)
    cluster.run(60)
    assert cluster.log["web"][-2:] == [(40, "Failed", "False", 0), (40, "gone", "", 0)]


def test_a_container_gets_two_seconds_whatever_the_grace_period() -> None:
    """minimumGracePeriodInSeconds: a grace of 1 s still leaves 2 s."""
    cluster = Cluster(STOPPING).start()
    key = cluster.bind(termination_grace_period_seconds=1)
    cluster.run(10)
    cluster.server.delete("Pod", key)
    cluster.run(60)
    assert cluster.last("web") == (12, "gone", "", 0)


def test_sidecars_are_stopped_after_the_main_containers_in_reverse_order() -> None:
    """Main 5 s, then `log` 3 s, then `proxy` 2 s: gone 10 s after the deletion."""
    model = ApplicationModel(
        containers={
            "c": ContainerModel(stop=fixed(5)),
            "log": ContainerModel(stop=fixed(3)),
            "proxy": ContainerModel(stop=fixed(2)),
        }
    )
    cluster = Cluster(model).start()
    sidecars = (container("proxy", restart_policy="Always"), container("log", restart_policy="Always"))
    key = cluster.bind("web", init_containers=sidecars)
    cluster.run(20)
    cluster.server.delete("Pod", key)
    cluster.run(28.5)
    assert list(cluster.kubelets.running(key)) == ["proxy"]
    cluster.run(60)
    assert cluster.last("web")[:2] == (30, "gone")


def test_a_sidecar_has_what_the_main_containers_left_of_the_grace_period() -> None:
    """Grace 30 s: the main container takes 20 s, so a sidecar that never stops is killed 10 s later."""
    model = ApplicationModel(
        containers={"c": ContainerModel(stop=fixed(20)), "proxy": ContainerModel(stop=fixed(1000))}
    )
    cluster = Cluster(model).start()
    key = cluster.bind("web", init_containers=(container("proxy", restart_policy="Always"),))
    cluster.run(20)
    cluster.server.delete("Pod", key)
    cluster.run(100)
    assert cluster.last("web")[:2] == (50, "gone")


def test_a_pod_that_is_deleted_during_a_pull_is_stopped_after_it() -> None:
    """The worker cannot be interrupted (SyncPod runs without cancel): deleted at 3 s, the pull ends at 11 s."""
    cluster = Cluster(catalog=ImageCatalog(sizes={"shop:1": 10_000_000})).start()
    key = cluster.bind()
    cluster.run(3)
    cluster.server.delete("Pod", key)
    cluster.run(10.9)
    assert cluster.server.find("Pod", key) is not None
    cluster.run(30)
    assert cluster.last("web")[:2] == (11, "gone")


def test_an_evicted_pod_ends_as_failed_and_stays() -> None:
    """Not ready at once; a grace of 1 s means 2 s, which cuts the 5 s off; the object stays with its condition."""
    cluster = Cluster(STOPPING).start()
    key = cluster.bind()
    cluster.run(10)
    assert cluster.kubelets.evict(key)
    cluster.run(60)
    assert cluster.log["web"][-2:] == [(10, "Running", "False", 0), (12, "Failed", "False", 0)]
    pod = cluster.pod(key)
    assert [(each.type, each.reason) for each in pod.status.conditions] == [
        ("DisruptionTarget", "TerminationByKubelet")
    ]
    assert cluster.kubelets.timelines[key].reason == "Evicted"
    cluster.server.delete("Pod", key)
    assert cluster.server.find("Pod", key) is None


def test_a_pod_that_has_ended_cannot_be_evicted() -> None:
    """The caller learns that nothing was gained."""
    cluster = Cluster(ApplicationModel(default=ContainerModel(run=fixed(1)))).start()
    key = cluster.bind(restart_policy="Never")
    cluster.run(10)
    assert not cluster.kubelets.evict(key)


def test_the_stages_of_a_pod_are_kept_in_its_timeline() -> None:
    """The split of the waiting time is made from it: 1 s of sandbox, 4 s of image, 20 s until the probe at 25 s."""
    model = ContainerModel(start=fixed(12), readiness_probe=Probe(period=10))
    cluster = Cluster(ApplicationModel(default=model), catalog=ImageCatalog(sizes={"shop:1": 4_000_000})).start()
    key = cluster.bind()
    cluster.run(60)
    cluster.server.delete("Pod", key)
    cluster.run(61)
    (timeline,) = cluster.kubelets.ended
    times = [timeline.admitted, timeline.sandbox, timeline.pulled, timeline.started, timeline.ready]
    assert [round(((time or 0) - START) / SECOND, 3) for time in times] == [0, 1, 5, 5, 25]
    assert [round(((time or 0) - START) / SECOND, 3) for time in (timeline.deleted, timeline.gone)] == [60, 60]
    split = timeline.waiting_time()
    assert split is not None
    assert [round(part / SECOND, 3) for part in split] == [0, 1, 4, 0, 20]
    assert not cluster.kubelets.timelines


def test_a_stopped_node_freezes_its_pods() -> None:
    """Nothing is written, not even for a deletion: the pod hangs until somebody removes the object."""
    cluster = Cluster(ApplicationModel(default=ContainerModel(run=fixed(5), exit_code=1))).start()
    key = cluster.bind()
    cluster.run(3)
    cluster.kubelets.stop_node("n0")
    cluster.run(20)
    cluster.server.delete("Pod", key)
    cluster.run(100)
    assert cluster.last("web") == (1, "Running", "True", 0)
    cluster.server.remove("Pod", key)
    cluster.run(101)
    (timeline,) = cluster.kubelets.ended
    assert timeline.gone == timeline.deleted
    assert ((timeline.gone or 0) - START) // SECOND == 100


def test_a_node_that_starts_again_restarts_what_ran_on_it() -> None:
    """Stopped at 10 s, started at 40 s: not ready is reported, the sandbox takes 1 s, then the restart counts."""
    cluster = Cluster().start()
    key = cluster.bind()
    cluster.run(10)
    cluster.kubelets.stop_node("n0")
    cluster.run(40)
    cluster.kubelets.start_node("n0")
    cluster.run(60)
    assert cluster.log["web"][-2:] == [(40, "Running", "False", 0), (41, "Running", "True", 1)]
    assert cluster.kubelets.node_of(key) == "n0"


def test_taints_do_not_matter_to_pods_that_were_there_before() -> None:
    """A lost node is tainted NoExecute; its pods resume, a new one that does not tolerate the taint is rejected."""
    cluster = Cluster().start()
    key = cluster.bind("web", asking(cpu="5"))
    cluster.run(10)
    cluster.kubelets.stop_node("n0")
    taint = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
    cluster.server.put("Node", replace(cluster.server.get("Node", "n0"), spec=NodeSpec(taints=(taint,))))
    cluster.run(40)
    cluster.kubelets.start_node("n0")
    cluster.run(60)
    assert cluster.pod(key).ready == TRUE
    refused = cluster.bind("next")
    cluster.server.delete("Pod", key, grace=0)
    cluster.run(61)
    assert cluster.kubelets.timelines[refused].reason == "TaintToleration"
    cluster.server.put("Node", replace(cluster.server.get("Node", "n0"), spec=NodeSpec()))
    cluster.run(62)
    again = cluster.bind("last", asking(cpu="8"))
    cluster.run(70)
    assert cluster.pod(again).ready == TRUE


def test_a_pod_deleted_while_its_node_was_down_is_removed_when_it_is_up() -> None:
    """Its containers died with the machine, so there is nothing to wait for."""
    cluster = Cluster(STOPPING).start()
    key = cluster.bind()
    cluster.run(10)
    cluster.kubelets.stop_node("n0")
    cluster.server.delete("Pod", key)
    cluster.run(40)
    cluster.kubelets.start_node("n0")
    cluster.run(41)
    assert cluster.last("web")[:2] == (40, "gone")


def test_a_node_whose_object_is_removed_takes_its_kubelet_with_it() -> None:
    """What is left to do is the pod garbage collector's."""
    cluster = Cluster(STOPPING).start()
    key = cluster.bind()
    cluster.run(10)
    cluster.server.remove("Node", "n0")
    cluster.server.delete("Pod", key)
    cluster.run(100)
    assert cluster.pod(key).status.phase == "Running"
    assert cluster.kubelets.node_of(key) is None


def test_an_object_removed_under_a_running_pod_gives_the_room_back() -> None:
    """Forced deletion: the next pod of eight cores is admitted."""
    cluster = Cluster().start()
    key = cluster.bind("web", asking(cpu="8"))
    cluster.run(5)
    cluster.server.delete("Pod", key, grace=0)
    cluster.run(6)
    again = cluster.bind("next", asking(cpu="8"))
    cluster.run(20)
    assert cluster.pod(again).ready == TRUE


def test_pods_that_run_when_the_model_begins_go_on_running() -> None:
    """A snapshot holds pods that are ready: nothing is reported, nothing is started again, a deletion stops them."""
    cluster = Cluster(STOPPING, catalog=ImageCatalog(sizes={"shop:1": 10_000_000}))
    key = cluster.server.create(
        "Pod",
        ClusterPod(
            metadata=ObjectMeta(name="web", namespace="d"),
            spec=PodSpec(containers=(container(),), node_name="n0"),
            status=PodStatus(phase=RUNNING),
            started=START - 100 * SECOND,
            ready=TRUE,
            restarts=3,
        ),
    ).key
    cluster.start()
    cluster.run(10)
    assert cluster.log == {}
    assert cluster.pod(key).restarts == 3
    assert list(cluster.kubelets.running(key)) == ["c"]
    cluster.server.delete("Pod", key)
    cluster.run(20)
    assert cluster.last("web")[:2] == (15, "gone")


def test_a_node_removes_the_images_that_were_not_used_for_longest_when_its_disk_is_too_full() -> None:
    """100 MB disk: 50 + 30 + 10 MB is above 85 %; a and b are unused, a for longer: its removal leaves 40 %."""
    catalog = ImageCatalog(sizes={"a:1": 50_000_000, "b:1": 30_000_000, "c:1": 10_000_000})
    cluster = Cluster(ApplicationModel(default=ContainerModel(run=fixed(1))), catalog=catalog, image_disk=100_000_000)
    cluster.start()
    cluster.bind("a", container(image="a:1"), restart_policy="Never")
    cluster.run(100)
    cluster.bind("b", container(image="b:1"), restart_policy="Never")
    cluster.run(200)
    cluster.bind("c", container(image="c:1"), restart_policy="Never")
    cluster.run(900)
    node: Node = cluster.server.get("Node", "n0")
    assert [image.names for image in node.status.images] == [("b:1",), ("c:1",)]


def test_the_image_that_was_used_last_stays_whatever_its_name() -> None:
    """As above, but b was used first: it goes, and frees enough (60 %), so a stays."""
    catalog = ImageCatalog(sizes={"a:1": 50_000_000, "b:1": 30_000_000, "c:1": 10_000_000})
    cluster = Cluster(ApplicationModel(default=ContainerModel(run=fixed(1))), catalog=catalog, image_disk=100_000_000)
    cluster.start()
    for i, image in enumerate(("b:1", "a:1", "c:1")):
        cluster.run(100 * i)
        cluster.bind(f"p{i}", container(image=image), restart_policy="Never")
    cluster.run(900)
    node: Node = cluster.server.get("Node", "n0")
    assert [image.names for image in node.status.images] == [("a:1",), ("c:1",)]


def test_an_image_that_came_a_moment_ago_is_not_removed() -> None:
    """It may be meant for a container to come: with a least age of an hour the disk stays full."""
    catalog = ImageCatalog(sizes={"a:1": 90_000_000})
    task = ApplicationModel(default=ContainerModel(run=fixed(1)))
    cluster = Cluster(task, catalog=catalog, image_disk=100_000_000, image_gc_min_age=3600).start()
    cluster.bind("a", container(image="a:1"), restart_policy="Never")
    cluster.run(3000)
    node: Node = cluster.server.get("Node", "n0")
    assert [image.names for image in node.status.images] == [("a:1",)]
    cluster.run(4400)
    assert cluster.server.get("Node", "n0").status.images == ()


def test_the_nodes_status_lists_its_images_the_largest_first() -> None:
    """ImageLocality scores by them; the status is updated every 10 s."""
    catalog = ImageCatalog(sizes={"a:1": 1_000_000, "b:1": 3_000_000})
    cluster = Cluster(catalog=catalog).start()
    cluster.bind("web", container("one", "a:1"), container("two", "b:1"))
    cluster.run(40)
    node: Node = cluster.server.get("Node", "n0")
    assert node.status.images == (
        ContainerImage(names=("b:1",), size_bytes=3_000_000),
        ContainerImage(names=("a:1",), size_bytes=1_000_000),
    )


def test_images_of_the_nodes_first_status_need_no_pull() -> None:
    """A snapshot says what nodes hold."""
    cluster = Cluster(catalog=ImageCatalog(sizes={"shop:1": 100_000_000}), nodes=0)
    status = NodeStatus(allocatable={"pods": "10"}, images=(ContainerImage(names=("shop:1",), size_bytes=100_000_000),))
    cluster.server.create("Node", Node(metadata=ObjectMeta(name="n0"), status=status))
    cluster.start()
    cluster.bind()
    cluster.run(10)
    assert cluster.last("web") == (1, "Running", "True", 0)


def test_a_node_that_comes_later_has_a_kubelet_too() -> None:
    """Nodes are supplied while the run goes on."""
    cluster = Cluster(nodes=0).start()
    cluster.run(5)
    cluster.server.create("Node", Node(metadata=ObjectMeta(name="n0"), status=NodeStatus(allocatable={"pods": "3"})))
    cluster.run(6)
    cluster.bind()
    cluster.run(10)
    assert cluster.last("web") == (7, "Running", "True", 0)


def test_the_tag_latest_is_looked_up_at_the_registry_each_time() -> None:
    """Policy Always is the default for it: 0.25 s for the registry's answer, although the image is there."""
    cluster = Cluster(registry_request=fixed(0.25)).start()
    cluster.bind("web", container(image="shop"))
    cluster.bind("api", container(image="shop:2"))
    cluster.run(10)
    assert cluster.last("web")[0] == 1.25
    assert cluster.last("api")[0] == 1
