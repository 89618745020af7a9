"""Two workers of one group: one acts, the other takes over, and no pod is lost or bound twice on the way."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.worker_bench import Bench, Load, bound_once, open_bench
from integration.worker_process import FAST_LEASE, WorkerProcess

pytestmark = [pytest.mark.rig, pytest.mark.slow]

DURATION: Final = float(FAST_LEASE["leaseDurationSeconds"])
RETRY: Final = 1.2 * FAST_LEASE["retryPeriodSeconds"]
SLACK: Final = 5.0
"""Seconds that a machine with other things to do may be late."""


@pytest.fixture(scope="module")
def bench(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with open_bench(rig, tmp_path_factory.mktemp("takeover")) as made:
        yield made


def seconds_until_it_leads(worker: WorkerProcess, since: float) -> float:
    worker.wait_leading()
    return time.monotonic() - since


def test_the_second_worker_takes_over_within_the_lease_when_the_first_is_killed(bench: Bench, tmp_path: Path) -> None:
    with Load(bench.plane, "orphaned") as load, bench.worker(tmp_path, "first") as first:
        first.wait_leading()
        with bench.worker(tmp_path, "second") as second:
            second.wait_ready()
            load.wait_created(10)
            assert not second.status()["leading"]
            first.kill()
            assert seconds_until_it_leads(second, time.monotonic()) < DURATION + RETRY + SLACK
            assert second.status()["epoch"] == 1
            bound_once(bench, second, load, answers_lost=True)


def test_a_worker_that_is_asked_to_end_hands_over_at_once(bench: Bench, tmp_path: Path) -> None:
    """It answers for what it has sent, gives the Lease back and ends with 0."""
    with Load(bench.plane, "handed-over", rate=100) as load, bench.worker(tmp_path, "first") as first:
        first.wait_leading()
        with bench.worker(tmp_path, "second") as second:
            second.wait_ready()
            load.wait_created(20)
            assert first.stop() == 0
            assert seconds_until_it_leads(second, time.monotonic()) < RETRY + SLACK
            assert first.records()[-1]["msg"] == "stopped"
            load.wait_created(20)
            bound_once(bench, second, load)
            # Whatever the first one had assumed, it saw to its end.
            moments = [record["moment"] for record in first.records() if "moment" in record]
            assert moments.count("assumed") == moments.count("bound") > 0


def test_a_worker_that_hangs_loses_its_lease_and_follows_when_it_goes_on(bench: Bench, tmp_path: Path) -> None:
    """Nothing that it had in mind before is sent any more: the new leader's pods are not touched."""
    with Load(bench.plane, "hung", rate=100) as load, bench.worker(tmp_path, "first") as first:
        first.wait_leading()
        with bench.worker(tmp_path, "second") as second:
            second.wait_ready()
            load.wait_created(20)
            first.signal(signal.SIGSTOP)
            stopped = time.monotonic()
            try:
                assert seconds_until_it_leads(second, stopped) < DURATION + RETRY + SLACK
                load.wait_created(20)
            finally:
                first.signal(signal.SIGCONT)
            first.until(lambda: not first.status()["leading"], "the first one follows")
            assert second.status()["leading"]
            load.wait_created(20)
            bound_once(bench, second, load)
