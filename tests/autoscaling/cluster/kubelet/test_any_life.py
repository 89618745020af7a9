"""Whatever happens to pods, and in whatever order: the books balance in the end, and runs repeat."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaling.cluster.kubelet.one_node import Cluster, asking, container
from stowplan_autoscaling.cluster.errors import NotFoundError
from stowplan_autoscaling.cluster.kubelet import ApplicationModel, ContainerModel, ImageCatalog, Probe, uniform
from stowplan_scheduler.resources import Resource

PROBE = Probe(period=3, failure_threshold=2)
MODEL = ApplicationModel(
    containers={
        "serve": ContainerModel(
            start=uniform(0, 20),
            stop=uniform(0, 8),
            startup_probe=Probe(period=2, failure_threshold=6),
            readiness_probe=PROBE,
            liveness_probe=PROBE,
        ),
        "task": ContainerModel(run=uniform(1, 30), failure_share=0.5, stop=uniform(0, 3)),
        "proxy": ContainerModel(start=uniform(0, 3), stop=uniform(0, 3), startup_probe=Probe(period=1)),
    },
    default_init=ContainerModel(run=uniform(0, 4), failure_share=0.3),
)
CATALOG = ImageCatalog(sizes={"a:1": 3_000_000, "b:1": 7_000_000}, failing=frozenset({"x:1"}))
DISK = 9_000_000
"""Too small for both images: the garbage collection of images has something to do."""

BIND = st.tuples(
    st.just("bind"),
    st.sampled_from(["serve", "task"]),
    st.sampled_from(["a:1", "b:1", "shop", "x:1"]),
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.integers(0, 2),
)
OTHER = st.tuples(
    st.sampled_from(["delete", "force", "evict", "kill", "slow", "stall", "full", "busy", "calm", "stop", "start"]),
    st.integers(0, 5),
)
STEPS = st.lists(st.tuples(st.floats(0.1, 40), st.one_of(BIND, OTHER)), min_size=1, max_size=25)


def live(steps: list[tuple[float, tuple[object, ...]]], latency: float) -> Cluster:
    """Carry the steps out, then delete everything and let it end."""
    cluster = Cluster(
        MODEL, nodes=2, catalog=CATALOG, image_disk=DISK, registry_request=uniform(0, 1), watch_latency=latency
    ).start()
    keys: list[str] = []
    time = 0.0
    for wait, step in steps:
        time += wait
        cluster.run(time)
        if step[0] == "bind":
            _, name, image, policy, extras = step
            init = (container("setup", "a:1"), container("proxy", "b:1", restart_policy="Always"))[: int(str(extras))]
            main = (asking(str(name), cpu="1"), container("task", str(image)))
            keys.append(
                cluster.bind(
                    f"p{len(keys)}", *main, init_containers=init, restart_policy=policy, node=f"n{len(keys) % 2}"
                )
            )
        elif keys:
            disturb(cluster, str(step[0]), keys[int(str(step[1])) % len(keys)])
    for node in ("n0", "n1"):
        cluster.kubelets.start_node(node)
    for key in keys:
        disturb(cluster, "delete", key)
    cluster.run(time + 400)
    return cluster


def disturb(cluster: Cluster, what: str, key: str) -> None:
    """Something happens to a pod or its node."""
    kubelets, node = cluster.kubelets, f"n{int(key.removeprefix('d/p')) % 2}"
    try:
        match what:
            case "delete" | "force":
                cluster.server.delete("Pod", key, grace=0 if what == "force" else None)
            case "evict":
                kubelets.evict(key)
            case "kill":
                kubelets.kill(key)
            case "slow" | "stall" | "full":
                kubelets.set_speed(key, {"slow": 0.3, "stall": 0.0, "full": 1.0}[what])
            case "busy" | "calm":
                kubelets.set_answering(key, is_answering=what == "calm")
            case "stop":
                kubelets.stop_node(node)
            case _:
                kubelets.start_node(node)
    except NotFoundError:
        assert cluster.server.find("Pod", key) is None


@settings(max_examples=80)
@given(steps=STEPS, latency=st.sampled_from([0.0, 0.3]))
def test_every_pod_goes_and_gives_back_what_it_held(
    steps: list[tuple[float, tuple[object, ...]]], latency: float
) -> None:
    """A leak of room or of image users would show after days of a run only; a worker that hangs, as a pod for ever."""
    cluster = live(steps, latency)
    kubelets = cluster.kubelets
    assert not cluster.server.all("Pod")
    assert not kubelets.timelines
    assert not kubelets._workers
    for state in kubelets._nodes.values():
        assert not state.workers
        assert state.budget._pods == 0
        assert state.budget._used == Resource()
        assert all(image.users == 0 for image in state.images.held.values())
        assert state.images.used == sum(image.size for image in state.images.held.values())
    for timeline in kubelets.ended:
        stages = [timeline.admitted, timeline.sandbox, timeline.pulled, timeline.started, timeline.ready, timeline.gone]
        reached = [stage for stage in stages if stage is not None]
        assert reached == sorted(reached)
        split = timeline.waiting_time()
        assert split is None or min(split) >= 0


@settings(max_examples=20)
@given(steps=STEPS)
def test_the_same_steps_give_the_same_life(steps: list[tuple[float, tuple[object, ...]]]) -> None:
    """Byte-identical results of equal runs begin here."""
    first, second = live(steps, 0.3), live(steps, 0.3)
    assert first.log == second.log
    assert first.events == second.events
