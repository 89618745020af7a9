"""A whole cluster in virtual time: demand, pods, controllers, scheduler, kubelets and autoscalers on one clock.

The page docs/architecture/cosim.md has the picture.
"""

from .run import Run, run

__all__ = ["Run", "run"]
