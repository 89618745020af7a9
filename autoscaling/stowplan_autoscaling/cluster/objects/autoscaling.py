"""HorizontalPodAutoscaler as the API server stores it: the controller's type with version and age."""

from __future__ import annotations

from stowplan_autoscaling.hpa.objects import HorizontalPodAutoscaler as ControllerHPA


class HorizontalPodAutoscaler(ControllerHPA, frozen=True, kw_only=True):
    """An autoscaler. `created`: nanoseconds since 1970."""

    version: int = 0
    created: int = 0
