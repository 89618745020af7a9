"""The way of one request to the API server and back: latencies, refusals, losses, outages."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from .kernel import Kernel
from .plan import MILLISECOND, SECOND, Fault, Plan
from .world import Answered

TIMEOUT = 10 * SECOND
UNKNOWN = Answered(0, "no answer")


class Network:
    """Between all workers and one API server."""

    def __init__(self, kernel: Kernel, plan: Plan) -> None:
        """Everything works."""
        self._kernel = kernel
        self._plan = plan
        self.down_until = 0
        self.forbids_until = 0

    @property
    def is_down(self) -> bool:
        """Whether the API server is gone."""
        return self._kernel.now < self.down_until

    def outage(self, nanoseconds: int) -> None:
        """The API server is gone for so long, and then knows nobody's rights for a second."""
        self.down_until = max(self.down_until, self._kernel.now + nanoseconds)
        self.forbids_until = self.down_until + SECOND

    def call(
        self,
        apply: Callable[[], Answered],
        answer: Callable[[Answered], None],
        *,
        timeout: int = TIMEOUT,
        lossy: bool = True,
    ) -> None:
        """Carry out `apply` at the API server and `answer` here, each at its time, if at all and whatever happens."""
        plan, rng = self._plan, self._plan.stream("network")
        there = 1 + int(plan.bind_latency * rng.random())
        back = 1 + int(MILLISECOND * rng.random())
        fate = self._fate() if lossy else _Fate()
        if fate.is_lost:
            self._kernel.after(timeout, lambda: answer(UNKNOWN))
            return
        if fate.is_late:
            self._kernel.after(timeout, lambda: answer(UNKNOWN))

            def late() -> None:
                self._apply(apply, fate)

            self._kernel.after(timeout + int(rng.random() * 10 * SECOND), late)
            return

        def arrives() -> None:
            result = self._apply(apply, fate)
            if fate.answer_is_lost:
                # Either a connection that is reset or one that says nothing any more.
                self._kernel.after(timeout if rng.random() < 0.3 else back, lambda: answer(UNKNOWN))
            else:
                self._kernel.after(back, lambda: answer(result))

        self._kernel.after(there + fate.slow, arrives)

    def _apply(self, apply: Callable[[], Answered], fate: _Fate) -> Answered:
        if self.is_down:
            return UNKNOWN
        if self._kernel.now < self.forbids_until:
            return Answered(403, "forbidden: not yet")
        return Answered(fate.refusal, "not now") if fate.refusal else apply()

    def _fate(self) -> _Fate:
        plan = self._plan
        if plan.rolls(Fault.LOST_REQUEST, 0.04):
            return _Fate(is_lost=True)
        if plan.rolls(Fault.LATE_REQUEST, 0.03):
            return _Fate(is_late=True)
        refusal = plan.stream("refusals").choice((403, 429, 500, 503)) if plan.rolls(Fault.REFUSED, 0.15) else 0
        slow = plan.stream("slowness").randint(1, 9) * SECOND if plan.rolls(Fault.SLOW, 0.04) else 0
        return _Fate(refusal=refusal, slow=slow, answer_is_lost=plan.rolls(Fault.LOST_ANSWER, 0.08))


class _Fate(msgspec.Struct, frozen=True):
    """What becomes of a request."""

    is_lost: bool = False
    is_late: bool = False
    refusal: int = 0
    slow: int = 0
    answer_is_lost: bool = False
