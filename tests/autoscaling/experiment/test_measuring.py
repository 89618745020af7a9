"""What runs are measured by: waiting, elasticity, flapping, curves; by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan_autoscaling.experiment.cell import COMPLETE, finished, run_cell
from stowplan_autoscaling.experiment.elasticity import NodeLife, elasticity, node_flapping, node_lives, turns
from stowplan_autoscaling.experiment.measuring import (
    _costs,
    _ready_times,
    _replicas,
    read_measures,
    scaled_by,
    stranded,
)
from stowplan_autoscaling.experiment.pending import Step, Wait, pending_quantile, pending_times, survival
from stowplan_autoscaling.experiment.run_tables import DamagedTableError, Held, check_tables, read_rows
from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.resources.measures import measure_of
from stowplan_autoscaling.results import NullSink, Recorder, RunHeader, RunReport, read_summary
from stowplan_autoscaling.results.records import MEASURES_FILE
from stowplan_autoscaling.results.report import CostReport, InputsReport, Level
from support.optional import some
from support.simulations import small, write


def over(*seconds: float) -> list[Wait]:
    return [Wait(each, is_over=True) for each in seconds]


def still(*seconds: float) -> list[Wait]:
    return [Wait(each, is_over=False) for each in seconds]


def report(duration: float) -> RunReport:
    """Of a run in which nothing happened."""
    inputs = InputsReport(name="a", digest="d", seed=0, start="2026-01-05T00:00:00Z", version="0", kubernetes="v1.37.2")
    return Recorder(RunHeader(inputs=inputs, duration=duration), NullSink()).report(duration, complete=True)


# ---- waiting ---------------------------------------------------------------------------------------------------------


def test_without_pods_that_wait_on_the_curve_is_the_share_that_waits() -> None:
    """Four pods: after 1 s three quarters wait, after 2 s (two pods) a quarter, after 8 s none."""
    assert survival(over(1, 2, 2, 8)) == [Step(1, 0.75), Step(2, 0.25), Step(8, 0)]


def test_pods_that_wait_on_count_as_long_as_they_are_seen() -> None:
    """Kaplan-Meier by hand: 5 pods; one is bound at 1 s (4/5); one is last seen at 2 s; at 3 s one of three is bound
    (4/5 x 2/3); one is last seen at 4 s; at 5 s the last is bound.
    """
    waits = [*over(1, 3, 5), *still(2, 4)]
    steps = survival(waits)
    assert [step.seconds for step in steps] == [1, 3, 5]
    assert [step.share for step in steps] == pytest.approx([0.8, 0.8 * 2 / 3, 0])
    assert pending_quantile(waits, 0.2) == 1
    assert pending_quantile(waits, 0.5) == 5


def test_a_quantile_that_was_not_reached_is_at_least_the_longest_wait() -> None:
    """Half of the pods never get a node: of 95 % nothing is known but this."""
    assert pending_quantile([*over(1, 2), *still(90, 100)], 0.95) == 100
    assert pending_quantile([], 0.5) is None


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.sampled_from([0.5, 0.95, 0.99]))
def test_without_censoring_a_quantile_is_the_nearest_rank(seconds: list[int], share: float) -> None:
    """The smallest time by which that share has a node."""
    found = some(pending_quantile(over(*seconds), share))
    assert sum(each <= found for each in seconds) >= share * len(seconds) - 1e-9
    assert sum(each < found for each in seconds) < share * len(seconds)


def test_a_pod_that_was_removed_waited_until_then(tmp_path: Path) -> None:
    """Made at 10 s, gone at 30 s without a node; another one waits from 40 s to the end of the run."""
    (tmp_path / "pods.csv").write_text("created,scheduled,ended\n10,,30\n40,,\n50,53,90\n")
    assert pending_times(str(tmp_path), 100.0) == [*still(20, 60), *over(3)]


def test_the_wait_for_readiness_begins_with_the_change_of_demand(tmp_path: Path) -> None:
    """1 + 2 + 4 s before the pod was made at 10 s; it was ready at 20 s, the other one never."""
    (tmp_path / "pods.csv").write_text(
        "created,ready,waiting_metric,waiting_autoscaler,waiting_controller\n10,20,1,2,4\n10,,1,2,4\n"
    )
    assert _ready_times(str(tmp_path)) == [17]


# ---- elasticity ------------------------------------------------------------------------------------------------------


def test_elasticity_is_what_was_missing_and_what_was_too_much() -> None:
    """100 s: 4 wanted, 2 ready for 50 s (half missing); then 2 wanted and 3 ready for 50 s (half too many)."""
    found = some(elasticity(Held.of([(0, 4), (50, 2)]), Held.of([(0, 2), (50, 3)]), 100))
    assert (found.under, found.over) == (0.25, 0.25)
    assert (found.under_time, found.over_time) == (0.5, 0.5)


def test_instability_is_the_time_in_which_supply_goes_another_way() -> None:
    """Three spans of 10 s: demand rises, supply stays; demand stays, supply rises; neither moves."""
    demanded, supplied = Held.of([(0, 1), (10, 2)]), Held.of([(0, 1), (10, 1), (20, 2)])
    assert some(elasticity(demanded, supplied, 30)).instability == pytest.approx(2 / 3)


def test_supply_that_follows_demand_at_once_is_perfect() -> None:
    """Zero everywhere."""
    held = Held.of([(0, 3), (10, 7), (20, 1)])
    assert some(elasticity(held, held, 60)) == (0, 0, 0, 0, 0)
    assert elasticity(Held.of([]), held, 60) is None


@pytest.mark.parametrize(
    ("values", "count"),
    [([1, 2, 3], 0), ([1, 2, 1], 1), ([1, 2, 2, 1, 1, 2], 2), ([], 0), ([5], 0), ([3, 2, 2, 1], 0)],
)
def test_flapping_counts_changes_of_direction(values: list[float], count: int) -> None:
    """Standing still is none."""
    assert turns(values) == count


def test_a_node_soon_after_another_one_went_flaps() -> None:
    """In the same pool, within ten minutes; replacements and first nodes do not count."""
    lives = [
        NodeLife("a", 0, 1000, "Initial"),
        NodeLife("a", 1500, None, "ScaleUp"),
        NodeLife("a", 1601, None, "ScaleUp"),
        NodeLife("b", 1500, None, "ScaleUp"),
        NodeLife("a", 1200, None, "Replacement"),
        NodeLife("a", 900, None, "Provisioning"),
    ]
    assert node_flapping(lives) == 1


def test_a_node_goes_when_somebody_begins_to_empty_it(tmp_path: Path) -> None:
    """Not when it is gone; one that nobody emptied goes at its end."""
    (tmp_path / "nodes.csv").write_text(
        "pool,requested,disrupted,ended,began\na,0,100,900,ScaleUp\na,0,,900,ScaleUp\na,0,,,ScaleUp\n"
    )
    assert [life.going for life in node_lives(str(tmp_path))] == [100, 900, None]


# ---- numbers over time -----------------------------------------------------------------------------------------------


def test_a_curve_is_the_mean_of_each_part() -> None:
    """2 for 5 s, then 4: of four parts of 5 s, the first is 2, the others 4; of two parts the first is 3."""
    held = Held.of([(0, 2), (5, 4)])
    assert held.curve(20, 4) == (2, 4, 4, 4)
    assert held.curve(20, 2) == (3, 4)
    assert held.mean(0, 10) == 3


def test_rates_hold_since_the_row_before() -> None:
    """6 units in the first 10 s, 0 in the next."""
    held = Held.since_before([(0, 0), (10, 0.6), (20, 0)])
    assert held.mean(0, 10) == pytest.approx(0.6)
    assert held.mean(10, 20) == 0


def test_nothing_over_time_is_zero() -> None:
    """A table that is not there."""
    assert Held.of([]).curve(10, 2) == (0, 0)
    assert list(Held.of([]).at(np.asarray([1.0]))) == [0]


def test_rows_of_a_table_are_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    """A table that is not there has none; a column that is not there is an error."""
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    assert list(read_rows(str(tmp_path), "t.csv", "c", "a")) == [("3", "1"), ("6", "4")]
    assert list(read_rows(str(tmp_path), "none.csv", "c")) == []
    with pytest.raises(ValueError, match="no column d"):
        list(read_rows(str(tmp_path), "t.csv", "d"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage\n", "t.csv: no column a"),
        ("", "t.csv: no column a"),
        ("a,b\n1,2\n3\n", "t.csv: line 3 has 1 columns, the header has 2"),
        ("a,b\n1,2\n\udcff,3\n", "t.csv: line 1 cannot be read: 'utf-8' codec"),
    ],
)
def test_a_damaged_table_is_named_with_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    """Whatever somebody wrote into it."""
    (tmp_path / "t.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DamagedTableError, match=re.escape(message)):
        list(read_rows(str(tmp_path), "t.csv", "a"))


def test_what_is_stranded_is_a_share_of_the_time_with_nodes(tmp_path: Path) -> None:
    """Two pools, 10 s each: 1 of 4 + 0 of 4 cores, none of none, then 2 of 4; so (1/8 + 1/2) / 2."""
    (tmp_path / "series").mkdir()
    (tmp_path / "series" / "pools.csv").write_text(
        "seconds,pool,cpu_stranded,cpu_allocatable,memory_stranded,memory_allocatable\n"
        "0,a,1,4,0,0\n0,b,0,4,0,0\n10,a,0,0,0,0\n10,b,0,0,0,0\n20,a,2,4,0,0\n20,b,0,0,0,0\n"
    )
    assert dict(stranded(str(tmp_path), 30.0)) == {"stranded.cpu": pytest.approx(0.3125)}


def test_a_month_costs_what_the_time_that_was_reached_did() -> None:
    """Half an hour of an hour for 3: 1,460 of them are a month."""
    cost = CostReport(
        currency="USD",
        total=3.0,
        hourly=Level(),
        node_hours=1.0,
        by_pool={},
        by_instance_type={},
        by_capacity_type={},
        commitments=0.0,
        curve=(),
    )
    found = dict(_costs(replace(report(3600.0), reached=1800.0, cost=cost)))
    assert found["costPerMonth"] == pytest.approx(4380)


@pytest.mark.parametrize(("targets", "wanted"), [({"shop/web": "Deployment shop/web"}, 2), ({}, 5)])
def test_replicas_are_those_that_are_scaled(tmp_path: Path, targets: dict[str, str], wanted: float) -> None:
    """Where nothing is, those that run for ever: 2 and 3, without the Job."""
    (tmp_path / "series").mkdir()
    (tmp_path / "series" / "workloads.csv").write_text(
        "seconds,workload,replicas,ready\n0,Deployment shop/web,2,2\n0,Deployment shop/api,3,3\n0,Job shop/once,7,7\n"
    )
    curves = list(_replicas(str(tmp_path), report(120.0), targets))
    assert [set(curve.values) for curve in curves] == [{wanted}, {wanted}]


# ---- a run -----------------------------------------------------------------------------------------------------------


def test_a_run_is_measured_where_it_ran(tmp_path: Path) -> None:
    """Its numbers stand beside its results, each under the name of a measure."""
    loaded = load_simulation(write(tmp_path, small()))
    folder = tmp_path / "out"
    assert run_cell(loaded, str(folder)).state == COMPLETE
    found = some(read_measures(str(folder)))
    assert (found.digest, found.seed) == (loaded.digest, 0)
    assert [name for name in found.values if measure_of(name) is None] == []
    assert found.values["nodes.mean"] == 2
    assert found.values["nodeHours"] == pytest.approx(2 / 6)
    assert found.values["attempts"] == read_summary(str(folder)).scheduling.attempts
    assert found.values["neverScheduled"] == 0
    names = [curve.name for curve in found.curves]
    assert names[:6] == ["demand.visits", "served.visits", "replicas", "ready", "pending", "nodes"]
    assert {len(curve.values) for curve in found.curves} == {120}
    assert sum(found.curves[0].values) * 5 == pytest.approx(10 * 600, rel=0.02)


def test_a_run_that_is_there_is_measured_again_where_its_measures_are_missing(tmp_path: Path) -> None:
    """To the same bytes."""
    loaded = load_simulation(write(tmp_path, small()))
    folder = tmp_path / "out"
    run_cell(loaded, str(folder))
    before = (folder / MEASURES_FILE).read_bytes()
    (folder / MEASURES_FILE).unlink()
    assert finished(str(folder), loaded) is not None
    assert (folder / MEASURES_FILE).read_bytes() == before


@pytest.mark.parametrize("is_measured", [True, False])
def test_a_run_with_a_damaged_table_runs_again(tmp_path: Path, is_measured: bool) -> None:
    """Rather than stop whoever compares."""
    loaded = load_simulation(write(tmp_path, small()))
    folder = tmp_path / "out"
    run_cell(loaded, str(folder))
    (folder / "pods.csv").write_text("garbage\n")
    if not is_measured:
        (folder / MEASURES_FILE).unlink()
    assert finished(str(folder), loaded) is None
    assert run_cell(loaded, str(folder)).state == COMPLETE
    assert finished(str(folder), loaded) is not None


def test_a_cell_that_is_no_number_is_found(tmp_path: Path) -> None:
    """In all tables of a run; texts may be anything."""
    loaded = load_simulation(write(tmp_path, small()))
    run_cell(loaded, str(tmp_path / "out"))
    check_tables(str(tmp_path / "out"))
    path = tmp_path / "out" / "series" / "cluster.csv"
    lines = path.read_text().splitlines()
    lines[2] = "x" + lines[2]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DamagedTableError, match=r'cluster.csv: row 2: seconds: "x\d+" is no number'):
        check_tables(str(tmp_path / "out"))


def test_only_a_finished_run_of_the_same_simulation_counts(tmp_path: Path) -> None:
    """Not one of another seed, nor one that was interrupted."""
    path = write(tmp_path, small())
    loaded, other = load_simulation(path), load_simulation(path, seed=8)
    run_cell(loaded, str(tmp_path / "out"))
    assert finished(str(tmp_path / "out"), loaded) is not None
    assert finished(str(tmp_path / "out"), other) is None
    assert finished(str(tmp_path / "none"), loaded) is None
    assert run_cell(loaded, str(tmp_path / "cut"), stop=lambda: True).state == "interrupted"
    assert finished(str(tmp_path / "cut"), loaded) is None


def test_a_run_that_never_settles_has_failed(tmp_path: Path) -> None:
    """With the bound that was passed."""
    simulation = small()
    simulation["spec"]["bounds"] = {"pods": 1}
    found = run_cell(load_simulation(write(tmp_path, simulation)), str(tmp_path / "out"))
    assert (found.state, found.message) == ("failed", "spec.bounds.pods: more than 1 pods exist")


def test_a_folder_with_something_else_fails_the_run(tmp_path: Path) -> None:
    """Nothing in it is touched."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    found = run_cell(load_simulation(write(tmp_path, small())), str(tmp_path / "out"))
    assert found.state == "failed"
    assert found.message.endswith("out: holds notes.txt and no earlier result: name an empty or a new folder")


def test_autoscalers_are_known_by_what_they_scale(tmp_path: Path) -> None:
    """As the tables name both."""
    simulation = small()
    simulation["spec"]["workloads"]["objects"][1] = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "so", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"name": "web"},
            "minReplicaCount": 1,
            "triggers": [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}],
        },
    }
    assert scaled_by(load_simulation(write(tmp_path, small()))) == {"shop/web": "Deployment shop/web"}
    found = scaled_by(load_simulation(write(tmp_path, simulation, "keda.yaml")))
    assert found == {"shop/keda-hpa-so": "Deployment shop/web"}
