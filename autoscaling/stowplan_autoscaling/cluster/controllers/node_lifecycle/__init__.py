"""The node lifecycle controller: what follows when nodes are not heard of, or report that they are not ready."""

from .controller import NodeLifecycleController

__all__ = ["NodeLifecycleController"]
