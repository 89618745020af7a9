"""The report of a comparison: one HTML file to show to others.

Its figures are Bokeh's, which nothing outside of this package imports.
"""

from __future__ import annotations

from .write import write_report

__all__ = ["write_report"]
