"""Mode "hpa": one autoscaler, its workload, its pods and its metrics, all of them scripted."""

from __future__ import annotations

from .run import run_hpa

__all__ = ["run_hpa"]
