"""Runs cells on the workers of a Dask cluster (extra `dask`): they need the same Stowplan, and no shared disk.

A cell goes out with everything that its simulation read, and its results come back as files: so they are the same bytes
as those of a run on this machine. A worker that dies takes its run with it; Dask gives it to another worker.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final
from uuid import uuid4

from stowplan_autoscaling.inputs.errors import InputError
from stowplan_autoscaling.results import FolderSink
from stowplan_autoscaling.results.records import SUMMARY_FILE
from stowplan_scheduler import __version__

from .cell import FAILED, Cell, CellResult, folder_of, run_cell
from .executor import Done, ExecutorError, Listener, Load, WorkerLostError

SCHEME: Final = "dask://"

_POLL: Final = 0.2
_LOOK: Final = 1.0
"""Seconds between two looks at the workers."""

_FETCH: Final = 60.0
"""Seconds that the result of a run may take from the worker that has it."""

_ASK: Final = 2.0
"""Seconds between two questions of a run whether it is still wanted."""

_PATIENCE: Final = 15.0
"""Seconds that a cluster may be without any worker; a nanny starts a new one in less."""

_CONNECT: Final = "15s"

Files = dict[str, bytes]


class DaskExecutor:
    """A cluster by its address, "dask://host:port" or as Dask writes it, "tcp://host:port"."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._target = "tcp://" + address.removeprefix(SCHEME) if address.startswith(SCHEME) else address

    def run(
        self, cells: Sequence[Cell], load: Load, root: str, *, stop: Callable[[], bool], listener: Listener
    ) -> Generator[Done, None, None]:
        """As Executor has it."""
        if not cells:
            return
        client = self._client()
        try:
            yield from _Session(client, self.address, load, root, listener).run(cells, stop)
        finally:
            with suppress(Exception):  # a cluster that is gone cannot be left in good order
                client.close(timeout=5)

    def _client(self) -> Any:
        """Raises ExecutorError."""
        try:
            distributed = import_module("distributed")
        except ImportError:
            raise ExecutorError("needs Dask, which is not installed: pip install 'stowplan[dask]'") from None
        try:
            return distributed.Client(self._target, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise ExecutorError(f"no Dask scheduler answers at {self.address}: {reason}") from None


class _Session:
    """One use of a cluster."""

    def __init__(self, client: Any, address: str, load: Load, root: str, listener: Listener) -> None:
        self._client = client
        self._address = address
        self._load = load
        self._root = root
        self._listener = listener
        self._token = f"stowplan-{uuid4().hex[:12]}"
        self._futures: dict[Any, Cell] = {}
        self._workers: Mapping[str, Sequence[Any]] = {}
        self._looked = 0.0
        self._alone_since: float | None = None
        self._had_workers = False
        self._room = 0

    def run(self, cells: Sequence[Cell], stop: Callable[[], bool]) -> Iterator[Done]:
        """Keeps as many runs out as there are threads, and one more for each worker."""
        event = import_module("distributed").Event(self._token, client=self._client)
        waiting = list(reversed(cells))
        try:
            while waiting or self._futures:
                if stop():
                    return
                slots = self._look()
                while waiting and len(self._futures) < slots:
                    self._submit(waiting.pop())
                yield from self._ended()
                sleep(_POLL)
        finally:
            if self._futures:
                # Runs that are under way see the event and end; the others are never begun.
                with suppress(Exception):  # as above
                    event.set()
                    self._client.cancel(list(self._futures))

    def _submit(self, cell: Cell) -> None:
        message = zlib.compress(pickle.dumps(self._load(cell)), 1)
        key = f"{self._token}-{cell.number}"
        future = self._client.submit(run_remotely, message, __version__, self._token, key=key, pure=False)
        self._futures[future] = cell

    def _ended(self) -> Iterator[Done]:
        for future, cell in list(self._futures.items()):
            if not future.done():
                continue
            if future.status != "finished":
                del self._futures[future]
                raise self._failure(future, cell)
            try:
                result, files = future.result(timeout=_FETCH)
            except TimeoutError:
                # The result has died with its worker. Dask lets another one run the task again, should there be one.
                continue
            except Exception as error:  # noqa: BLE001 - its kind depends on how the connection ends
                raise WorkerLostError(
                    f"the result of {cell} did not come from {self._address}: {type(error).__name__}: {error}"
                ) from None
            del self._futures[future]
            future.release()
            yield Done(cell, _kept(files, folder_of(cell, self._root), result))

    def _failure(self, future: Any, cell: Cell) -> Exception:
        """What became of a run that gave no result."""
        if future.status != "error":
            return WorkerLostError(f"the Dask scheduler at {self._address} has dropped the run of {cell}")
        error = future.exception()
        if type(error).__name__ == "KilledWorker":
            return WorkerLostError(f"workers of {self._address} died again and again with {cell}; out of memory?")
        if isinstance(error, ImportError):
            return ExecutorError(f"a worker of {self._address} has no Stowplan that fits: {error}")
        return ExecutorError(f"a worker of {self._address} could not run {cell}: {type(error).__name__}: {error}")

    def _look(self) -> int:
        """How many runs the cluster has room for. Notes workers that are gone.

        Raises WorkerLostError when the last one is gone, ExecutorError when there never was one.
        """
        now = monotonic()
        if self._workers and now - self._looked < _LOOK:
            return self._room
        self._looked = now
        try:
            threads: Mapping[str, int] = self._client.nthreads()
            busy: Mapping[str, Sequence[Any]] = self._client.processing()
        except Exception as error:  # noqa: BLE001 - its kind depends on how the connection ends
            raise WorkerLostError(f"the Dask scheduler at {self._address} is gone: {type(error).__name__}") from None
        for worker in sorted(set(self._workers) - set(threads)):
            runs = ", ".join(str(cell) for cell in self._cells(self._workers[worker]))
            again = f"; {runs} begins again elsewhere" if runs and threads else ""
            self._listener.note(f"Dask worker {worker} is gone{again}")
        self._workers = {worker: busy.get(worker, ()) for worker in threads}
        self._need_workers(now)
        self._room = sum(threads.values()) + len(threads)
        return self._room

    def _cells(self, keys: Sequence[Any]) -> list[Cell]:
        wanted = {str(key) for key in keys}
        return [cell for future, cell in self._futures.items() if str(future.key) in wanted]

    def _need_workers(self, now: float) -> None:
        if self._workers:
            self._alone_since, self._had_workers = None, True
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > _PATIENCE:
            if not self._had_workers:
                raise ExecutorError(f"the Dask cluster at {self._address} has no workers")
            begun = ", ".join(str(cell) for cell in self._futures.values())
            raise WorkerLostError(f"the Dask cluster at {self._address} has no worker left for {begun}")


def _kept(files: Files, folder: str, result: CellResult) -> CellResult:
    """Writes what came back. The summary comes last: it says whether the rest is there."""
    try:
        FolderSink(folder).close()
        for name in sorted(files, key=lambda name: (name == SUMMARY_FILE, name)):
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.decompress(files[name]))
    except InputError as error:
        return CellResult(FAILED, str(error))
    except OSError as error:
        return CellResult(FAILED, f"{folder}: cannot be written: {error.strerror}")
    return result


# ---- on the worker ---------------------------------------------------------------------------------------------------


def run_remotely(message: bytes, version: str, token: str) -> tuple[CellResult, Files]:
    """Runs a cell in a folder of its own. Raises ImportError for another version of Stowplan."""
    if version != __version__:
        raise ImportError(f"it has version {__version__}, {version} is needed")
    loaded = pickle.loads(zlib.decompress(message))  # noqa: S301 - whoever may submit tasks may run any code anyhow
    with TemporaryDirectory(prefix="stowplan-") as scratch:
        folder = str(Path(scratch, "run"))
        result = run_cell(loaded, folder, stop=_Wanted(token).is_over)
        return result, _packed(Path(folder))


def _packed(folder: Path) -> Files:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): zlib.compress(path.read_bytes(), 1) for path in paths}


class _Wanted:
    """Asks the scheduler now and then whether the run is still wanted."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._asked = monotonic()
        self._over = False

    def is_over(self) -> bool:
        now = monotonic()
        if not self._over and now - self._asked >= _ASK:
            self._asked = now
            distributed = import_module("distributed")
            self._over = bool(distributed.Event(self._token).is_set())
        return self._over
