"""Compares Stowplan with the real kube-scheduler and the real controllers on fresh random scenarios.

    python tests/conformance/differential.py [--mode MODE]... [--seed S] [--count N] [--features a,b] [--keep DIR]

In the modes evaluate and run scenarios come from ``gen.py``, expected answers from the program ``oracle``, ours from
``python -m stowplan_scheduler.conformance``. In the modes hpa, cluster and workloads they come from
``controllers/gen_MODE.py``, the program ``controllers`` and ``python -m stowplan_autoscaling.conformance``.
``make oracle`` builds both programs. Without ``--seed`` a new one is drawn and printed, so that a difference
can be had again. Scenarios whose answer upstream leaves to chance are solved several times; in ``run`` mode unstable
ones are dropped, in ``evaluate`` mode their unstable fields are not compared. The controllers' answers are nearly
always the same in every run: where ours differs they are asked again, and if they contradict themselves, nobody is
judged by that scenario (``MOST_UNSETTLED`` of them at most).

Exit codes: 0 nothing differs (unsupported scenarios are counted, not judged), 1 something differs, 2 bad use,
3 no oracle.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # as a program it has only its own folder on the path

from conformance.run import CONTROLLER_MODES, comparer_mode, our_command  # noqa: E402
from support.recorded import comparer  # noqa: E402

COUNTS = {"evaluate": 200, "run": 200, "hpa": 300, "cluster": 20, "workloads": 60}
REPEAT = "8"  # solutions per scenario that upstream may answer in several ways
ASKED_AGAIN = 3
"""How often the controllers are asked again for a scenario that we answer otherwise."""
MOST_UNSETTLED = 2
"""Scenarios per comparison that the controllers may answer in several ways."""
AS_STORED = (b'"1.5Gi"', b'"1536Mi"')  # what an API server makes of it: README.md, "Known artefacts"


def program_path(mode: str) -> Path:
    """The Go program of a mode: ``STOWPLAN_ORACLE`` or ``STOWPLAN_CONTROLLERS``, else where ``build.sh`` puts it."""
    name = "controllers" if mode in CONTROLLER_MODES else "oracle"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("STOWPLAN_BUILD") or cache / "stowplan") / "bin"
    return Path(os.environ.get(f"STOWPLAN_{name.upper()}") or folder / name)


def record(oracle: Path, mode: str, seed: int, count: int, features: str | None, path: Path) -> None:
    """Writes golden lines of ``count`` scenarios to ``path``.

    Raises:
        subprocess.CalledProcessError: the generator or the oracle failed.
    """
    generate = [sys.executable, str(HERE / "gen.py"), mode, "--seed", str(seed), "--count", str(count)]
    if features:
        generate += ["--features", features]
    scenarios = subprocess.run(generate, check=True, stdout=subprocess.PIPE).stdout
    if mode == "run":
        scenarios = scenarios.replace(*AS_STORED)
    solve = [str(oracle), mode, "-golden", "-repeat", REPEAT]
    answers = subprocess.run(solve, check=True, input=scenarios, stdout=subprocess.PIPE).stdout
    lines = answers.splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if mode == "evaluate" or b'"unstable":[' not in line))


def record_controllers(program: Path, mode: str, seed: int, count: int, path: Path) -> None:
    """Writes golden lines of ``count`` scenarios of a controller mode to ``path``.

    Raises:
        subprocess.CalledProcessError: the generator or the program failed.
        ValueError: a scenario has no answer.
    """
    script = HERE / "controllers" / f"gen_{mode}.py"
    generate = [sys.executable, str(script), "--seed", str(seed), "--count", str(count)]
    scenarios = subprocess.run(generate, check=True, stdout=subprocess.PIPE).stdout
    pairs = zip(scenarios.splitlines(), _solved(program, mode, scenarios).splitlines(), strict=True)
    path.write_bytes(b"".join(b'{"scenario":%s,"expected":%s}\n' % pair for pair in pairs))


def _solved(program: Path, mode: str, scenarios: bytes) -> bytes:
    solve = [str(program), comparer_mode(mode)]
    return subprocess.run(solve, check=True, input=scenarios, stdout=subprocess.PIPE).stdout


def unsettled(program: Path, mode: str, path: Path, names: Collection[str]) -> list[str]:
    """Of the named scenarios of ``path`` those that the program answers otherwise when it is asked again.

    Raises:
        subprocess.CalledProcessError: the program failed.
    """
    lines = [json.loads(line) for line in path.read_bytes().splitlines()] if names else []
    return [
        line["scenario"]["id"]
        for line in lines
        if line["scenario"]["id"] in names and _contradicts_itself(program, mode, line)
    ]


def _contradicts_itself(program: Path, mode: str, line: dict[str, Any]) -> bool:
    scenario = json.dumps(line["scenario"]).encode() + b"\n"
    return any(json.loads(_solved(program, mode, scenario)) != line["expected"] for _ in range(ASKED_AGAIN))


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mode", choices=tuple(COUNTS), action="append", help="default: all")
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--count", type=int, help=f"scenarios per mode (default {COUNTS})")
    parser.add_argument("--features", help="evaluate, run: only these feature groups, separated by commas")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the golden lines there")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    options = parse(argv)
    seed = random.SystemRandom().randrange(10_000, 2**31) if options.seed is None else options.seed
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for mode in options.mode or COUNTS:
            program = program_path(mode)
            if not os.access(program, os.X_OK):
                print(f"differential.py: no program {program}: run `make oracle` (needs Go)", file=sys.stderr)
                return 3
            count = options.count or COUNTS[mode]
            path = folder / f"{mode}-{seed}.jsonl"
            print(f"{mode}: seed {seed}, {count} scenarios", flush=True)
            if mode in CONTROLLER_MODES:
                record_controllers(program, mode, seed, count, path)
            else:
                record(program, mode, seed, count, options.features, path)
            failed |= not compare(mode, path, program)
    return 1 if failed else 0


def compare(mode: str, path: Path, program: Path) -> bool:
    """Prints the report of golden lines; false if something differs. Only scheduler modes may leave scenarios out."""
    report = comparer().check(comparer_mode(mode), comparer().load(path, comparer_mode(mode)), our_command(mode))
    comparer().print_report(report)
    print(report.summary(mode), flush=True)
    if mode not in CONTROLLER_MODES:
        return bool(report.ok(allow_unsupported=report.total))
    chance = unsettled(program, mode, path, [name for name, _ in report.different])
    if chance:
        print(f"answered in several ways by upstream, too: {', '.join(chance)}", flush=True)
    report.different = [each for each in report.different if each[0] not in chance]
    return bool(report.ok()) and len(chance) <= MOST_UNSETTLED


if __name__ == "__main__":
    sys.exit(main())
