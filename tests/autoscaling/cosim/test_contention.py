"""What requests hide: throttling by limits, containers over their memory limit, nodes short of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaling.cosim.scenes import deployment, play, scene, steps, visits
from stowplan_autoscaling.results import AttemptRecord, ServiceSample, WorkloadSample

WEB = "Deployment shop/web"


def test_what_a_limit_refuses_is_throttled_and_makes_requests_late(tmp_path: Path) -> None:
    """100 requests a second want a core; the limit is half of one, so that half of them are lost in the end.

    The queue holds 2 s of what the pod can serve. While it is full the pod wants a core for what comes and as much as
    would work the queue off in a second: 100 x 10 ms. One and a half cores are refused; 0.5 are used.
    """
    web = deployment(resources={"requests": {"cpu": "250m"}, "limits": {"cpu": "500m"}})
    demand = visits(steps(("0s", 100)), timeout="2s")
    played = play(tmp_path, scene(web, demand=[demand], slo=[{"name": "fast", "demand": "visits", "latency": "1s"}]))
    last = played.rows(WorkloadSample)[-1]
    assert (last.cpu_used, last.throttled) == pytest.approx((0.5, 1.5))
    (workload,) = played.report.workloads
    assert workload.throttled_core_seconds == pytest.approx(1.5 * 598, rel=0.02)
    assert played.report.contention.throttled_core_seconds == workload.throttled_core_seconds
    (service,) = played.report.services
    assert service.served / service.offered == pytest.approx(0.5, rel=0.01)
    (objective,) = played.report.objectives
    assert not objective.met
    assert objective.missed_seconds == pytest.approx(599, abs=5)


@pytest.mark.parametrize(("latencies", "within"), [(("1s", "30s"), 0.0), (("30s", "1s"), 1.0), ((), 1.0)])
def test_a_sample_judges_by_the_first_objective_of_its_demand(
    tmp_path: Path, latencies: tuple[str, ...], within: float
) -> None:
    """Every request takes three seconds, nearly all of them in the queue; without an objective none is too slow."""
    web = deployment(resources={"requests": {"cpu": "250m"}, "limits": {"cpu": "500m"}})
    demand = visits(steps(("0s", 100)), timeout="2s")
    slo = [{"name": f"in-{latency}", "demand": "visits", "latency": latency} for latency in latencies]
    played = play(tmp_path, scene(web, demand=[demand], slo=slo, duration="2m"))
    assert played.rows(ServiceSample)[-1].within == pytest.approx(within)


def test_a_leak_is_killed_at_its_limit_and_starts_again_after_the_back_off(tmp_path: Path) -> None:
    """100 MiB and 3600 MiB an hour: 1 MiB a second. Started at 1.001 s it passes 200 MiB after 101.001 s.

    The check of 110 s kills it. The first restart is at once, the second waits the crash loop's 10 s.
    """
    web = deployment(resources={"requests": {"cpu": "1", "memory": "100Mi"}, "limits": {"memory": "200Mi"}})
    demand = visits(steps(("0s", 1)), memory="100Mi", memoryGrowthPerHour="3600Mi")
    played = play(tmp_path, scene(web, demand=[demand], duration="5m"))
    assert played.times("OOMKilling") == [110, 220]
    (pod,) = played.pods(WEB)
    assert pod.restarts == 2
    assert played.report.contention.oom_kills == 2
    assert played.report.workloads[0].oom_kills == 2


def test_a_node_short_of_memory_evicts_the_pod_that_uses_most_beyond_its_request(tmp_path: Path) -> None:
    """8192 MiB hold two pods of 3700 and one of 10 that grows by 10 a second: at 70 s it has 700, and 92 are left.

    The threshold is 100. It uses 690 MiB more than it requests, the others 0: it goes, as Failed, and another is made.
    """
    quiet = deployment("quiet", replicas=2, resources={"requests": {"memory": "3700Mi"}})
    greedy = deployment("greedy", resources={"requests": {"memory": "10Mi"}})
    demand = [
        visits(steps(("0s", 1)), "quiet", "calm", memory="3700Mi"),
        visits(steps(("0s", 1)), "greedy", "wild", memory="10Mi", memoryGrowthPerHour="36000Mi"),
    ]
    played = play(tmp_path, scene(quiet, greedy, demand=demand, memory="8Gi", duration="90s"))
    (evicted,) = [pod for pod in played.pods("Deployment shop/greedy") if pod.end == "Evicted"]
    assert played.times("Evicted") == [70]
    assert evicted.ended == pytest.approx(70)
    assert played.report.contention.evictions == 1
    (event,) = [event for event in played.sink.events if event.reason == "Evicted"]
    assert "The node was low on resource: memory. Threshold quantity: 100Mi" in event.message
    replacement = played.pods("Deployment shop/greedy")[1]
    assert (replacement.node, replacement.attempts) == ("", 1)
    assert "untolerated taint" in next(row.message for row in played.rows(AttemptRecord) if row.pod == replacement.pod)


def test_neighbours_share_a_busy_node_by_their_requests(tmp_path: Path) -> None:
    """Two cores; both want two. Requests of 100m and 300m have cpu.weight 4 and 12: a quarter and three quarters."""
    small = deployment("small", resources={"requests": {"cpu": "100m"}})
    large = deployment("large", resources={"requests": {"cpu": "300m"}})
    demand = [
        visits(steps(("0s", 400)), "small", "a", timeout="1s"),
        visits(steps(("0s", 400)), "large", "b", timeout="1s"),
    ]
    played = play(tmp_path, scene(small, large, demand=demand, cpu="2", duration="2m"))
    used = {row.workload: row.cpu_used for row in played.rows(WorkloadSample)}
    assert used["Deployment shop/small"] + used["Deployment shop/large"] == pytest.approx(2)
    assert used["Deployment shop/large"] / used["Deployment shop/small"] == pytest.approx(3, rel=0.1)


def test_pods_beyond_the_last_address_wait_on_their_node(tmp_path: Path) -> None:
    """Three pods, two addresses: the third has a node and no sandbox, for its network plug-in fails again and again."""
    simulation = scene(deployment(replicas=3), duration="2m")
    simulation["spec"]["cluster"]["podIPs"] = 2
    played = play(tmp_path, simulation)
    assert [pod.ready is not None for pod in played.pods(WEB)] == [True, True, False]
    assert 6 <= len(played.times("FailedCreatePodSandBox")) <= 12
    assert played.pods(WEB)[2].waiting.start == pytest.approx(120 - 0.003, abs=0.01)


def test_start_up_use_lasts_as_long_as_the_start(tmp_path: Path) -> None:
    """20 s at one core from 1.001 s on; a sample before the end shows the core, one after it shows the idle use."""
    ready = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}
    simulation = scene(
        deployment(readinessProbe=ready),
        demand=[visits(steps(("0s", 0)), startup={"cpu": "1"}, idleCPU="10m")],
        duration="30s",
        sampling={"period": "1s"},
    )
    simulation["spec"]["kubelet"]["startups"] = [{"target": {"namespace": "shop", "name": "web"}, "median": "20s"}]
    played = play(tmp_path, simulation)
    used = {row.seconds: row.cpu_used for row in played.rows(WorkloadSample)}
    assert (used[2], used[20], used[22]) == pytest.approx((1, 1, 0.01))
    (pod,) = played.pods(WEB)
    assert pod.ready is not None
    assert 21.001 <= pod.ready <= 22.01
    assert pod.waiting.readiness == pytest.approx(pod.ready - 1.001, abs=1e-6)
