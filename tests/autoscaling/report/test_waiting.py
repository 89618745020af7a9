"""The bars of what pods waited for: all of them, and the slowest."""

from __future__ import annotations

import numpy as np

from stowplan_autoscaling.report.pods import PARTS, Pods
from stowplan_autoscaling.report.runs import CandidateRuns
from stowplan_autoscaling.report.waiting import build

from .conftest import Written


def test_the_second_bar_is_about_one_pod_of_twenty(shop: Written) -> None:
    """19 waited a second and one 21 s: 2 s on average."""
    waiting = np.zeros((20, len(PARTS)))
    waiting[:, PARTS.index("queue")] = [1.0] * 19 + [21.0]
    here = np.zeros(20)
    one = shop.comparison.candidates[0]
    found = build([CandidateRuns(one, (), None)], {one.name: [Pods(here, here, here, here, waiting)]})
    assert f"{one.name}, all pods: 2.0 s, most of it queue (2.0 s)" in found
    assert f"{one.name}, the slowest 5 %: 21.0 s, most of it queue (21.0 s)" in found
    assert "21.0 s, 1 pods" in found
