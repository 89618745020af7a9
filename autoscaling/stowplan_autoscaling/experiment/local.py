"""Runs cells in processes of this machine.

Each worker is a fresh process (spawn) with a pipe. It takes one cell at a time and says how far it is; a message in the
pipe while it runs, or its end, asks it to stop: so workers also go when this process is gone. Signals from the terminal
are for this process alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from .cell import Cell, CellResult, folder_of, run_cell
from .executor import Done, Listener, Load, WorkerLostError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

Prepare = Callable[[], None]

POLL: Final = 0.2
"""Seconds between two looks of this process at `stop`, and of a run at its pipe."""

_OURS: Final = (signal.SIGINT, signal.SIGTERM)
"""A terminal sends them to all processes of a command; this one passes on what they mean."""

_PATIENCE: Final = 5.0
"""Seconds that a worker gets to go by itself."""


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalExecutor:
    """At most `jobs` runs at once. `prepare` is called once in each process before its first run."""

    def __init__(self, jobs: int | None = None, prepare: Prepare | None = None) -> None:
        self.jobs = usable_cores() if jobs is None else jobs
        self._prepare = prepare

    def run(
        self, cells: Sequence[Cell], load: Load, root: str, *, stop: Callable[[], bool], listener: Listener
    ) -> Generator[Done, None, None]:
        """As Executor has it."""
        waiting = list(reversed(cells))
        workers: list[_Worker] = []
        told = False
        try:
            # All at once, since each takes a moment to get ready.
            for _ in range(min(self.jobs, len(waiting))):
                workers.append(_Worker(self._prepare))
            while True:
                if stop() and not told:
                    told = True
                    for worker in workers:
                        worker.stop()
                for worker in workers:
                    if worker.cell is None and waiting and not told:
                        worker.begin(waiting.pop(), load, root)
                if not any(worker.cell for worker in workers):
                    return
                yield from _news(workers, listener)
        finally:
            for worker in workers:
                worker.end()


def _news(workers: Sequence[_Worker], listener: Listener) -> Iterator[Done]:
    """What busy workers say within a moment."""
    busy = {worker.pipe: worker for worker in workers if worker.cell is not None}
    for pipe in connection.wait(list(busy), timeout=POLL):
        worker = busy[pipe]  # type: ignore[index]
        message = worker.receive()
        if isinstance(message, CellResult):
            cell = worker.cell
            worker.cell = None
            assert cell is not None
            yield Done(cell, message)
        elif worker.cell is not None:
            listener.progress(worker.cell, message)


class _Worker:
    """A process, and the cell that it runs."""

    def __init__(self, prepare: Prepare | None) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.cell: Cell | None = None
        # A daemon: it is ended with this process if nobody did it before.
        self._process: SpawnProcess = context.Process(target=_serve, args=(other, prepare), daemon=True)
        with _signals_held():
            self._process.start()
        other.close()

    def begin(self, cell: Cell, load: Load, root: str) -> None:
        """Gives it a cell. Raises WorkerLostError."""
        loaded = load(cell)
        self.cell = cell
        try:
            self.pipe.send((loaded, folder_of(cell, root)))
        except OSError:
            raise self._lost() from None

    def receive(self) -> Any:
        """Its next message: a share or a CellResult. Raises WorkerLostError."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None

    def stop(self) -> None:
        """Asks it to end its run early."""
        with suppress(OSError):
            self.pipe.send(None)

    def end(self) -> None:
        """The process is gone afterwards."""
        self.pipe.close()
        self._process.join(0.0 if self.cell is not None else _PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _lost(self) -> WorkerLostError:
        self._process.join(_PATIENCE)
        code = self._process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = "; out of memory? --jobs 1 needs less of it" if name == "SIGKILL" else ""
            how = f"was ended by {name}{hint}"
        else:
            how = f"ended by itself with code {code}"
        return WorkerLostError(f"the process that ran {self.cell} {how}")


@contextmanager
def _signals_held() -> Iterator[None]:
    """A process that is started meanwhile never sees them, not even before its first line; this one, afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in the worker ---------------------------------------------------------------------------------------------------


def _serve(pipe: Connection, prepare: Prepare | None) -> None:
    """Runs what comes through the pipe until it is closed."""
    for name in _OURS:
        signal.signal(name, signal.SIG_IGN)
    if prepare is not None:
        prepare()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            message = pipe.recv()
            if message is not None:
                loaded, folder = message
                link = _Link(pipe)
                pipe.send(run_cell(loaded, folder, progress=link.progress, stop=link.is_to_stop))


class _Link:
    """The pipe of a run, used now and then."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._asked = self._told = monotonic()
        self._stop = False

    def progress(self, share: float) -> None:
        now = monotonic()
        if now - self._told >= POLL:
            self._told = now
            with suppress(OSError):
                self._pipe.send(share)

    def is_to_stop(self) -> bool:
        now = monotonic()
        if not self._stop and now - self._asked >= POLL:
            self._asked = now
            # Something to read is the request to stop, or the end of whoever wanted the results.
            self._stop = self._pipe.poll()
        return self._stop
