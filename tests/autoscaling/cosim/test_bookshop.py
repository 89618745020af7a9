"""The example in examples/bookshop, as far as a test has time: its first hours, and the command that runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from stowplan_autoscaling.cosim import run
from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.results import MemorySink, RunReport
from stowplan_operator.cli import cli

FILE = Path(__file__).parents[3] / "examples" / "bookshop" / "simulation.yaml"
HOUR = 3600 * 10**9


@pytest.fixture(scope="module")
def report() -> RunReport:
    """Two hours of the night."""
    return run(load_simulation(str(FILE), duration=2 * HOUR), sink=MemorySink())


def test_the_storefront_serves_the_night_with_its_least_pods(report: RunReport) -> None:
    """60 to 90 requests a second of 12 ms are a core; 4 pods are meant for 1.2."""
    (storefront,) = [each for each in report.workloads if each.workload == "Deployment bookshop/storefront"]
    assert storefront.ready.final == 4
    (visits,) = [each for each in report.services if each.demand == "visits"]
    assert 60 * 7200 < visits.offered < 110 * 7200
    assert visits.served / visits.offered > 0.99
    assert visits.latency is not None
    assert 0.03 < visits.latency < 0.1


def test_packed_image_jobs_need_fewer_machines(report: RunReport) -> None:
    """The candidate that spreads them keeps more of the batch pool busy, and pays for it."""
    spread = run(load_simulation(str(FILE), duration=2 * HOUR, candidate="default"), sink=MemorySink())
    packed, other = ({pool.pool: pool for pool in each.pools}["batch"] for each in (report, spread))
    assert packed.node_hours < other.node_hours
    assert packed.cpu_requested.mean > other.cpu_requested.mean


def test_the_command_runs_it(tmp_path: Path) -> None:
    """With a results folder and tables that name what matters."""
    arguments = ["simulate", "-f", str(FILE), "--duration", "30m", "--results", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, arguments, prog_name="stowplan")
    assert result.exit_code == 0, result.output
    for text in ("Deployment bookshop/storefront", "fast-pages", "storefront-starts", "contention", "image-resize"):
        assert text in result.stdout
    assert (tmp_path / "out" / "summary.json").is_file()
    assert len((tmp_path / "out" / "pods.csv").read_text().splitlines()) > 50
