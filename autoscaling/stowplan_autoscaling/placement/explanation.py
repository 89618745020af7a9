"""An explanation of the scheduler core as a part of the report."""

from __future__ import annotations

from stowplan_scheduler.explain import NodeVerdict

from .outcome import Explained
from .report import (
    ChangeReport,
    ExplanationReport,
    NodeVerdictReport,
    RejectionReport,
    ScoreReport,
    VictimReport,
)


def explanation_report(explained: Explained) -> ExplanationReport:
    """Every node, every plugin."""
    explanation = explained.explanation
    return ExplanationReport(
        pod=explanation.pod,
        scheduler_name=explanation.scheduler_name,
        when=explained.when,
        node=explained.node_name,
        message=explained.message,
        selected=explanation.selected,
        evaluated_nodes=explanation.evaluated_nodes,
        feasible_nodes=explanation.feasible_nodes,
        ties=explanation.ties,
        victims=tuple(VictimReport(pod=v.pod.key, node=v.node_name, by=v.by) for v in explained.victims),
        changes=tuple(ChangeReport(text=change.text, nodes=change.nodes) for change in explanation.changes),
        nodes=tuple(_verdict(node) for node in explanation.nodes),
    )


def _verdict(node: NodeVerdict) -> NodeVerdictReport:
    return NodeVerdictReport(
        name=node.name,
        looked_at=node.looked_at,
        rejections=tuple(
            RejectionReport(plugin=r.plugin, code=r.code, reasons=r.reasons, for_nominated=r.for_nominated)
            for r in node.rejections
        ),
        scores=tuple(
            ScoreReport(plugin=s.plugin, raw=s.raw, normalized=s.normalized, weight=s.weight, weighted=s.weighted)
            for s in node.scores
        ),
        total=node.total,
    )
