"""The comparer of recorded answers, which stands in a folder that is no package."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

COMPARER = Path(__file__).resolve().parent.parent / "conformance/compare.py"


@cache
def comparer() -> ModuleType:
    """tests/conformance/compare.py as a module. Raises ImportError."""
    name = "conformance_compare"
    spec = importlib.util.spec_from_file_location(name, COMPARER)
    if spec is None or spec.loader is None:
        raise ImportError(f"{COMPARER} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
