"""Compares Stowplan with the real kube-scheduler on fresh random scenarios.

    python tests/conformance/differential.py [--mode evaluate|run] [--seed S] [--count N] [--features a,b] [--keep DIR]

Scenarios come from ``gen.py``, expected answers from the oracle program (``make oracle``), ours from
``python -m stowplan_scheduler.conformance``. Without ``--seed`` a new one is drawn and printed, so that a difference
can be had again. Scenarios whose answer upstream leaves to chance are solved several times; in ``run`` mode unstable
ones are dropped, in ``evaluate`` mode their unstable fields are not compared.

Exit codes: 0 nothing differs (unsupported scenarios are counted, not judged), 1 something differs, 2 bad use,
3 no oracle.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
REPEAT = "8"  # solutions per scenario that upstream may answer in several ways
AS_STORED = (b'"1.5Gi"', b'"1536Mi"')  # what an API server makes of it: README.md, "Known artefacts"


def oracle_path() -> Path:
    """The oracle program: ``STOWPLAN_ORACLE``, by default where ``build.sh`` puts it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("STOWPLAN_BUILD") or cache / "stowplan") / "bin"
    return Path(os.environ.get("STOWPLAN_ORACLE") or folder / "oracle")


def load_compare() -> ModuleType:
    """The module ``compare.py`` beside this file; tests/ is no package, so it is loaded by path."""
    spec = importlib.util.spec_from_file_location("conformance_compare", HERE / "compare.py")
    if spec is None or spec.loader is None:
        message = f"cannot load {HERE / 'compare.py'}"
        raise ImportError(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mode", choices=("evaluate", "run"), action="append", help="default: both")
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--count", type=int, default=200, help="scenarios per mode (default 200)")
    parser.add_argument("--features", help="only these feature groups of gen.py, separated by commas")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the golden lines there")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    options = parse(argv)
    oracle = oracle_path()
    if not os.access(oracle, os.X_OK):
        print(
            "differential.py: no oracle program: run `make oracle` (needs Go) or set STOWPLAN_ORACLE", file=sys.stderr
        )
        return 3
    compare = load_compare()
    seed = random.SystemRandom().randrange(10_000, 2**31) if options.seed is None else options.seed
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for mode in options.mode or ("evaluate", "run"):
            path = folder / f"{mode}-{seed}.jsonl"
            print(f"{mode}: seed {seed}, {options.count} scenarios", flush=True)
            record(oracle, mode, seed, options.count, options.features, path)
            command = [sys.executable, "-m", "stowplan_scheduler.conformance", mode]
            report = compare.check(mode, compare.load(path, mode), command)
            compare.print_report(report)
            print(report.summary(mode), flush=True)
            failed |= not report.ok(allow_unsupported=report.total)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
