"""Expanders choose one of several ways to scale up."""

from .base import ExpanderError, Option, PodPrices
from .chain import ExpanderChain, ExpanderContext

__all__ = ["ExpanderChain", "ExpanderContext", "ExpanderError", "Option", "PodPrices"]
