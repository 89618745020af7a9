"""The Deployment controller (pkg/controller/deployment of Kubernetes v1.37.2)."""

from .controller import DeploymentController

__all__ = ["DeploymentController"]
