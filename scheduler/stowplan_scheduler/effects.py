"""Effects: what the scheduler asks the outside world to do. Data, each with an id; results come back as EffectDone.

The live worker sends them to the API server, the simulator applies them to a virtual cluster. An effect is asked for
once; whoever carries it out answers once.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from stowplan_scheduler.objects import Pod


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all effects. `id` is unique within one scheduler."""

    id: int


class Bind(Effect, frozen=True, kw_only=True):
    """Bind the pod (by UID) to the node. Outcome: done, or failed with a text."""

    pod: Pod
    node_name: str


class PreBind(Effect, frozen=True, kw_only=True):
    """Prepare what a PreBind plugin asked for before binding."""

    pod: Pod
    node_name: str
    plugin: str


class PatchPodStatus(Effect, frozen=True, kw_only=True):
    """Set the PodScheduled condition and status.nominatedNodeName; None leaves the latter as it is.

    `reason` "" leaves the condition as it is (a lost nomination). No answer is needed.
    """

    pod: Pod
    reason: str
    message: str
    nominated_node_name: str | None


class DeleteVictim(Effect, frozen=True, kw_only=True):
    """Set DisruptionTarget=True (reason PreemptionByScheduler, `message`) on the victim, then delete it gracefully.

    Outcome: done (also if the victim was gone already), or failed with a text.
    """

    victim: Pod
    preemptor: Pod
    node_name: str
    message: str


class ReleaseClaim(Effect, frozen=True, kw_only=True):
    """Deallocate a resource claim so that it can be allocated elsewhere."""

    namespace: str
    name: str


class RecordEvent(Effect, frozen=True, kw_only=True):
    """An event of events.k8s.io/v1; `note` is cut to 1024 bytes already. No answer is needed."""

    regarding: Pod
    related: Pod | None
    type: str
    reason: str
    action: str
    note: str


class AttemptFailed(Effect, frozen=True, kw_only=True):
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


class Observe(Effect, frozen=True, kw_only=True):
    """A sample for a metric with kube-scheduler's name (without prefix). No answer is needed."""

    metric: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


class SetTimer(Effect, frozen=True, kw_only=True):
    """Call back with TimerFired at `at` (nanoseconds of the caller's clock), or later; replaces the timer before."""

    at: int


class Result(StrEnum):
    """How an effect ended."""

    DONE = "done"
    FAILED = "failed"


class Outcome(msgspec.Struct, frozen=True):
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
