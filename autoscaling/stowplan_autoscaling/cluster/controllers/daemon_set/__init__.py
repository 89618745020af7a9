"""The DaemonSet controller (pkg/controller/daemon of Kubernetes v1.37.2)."""

from .controller import DaemonSetController

__all__ = ["DaemonSetController"]
