"""What is to be measured: `workloads.yaml`, read and checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from stowplan_operator.bench.workloads import UPSTREAM, WORKLOADS

TABLE = Path(__file__).resolve().parent / "workloads.yaml"
UNPLACEABLE = frozenset({"backlog"})
"""Workloads whose pods fit nowhere; every other pod must find a node, or the rates compare different work."""


class TableError(Exception):
    """The table cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One line of the table of speeds. `reference_pods` 0: not compared with the scalar reference."""

    workload: str
    nodes: int
    percent: int
    initial: int
    pods: int
    rounds: int
    upstream: bool
    reference_pods: int
    timeout_seconds: float

    @property
    def label(self) -> str:
        """For progress and reports."""
        sampling = "all nodes scored" if self.percent == 100 else "sampled"
        return f"{self.workload}, {self.nodes:,} nodes, {sampling}"

    def turns(self) -> list[str]:
        """Whose turn it is, in order: ours before and after each of upstream's, so that both see the same minutes."""
        if self.upstream:
            return ["ours", *["upstream", "ours"] * self.rounds]
        return ["ours"] * self.rounds


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RunGroup(_Strict):
    """Several workloads with the same numbers."""

    workloads: list[str] = Field(min_length=1)
    nodes: int = Field(ge=1)
    percent: int = Field(ge=0, le=100)
    initial: int = Field(ge=0)
    pods: int = Field(ge=1)
    timeout_seconds: int = Field(ge=1)
    rounds: int | None = Field(default=None, ge=1)
    upstream: bool = False
    reference_pods: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _known(self) -> RunGroup:
        known = UPSTREAM if self.upstream else tuple(WORKLOADS)
        for workload in self.workloads:
            if workload not in known:
                raise ValueError(f"workload {workload!r}: must be one of {', '.join(known)}")
        return self

    def each(self, rounds: int) -> Iterator[Run]:
        """The lines of the group; `rounds` unless it has its own."""
        for workload in self.workloads:
            yield Run(
                workload=workload,
                nodes=self.nodes,
                percent=self.percent,
                initial=self.initial,
                pods=self.pods,
                rounds=self.rounds or rounds,
                upstream=self.upstream,
                reference_pods=self.reference_pods,
                timeout_seconds=self.timeout_seconds,
            )


class SnapshotRuns(_Strict):
    """Cost of an update after two changed nodes, by number of nodes, and of a deep copy."""

    nodes: list[int] = Field(min_length=2)
    pods_per_node: int = Field(ge=1)
    updates: int = Field(ge=1)
    deep_copy_nodes: int
    timeout_seconds: int = Field(ge=1)

    @model_validator(mode="after")
    def _copied(self) -> SnapshotRuns:
        if self.deep_copy_nodes not in self.nodes:
            raise ValueError("deep_copy_nodes: must be one of nodes")
        return self


class MemoryRuns(_Strict):
    """Memory per node and per pod, by workload."""

    workloads: list[str]
    nodes: int = Field(ge=1)
    pods: int = Field(ge=1)
    timeout_seconds: int = Field(ge=1)

    @field_validator("workloads")
    @classmethod
    def _known(cls, workloads: list[str]) -> list[str]:
        for workload in workloads:
            if workload not in WORKLOADS:
                raise ValueError(f"workload {workload!r}: must be one of {', '.join(WORKLOADS)}")
        return workloads


class Table(_Strict):
    """Everything that one call measures."""

    budget_minutes: int = Field(ge=1)
    rounds: int = Field(ge=1)
    runs: list[RunGroup]
    snapshot: SnapshotRuns
    memory: MemoryRuns

    def lines(self, only: frozenset[str] = frozenset(), *, upstream: bool = True) -> list[Run]:
        """The lines in order; `only` these workloads, if any are named; without upstream, ours alone."""
        every = [run for group in self.runs for run in group.each(self.rounds)]
        chosen = [run for run in every if not only or run.workload in only]
        return chosen if upstream else [replace(run, upstream=False) for run in chosen]


class Tables(_Strict):
    """The whole file."""

    full: Table
    quick: Table


def load_table(*, quick: bool = False, path: Path = TABLE) -> Table:
    """Read the table. Raises TableError with one line per problem."""
    try:
        tables = Tables.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError) as failure:
        raise TableError(f"{path}: {failure}") from failure
    except ValidationError as failure:
        problems = [f"{path}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in failure.errors()]
        raise TableError("\n".join(problems)) from failure
    return tables.quick if quick else tables.full
