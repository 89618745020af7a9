"""Tests of DefaultBinder."""

from __future__ import annotations

from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.plugins.default_binder import DefaultBinder
from support.builders import pod
from support.tables import info_of


def test_binds_every_pod() -> None:
    """Skip would leave the pod without a binder; the effect itself is the caller's."""
    assert DefaultBinder().bind(CycleState(), info_of(pod("p").build()), "n1").is_success
