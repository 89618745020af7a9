"""Measures the table of speeds and writes the results, with facts about the machine, to build/bench/.

    python tests/benchmarks/run.py [--quick] [--only WORKLOAD]... [--no-upstream]

`make bench` builds the real scheduler's benchmark first, where Go is present. Progress goes to stderr, tables and the
path of the results to stdout. docs/benchmarks.md says what is measured.

Exit codes: 0 everything ran, whether or not a target is reached; 1 something could not run; 2 bad use; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))  # as a program it has only its own folder on the path

from rich.console import Console  # noqa: E402

from benchmarks import machine, processes  # noqa: E402
from benchmarks.processes import RunError  # noqa: E402
from benchmarks.report import print_report, rate_text, write_json  # noqa: E402
from benchmarks.results import TARGET_NODES, Results, SpeedLine, verdicts  # noqa: E402
from benchmarks.table import UNPLACEABLE, Run, Table, TableError, load_table  # noqa: E402
from stowplan_operator.bench.workloads import WORKLOADS  # noqa: E402

FOLDER = REPOSITORY / "build/bench"
BUSY = 0.5
"""A load above this before we start means that others use the machine."""

PROFILED = 4
"""At most so many lines that missed their target are profiled."""


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


class Session:
    """One pass over the table. `ask` runs a command and returns its JSON line; `clock` gives seconds."""

    def __init__(
        self,
        table: Table,
        upstream: Path | None,
        ask: Callable[[Sequence[str], float], Mapping[str, Any]] = processes.json_line,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing measured yet; the budget begins."""
        self.results = Results()
        self._table = table
        self._upstream = upstream
        self._ask = ask
        self._clock = clock
        self._deadline = clock() + table.budget_minutes * 60

    def measure(self, only: frozenset[str] = frozenset()) -> None:
        """Everything in the order of the table, with snapshot and memory after the lines that have targets."""
        lines = self._table.lines(only, upstream=self._upstream is not None)
        urgent = [run for run in lines if run.upstream and run.nodes == TARGET_NODES]
        for run in urgent:
            self.speed(run)
        if not only:
            self.snapshot()
        self.memory(only)
        for run in lines:
            if run not in urgent:
                self.speed(run)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def speed(self, run: Run) -> None:
        """One line of the table of speeds."""
        line = SpeedLine(run)
        for who in run.turns():
            if who == "ours":
                _add(line.ours, line.ours_share, self._placing(run))
            elif self._upstream is not None:
                found = self._attempt(f"kube-scheduler: {run.label}", processes.upstream(self._upstream, run), run)
                _add(line.upstream, line.upstream_share, found)
        if run.reference_pods:
            self._compare_with_reference(line)
        if line.ours or line.upstream:
            self.results.speed.append(line)
            texts = (rate_text(line.rate), rate_text(line.upstream_rate), rate_text(line.reference))
            say("{}: ours {}, kube-scheduler {}, scalar reference {} pods/s".format(run.label, *texts))

    def snapshot(self) -> None:
        """Costs of the snapshot."""
        runs = self._table.snapshot
        for nodes in runs.nodes:
            label = f"snapshot, {nodes:,} nodes"
            found = self._attempt(label, processes.snapshot(runs, nodes), runs)
            if found is not None:
                self.results.snapshot.append(found)
                say(f"{label}: update {found['update_us']} us")

    def memory(self, only: frozenset[str] = frozenset()) -> None:
        """Memory by workload."""
        runs = self._table.memory
        for workload in runs.workloads:
            if only and workload not in only:
                continue
            label = f"memory, {workload}"
            found = self._attempt(label, processes.memory(runs, workload), runs)
            if found is not None:
                self.results.memory.append(found)
                say(f"{label}: {found['per_node']} bytes per node, {found['per_bound_pod']} per bound pod")

    def hot_spots(self) -> None:
        """Profiles of lines that missed their targets."""
        missed = [v.line.run for v in verdicts(self.results) if v.line is not None and v.word == "missed"]
        for run in missed[:PROFILED]:
            found = self._attempt(f"profile: {run.label}", processes.profile(run), run)
            if found is not None:
                self.results.hot_spots.append(found)
                say(f"profile: {run.label}")

    # ---- one process ---------------------------------------------------------------------------------------------

    def _placing(self, run: Run) -> Mapping[str, Any] | None:
        found = self._attempt(run.label, processes.ours(run), run)
        if found is not None and run.workload not in UNPLACEABLE and found["placed"] != run.pods:
            self._failed(run.label, f"placed {found['placed']} of {run.pods} pods: the rate would say nothing")
            return None
        return found

    def _compare_with_reference(self, line: SpeedLine) -> None:
        run = line.run
        found = self._attempt(f"scalar reference: {run.label}", processes.scalar(run), run)
        if found is not None:
            line.reference = found["pods_per_s"]
            line.different = list(found["different"])
            if line.different:
                self._failed(f"scalar reference: {run.label}", f"{len(line.different)} decisions differ")

    def _attempt(self, label: str, command: Sequence[str], limits: Any) -> Mapping[str, Any] | None:
        """The command's line; None, and a note, if there is none."""
        if self._clock() >= self._deadline:
            self._failed(label, f"the {self._table.budget_minutes} minutes are over")
            return None
        try:
            return self._ask(command, limits.timeout_seconds)
        except RunError as failure:
            self._failed(label, str(failure))
            return None

    def _failed(self, label: str, why: str) -> None:
        note = f"{label}: {why}"
        if note not in self.results.failures:
            self.results.failures.append(note)
            say(note)


def _add(rates: list[float], shares: list[float], found: Mapping[str, Any] | None) -> None:
    if found is not None:
        rates.append(found["pods_per_s"])
        shares.append(found["core_share"])


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="about two minutes instead of fifteen")
    parser.add_argument(
        "--only", action="append", choices=list(WORKLOADS), default=[], help="only this workload; may be repeated"
    )
    parser.add_argument("--no-upstream", action="store_true", help="without the real kube-scheduler")
    return parser.parse_args(argv)


def _program(options: argparse.Namespace) -> Path | None:
    """The real scheduler's benchmark, if it is wanted and there."""
    if options.no_upstream:
        return None
    program = processes.upstream_program()
    if program is None:
        say(processes.why_no_upstream())
    return program


def _warn_if_busy(load: list[float] | None) -> None:
    if load is not None and load[0] > BUSY:
        say(f"the load is {load[0]:g}: others use this machine, so read the ratios rather than the rates")


def main(argv: list[str] | None = None) -> int:
    """Measure; returns the exit code."""
    options = parse(argv)
    try:
        table = load_table(quick=options.quick)
    except TableError as failure:
        say(f"run.py: {failure}")
        return 2
    only = frozenset(options.only)
    if not table.lines(only):
        say(f"run.py: the table of --quick has no line for {', '.join(sorted(only))}")
        return 2
    now, began = datetime.now(UTC), time.monotonic()
    load = machine.load_average()
    _warn_if_busy(load)
    session = Session(table, _program(options))
    about: dict[str, object] = {
        "started": now.isoformat(timespec="seconds"),
        "machine": machine.facts(),
        "pinned_to_core": processes.pin_to_one_core(),
        "options": {"quick": options.quick, "only": options.only, "upstream": not options.no_upstream},
        "load_before": load,
    }
    try:
        session.measure(only)
        if not options.quick:
            session.hot_spots()
    except KeyboardInterrupt:
        say("run.py: interrupted")
        return 130
    about |= {"load_after": machine.load_average(), "took_s": round(time.monotonic() - began)}
    print_report(session.results, Console(width=None if sys.stdout.isatty() else 120))
    print(f"results: {write_json(session.results, about, FOLDER, now).relative_to(REPOSITORY)}")
    return 1 if session.results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
