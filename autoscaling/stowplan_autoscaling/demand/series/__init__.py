"""Loads as functions of time."""

from __future__ import annotations

from .base import Floats, Piece, Series
from .combine import Repeated, Total, total
from .piecewise import Piecewise, held, joined, piecewise
from .shapes import DAY, MOST_POINTS, constant, diurnal, pulse, ramp, steps

__all__ = [
    "DAY",
    "MOST_POINTS",
    "Floats",
    "Piece",
    "Piecewise",
    "Repeated",
    "Series",
    "Total",
    "constant",
    "diurnal",
    "held",
    "joined",
    "piecewise",
    "pulse",
    "ramp",
    "steps",
    "total",
]
