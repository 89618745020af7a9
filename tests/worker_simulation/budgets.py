"""Whoever makes disruption budgets, and the controller that says how many pods they can spare: both change their minds.

Budgets are there only in runs with the fault: a worker without any is the common case, and another watch takes time.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan_scheduler.objects import LabelSelector, PodDisruptionBudget
from support.builders import budget

from .plan import Fault
from .world import BUDGET

if TYPE_CHECKING:
    from .simulation import Simulation

CHANCE = 0.3
"""That something changes, at each look: preemptions are rare, and budgets matter only while one is decided."""


class Budgets:
    """All budgets of a run."""

    def __init__(self, simulation: Simulation) -> None:
        """None yet; `begin` makes them."""
        self._world = simulation.world
        self._plan = simulation.plan
        self._sim = simulation

    def begin(self) -> None:
        """One for about half of the apps, if there are any in this run."""
        if Fault.BUDGET_CHANGED in self._plan.faults:
            rng = self._plan.stream("budgets")
            for app in self._sim.actors.apps:
                if rng.random() < 0.5:
                    self._make(app.name, rng)

    def trouble(self) -> None:
        """One comes, changes or goes."""
        if not self._plan.rolls(Fault.BUDGET_CHANGED, CHANCE):
            return
        rng = self._plan.stream("budgets")
        name = rng.choice(self._sim.actors.apps).name
        held = self._world.budgets.get(f"default/{name}")
        if held is None:
            self._make(name, rng)
        elif rng.random() < 0.2:
            self._world.remove(BUDGET, f"default/{name}")
        else:
            self._change(held, rng)

    def _make(self, name: str, rng: Random) -> None:
        self._world.create(budget(name, LabelSelector(match_labels={"app": name}), rng.choice((0, 0, 1, 2))))

    def _change(self, held: PodDisruptionBudget, rng: Random) -> None:
        """Another number; and now and then a pod that is being evicted already, which costs nothing more."""
        pods = sorted(pod.metadata.name for pod in self._world.pods.values() if pod.spec.node_name)
        disrupted = {rng.choice(pods): "2026-01-01T00:00:00Z"} if pods and rng.random() < 0.3 else None
        status = replace(held.status, disruptions_allowed=rng.choice((0, 0, 1, 2)), disrupted_pods=disrupted)
        self._world.update(replace(held, status=status))
