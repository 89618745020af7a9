"""The Job controller and the one that removes finished Jobs (pkg/controller/{job,ttlafterfinished} of v1.37.2)."""

from .controller import JobController
from .ttl import TtlAfterFinishedController

__all__ = ["JobController", "TtlAfterFinishedController"]
