"""Crashes, enumerated: one run for each moment at which a worker can die on the way of a request.

Random crashes do not hit a window of a millisecond. So a reference run counts the boundaries (a request leaves, or was
carried out and is not answered yet), and then each boundary gets a run in which the worker is killed just there.

Then pairs: the worker is killed at a boundary, and whoever comes after it at each of its first ones. What the second
takes over is what the first has left half done.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from stowplan_operator.worker.requests import Request

from .plan import Fault, Plan
from .process import Process
from .simulation import Failure, Outcome, Simulation

FAULTS = frozenset({Fault.LOST_ANSWER, Fault.POD_DELETED})
"""What happens beside the crash: some outcomes must be read back, some pods go."""


SOAKED = (1, 3, 5, 11)
"""Seeds whose boundaries are all tried in `make soak`."""

PAIRED = (1, 3)
"""Seeds whose pairs are, patches aside."""

SUCCESSOR = 12
"""How many boundaries of the successor are tried with each of the first."""


class NotReachedError(Exception):
    """The run has fewer boundaries."""


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


def crashed_at(seed: int, *numbers: int) -> Outcome:
    """The run in which a worker dies at the boundary of that number; with a second number, another one dies so many
    boundaries later, and so on. Raises Failure, NotReachedError.
    """
    simulation = Simulation(scenario(seed))
    then = "".join(f" --then {number}" for number in numbers[1:])
    simulation.command = f"worker_simulation.crash_points --seed {seed} --boundary {numbers[0]}{then}"
    left = list(numbers)

    def passes(process: Process, request: Request, what: str) -> None:
        # What a worker had sent that is dead by now is no boundary of its successor.
        if not left or not process.alive:
            return
        if left[0] == 0:
            del left[0]
            simulation.crash(process)
        else:
            left[0] -= 1

    simulation.on_boundary = passes
    outcome = simulation.run()
    if left:
        raise NotReachedError(f"seed {seed} has no boundary {numbers}")
    return outcome


def tried(seed: int, first: Boundary, *then: int) -> bool:
    """One run; whether it ended well. Says why not. Raises NotReachedError."""
    try:
        crashed_at(seed, first.number, *then)
    except Failure as failure:
        print(f"killed where {first.request} {first.number} {first.what}, then {then}\n{failure}", file=sys.stderr)
        return False
    return True


def all_of(seeds: Sequence[int]) -> Counter[bool]:
    """Every boundary of each seed: how many ended well."""
    return Counter(tried(seed, boundary) for seed in seeds for boundary in boundaries(seed))


def pairs_of(seeds: Sequence[int]) -> Counter[bool]:
    """Every boundary but patches, with each of the first ones of the successor."""
    ended: Counter[bool] = Counter()
    for seed in seeds:
        for boundary in boundaries(seed):
            if boundary.request != "PatchPod":
                with suppress(NotReachedError):
                    for second in range(SUCCESSOR):
                        ended[tried(seed, boundary, second)] += 1
    return ended


def main() -> int:
    """Every boundary of a few seeds, and pairs; or what is named. Exit status 1 if one does not end well."""
    parser = argparse.ArgumentParser(prog="python -m worker_simulation.crash_points", description=main.__doc__)
    parser.add_argument("--seed", type=int, help="a seed, with --boundary")
    parser.add_argument("--boundary", type=int, help="the number of one boundary")
    parser.add_argument("--then", type=int, action="append", default=[], help="so many later the next one dies")
    given = parser.parse_args()
    if (given.seed is None) != (given.boundary is None) or (given.then and given.boundary is None):
        parser.error("--seed and --boundary go together, --then needs both")
    if given.seed is not None:
        found = boundaries(given.seed)
        if not 0 <= given.boundary < len(found):
            parser.error(f"--boundary: {given.boundary}: must be 0 to {len(found) - 1}")
        ended = Counter([tried(given.seed, found[given.boundary], *given.then)])
        print("it ended well" if ended[True] else "it failed")
    else:
        ended = all_of(SOAKED)
        print(f"{ended.total()} crash points, {ended[False]} failed", flush=True)
        pairs = pairs_of(PAIRED)
        print(f"{pairs.total()} pairs of crash points, {pairs[False]} failed")
        ended += pairs
    return 1 if ended[False] else 0


if __name__ == "__main__":
    sys.exit(main())
