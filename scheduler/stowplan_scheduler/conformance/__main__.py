"""Command line of the conformance suite."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from stowplan_scheduler.config.conformance import run_config

from .evaluate import evaluate
from .run import run

MODES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "evaluate": evaluate,
    "run": run,
    "config": run_config,
}


def main(arguments: list[str]) -> int:
    """Answer every scenario line of standard input; returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in MODES:
        print("usage: python -m stowplan_scheduler.conformance evaluate|run|config < scenarios.jsonl", file=sys.stderr)
        return 2
    answer = MODES[arguments[0]]
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(answer(json.loads(line)), separators=(",", ":"), ensure_ascii=False), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
