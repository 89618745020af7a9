"""Nodes that come and go in whole runs: both engines, the provider, and what the results say about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoscaling.cosim.scenes import Played, deployment, play, scene, steps, visits
from stowplan_autoscaling.cosim.supply import _is_local
from stowplan_autoscaling.inputs.errors import InputError
from stowplan_autoscaling.results import ClusterSample, NodeRecord, PodRecord, PoolSample, SupplyRecord

WEB = "Deployment shop/web"
ENGINES = ("clusterAutoscaler", "karpenter")
TYPES = [
    {"name": "m4", "capacity": {"cpu": "4", "memory": "16Gi"}, "price": "0.2", "spotPrice": "0.1"},
    {"name": "m8", "capacity": {"cpu": "8", "memory": "32Gi"}, "price": "0.36"},
]


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}
"""Of its only pod, none may be evicted."""


def pooled(
    *objects: dict[str, Any],
    engine: str = "karpenter",
    settings: dict[str, Any] | None = None,
    pool: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A scene on one pool of m4 machines that take 30 s from the request until they are ready, give or take a pass."""
    found = scene(*objects, **spec)
    found["spec"].update(
        cluster={},
        instanceTypes=TYPES,
        nodePools=[{"name": "general", "instanceTypes": ["m4"], **(pool or {})}],
        supply={engine: settings or {}},
        provider={"boot": {"median": "24s", "sigma": 0}, **spec.get("provider", {})},
    )
    return found


def supply(played: Played, *, stopped: bool = False) -> list[tuple[str, int, str]]:
    """(loop, nodes, reason) of the decisions, or of what stopped them."""
    rows = [row for row in played.rows(SupplyRecord) if row.is_stopped == stopped]
    return [(row.loop, row.nodes, row.reason) for row in rows]


# ---- growing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_pending_pods_get_nodes(engine: str, tmp_path: Path) -> None:
    """Seven pods of a core each on machines of four: two machines, and all run within a minute."""
    played = play(tmp_path, pooled(deployment(replicas=7), engine=engine, duration="5m"))
    pods = played.pods(WEB)
    assert [pod.end for pod in pods] == ["Running"] * 7
    assert len(played.rows(NodeRecord)) == 2
    assert all(pod.ready is not None and 25 < pod.ready - pod.created < 60 for pod in pods)
    assert played.report.pools[0].started == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_the_wait_for_a_node_is_told_from_the_wait_for_the_decision(engine: str, tmp_path: Path) -> None:
    """The parts sum up to the whole; the node's part begins with its request and ends when it takes pods."""
    played = play(tmp_path, pooled(deployment(replicas=1), engine=engine, duration="5m"))
    (pod,), (node,) = played.rows(PodRecord), played.rows(NodeRecord)
    assert pod.ready is not None
    assert node.ready is not None
    assert sum(pod.waiting) == pytest.approx(pod.ready - pod.created, abs=1e-6)
    assert pod.waiting.node == pytest.approx(node.ready - node.requested, abs=0.01)
    assert pod.waiting.supply == pytest.approx(node.requested - pod.created, abs=0.2)


def test_karpenter_waits_for_its_batch(tmp_path: Path) -> None:
    """A second without another pod."""
    played = play(tmp_path, pooled(deployment(replicas=4), duration="2m"))
    (node,) = played.rows(NodeRecord)
    assert 1.0 <= node.requested < 1.2


def test_the_cluster_autoscaler_lets_pods_be_two_seconds_old(tmp_path: Path) -> None:
    """The loop that the unschedulable pod starts finds it too young; the next one comes ten seconds later."""
    played = play(tmp_path, pooled(deployment(replicas=4), engine="clusterAutoscaler", duration="2m"))
    (node,) = played.rows(NodeRecord)
    assert 10 <= node.requested < 12


def test_the_cluster_autoscaler_balances_the_zones_of_a_pool(tmp_path: Path) -> None:
    """Sixteen pods of a core need four machines: two in each zone, as auto scaling groups do it."""
    pool = {"zones": ["a", "b"]}
    played = play(tmp_path, pooled(deployment(replicas=16), engine="clusterAutoscaler", pool=pool, duration="2m"))
    assert sorted(row.zone for row in played.rows(NodeRecord)) == ["a", "a", "b", "b"]


def test_karpenter_takes_the_cheapest_machine_that_holds_the_batch(tmp_path: Path) -> None:
    """Six cores: one m8 for 0.36 an hour rather than two m4 for 0.40; four cores: an m4 on spot terms for 0.10."""
    types = {"instanceTypes": ["m4", "m8"], "capacityTypes": ["on-demand", "spot"]}
    six = play(tmp_path / "six", pooled(deployment(replicas=6), pool=types, duration="2m"))
    assert [(row.instance_type, row.capacity_type) for row in six.rows(NodeRecord)] == [("m8", "on-demand")]
    three = play(tmp_path / "three", pooled(deployment(replicas=3), pool=types, duration="2m"))
    assert [(row.instance_type, row.capacity_type) for row in three.rows(NodeRecord)] == [("m4", "spot")]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pool_does_not_grow_beyond_its_maximum(engine: str, tmp_path: Path) -> None:
    """The results say what stopped it."""
    pool = {"initial": 2, "max": 2}
    played = play(tmp_path, pooled(deployment(replicas=9), engine=engine, pool=pool, duration="3m"))
    assert len(played.rows(NodeRecord)) == 2
    assert sum(pod.end == "Pending" for pod in played.pods(WEB)) == 1
    loop = next(each for each in played.report.loops if each.loop in {"ScaleUp", "Provisioning"})
    assert loop.stopped_by
    assert loop.maximum == "2 nodes"


def test_karpenter_counts_nodes_between_its_rounds_only(tmp_path: Path) -> None:
    """Within a round it does not, upstream too: nine pods of one batch get three machines where two are allowed."""
    played = play(tmp_path, pooled(deployment(replicas=9), pool={"max": 2}, duration="3m"))
    assert len(played.rows(NodeRecord)) == 3


def test_without_an_engine_pools_keep_their_initial_nodes(tmp_path: Path) -> None:
    played = play(tmp_path, pooled(deployment(replicas=9), engine="none", pool={"initial": 2}, duration="2m"))
    assert [row.began for row in played.rows(NodeRecord)] == ["Initial", "Initial"]
    assert sum(pod.end == "Pending" for pod in played.pods(WEB)) == 1
    assert not played.rows(SupplyRecord)


# ---- shrinking -----------------------------------------------------------------------------------------------------


def test_the_cluster_autoscaler_removes_what_is_unneeded_for_ten_minutes(tmp_path: Path) -> None:
    """One pod on three nodes: the two empty ones go, at once when their time has come, and the minimum stays."""
    simulation = pooled(
        deployment(replicas=1), engine="clusterAutoscaler", pool={"min": 1, "initial": 3}, duration="20m"
    )
    played = play(tmp_path, simulation)
    gone = [row for row in played.rows(NodeRecord) if row.ended is not None]
    assert [row.end for row in gone] == ["Unneeded", "Unneeded"]
    for row in gone:
        assert row.disrupted is not None
        assert row.ended is not None
        assert 600 < row.disrupted < 625
        assert row.ended - row.disrupted == pytest.approx(5 + 30, abs=0.1)
    assert supply(played) == [("ScaleDown", -1, "Empty"), ("ScaleDown", -1, "Empty")]


def test_karpenter_consolidates_what_is_empty_after_fifteen_seconds(tmp_path: Path) -> None:
    """The budget of ten percent lets one node of three go at a time."""
    played = play(tmp_path, pooled(deployment(replicas=1), pool={"initial": 3}, duration="5m"))
    gone = [row for row in played.rows(NodeRecord) if row.ended is not None]
    assert [row.end for row in gone] == ["Empty", "Empty"]
    first, second = gone
    assert first.disrupted is not None
    assert second.disrupted is not None
    assert first.ended is not None
    assert 15 <= first.disrupted < 26
    assert second.disrupted >= first.disrupted + 5
    assert played.pods(WEB)[0].end == "Running"


def test_karpenter_moves_pods_off_an_underused_node(tmp_path: Path) -> None:
    """Two pods that were spread over two machines end up on one; the evicted one is made again first."""
    web = deployment(replicas=2)
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    played = play(tmp_path, pooled(web, pool={"initial": 2}, settings={"preferencePolicy": "Ignore"}, duration="6m"))
    gone = [row for row in played.rows(NodeRecord) if row.ended is not None]
    assert [row.end for row in gone] == ["Underutilized"]
    ends = sorted(pod.end for pod in played.pods(WEB))
    assert ends == ["Evicted", "Running", "Running"]


def test_a_budget_keeps_the_pod_on_its_node(tmp_path: Path) -> None:
    """Nothing may be evicted: the Cluster Autoscaler names the pod that blocks the removal."""
    simulation = pooled(
        deployment(replicas=1), BUDGET, engine="clusterAutoscaler", pool={"initial": 2}, duration="25m",
        faults=[{"at": "1s", "cordon": {"nodePool": "general", "count": 2}}],
    )  # fmt: skip
    played = play(tmp_path, simulation)
    assert played.pods(WEB)[0].end == "Running"
    assert any(row.reason == "BlockedByPod" and "shop/web" in row.message for row in played.rows(SupplyRecord))


def test_a_node_expires_whatever_runs_on_it(tmp_path: Path) -> None:
    """After three minutes it is emptied, and the pod gets another one."""
    pool = {"initial": 1, "disruption": {"expireAfter": "3m"}}
    played = play(tmp_path, pooled(deployment(replicas=1), pool=pool, duration="5m"))
    first, second = played.rows(NodeRecord)
    assert (first.end, first.disrupted) == ("Expired", 180)
    assert (second.began, second.end) == ("Provisioning", "Running")
    assert sorted(pod.end for pod in played.pods(WEB)) == ["Evicted", "Running"]


# ---- what goes wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stock_out_is_waited_for(engine: str, tmp_path: Path) -> None:
    """Machines can be had after four minutes; Karpenter asks again after three, the autoscaler backs off for five."""
    simulation = pooled(
        deployment(replicas=1), engine=engine, duration="12m", provider={"stockOuts": [{"at": "0s", "duration": "4m"}]}
    )
    played = play(tmp_path, simulation)
    assert ("ScaleUp" if engine == "clusterAutoscaler" else "Provisioning", 0, "OutOfStock") in supply(
        played, stopped=True
    )
    (pod,) = played.pods(WEB)
    assert pod.end == "Running"
    assert pod.ready is not None
    assert pod.ready > 240


def test_karpenter_takes_what_is_in_stock(tmp_path: Path) -> None:
    """Spot is cheaper and gone: the machine is had on demand."""
    pool = {"capacityTypes": ["on-demand", "spot"]}
    out = {"stockOuts": [{"at": "0s", "capacityType": "spot"}]}
    played = play(tmp_path, pooled(deployment(replicas=1), pool=pool, provider=out, duration="2m"))
    assert [row.capacity_type for row in played.rows(NodeRecord)] == ["on-demand"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_machine_that_never_registers_is_given_up_after_a_quarter_of_an_hour(engine: str, tmp_path: Path) -> None:
    """It is paid for meanwhile."""
    simulation = pooled(deployment(replicas=1), engine=engine, duration="17m", provider={"failures": 1})
    played = play(tmp_path, simulation)
    first = played.rows(NodeRecord)[0]
    assert first.end == "Failed"
    assert first.launched is not None
    assert first.ended is not None
    assert 900 < first.ended - first.launched < 960
    assert played.report.pools[0].failed >= 1
    assert played.report.cost is not None
    assert played.report.cost.total > 0.2 * 900 / 3600


@pytest.mark.parametrize("engine", ENGINES)
def test_spot_machines_are_emptied_before_they_are_taken_back(engine: str, tmp_path: Path) -> None:
    """The pod is evicted at the notice, and runs on a new machine."""
    simulation = pooled(
        deployment(replicas=1), engine=engine, pool={"capacityTypes": ["spot"]}, duration="30m",
        provider={"spot": {"interruptionsPerHour": 12}},
    )  # fmt: skip
    played = play(tmp_path, simulation)
    taken = [row for row in played.rows(NodeRecord) if row.end == "Interrupted"]
    assert taken
    assert played.report.pools[0].interrupted == len(taken)
    assert ("Interruption", -1, "SpotInterruption") in supply(played)
    assert played.pods(WEB)[-1].end == "Running"
    assert all(row.capacity_type == "spot" for row in played.rows(NodeRecord))


def test_what_was_taken_back_is_not_asked_for_again_for_three_minutes(tmp_path: Path) -> None:
    """The next machine is the dearer one on demand, unless none was taken back of late."""
    simulation = pooled(
        deployment(replicas=1), pool={"capacityTypes": ["spot", "on-demand"]}, duration="60m",
        provider={"spot": {"interruptionsPerHour": 12}},
    )  # fmt: skip
    played = play(tmp_path, simulation)
    notices = [row.seconds for row in played.rows(SupplyRecord) if row.loop == "Interruption"]
    asked = [row for row in played.rows(NodeRecord) if row.requested > 0]
    late = [any(0 < row.requested - notice <= 180 for notice in notices) for row in asked]
    assert any(late)
    assert not all(late)
    assert [row.capacity_type == "on-demand" for row in asked] == late


def test_nodes_that_come_and_go_for_ever_are_a_finding(tmp_path: Path) -> None:
    """A CronJob every four minutes whose node is consolidated in between."""
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report", "namespace": "shop"},
        "spec": {"schedule": "*/4 * * * *", "jobTemplate": {"spec": deployment()["spec"]}},
    }
    template = cron["spec"]["jobTemplate"]["spec"]["template"]  # type: ignore[index]
    template["spec"]["restartPolicy"] = "Never"
    cron["spec"]["jobTemplate"] = {"spec": {"template": template}}  # type: ignore[index]
    played = play(tmp_path, pooled(cron, duration="1h"))
    (finding,) = played.report.findings
    assert finding.startswith("pool general: nodes come and go: 1")


@pytest.mark.parametrize("engine", ["clusterAutoscaler", "karpenter"])
def test_no_pod_is_scheduled_before_its_node_takes_pods(tmp_path: Path, engine: str) -> None:
    """Pods tolerate not-ready:NoExecute, which goes later than NoSchedule; and who waited for a node waited for it."""
    boot = {"median": "24s", "sigma": "0.5"}
    played = play(tmp_path, pooled(deployment(replicas=30), engine=engine, duration="10m", provider={"boot": boot}))
    nodes = {node.node: node for node in played.rows(NodeRecord)}
    pods = [pod for pod in played.rows(PodRecord) if pod.node in nodes]
    assert len(pods) == 30
    assert len(nodes) > 1
    for pod in pods:
        ready = nodes[pod.node].ready
        assert ready is not None
        assert pod.scheduled is not None
        assert ready <= pod.scheduled
        assert pod.waiting.node > 0


def test_the_cluster_requests_what_pods_with_a_node_request(tmp_path: Path) -> None:
    """Twelve pods of a core want three times what the only node has: what is requested is what runs."""
    played = play(tmp_path, pooled(deployment(replicas=12), engine="none", pool={"initial": 1}, duration="2m"))
    for row in played.rows(ClusterSample):
        assert row.cpu_requested <= row.cpu_allocatable
        assert row.memory_requested <= row.memory_allocatable
    last = played.rows(ClusterSample)[-1]
    assert last.pending > 0
    assert last.cpu_requested > 0


# ---- what results say ----------------------------------------------------------------------------------------------


def test_cost_is_time_from_launch_to_the_end_of_the_machine(tmp_path: Path) -> None:
    """One machine of 0.20 an hour that was launched at 3 s or so and is there at the end."""
    played = play(tmp_path, pooled(deployment(replicas=1), duration="1h"))
    (node,) = played.rows(NodeRecord)
    assert node.launched is not None
    hours = (3600 - node.launched) / 3600
    cost = played.report.cost
    assert cost is not None
    assert cost.total == pytest.approx(0.2 * hours, abs=1e-6)
    assert cost.by_instance_type == {"m4": cost.total}
    assert cost.node_hours == pytest.approx(hours, abs=1e-6)
    assert played.report.pools[0].node_hours == cost.node_hours


def test_a_machine_costs_nothing_before_it_is_launched(tmp_path: Path) -> None:
    """It is asked for at 1 s and launched 65 s later; a second one is asked for when that of the other pool is gone."""
    simulation = pooled(deployment(replicas=5), pool={"weight": 10}, duration="90s", provider={"request": "65s"})
    other = {"name": "other", "instanceTypes": ["m4"], "initial": 1, "disruption": {"expireAfter": "20s"}}
    simulation["spec"]["nodePools"].append(other)
    rows = {(row.pool, row.seconds): (row.starting, row.cost) for row in play(tmp_path, simulation).rows(PoolSample)}
    assert (rows["general", 30], rows["general", 75]) == ((1, 0), (2, 0.2))


@pytest.mark.parametrize(
    ("volume", "found"),
    [
        ({"emptyDir": {}}, True),
        ({"emptyDir": {"medium": "Memory"}}, False),
        ({"hostPath": {"path": "/"}}, True),
        ({"configMap": {"name": "x"}}, False),
    ],
)
def test_what_is_in_memory_is_not_on_the_disk_of_the_node(volume: dict[str, Any], found: bool) -> None:
    """The Cluster Autoscaler moves such pods."""
    assert _is_local({"name": "x", **volume}) == found


def test_a_pool_strands_what_no_pod_can_have(tmp_path: Path) -> None:
    """Three cores of four are taken: the last one is of no use to a pod that wants 20 GiB."""
    web = deployment(replicas=1, resources={"requests": {"cpu": "3", "memory": "15Gi"}})
    small = deployment("small", replicas=1, resources={"requests": {"cpu": "1", "memory": "20Gi"}})
    small["spec"]["replicas"] = 0
    played = play(tmp_path, pooled(web, small, engine="none", pool={"initial": 1}, duration="2m"))
    last = played.rows(PoolSample)[-1]
    assert last.cpu_requested == 3
    assert last.cpu_stranded == 0, "the small one has never had a pod: nobody can tell"
    small["spec"]["replicas"] = 1
    played = play(tmp_path / "two", pooled(web, small, engine="none", pool={"initial": 1}, duration="2m"))
    last = played.rows(PoolSample)[-1]
    assert last.cpu_stranded == 1
    assert last.memory_stranded == 0


def test_each_loop_says_what_it_looks_at_and_how_late(tmp_path: Path) -> None:
    played = play(tmp_path, pooled(deployment(replicas=1), engine="clusterAutoscaler", duration="5m"))
    up, down = played.report.loops
    assert (up.loop, up.target, up.interval) == ("ScaleUp", "0", "10s, at once for a new unschedulable pod")
    assert up.delay == "pods must be 2s old; a machine takes 30s (median)"
    assert (up.decisions, down.decisions) == (1, 0)
    assert 25 <= up.runs <= 40
    assert down.target == "at most 50%"


def test_pods_of_daemon_sets_go_with_their_node_and_wait_for_nobody(tmp_path: Path) -> None:
    """Each new node gets one as soon as it is there; none of its waiting is anybody's decision."""
    agent = deployment("agent")
    agent["kind"] = "DaemonSet"
    del agent["spec"]["replicas"]
    agent["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    agent["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    web = deployment(replicas=4, resources={"requests": {"cpu": "3"}})
    pool = {"disruption": {"expireAfter": "4m"}}
    played = play(tmp_path, pooled(agent, web, pool=pool, duration="10m"))
    agents = played.pods("DaemonSet shop/agent")
    assert len(agents) >= 8
    assert {pod.end for pod in agents} == {"Running", "Deleted"}
    assert {pod.waiting[:3] for pod in agents} == {(0.0, 0.0, 0.0)}


# ---- at the edges --------------------------------------------------------------------------------------------------


def test_pods_that_die_with_their_machine_use_nothing_and_are_lost(tmp_path: Path) -> None:
    """A notice of ten seconds is too short where a budget keeps the pod: it is lost, and no ghost of it uses cpu."""
    simulation = pooled(
        deployment(replicas=1), BUDGET, engine="clusterAutoscaler",
        pool={"capacityTypes": ["spot"], "initial": 1}, duration="30m", demand=[visits(steps(("0s", 50)))],
        provider={"spot": {"interruptionsPerHour": 20, "notice": "10s"}},
    )  # fmt: skip
    played = play(tmp_path, simulation)
    ended = {row.node: row.ended for row in played.rows(NodeRecord) if row.ended is not None}
    assert ended
    lost = [pod for pod in played.pods(WEB) if pod.node in ended]
    assert lost
    assert {pod.end for pod in lost} <= {"NodeLost", "Evicted"}
    assert any(pod.end == "NodeLost" for pod in lost)
    for row in played.rows(PoolSample):
        assert row.cpu_used <= row.cpu_allocatable


def test_a_node_that_falls_silent_while_it_is_emptied_is_not_ready_and_not_leaving(tmp_path: Path) -> None:
    """A budget keeps its pods when it expires at a minute; it is known to be silent at two minutes."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    simulation = pooled(
        deployment(replicas=2), budget, pool={"initial": 1, "disruption": {"expireAfter": "60s"}}, duration="5m",
        faults=[{"at": "65s", "nodeLost": {"nodePool": "general", "count": 1}}],
    )  # fmt: skip
    played = play(tmp_path, simulation)
    rows = {row.seconds: (row.ready, row.leaving) for row in played.rows(PoolSample)}
    assert rows[75] == (0, 1)
    assert rows[120] == (1, 0), "the second node, for the pods of the first"


def test_a_command_that_fails_leaves_the_taint_on_a_node_that_is_going_for_another_reason(tmp_path: Path) -> None:
    """An m8 is to be replaced by an m4 that never registers; it expires meanwhile, and takes no pods after that."""
    simulation = pooled(
        deployment(replicas=1), pool={"weight": 10}, duration="16m", provider={"failures": 1, "shutdown": "15m"}
    )
    big = {"name": "big", "instanceTypes": ["m8"], "initial": 1, "disruption": {"expireAfter": "3m"}}
    simulation["spec"]["nodePools"].append(big)
    played = play(tmp_path, simulation)
    assert ("Consolidation", 0, "ReplacementFailed") in supply(played, stopped=True)
    assert [pod.node for pod in played.pods(WEB)] == ["big-1", ""]


def test_a_machine_that_gets_notice_while_it_boots_is_drained_once_it_registers(tmp_path: Path) -> None:
    """A node termination handler asks for notices that came before it ran."""
    simulation = pooled(
        deployment(replicas=1), engine="clusterAutoscaler", pool={"capacityTypes": ["spot"]}, duration="20m",
        provider={"boot": {"median": "5m", "sigma": 0}, "spot": {"interruptionsPerHour": 15, "notice": "10m"}},
    )  # fmt: skip
    played = play(tmp_path, simulation)
    noticed = [row for row in played.rows(SupplyRecord) if row.loop == "Interruption"]
    early = [
        row for row in played.rows(NodeRecord)
        if row.disrupted is not None and row.registered is not None and row.disrupted == row.registered
    ]  # fmt: skip
    assert early
    assert {row.node for row in early} <= {row.message for row in noticed}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_node_that_is_silent_when_it_would_become_ready_is_ready_when_it_is_heard_again(
    engine: str, tmp_path: Path
) -> None:
    """The machine registers at 27 or 36 s and is silent from there until 100 s."""
    at = "37s" if engine == "clusterAutoscaler" else "28s"
    simulation = pooled(
        deployment(replicas=1), engine=engine, duration="5m",
        faults=[{"at": at, "duration": "70s", "nodeLost": {"nodePool": "general", "count": 1}}],
    )  # fmt: skip
    played = play(tmp_path, simulation)
    node = played.rows(NodeRecord)[0]
    assert node.registered is not None
    assert node.registered < int(at[:-1]) < node.registered + 4
    assert node.ready is not None
    assert 98 < node.ready < 130


def test_a_claim_that_never_registers_holds_no_place_while_its_machine_shuts_down(tmp_path: Path) -> None:
    """It is deleted after a quarter of an hour: the pod's next round does not wait for the five minutes after that."""
    simulation = pooled(
        deployment(replicas=1), duration="17m", provider={"failures": 1, "shutdown": "5m"},
    )  # fmt: skip
    played = play(tmp_path, simulation)
    first, second = sorted(played.rows(NodeRecord), key=lambda row: row.requested)[:2]
    assert first.end == "Failed" or first.ended is None
    assert 900 < second.requested < 915


def test_a_batch_that_closes_while_a_machine_is_being_launched_is_asked_for_again(tmp_path: Path) -> None:
    """Karpenter's state is not synced then, and the batch is gone: the pod of 60 s asks again at 70 s."""
    pod = {**deployment()["spec"]["template"]["spec"], "restartPolicy": "Never"}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report", "namespace": "shop"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }
    played = play(tmp_path, pooled(deployment(replicas=4), cron, duration="90s", provider={"request": "65s"}))
    first, second = sorted(played.rows(NodeRecord), key=lambda row: row.requested)[:2]
    assert 1 <= first.requested < 2
    assert 71 <= second.requested < 72


def test_what_a_machine_ran_before_the_run_counts_for_its_minimum_bill(tmp_path: Path) -> None:
    """Launched half a minute before the run begins, and gone before it is a minute old."""
    pool = {"disruption": {"expireAfter": "50s"}}
    simulation = pooled(
        deployment(replicas=1), pool=pool, duration="20s", settle="40s",
        provider={"boot": {"median": "1s", "sigma": 0}, "minimumBill": "60s"},
    )  # fmt: skip
    played = play(tmp_path, simulation)
    first = played.rows(NodeRecord)[0]
    assert first.launched is not None
    assert first.launched < 0
    cost = played.report.cost
    assert cost is not None
    launched = [row.launched for row in played.rows(NodeRecord) if row.launched is not None]
    wanted = sum(max(20 - max(each, 0), 60 + min(each, 0)) for each in launched)
    assert cost.total == pytest.approx(0.2 * wanted / 3600, abs=1e-6)


def test_the_price_expander_has_prices_of_pods(tmp_path: Path) -> None:
    """The same machine on spot terms costs half as much, wherever its pool stands."""
    simulation = pooled(
        deployment(replicas=2), engine="clusterAutoscaler", settings={"expander": ["price"]}, duration="2m"
    )
    pools = [{"name": name, "instanceTypes": ["m4"]} for name in ("cheap", "dear")]
    pools[0]["capacityTypes"] = ["spot"]
    for number, order in enumerate((pools, pools[::-1])):
        simulation["spec"]["nodePools"] = order
        assert [row.pool for row in play(tmp_path / str(number), simulation).rows(NodeRecord)] == ["cheap"]


@pytest.mark.parametrize("expander", [["price", "price"], ["random", "price"]])
def test_expanders_that_the_cluster_autoscaler_would_not_start_with_are_an_error(
    expander: list[str], tmp_path: Path
) -> None:
    simulation = pooled(deployment(), engine="clusterAutoscaler", settings={"expander": expander})
    with pytest.raises(InputError, match=r"expander: price (occurs twice|comes after random)"):
        play(tmp_path, simulation)


def test_karpenter_disrupts_nothing_while_a_machine_is_being_launched(tmp_path: Path) -> None:
    """Its state is not synced until 66 s; what has been empty for 5 s by 10 s goes 15 s after that."""
    web = deployment(replicas=1, resources={"requests": {"cpu": "6"}})
    pool = {"instanceTypes": ["m4", "m8"], "initial": 1, "disruption": {"consolidateAfter": "5s"}}
    played = play(tmp_path, pooled(web, pool=pool, duration="2m", provider={"request": "65s"}))
    empty = next(row for row in played.rows(NodeRecord) if row.began == "Initial")
    assert empty.end == "Empty"
    assert empty.disrupted is not None
    assert 66 + 15 <= empty.disrupted < 66 + 15 + 2


def test_a_group_that_loses_spot_machines_keeps_its_minimum(tmp_path: Path) -> None:
    """The autoscaler does not care for minima; the group replaces what was taken."""
    simulation = pooled(
        deployment(replicas=1), engine="clusterAutoscaler", pool={"min": 2, "capacityTypes": ["spot"]},
        duration="40m", provider={"spot": {"interruptionsPerHour": 6, "notice": "30s"}},
    )  # fmt: skip
    played = play(tmp_path, simulation)
    ends = [row.ended for row in played.rows(NodeRecord) if row.end == "Interrupted"]
    assert ends
    assert ("Interruption", 1, "Replaced") in supply(played)
    calm = [
        row.ready
        for row in played.rows(PoolSample)
        if not any(end is not None and end - 31 <= row.seconds <= end + 45 for end in ends)
    ]
    assert len(calm) > 40
    assert all(ready >= 2 for ready in calm)
