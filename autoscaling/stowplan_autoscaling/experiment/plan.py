"""What a comparison runs: each candidate with each seed, all of them read and checked before any runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stowplan_autoscaling.inputs.errors import InputError
from stowplan_autoscaling.resources import LoadedSimulation, load_simulation
from stowplan_autoscaling.resources.candidates import Candidate, Goal
from stowplan_autoscaling.resources.findings import near
from stowplan_autoscaling.resources.simulation import MAX_SEED

from .cell import Cell

if TYPE_CHECKING:
    from stowplan_scheduler.framework.handle import PluginFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A comparison that can be run. `loaded`: each candidate with the first seed; `baseline`: the name of one."""

    source: str
    duration: int | None
    seeds: tuple[int, ...]
    baseline: str
    candidates: tuple[Candidate, ...]
    goals: tuple[Goal, ...]
    loaded: Mapping[str, LoadedSimulation]
    cells: tuple[Cell, ...]
    third_party: Mapping[str, PluginFactory] = field(default_factory=dict)

    @property
    def first(self) -> LoadedSimulation:
        """The baseline with the first seed."""
        return self.loaded[self.baseline]

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.first.name

    def load(self, cell: Cell) -> LoadedSimulation:
        """The simulation of a cell. Raises InputError, also where its files have changed since the plan was made."""
        first = self.loaded[cell.candidate]
        if cell.seed == self.seeds[0]:
            return first
        found = load_simulation(
            self.source,
            seed=cell.seed,
            duration=self.duration,
            candidate=cell.candidate,
            third_party=self.third_party,
        )
        if found.files != first.files:
            message = "a file has changed while the comparison ran; the same command begins with what it says now"
            raise InputError(self.source, f"candidate {cell.candidate}", "", message)
        return found


def plan_of(
    source: str,
    *,
    seeds: int | None = None,
    seed: int | None = None,
    duration: int | None = None,
    third_party: Mapping[str, PluginFactory] | None = None,
) -> Plan:
    """Reads a simulation with its candidates. `seeds`: how many, `seed`: the first one, instead of those of the file.

    `duration` in nanoseconds. Raises InputError.
    """
    whole = load_simulation(source, seed=seed, duration=duration, third_party=third_party)
    spec = whole.spec
    if not spec.candidates:
        message = (
            "there is nothing to compare: name at least one candidate, as in {name: today}; "
            "`stowplan simulate -f` runs the simulation as it stands"
        )
        raise InputError(source, "", "spec.candidates", message)
    count = spec.seeds if seeds is None else seeds
    if spec.seed > MAX_SEED - count + 1:
        raise InputError(source, "", "spec.seed", f"{spec.seed}: the last of {count} seeds would be too large")
    numbers = tuple(range(spec.seed, spec.seed + count))
    loaded = {
        candidate.name: load_simulation(
            source, seed=seed, duration=duration, candidate=candidate.name, third_party=third_party
        )
        for candidate in spec.candidates
    }
    _check_goals(source, spec.goals, loaded)
    # Seed by seed, so that what is finished when a run is interrupted can be compared.
    pairs = [(candidate.name, number) for number in numbers for candidate in spec.candidates]
    return Plan(
        source=source,
        duration=duration,
        seeds=numbers,
        baseline=spec.baseline or spec.candidates[0].name,
        candidates=spec.candidates,
        goals=spec.goals or _usual_goals(loaded[spec.baseline or spec.candidates[0].name]),
        loaded=loaded,
        cells=tuple(Cell(index, name, number) for index, (name, number) in enumerate(pairs)),
        third_party=third_party or {},
    )


def _usual_goals(loaded: LoadedSimulation) -> tuple[Goal, ...]:
    """Of whoever names none: cost, waiting, and objectives where there are any."""
    has_prices = bool(loaded.pools or loaded.group_prices)
    names = [*(["cost"] if has_prices else []), "waiting.p95", *(["sloMisses"] if loaded.spec.slo else [])]
    return tuple(Goal(metric=name) for name in names)


def _check_goals(source: str, goals: tuple[Goal, ...], loaded: Mapping[str, LoadedSimulation]) -> None:
    """A goal about one demand, objective or pool needs a candidate that has it."""
    for index, goal in enumerate(goals):
        family, _, member = goal.metric.partition(".")
        known = _members(family, loaded)
        if known is not None and member not in known:
            message = f"{goal.metric}: no candidate has {member!r}{near(member, sorted(known - {''}))}"
            raise InputError(source, "", f"spec.goals[{index}].metric", message)


def _members(family: str, loaded: Mapping[str, LoadedSimulation]) -> set[str] | None:
    """The names that a family of metrics has a member for; None for what is no family."""
    specs = [each.spec for each in loaded.values()]
    match family:
        case "slo":
            return {objective.name for spec in specs for objective in spec.slo}
        case "unserved" | "latency" | "costPerThousand":
            return {entry.name for spec in specs for entry in spec.demand}
        case "nodeHours":
            pools = {pool.name for spec in specs for pool in spec.node_pools}
            return {"", *pools, *(group.name for spec in specs for group in spec.cluster.node_groups)}
        case _:
            return None
