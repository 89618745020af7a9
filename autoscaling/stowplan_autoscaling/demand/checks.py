"""What numbers of demand may be: the checks that constructors share. Each raises FieldError with the field's name."""

from __future__ import annotations

import math

from stowplan_autoscaling.inputs.errors import FieldError, shown


def at_least(field: str, value: float, least: float = 0.0) -> float:
    """A finite number that is not below `least`."""
    if not (math.isfinite(value) and value >= least):
        raise FieldError(field, f"{shown(value)}: must be a number of at least {least:g}")
    return float(value)


def above(field: str, value: float, bound: float = 0.0) -> float:
    """A finite number beyond `bound`."""
    if not (math.isfinite(value) and value > bound):
        raise FieldError(field, f"{shown(value)}: must be a number greater than {bound:g}")
    return float(value)


def count(field: str, value: int, least: int = 1) -> int:
    """A whole number that is not below `least`."""
    if isinstance(value, bool) or value != int(value) or value < least:
        raise FieldError(field, f"{shown(value)}: must be a whole number of at least {least}")
    return value
