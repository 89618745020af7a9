"""What importing the API client brings along; which way imports point is checked by import-linter (pyproject.toml)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stowplan_operator.api

MODULES = sorted(path.stem for path in Path(stowplan_operator.api.__file__).parent.glob("*.py"))
PURE = ("backoff", "call", "decode", "election", "errors", "event_series", "kinds", "micro_time", "sharing", "store")
"""Modules without IO, which a simulation may use."""


def loaded_by(modules: tuple[str, ...] | list[str]) -> set[str]:
    """What is imported with them, in a process of its own."""
    names = [f"stowplan_operator.api.{module}" for module in modules if module != "__init__"]
    code = "import importlib, json, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    code += "print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_client_knows_nothing_of_workers_handlers_and_resources() -> None:
    """Nor of the framework of the handlers, of the simulator, and of the official client before it is needed."""
    loaded = loaded_by(MODULES)
    ours = {name for name in loaded if name.startswith("stowplan_")}
    assert {name.split(".")[1] for name in ours if name.startswith("stowplan_operator.")} == {"api"}
    assert not any(name.startswith("stowplan_autoscaling") for name in ours)
    assert not {"kopf", "kubernetes", "click", "pydantic", "numpy"} & loaded


@pytest.mark.parametrize("module", PURE)
def test_the_parts_without_io_load_no_library_for_it(module: str) -> None:
    assert not {"aiohttp", "asyncio", "ssl", "socket", "tenacity", "kubernetes"} & loaded_by([module])
