"""What a rule says about a node or a pod.

Follows Status and Code of staging/src/k8s.io/kube-scheduler/framework/interface.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

UNSCHEDULABLE = "Unschedulable"
"""Preemption may help."""
UNRESOLVABLE = "UnschedulableAndUnresolvable"
"""Preemption cannot help."""


class PluginError(Exception):
    """A rule could not be applied. Its text is what the scheduler reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Code, reasons, and the plugin that gave them."""

    code: str
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code == "Success"

    @property
    def is_skip(self) -> bool:
        return self.code == "Skip"

    @property
    def is_rejected(self) -> bool:
        return self.code in {UNSCHEDULABLE, UNRESOLVABLE}

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same, with the plugin's name."""
        return replace(self, plugin=plugin)


SUCCESS = Status(code="Success")
SKIP = Status(code="Skip")


def unschedulable(*reasons: str) -> Status:
    """A rejection that preemption may lift."""
    return Status(code=UNSCHEDULABLE, reasons=reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that preemption cannot lift."""
    return Status(code=UNRESOLVABLE, reasons=reasons)


def error(text: str, plugin: str = "") -> Status:
    """A failure."""
    return Status(code="Error", reasons=(text,), plugin=plugin)
