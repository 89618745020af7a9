"""What is wrong with a schedule."""

from __future__ import annotations


class ScheduleError(ValueError):
    """A schedule that does not parse; the text is that of the library upstream uses."""
