"""The fields of a SchedulerProfile as Markdown tables, for docs/scheduler-profile.md.

python -m stowplan_operator.resources reference
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.resources import reference_text

from .scheduler_profile import SchedulerProfile

_SHOWN: Final = "multiPoint"
_PLUGINS: Final = "| `spec.plugins."


def profile_reference() -> str:
    """spec and status. What all extension points have is said once, for POINT."""
    lines = []
    for line in reference_text(SchedulerProfile).splitlines():
        _, is_plugins, rest = line.partition(_PLUGINS)
        point, is_inner, _ = rest.partition("`")[0].partition(".")
        if not is_plugins or not is_inner:
            lines.append(line)
        elif point == _SHOWN:
            lines.append(f"{_PLUGINS}POINT.{line.partition(f'{_PLUGINS}{point}.')[2]}")
    return "\n".join(lines) + "\n\n" + reference_text(SchedulerProfile, "status")
