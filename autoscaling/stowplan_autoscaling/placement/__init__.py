"""Places the pods of a cluster with one scheduler configuration, to the end, and measures what came of it.

    placement = Placement(cluster, config, PlacementOptions(seed=1))
    outcome = placement.run()
    report = measure(outcome, name="default", shape=None)

Virtual time: nothing here waits, reads a clock or does IO.
"""

from __future__ import annotations

from .highlights import highlights
from .measure import amount, cluster_report, full_thresholds, measure
from .order import belongs_to_node, find_pod
from .outcome import Decisions, Explained, Outcome, PendingPod, Victim
from .report import (
    SCHEMA,
    Amount,
    Balance,
    ChangeReport,
    ClusterReport,
    ConfigurationReport,
    DecisionReport,
    ExplanationReport,
    LargestPod,
    NodesReport,
    NodeVerdictReport,
    OtherScheduler,
    PendingGroup,
    PodsReport,
    RejectionReport,
    Report,
    ResourceReport,
    ScoreReport,
    Timing,
    VictimReport,
)
from .run import Placement, PlacementOptions, PodNotFoundError
from .shape import Shape, ShapeError, default_shape, parse_shape

__all__ = [
    "SCHEMA",
    "Amount",
    "Balance",
    "ChangeReport",
    "ClusterReport",
    "ConfigurationReport",
    "DecisionReport",
    "Decisions",
    "Explained",
    "ExplanationReport",
    "LargestPod",
    "NodeVerdictReport",
    "NodesReport",
    "OtherScheduler",
    "Outcome",
    "PendingGroup",
    "PendingPod",
    "Placement",
    "PlacementOptions",
    "PodNotFoundError",
    "PodsReport",
    "RejectionReport",
    "Report",
    "ResourceReport",
    "ScoreReport",
    "Shape",
    "ShapeError",
    "Timing",
    "Victim",
    "VictimReport",
    "amount",
    "belongs_to_node",
    "cluster_report",
    "default_shape",
    "find_pod",
    "full_thresholds",
    "highlights",
    "measure",
    "parse_shape",
]
