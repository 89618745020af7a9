"""The StatefulSet controller (pkg/controller/statefulset of Kubernetes v1.37.2)."""

from .controller import StatefulSetController

__all__ = ["StatefulSetController"]
