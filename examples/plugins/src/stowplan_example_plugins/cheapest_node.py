"""CheapestNode: prefers nodes that cost less, as a label on each node says. A vector rule.

It answers for all nodes at once. A label column holds a small number per node and one text per number, so the texts are
read once per distinct price, however many nodes there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.config import RawArgs
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import Inputs, ScorePlugin, Scores, default_normalize
from stowplan_scheduler.framework.pod_info import PodInfo

LABEL = "example.com/cents-per-hour"
MISSING = 1000


@dataclass(frozen=True, slots=True)
class CheapestNodeArgs:
    """Args in a configuration: `label` holds a whole number on each node, `missing` stands for nodes without one."""

    label: str
    missing: int

    @classmethod
    def read(cls, args: object) -> CheapestNodeArgs:
        """From what a configuration gives: None, or JSON. Raises ValueError that names what is wrong."""
        value = args.value if isinstance(args, RawArgs) else {}
        if not isinstance(value, Mapping) or not value.keys() <= {"label", "missing"}:
            raise ValueError("CheapestNode: args have the fields label and missing")
        fields: dict[str, object] = {"label": LABEL, "missing": MISSING, **value}
        label, missing = fields["label"], fields["missing"]
        if not isinstance(label, str) or type(missing) is not int or missing < 0:
            raise ValueError("CheapestNode: label is a text, missing a whole number of at least 0")
        return cls(label, missing)


class CheapestNode(ScorePlugin):
    """The raw score is the price; normalisation turns it round: 100 for what costs nothing, 0 for the dearest."""

    name = "CheapestNode"
    score_inputs = Inputs.NODE  # prices are kept until a node changes
    score_reads_requests = False
    normalizes = True

    def __init__(self, args: object, handle: PluginHandle) -> None:
        """Every plugin of another distribution is made with its args and a handle. Raises ValueError."""
        self._args = CheapestNodeArgs.read(args)

    def score_key(self, pod: PodInfo) -> Hashable:
        """Nothing of the pod is read: all pods share one memo entry."""
        return None

    def score(self, state: object, view: NodeView) -> Scores:
        """The prices, shape (view.size,)."""
        texts = view.table.labels(self._args.label).interned.values
        prices = np.array([self._price(text) for text in texts], np.int64)
        return prices[view.labels(self._args.label)]

    def normalize(self, state: object, scores: Scores, view: NodeView | None) -> Scores:
        """100 - 100 x price / highest price among the nodes that fit."""
        return default_normalize(scores, reverse=True)

    def _price(self, text: str | None) -> int:
        """A label that is no number counts as a missing one."""
        return int(text) if text is not None and text.isascii() and text.isdigit() else self._args.missing
