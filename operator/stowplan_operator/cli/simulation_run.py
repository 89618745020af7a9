"""`stowplan simulate -f simulation.yaml`: runs a Simulation in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from .application import BadInput, Failure, reader_may_leave
from .documents import print_document
from .options import check_parquet
from .run_progress import clock

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation
    from stowplan_autoscaling.results import FolderSink, ResultSink, RunReport


class Engine(Protocol):
    """What runs a simulation: `stowplan_autoscaling.cosim.run`.

    `progress` is told the virtual seconds reached. `stop` is asked often; after it has said yes the run ends at its
    next good moment with a report that is not complete. Raises UnfinishedError where a stated bound is passed.
    """

    def __call__(
        self,
        simulation: LoadedSimulation,
        *,
        progress: Callable[[float], None] | None,
        stop: Callable[[], bool] | None,
        sink: ResultSink,
    ) -> RunReport:
        """Run it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """What the command line says about a run; None leaves it to the file. `duration` in nanoseconds.

    `candidate`: one of spec.candidates, "" for none.
    """

    file: str
    output: str
    results: str | None
    parquet: bool
    seed: int | None
    duration: int | None
    candidate: str
    quiet: bool


def engine() -> Engine:
    """The engine; a function of its own, so that tests can put another one in its place."""
    from stowplan_autoscaling.cosim import run

    return run


def run_simulation(arguments: RunArguments) -> int:
    """Reads, runs and shows. Returns the exit code: 0, or that of the signal which stopped the run."""
    from stowplan_autoscaling.results import NullSink, UnfinishedError
    from stowplan_operator.garbage import relax_collector

    from .run_progress import run_progress
    from .stopping import stop_on_signals

    loaded = _load(arguments)
    if not arguments.quiet:
        for warning in loaded.warnings:
            click.echo(f"stowplan: warning: {warning}", err=True)
    folder = _folder(arguments)
    # From here on objects live as long as the program.
    relax_collector()
    duration = loaded.spec.duration / 1e9
    try:
        with (
            folder or nullcontext(NullSink()) as sink,
            stop_on_signals() as stop,
            run_progress(loaded.name, duration, quiet=arguments.quiet) as progress,
        ):
            report = engine()(loaded, progress=progress, stop=stop, sink=sink)
    except UnfinishedError as error:
        with reader_may_leave():
            _show(error.report, arguments.output)
        raise Failure(f"{arguments.file}: {error}{_kept(arguments)}") from None
    except OSError as error:
        # A full disk: the system's message does not say which file it was.
        if folder is None or isinstance(error, BrokenPipeError):
            raise
        raise Failure(f"--results: {arguments.results}: cannot be written: {error.strerror}") from None
    if arguments.parquet:
        _write_parquet(arguments)
    with reader_may_leave():
        _show(report, arguments.output)
    if report.complete:
        return 0
    click.echo(f"stowplan: {report.stopped} at {clock(report.reached)} of virtual time{_kept(arguments)}", err=True)
    return stop.exit_code if stop() else Failure.exit_code


def _kept(arguments: RunArguments) -> str:
    return f"; what was finished is in {arguments.results}" if arguments.results is not None else ""


def _load(arguments: RunArguments) -> LoadedSimulation:
    from stowplan_autoscaling.inputs import InputError
    from stowplan_autoscaling.resources import load_simulation

    from .configurations import third_party_plugins

    try:
        return load_simulation(
            arguments.file,
            seed=arguments.seed,
            duration=arguments.duration,
            candidate=arguments.candidate,
            third_party=third_party_plugins(),
        )
    except InputError as error:
        raise BadInput(str(error)) from None


def _folder(arguments: RunArguments) -> FolderSink | None:
    """The results folder, made before the run begins; None if none is wanted."""
    from stowplan_autoscaling.inputs import InputError
    from stowplan_autoscaling.results import FolderSink

    if arguments.parquet and arguments.results is None:
        raise BadInput("--parquet: needs --results, the folder to write to")
    if arguments.parquet:
        check_parquet()
    if arguments.results is None:
        return None
    try:
        return FolderSink(arguments.results)
    except InputError as error:
        raise BadInput(f"--results: {error}") from None


def _write_parquet(arguments: RunArguments) -> None:
    from stowplan_autoscaling.results.parquet import write_parquet

    if arguments.results is not None:
        write_parquet(arguments.results)


def _show(report: RunReport, output: str) -> None:
    if output == "table":
        from .run_tables import print_run

        print_run(report, sys.stdout)
        return
    print_document(report, output)
