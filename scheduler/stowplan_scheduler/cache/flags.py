"""Quick questions about arrays of flags.

`ndarray.all()` and `any()` go through Python; for the few hundred rows of a sampled search that is most of their cost.
The position of the smallest or largest element is found in C, and stops at the first hit for booleans.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


def all_true(flags: NDArray[Any]) -> bool:
    """Whether every element is true (non-zero, for arrays without negative numbers)."""
    return not flags.size or bool(flags[flags.argmin()])


def any_true(flags: NDArray[Any]) -> bool:
    """Whether some element is true (non-zero, for arrays without negative numbers)."""
    return bool(flags.size) and bool(flags[flags.argmax()])
