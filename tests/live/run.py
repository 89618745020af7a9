"""The live check: predicted by Stowplan, then observed on real parts, then compared.

    python tests/live/run.py [hpa-step] [karpenter] [--seeds N] [--results DIR] [--page FILE]

All predictions are written before anything is observed. Results (simulations, observations as CSV, logs) go to DIR, by
default build/live, which git ignores. The tables of FILE, by default docs/live-check.md, are written anew.

Exit codes: 0 as predicted, 1 not, 2 bad use, 3 something that it needs is not there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

TESTS: Final = Path(__file__).resolve().parent.parent
REPOSITORY: Final = TESTS.parent
sys.path.insert(0, str(TESTS))  # as a program it has only its own folder on the path

from conftest import build_folder  # noqa: E402
from live import hpa_step, karpenter_pods  # noqa: E402
from live.comparison import Row, Step, envelope  # noqa: E402
from live.page import nodes_over_time, table_of, with_table  # noqa: E402
from live.peers import KARPENTER, KWOK, METRICS_SERVER, Certificates, has_openssl, make_certificates  # noqa: E402

NEEDS: Final = {hpa_step.NAME: (KWOK, METRICS_SERVER), karpenter_pods.NAME: (KWOK, KARPENTER)}

EVERY: Final = 10
"""Seconds between two lines of the table of nodes."""


class Scenario(Protocol):
    """A prediction, then an observation of the same."""

    tables: dict[str, str]
    """Those of the page by name, once it was observed."""

    def predict(self) -> None:
        """Write down what will happen."""

    def observe(self, parts: Parts) -> list[Row]:
        """Let it happen, and compare."""


class Parts(NamedTuple):
    """The programs, and what they serve with."""

    programs: Path
    certificates: Certificates

    @property
    def rig(self) -> Path:
        """The control plane."""
        return self.programs / "rig"


class HpaStep:
    """The demand step. Its prediction needs few seeds: with the phase known, hardly anything is left to chance."""

    def __init__(self, results: Path, seeds: int) -> None:
        self._folder = fresh(results / hpa_step.NAME)
        self._seeds = range(1, min(seeds, 5) + 1)
        self._predictions: list[list[Step]] = []
        self.tables: dict[str, str] = {}

    def predict(self) -> None:
        """As it will be, and as it would be at other phases."""
        self._predictions = hpa_step.predicted(self._folder, self._seeds)
        sequences, first = hpa_step.unknown_phase(self._folder, range(round(hpa_step.RESOLUTION)))
        self.tables["hpa-step-phases"] = "".join(f"- {each}\n" for each in sequences) + f"\nFirst step: {first}.\n"

    def observe(self, parts: Parts) -> list[Row]:
        """Ten minutes."""
        samples = hpa_step.observe(parts.rig, parts.programs, parts.certificates, self._folder)
        rows = hpa_step.compare(self._predictions, samples)
        self.tables["hpa-step"] = table_of(rows)
        return rows


class KarpenterPods:
    """The 200 pods."""

    def __init__(self, results: Path, seeds: int) -> None:
        self._folder = fresh(results / karpenter_pods.NAME)
        self._seeds = range(1, seeds + 1)
        self._predictions: list[karpenter_pods.Story] = []
        self.tables: dict[str, str] = {}

    def predict(self) -> None:
        """One story per seed."""
        self._predictions = karpenter_pods.predicted(self._folder, self._seeds)

    def observe(self, parts: Parts) -> list[Row]:
        """Three minutes."""
        observed = karpenter_pods.observe(parts.rig, parts.programs, parts.certificates, self._folder)
        rows = karpenter_pods.compare(self._predictions, observed)
        times = [float(time) for time in range(EVERY, round(karpenter_pods.DURATION) + 1, EVERY)]
        predicted = envelope([each.nodes for each in self._predictions], times)
        self.tables["karpenter"] = table_of(rows)
        self.tables["karpenter-nodes"] = nodes_over_time(predicted, observed.nodes)
        return rows


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


KINDS: Final[dict[str, Callable[[Path, int], Scenario]]] = {
    hpa_step.NAME: HpaStep,
    karpenter_pods.NAME: KarpenterPods,
}


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def show(name: str, rows: Sequence[Row]) -> None:
    """The comparison on the terminal."""
    print(f"\n{name}", flush=True)
    for row in rows:
        print(
            f"  {'ok ' if row.holds else 'NOT'}  {row.what}: predicted {row.predicted}; observed {row.observed}"
            f" ({row.band})"
        )


def missing(programs: Path, scenarios: Sequence[str]) -> list[str]:
    """What is not there, in words."""
    needed = sorted({name for scenario in scenarios for name in NEEDS[scenario]})
    found = [f"{name}: run tests/live/build.sh" for name in needed if not os.access(programs / name, os.X_OK)]
    if not os.access(programs / "rig", os.X_OK):
        found.append("rig: run tests/conformance/build.sh rig")
    if not has_openssl():
        found.append("openssl on PATH")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    names = tuple(KINDS)
    parser = argparse.ArgumentParser(description="Predicted by Stowplan, then observed on real parts, then compared.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"{' or '.join(names)}; default: both")
    parser.add_argument("--seeds", type=int, default=20, help="runs of the prediction of karpenter (default: 20)")
    parser.add_argument("--results", type=Path, default=REPOSITORY / "build" / "live")
    parser.add_argument("--page", type=Path, default=REPOSITORY / "docs" / "live-check.md")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.scenarios) - set(names))
    if unknown or options.seeds < 1:
        parser.error(f"no scenario {unknown[0]}" if unknown else "--seeds must be at least 1")
    programs, scenarios = build_folder(), options.scenarios or names
    absent = missing(programs, scenarios)
    if absent:
        say("\n".join(f"live check: needs {each}" for each in absent))
        return 3
    results = options.results.resolve()
    parts = Parts(programs, make_certificates(results / "certificates"))
    made: dict[str, Scenario] = {name: KINDS[name](results, options.seeds) for name in scenarios}
    for name, scenario in made.items():
        say(f"{name}: predicting")
        scenario.predict()
    holds = True
    for name, scenario in made.items():
        say(f"{name}: observing")
        rows = scenario.observe(parts)
        show(name, rows)
        holds = holds and all(row.holds for row in rows)
        page = options.page.read_text(encoding="utf-8")
        for mark, table in scenario.tables.items():
            page = with_table(page, mark, table)
        options.page.write_text(page, encoding="utf-8")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
