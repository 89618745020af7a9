"""Expanders that look at numbers of pods and nodes.

Follows pkg/expander/mostpods and leastnodes of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence

from .base import Option


def most_pods(options: Sequence[Option]) -> list[Option]:
    """Those that take most pods."""
    most = max((len(option.pods) for option in options), default=0)
    return [option for option in options if len(option.pods) == most]


def least_nodes(options: Sequence[Option]) -> list[Option]:
    """Those that need fewest nodes."""
    counted = [option for option in options if option.node_count]
    least = min((option.node_count for option in counted), default=0)
    return [option for option in counted if option.node_count == least]
