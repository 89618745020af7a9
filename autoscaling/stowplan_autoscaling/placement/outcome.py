"""What a run leaves behind, before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stowplan_scheduler.explain import Explanation
from stowplan_scheduler.objects import Pod

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_info import NodeInfo


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that has no node at the end; `message` is the last word of the scheduler about it."""

    pod: Pod
    message: str


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that was removed from its node to make room for `by` ("namespace/name")."""

    pod: Pod
    node_name: str
    by: str


@dataclass(slots=True)
class Decisions:
    """Facts about the attempts. The three lists have an entry per attempt that found a node."""

    attempts: int = 0
    ties: list[int] = field(default_factory=list)
    evaluated: list[int] = field(default_factory=list)
    feasible: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """An explanation and what became of the pod.

    `when`: "at its last attempt", or "at the end" for a pod that was never tried. `node_name` is where it is at the
    end, "" if nowhere. `message` is the scheduler's last word. `victims` made room for it.
    """

    explanation: Explanation
    when: str
    node_name: str
    message: str
    victims: tuple[Victim, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a run. `nodes` holds every node with its pods; they live on with the scheduler.

    `placed` maps pods to the node that they were given in this run and still have; `kept` counts the pods that had a
    node before and still have it. `other_schedulers` holds the pods without a node that no profile takes. `settled` is
    False if pods kept coming back without any of them being placed; the run then gave up.
    """

    pods_before: Sequence[Pod]
    nodes: tuple[NodeInfo, ...]
    placed: dict[str, str]
    kept: int
    pending: tuple[PendingPod, ...]
    other_schedulers: tuple[Pod, ...]
    victims: tuple[Victim, ...]
    decisions: Decisions
    requests: tuple[tuple[int, int], ...]
    """(milli cores, bytes) that each pod of the input asks for, those that belong to their node left out."""
    settled: bool
    explained: Explained | None
