"""Effects: what the scheduler asks the outside world to do. Data, each with an id; results come back as EffectDone.

The live worker sends them to the API server, the simulator applies them to a virtual cluster. An effect is asked for
once; whoever carries it out answers once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stowplan_scheduler.objects import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Base of all effects. `id` is unique within one scheduler."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind(Effect):
    """Bind the pod (by UID) to the node. Outcome: done, or failed with a text."""

    pod: Pod
    node_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreBind(Effect):
    """Prepare what a PreBind plugin asked for before binding."""

    pod: Pod
    node_name: str
    plugin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchPodStatus(Effect):
    """Set the PodScheduled condition and status.nominatedNodeName; None leaves the latter as it is.

    `reason` "" leaves the condition as it is (a lost nomination). No answer is needed.
    """

    pod: Pod
    reason: str
    message: str
    nominated_node_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVictim(Effect):
    """Set DisruptionTarget=True (reason PreemptionByScheduler, `message`) on the victim, then delete it gracefully.

    Outcome: done (also if the victim was gone already), or failed with a text.
    """

    victim: Pod
    preemptor: Pod
    node_name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseClaim(Effect):
    """Deallocate a resource claim so that it can be allocated elsewhere."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent(Effect):
    """An event of events.k8s.io/v1; `note` is cut to 1024 bytes already. No answer is needed."""

    regarding: Pod
    related: Pod | None
    type: str
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(Effect):
    """An attempt failed: the whole text, who rejected the pod, and what becomes of its nomination.

    `nominated_node`: None keeps it, "" takes it away. For logs and reports; no answer is needed.
    """

    pod: Pod
    rejected: bool
    message: str
    plugins: tuple[str, ...]
    pending_plugins: tuple[str, ...]
    nominated_node: str | None
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe(Effect):
    """A sample for a metric with kube-scheduler's name (without prefix). No answer is needed."""

    metric: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer(Effect):
    """Call back with TimerFired at `at` (nanoseconds of the caller's clock), or later; replaces the timer before."""

    at: int


class Result(StrEnum):
    """How an effect ended."""

    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to an effect.

    `in_memory`: a victim that never reached the API server was given up. `missing`: the object was gone already.
    """

    result: Result = Result.DONE
    message: str = ""
    in_memory: bool = False
    missing: bool = False

    @property
    def is_done(self) -> bool:
        """Whether it worked."""
        return self.result is Result.DONE


DONE = Outcome()
