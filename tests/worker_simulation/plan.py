"""What goes wrong in one run, and how the world is tuned: a function of the seed alone.

Every kind of fault is on in about a third of the runs, so that combinations vary and some runs are nearly clean. Each
purpose has a stream of random numbers of its own: a new draw in one place does not move all others.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from random import Random
from typing import Final

from .world import BUDGET

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000


class Fault(StrEnum):
    """What can go wrong. The F numbers are those of the catalogue in docs/architecture/worker.md."""

    CRASH = "a worker is killed and started again"  # F1
    STOP = "a worker is stopped gracefully and started again"
    PAUSE = "a worker's process stands still"  # F25
    WATCH_LAG = "a watch shows events late"  # F3
    OLD_LIST = "a list shows a state of before"  # F4
    WATCH_BEHIND = "a watch begins at a server that has not seen what is known already"  # F4
    WATCH_PAST = "a watch begins further back than it was asked to"  # F4
    WATCH_BREAK = "a watch breaks and goes on where it was"  # F5
    WATCH_EXPIRED = "the history is gone: 410 and a new list"  # F7
    WATCH_FREEZE = "a watch is silent until it is given up"  # F8
    DUPLICATE = "an event comes twice"  # F6
    REFUSED = "a request is answered 403, 429, 500 or 503"  # F9
    LOST_REQUEST = "a request is lost"  # F9
    LOST_ANSWER = "a request is carried out and its answer is lost"  # F9
    LATE_REQUEST = "a request is carried out after it was given up"  # F9
    SLOW = "an answer takes seconds"  # F9
    OUTAGE = "the API server is gone for seconds, then answers 403 for one"  # F26
    POD_DELETED = "a waiting pod is deleted"  # F10
    POD_MADE_ANEW = "a pod is deleted and made anew under its name"  # F10
    POD_GATED = "a pod comes with a gate that is lifted later"
    FINALIZER = "a pod that is deleted stays, terminating"  # F10
    NODE_DELETED = "a node is deleted with its pods and may come back"  # F11
    NODE_SHRUNK = "a node has less than before"  # F11
    NODE_CHANGED = "a node is cordoned, tainted or labelled"  # F11
    LEASE_LOST = "a leader's renewals are lost"  # F12
    CLOCK_SKEW = "clocks differ by half a minute"  # F12
    SECOND_SCHEDULER = "another scheduler binds its pods to the same nodes"  # F13
    THIEF = "somebody else binds our pods"  # F13
    KUBELET_REJECTS = "a kubelet refuses a pod that does not fit"  # F14
    SLOW_END = "pods terminate slowly"  # F14
    PLUGIN_BREAKS = "a plugin raises, or returns nonsense"  # F16
    SLOW_EVENTS = "events are written slowly"  # F17
    IMPOSSIBLE = "pods that can never fit"  # F19
    BUDGET_CHANGED = "disruption budgets come, change and go"  # F20
    PROFILE_EDITED = "profiles are edited during a burst"  # F23
    BAD_PROFILE = "an edit is refused"  # F23


class Plan:
    """The faults and knobs of a seed. `rolls` decides as it goes; `fired` counts what happened."""

    def __init__(self, seed: int, *, only: frozenset[Fault] | None = None, eagerness: float = 1) -> None:
        """`only`: exactly these faults, for scenarios that are written down. `eagerness` multiplies their chances."""
        self.seed = seed
        self.eagerness = eagerness
        self.fired: Counter[str] = Counter()
        self._streams: dict[str, Random] = {}
        self.active = False
        """Whether faults may happen now: between the warm-up and the healing."""
        chance = self.stream("plan").choice((0.15, 0.35, 0.6))
        # Each from a stream of its own: a new kind of fault leaves the others of a seed as they are.
        drawn = frozenset(fault for fault in Fault if self.stream(f"plan {fault.name}").random() < chance)
        self.faults = drawn if only is None else only
        self.kinds = (BUDGET, "Node", "Pod") if Fault.BUDGET_CHANGED in self.faults else ("Node", "Pod")
        """What workers watch. Of all other kinds there is nothing in the world."""
        knobs = self.stream("knobs")
        self.workers = knobs.choice((1, 2, 2, 2, 3))
        self.nodes = knobs.randint(3, 7)
        self.apps = knobs.randint(3, 6)
        self.max_binds = knobs.choice((1, 2, 4, 32))
        self.cycle = knobs.choice((MILLISECOND // 5, 2 * MILLISECOND, 10 * MILLISECOND))
        self.bind_latency = knobs.choice((2 * MILLISECOND, 20 * MILLISECOND, 400 * MILLISECOND))
        self.watch_delay = knobs.choice((2 * MILLISECOND, 30 * MILLISECOND, 300 * MILLISECOND))
        self.initial_backoff = knobs.choice((1, 1, 2))
        self.max_backoff = knobs.choice((2, 10, 10))
        self.strategy = knobs.choice(("LeastAllocated", "MostAllocated"))
        self.percentage = knobs.choice((0, 50, 100))
        self.lease = knobs.choice(((15, 10, 2), (6, 4, 1)))
        self.fault_seconds = knobs.randint(40, 90)

    def stream(self, purpose: str) -> Random:
        """The random numbers for one purpose."""
        if purpose not in self._streams:
            self._streams[purpose] = Random(f"{self.seed}/{purpose}")
        return self._streams[purpose]

    def rolls(self, fault: Fault, chance: float) -> bool:
        """Whether the fault happens here and now. A fault that is off draws nothing, and so moves nothing."""
        if not self.active or fault not in self.faults or self.stream(fault.name).random() >= chance * self.eagerness:
            return False
        self.fired[fault.name] += 1
        return True
