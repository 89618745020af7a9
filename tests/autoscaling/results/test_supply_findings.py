"""Sentences about a supply that does not come, by hand."""

from __future__ import annotations

from stowplan_autoscaling.experiment.findings import findings_of
from stowplan_autoscaling.results import ClusterSample, NodeRecord, PodRecord, SupplyRecord, Waiting
from stowplan_autoscaling.results.supply_findings import SupplyFindings

HOUR = 3600.0


def sample(seconds: float, pending: int) -> ClusterSample:
    """The cluster with so many pods that have no node."""
    return ClusterSample(seconds, 0, 0, 0, pending, pending, 0.0, 0.0, 0.0, 0, 0, 0)


def refused(seconds: float) -> SupplyRecord:
    """A machine that could not be had."""
    return SupplyRecord(seconds, "Provisioning", "a", 0, 0, "OutOfStock", True, "no m can be had")


def machine(launched: float, end: str = "Failed", registered: float | None = None, pool: str = "a") -> NodeRecord:
    """One that was asked for."""
    times = (launched - 2, launched, registered, registered, None, launched + 930)
    return NodeRecord("n", pool, "m", "", "on-demand", 1.0, *times, "Provisioning", end)


def pod(key: str, scheduled: float | None, ended: float | None = None) -> PodRecord:
    """One that was made at 0 s."""
    return PodRecord(key, "", "", 0.0, scheduled, None, None, ended, "Pending", 1, 0, Waiting())


def test_a_total_stock_out_is_told_with_its_length_and_who_waited() -> None:
    """From one hour to half past one; three pods waited, from 70 minutes on."""
    findings = SupplyFindings([(HOUR, 1.5 * HOUR)])
    for seconds, pending in ((0, 9), (60, 0), (4200, 3), (5000, 1), (6000, 4)):
        findings.take_cluster(sample(seconds, pending))
    assert findings.texts(2 * HOUR) == ()
    findings.take_supply(refused(4201))
    assert findings.texts(2 * HOUR) == (
        (
            "no machine of any pool could be had from 1h on, for 30 min in all; pods that waited for a node: up "
            "to 3 at once, 20 min of that time; another instance type, zone or capacity type would help"
        ),
    )
    (early,) = findings.texts(4500.0)
    assert "for 15 min in all; pods that waited for a node: up to 3 at once, 5 min of that time" in early


def test_several_total_stock_outs_are_one_sentence() -> None:
    """The one in which nobody wanted a machine is none of it."""
    findings = SupplyFindings([(0.0, 600.0), (1000.0, 1300.0), (2000.0, 2300.0)])
    for seconds, pending in ((0, 0), (1000, 2), (1240, 0), (2100, 5)):
        findings.take_cluster(sample(seconds, pending))
    findings.take_supply(refused(1100))
    findings.take_supply(refused(2150))
    assert findings.texts(HOUR)[0].startswith(
        "no machine of any pool could be had 2 times, for 10 min in all; pods that waited for a node: up to 5 at once, "
        "7 min of that time"
    )


def test_machines_that_never_register_are_told_unless_one_of_the_pool_does() -> None:
    """Pool a lost two that way and pool b one of two."""
    findings = SupplyFindings()
    findings.take_cluster(sample(0, 4))
    findings.take_node(machine(600))
    findings.take_node(machine(1600))
    findings.take_node(machine(600, pool="b"))
    findings.take_node(machine(700, end="Running", registered=720, pool="b"))
    findings.take_node(machine(600, end="Empty", pool="c"))
    assert findings.texts(HOUR) == (
        (
            "pool a: no new machine became a node, for 50 min; launched, and given up after 15 min without a sign of "
            "it: 2; pods that waited for a node: up to 4 at once"
        ),
    )


def test_pods_that_no_pool_can_take_are_told_by_workload() -> None:
    """One of them got a node of no pool after ten minutes, one is still there after an hour; others waited briefly."""
    findings = SupplyFindings()
    why = {"a": "requests more cpu than m has", "b": "does not tolerate x=y:NoSchedule", "c": "z", "d": "z"}
    for key in ("s/1", "s/2"):
        findings.cannot_take(key, "Deployment s/web", 0.0, why)
    findings.cannot_take("s/3", "Deployment s/quick", 0.0, why)
    findings.take_pod(pod("s/1", 600.0))
    findings.take_pod(pod("s/3", 59.0))
    findings.take_pod(pod("s/4", 500.0))
    wanted = (
        (
            "no pool can take pods of Deployment s/web: a: requests more cpu than m has; b: does not tolerate "
            "x=y:NoSchedule; c: z; and 1 other pool; pods that waited for a node: 2 in all, the longest for "
            "60 min"
        ),
    )
    assert findings.texts(HOUR) == wanted
    findings.take_pod(pod("s/2", None))
    assert findings.texts(HOUR) == wanted, "its row at the end of the run"


def test_what_is_so_with_several_seeds_is_one_finding_with_ranges() -> None:
    """One pod that waited for 10 min, and two for up to 61 min."""
    texts = {}
    for seed, waits in ((1, [600.0]), (2, [900.0, 3660.0])):
        findings = SupplyFindings()
        for number, wait in enumerate(waits):
            findings.cannot_take(f"s/{number}", "Job s/night", 0.0, {"a": "asks for other labels of nodes"})
            findings.take_pod(pod(f"s/{number}", wait))
        texts[seed] = findings.texts(HOUR)
    (finding,) = findings_of(texts)
    assert finding.text == (
        "no pool can take pods of Job s/night: a: asks for other labels of nodes; pods that waited for a node: 1 to 2 "
        "in all, the longest for 10 to 61 min"
    )
    assert finding.seeds == (1, 2)
