"""Has NodePools and Simulations checked, one by one, each in a process with bounds, and remembers the verdicts."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from typing import Final

from .choosing import ProblemError
from .model_status import ModelVerdict, VerdictKey, verdict_key
from .observed import Observed, text

log = logging.getLogger("stowplan.operator.models")

SECONDS: Final = 60.0
"""Longest time for a check."""

_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""numpy's library sets address space aside for each thread, one per core: with many the bound is too low."""

_PROGRAM: Final = (sys.executable, "-m", "stowplan_operator.handlers.model_checks")


class ModelChecking:
    """Takes objects to check with `want`; `run` checks them; `changed` is told of every verdict."""

    def __init__(self, changed: Callable[[], None], *, seconds: float = SECONDS) -> None:
        self._changed = changed
        self._seconds = seconds
        self._wanted: dict[VerdictKey, tuple[str, Observed]] = {}
        self._filled = asyncio.Event()
        self.verdicts: dict[VerdictKey, ModelVerdict] = {}

    def want(self, objects: Iterable[tuple[str, Observed]]) -> None:
        """Exactly these objects, with their kinds, are of interest; verdicts about others are forgotten."""
        wanted = {verdict_key(kind, about): (kind, about) for kind, about in objects}
        self.verdicts = {key: verdict for key, verdict in self.verdicts.items() if key in wanted}
        self._wanted = {key: value for key, value in wanted.items() if key not in self.verdicts}
        if self._wanted:
            self._filled.set()

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self._filled.wait()
            if not self._wanted:
                self._filled.clear()
                continue
            key = next(iter(self._wanted))
            kind, about = self._wanted.pop(key)
            self.verdicts[key] = ModelVerdict(await self._check(kind, about))
            self._changed()

    async def _check(self, kind: str, about: Observed) -> ProblemError | None:
        try:
            question = json.dumps({"kind": kind, "name": about.name, "spec": dict(about.spec)}).encode()
        except RecursionError:
            return ProblemError("spec", "nests too deep")
        try:
            async with asyncio.timeout(self._seconds):
                answer = await _ask(question)
        except TimeoutError:
            return ProblemError("spec", f"is too large to be checked here: that took more than {self._seconds:.0f} s")
        except OSError as error:
            log.warning("a check could not be started", extra={"error": error})
            return ProblemError("spec", f"could not be checked: {error.strerror or error}")
        try:
            found = json.loads(answer)
        except ValueError:
            return ProblemError("spec", "is too large to be checked here: that took too much memory, or failed")
        return ProblemError(text(found["field"]), text(found["message"])) if found else None


async def _ask(question: bytes) -> bytes:
    """The answer of a process to which this is given; whatever happens, it has ended then."""
    process = await asyncio.create_subprocess_exec(
        *_PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, **_ONE_THREAD},
    )
    try:
        answer, _ = await process.communicate(question)
        return answer
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
