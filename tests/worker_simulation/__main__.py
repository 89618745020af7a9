"""Runs seeds: `python -m worker_simulation --seeds 1000`. Prints what fired, and the first failures in full."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .plan import Fault
from .simulation import Failure, run


def main() -> int:
    """Exit status 0 if all seeds held, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m worker_simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--digests", action="store_true", help="print the hash of each log")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    given = parser.parse_args()
    fired: Counter[str] = Counter()
    failed = steps = pods = 0
    began = time.monotonic()
    for seed in range(given.first, given.first + given.seeds):
        try:
            outcome = run(seed)
        except Failure as failure:
            failed += 1
            print(failure, file=sys.stderr)
            if not given.keep_going:
                return 1
            continue
        fired.update(outcome.fired)
        steps += outcome.steps
        pods += outcome.pods
        if given.digests:
            print(seed, outcome.digest)
    seconds = time.monotonic() - began
    print(f"{given.seeds} seeds, {failed} failed, {steps} steps, {pods} pods bound, {seconds:.1f} s")
    for name, count in sorted(fired.items()):
        print(f"  {count:7d} {name}")
    silent = [fault.name for fault in Fault if not fired[fault.name]]
    if silent and given.seeds >= 50:
        print(f"never fired: {', '.join(silent)}", file=sys.stderr)
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
