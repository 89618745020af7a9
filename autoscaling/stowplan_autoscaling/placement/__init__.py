"""Places the pods of a cluster with one scheduler configuration, to the end, and measures what came of it.

    placement = Placement(cluster, config, PlacementOptions(seed=1))
    outcome = placement.run()
    report = measure(outcome, name="default", shape=None)

Virtual time: nothing here waits, reads a clock or does IO.
"""

from __future__ import annotations

from .highlights import highlights
from .measure import measure
from .order import belongs_to_node, find_pod
from .outcome import Decisions, Explained, Outcome, PendingPod, Victim
from .report import (
    SCHEMA,
    Amount,
    Balance,
    ClusterReport,
    ConfigurationReport,
    DecisionReport,
    LargestPod,
    NodesReport,
    OtherScheduler,
    PendingGroup,
    PodsReport,
    Report,
    ResourceReport,
    Timing,
    VictimReport,
)
from .run import Placement, PlacementOptions, PodNotFoundError
from .shape import Shape, ShapeError, default_shape, parse_shape

__all__ = [
    "SCHEMA",
    "Amount",
    "Balance",
    "ClusterReport",
    "ConfigurationReport",
    "DecisionReport",
    "Decisions",
    "Explained",
    "LargestPod",
    "NodesReport",
    "OtherScheduler",
    "Outcome",
    "PendingGroup",
    "PendingPod",
    "Placement",
    "PlacementOptions",
    "PodNotFoundError",
    "PodsReport",
    "Report",
    "ResourceReport",
    "Shape",
    "ShapeError",
    "Timing",
    "Victim",
    "VictimReport",
    "belongs_to_node",
    "default_shape",
    "find_pod",
    "highlights",
    "measure",
    "parse_shape",
]
