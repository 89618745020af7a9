"""Why no node was good enough, and how that reads.

Follows Diagnosis, NodeToStatus and FitError of framework/types.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .status import UNRESOLVABLE, Status


@dataclass(slots=True, kw_only=True)
class Diagnosis:
    """Why nodes were rejected. `absent` is the status of every node that is not named."""

    statuses: dict[str, Status] = field(default_factory=dict)
    absent: Status = field(default_factory=lambda: Status(code=UNRESOLVABLE))
    rejectors: set[str] = field(default_factory=set)
    pre_filter_message: str = ""
    post_filter_message: str = ""

    def add_rejector(self, status: Status) -> None:
        """Remember the plugin of a rejection."""
        if status.is_rejected and status.plugin:
            self.rejectors.add(status.plugin)

    def status_of(self, node: str) -> Status:
        """The status of a node."""
        return self.statuses.get(node, self.absent)


def fit_message(diagnosis: Diagnosis, nodes: int) -> str:
    """FitError.Error: how many nodes were rejected for which reason."""
    message = f"0/{nodes} nodes are available:"
    if diagnosis.pre_filter_message:
        message += f" {diagnosis.pre_filter_message}."
    else:
        counts: Counter[str] = Counter()
        for status in diagnosis.statuses.values():
            counts.update(status.reasons)
        absent = nodes - len(diagnosis.statuses)
        if absent > 0:
            for reason in diagnosis.absent.reasons:
                counts[reason] += absent
        if counts:
            lines = sorted((f"{count} {reason}" for reason, count in counts.items()), key=lambda line: line.encode())
            message += f" {', '.join(lines)}."
    return f"{message} {diagnosis.post_filter_message}" if diagnosis.post_filter_message else message
