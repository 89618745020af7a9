"""What the API server does to an object before it stores it: defaults, limit ranges, priorities, quotas."""

from .chain import Admission

__all__ = ["Admission"]
