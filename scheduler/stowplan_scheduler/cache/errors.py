"""Errors of the cache. Texts are upstream's (pkg/scheduler/backend/cache/cache.go of Kubernetes v1.37.2)."""

from __future__ import annotations


class CacheError(Exception):
    """An event that does not fit what the cache knows; the cache is unchanged."""


class CacheCorruptedError(CacheError):
    """A pod is reported on another node than before. kube-scheduler ends its process here."""
