"""Crashes, enumerated: one run for each moment at which a worker can die on the way of a request.

Random crashes do not hit a window of a millisecond. So a reference run counts the boundaries (a request leaves, or was
carried out and is not answered yet), and then each boundary gets a run in which the worker is killed just there.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import msgspec

from stowplan_operator.worker.requests import Request

from .plan import Fault, Plan
from .process import Process
from .simulation import Failure, Outcome, Simulation

FAULTS = frozenset({Fault.LOST_ANSWER, Fault.POD_DELETED})
"""What happens beside the crash: some outcomes must be read back, some pods go."""


SOAKED = (1, 3, 5, 11)
"""Seeds whose boundaries are all tried in `make soak`."""


class Boundary(msgspec.Struct, frozen=True):
    """Where a worker can die."""

    number: int
    request: str
    what: str


def scenario(seed: int) -> Plan:
    """A short run with a leader and a standby, little else going wrong."""
    plan = Plan(seed, only=FAULTS)
    plan.workers = 2
    plan.fault_seconds = 20
    plan.nodes, plan.apps = 3, 4
    return plan


def boundaries(seed: int) -> list[Boundary]:
    """All of a run without a crash, in order."""
    found: list[Boundary] = []
    simulation = Simulation(scenario(seed))

    def passes(process: Process, request: Request, what: str) -> None:
        found.append(Boundary(len(found), type(request).__name__, what))

    simulation.on_boundary = passes
    simulation.run()
    return found


def crashed_at(seed: int, number: int) -> Outcome:
    """The run in which the worker dies at that boundary. Raises Failure."""
    simulation = Simulation(scenario(seed))
    simulation.command = f"worker_simulation.crash_points --seed {seed} --boundary {number}"
    passed = Counter[str]()

    def passes(process: Process, request: Request, what: str) -> None:
        if passed["boundaries"] == number and process.alive:
            passed["crashes"] += 1
            simulation.crash(process)
        passed["boundaries"] += 1

    simulation.on_boundary = passes
    outcome = simulation.run()
    if not passed["crashes"]:
        raise AssertionError(f"boundary {number} of seed {seed} was not reached")
    return outcome


def main() -> int:
    """Every boundary of a few seeds, or the ones that are named. Exit status 1 if one does not end well."""
    parser = argparse.ArgumentParser(prog="python -m worker_simulation.crash_points", description=main.__doc__)
    parser.add_argument("--seed", type=int, action="append", help="a seed; may come several times")
    parser.add_argument("--boundary", type=int, help="the number of one boundary")
    given = parser.parse_args()
    failed = runs = 0
    for seed in given.seed or SOAKED:
        for boundary in boundaries(seed):
            if given.boundary not in {None, boundary.number}:
                continue
            runs += 1
            try:
                crashed_at(seed, boundary.number)
            except Failure as failure:
                failed += 1
                print(f"killed where {boundary.request} {boundary.number} {boundary.what}\n{failure}", file=sys.stderr)
    print(f"{runs} crash points, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
