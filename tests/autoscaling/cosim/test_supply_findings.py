"""What whole runs say of a supply that does not come: one sentence each, with its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaling.cosim.scenes import deployment, play
from autoscaling.cosim.test_supply import ENGINES, pooled


@pytest.mark.parametrize("engine", ENGINES)
def test_a_total_stock_out_is_a_finding(engine: str, tmp_path: Path) -> None:
    """Four minutes in which nothing can be had, and two pods that wait; with another zone there is none."""
    out = {"stockOuts": [{"at": "0s", "duration": "4m", "zone": "a"}]}
    simulation = pooled(deployment(replicas=2), engine=engine, pool={"zones": ["a"]}, duration="12m", provider=out)
    (finding,) = play(tmp_path / "one", simulation).report.findings
    assert finding == (
        "no machine of any pool could be had from 0s on, for 4 min in all; pods that waited for a node: up to 2 "
        "at once, 4 min of that time; another instance type, zone or capacity type would help"
    )
    simulation["spec"]["nodePools"][0]["zones"] = ["a", "b"]
    assert play(tmp_path / "two", simulation).report.findings == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pool_whose_machines_never_register_is_a_finding(engine: str, tmp_path: Path) -> None:
    """The second machine is asked for after a quarter of an hour, and is still on its way at the end."""
    played = play(tmp_path, pooled(deployment(), engine=engine, duration="20m", provider={"failures": 1}))
    (finding,) = played.report.findings
    assert finding == (
        "pool general: no new machine became a node, for 20 min; launched, and given up after 15 min without a "
        "sign of it: 1; pods that waited for a node: up to 1 at once"
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_pods_that_no_pool_can_take_are_a_finding(engine: str, tmp_path: Path) -> None:
    """Six cores on machines of four; the pod of one core that came along runs."""
    big = deployment("big", replicas=2, resources={"requests": {"cpu": "6"}})
    played = play(tmp_path, pooled(big, deployment(), engine=engine, duration="10m"))
    assert played.report.findings == (
        (
            "no pool can take pods of Deployment shop/big: general: requests more cpu than m4 has; pods that waited "
            "for a node: 2 in all, the longest for 10 min"
        ),
    )


def test_pods_that_nodes_of_no_pool_take_are_no_finding(tmp_path: Path) -> None:
    """A node of sixteen cores is there for them."""
    big = deployment("big", replicas=2, resources={"requests": {"cpu": "6"}})
    simulation = pooled(big, duration="5m")
    group = {"name": "fixed", "count": 1, "capacity": {"cpu": "16", "memory": "64Gi"}}
    simulation["spec"]["cluster"] = {"nodeGroups": [group]}
    assert play(tmp_path, simulation).report.findings == ()


def test_where_nobody_buys_nodes_nothing_is_said_about_what_could_be_bought(tmp_path: Path) -> None:
    """Pools without an engine are but nodes."""
    big = deployment("big", replicas=2, resources={"requests": {"cpu": "6"}})
    out = {"stockOuts": [{"at": "0s"}]}
    simulation = pooled(big, engine="none", pool={"initial": 1}, duration="5m", provider=out)
    assert play(tmp_path, simulation).report.findings == ()
