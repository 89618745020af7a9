"""Reads what a cluster looks like: manifests, dumps of kubectl, OpenB lists.

`load_cluster` is the door. It only reads files; whatever is wrong with them becomes an InputError of one line.
"""

from __future__ import annotations

from .collect import ClusterInput
from .errors import InputError
from .load import load_cluster
from .openb import GPU_RESOURCE, MODEL_LABEL, inflate

__all__ = ["GPU_RESOURCE", "MODEL_LABEL", "ClusterInput", "InputError", "inflate", "load_cluster"]
