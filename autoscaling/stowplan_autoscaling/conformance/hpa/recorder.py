"""Writes down what each sync saw, decided and wrote, in the oracle's words.

An entry begins when the controller reads the target's scale and ends with the next one. Follows the recorder in
internal/hpasim/run.go of the oracle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from stowplan_autoscaling.hpa import Outcome
from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscalerStatus, MetricStatus, MetricValueStatus
from stowplan_autoscaling.kernel import SECOND

from .agenda import START

_POD_NAME: Final = re.compile(r"\b([Pp]od) \S+\Z")
_HPA_LIST: Final = re.compile(r"\(e\.g\. \[.*\]\)")


class Recorder:
    """The entries of one scenario."""

    def __init__(self, rivals: Sequence[str], status: Callable[[], HorizontalPodAutoscalerStatus]) -> None:
        """`status`: the stored status of the autoscaler."""
        self.entries: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._rivals = rivals
        self._status = status

    def begin(self, t: float, replicas: int) -> None:
        """The scale is read, perhaps again, after a conflict."""
        entry = self._open
        if entry is not None and entry["t"] == t and "scaleTo" not in entry and "error" not in entry:
            return
        self.finish()
        self._open = {"t": t, "spec": replicas}

    def scaled(self, replicas: int) -> None:
        """The scale was written."""
        if self._open is not None:
            self._open["scaleTo"] = replicas

    def outcome(self, outcome: Outcome) -> None:
        """What the controller logs and the events that it emits."""
        if self._open is None:
            return
        if outcome.proposal is not None:
            self._open["proposal"], self._open["metric"] = outcome.proposal, outcome.metric
        if outcome.reason:
            self._open["reason"] = outcome.reason
        events = [event.reason for event in outcome.events if event.reason != "SuccessfulRescale"]
        if events:
            self._open.setdefault("events", []).extend(events)

    def error(self, text: str) -> None:
        """An error that is returned or logged, whosever it is."""
        if self._open is None or not text:
            return
        text = _POD_NAME.sub(r"\1 *", text)
        if not any(f"/default/{rival}:" in text for rival in self._rivals):
            self._open["error"] = _HPA_LIST.sub("(e.g. [*])", text)

    def finish(self) -> None:
        """Close the entry with the status as it is stored now."""
        entry, self._open = self._open, None
        if entry is None:
            return
        status = self._status()
        entry["currentReplicas"] = status.current_replicas
        entry["desiredReplicas"] = status.desired_replicas
        entry["conditions"] = {
            one.type: [one.status, one.reason, (one.last_transition_time - START) // SECOND]
            for one in status.conditions
        }
        if status.current_metrics:
            entry["currentMetrics"] = [_brief(metric) for metric in status.current_metrics]
        self.entries.append(entry)


def _brief(status: MetricStatus) -> dict[str, Any] | None:
    if status.resource is not None:
        return _line(status, status.resource.name, status.resource.current)
    if status.container_resource is not None:
        inner = status.container_resource
        return {**_line(status, inner.name, inner.current), "container": inner.container}
    of_metric = status.pods or status.object or status.external
    return None if of_metric is None else _line(status, of_metric.metric.name, of_metric.current)


def _line(status: MetricStatus, name: str, current: MetricValueStatus) -> dict[str, Any]:
    amounts = {
        "value": current.value,
        "averageValue": current.average_value,
        "averageUtilization": current.average_utilization,
    }
    known = {key: amount for key, amount in amounts.items() if amount is not None}
    return {"type": status.type, "name": name, **known}
