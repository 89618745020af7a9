"""What `stowplan compare` does: reads, runs, shows, and writes the report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .application import BadInput, Failure, reader_may_leave
from .documents import print_document
from .options import check_parquet

if TYPE_CHECKING:
    from stowplan_autoscaling.experiment import ComparisonReport, Executor, Listener, Plan

BELOW_LIMITS = 3
"""Exit code of --require-limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareArguments:
    """What the command line says; None leaves it to the file. `duration` in nanoseconds."""

    file: str
    results: str | None
    seeds: int | None
    seed: int | None
    duration: int | None
    jobs: int | None
    executor: str | None
    output: str
    report: str | None
    with_report: bool
    parquet: bool
    require_limits: bool
    quiet: bool


def run_comparison(arguments: CompareArguments) -> int:
    """All of it. Returns the exit code: 0, 3 without a candidate within the limits, or that of a signal."""
    from .compare_progress import compare_progress
    from .stopping import stop_on_signals

    if arguments.parquet:
        check_parquet()
    plan = _plan(arguments)
    executor = _executor(arguments)
    root = arguments.results or f"{plan.name}-comparison"
    _check_report(arguments, root)
    if not arguments.quiet:
        _warn(plan)
        if arguments.results is None:
            click.echo(f"stowplan: results go to {root}; --results DIR names another folder", err=True)
    with compare_progress(len(plan.cells), quiet=arguments.quiet) as listener, stop_on_signals() as stop:
        report = _compared(plan, root, executor, stop, listener)
    if not report.is_complete:
        if any(candidate.metrics for candidate in report.candidates) or arguments.output != "table":
            with reader_may_leave():
                _show(report, arguments.output, root, "")
        click.echo(f"stowplan: interrupted: {_kept(report, root)}", err=True)
        return stop.exit_code if stop() else Failure.exit_code
    if arguments.parquet:
        _write_parquet(report, root)
    page = _write_report(report, arguments, root)
    with reader_may_leave():
        _show(report, arguments.output, root, page)
    return BELOW_LIMITS if arguments.require_limits and report.verdict.passes is False else 0


def _check_report(arguments: CompareArguments, root: str) -> None:
    """Before anything runs: whether the page can go where it should. The folder of the results is made if need be."""
    if arguments.report is None:
        return
    path = Path(arguments.report)
    folder = path.parent
    if path.is_dir():
        raise BadInput(f"--report: {path}: is a folder")
    if folder.is_dir():
        if not os.access(folder, os.W_OK):
            raise BadInput(f"--report: {path}: cannot be written: the folder {folder} is read-only")
    elif folder.resolve() != Path(root).resolve():
        raise BadInput(f"--report: {path}: cannot be written: there is no folder {folder}")


def _plan(arguments: CompareArguments) -> Plan:
    from stowplan_autoscaling.experiment import plan_of
    from stowplan_autoscaling.inputs import InputError

    from .configurations import third_party_plugins

    try:
        return plan_of(
            arguments.file,
            seeds=arguments.seeds,
            seed=arguments.seed,
            duration=arguments.duration,
            third_party=third_party_plugins(),
        )
    except InputError as error:
        raise BadInput(str(error)) from None


def _executor(arguments: CompareArguments) -> Executor:
    from stowplan_autoscaling.experiment import DaskExecutor, LocalExecutor
    from stowplan_operator.garbage import relax_collector

    if arguments.executor is None:
        return LocalExecutor(arguments.jobs, prepare=relax_collector)
    if not arguments.executor.startswith(("dask://", "tcp://", "tls://")):
        raise BadInput(f'--executor: "{arguments.executor}" is no address of a Dask cluster such as dask://host:8786')
    return DaskExecutor(arguments.executor)


def _warn(plan: Plan) -> None:
    """Each warning once, whichever candidates it is about."""
    for warning in dict.fromkeys(warning for loaded in plan.loaded.values() for warning in loaded.warnings):
        click.echo(f"stowplan: warning: {warning}", err=True)


def _compared(
    plan: Plan, root: str, executor: Executor, stop: Callable[[], bool], listener: Listener
) -> ComparisonReport:
    """Raises BadInput, Failure; what is finished is kept."""
    from stowplan_autoscaling.experiment import ExecutorError, Failures, WorkerLostError, compare
    from stowplan_autoscaling.inputs import InputError

    try:
        return compare(plan, root, executor, stop=stop, listener=listener)
    except InputError as error:
        raise BadInput(str(error)) from None
    except Failures as failures:
        raise Failure(*failures.lines) from None
    except WorkerLostError as error:
        raise Failure(f"{error}; finished runs are kept in {root}, the same command goes on from there") from None
    except ExecutorError as error:
        raise Failure(f"--executor: {error}") from None
    except OSError as error:
        raise Failure(f"{error.filename or root}: cannot be written: {error.strerror or error}") from None


def _kept(report: ComparisonReport, root: str) -> str:
    runs = [run for candidate in report.candidates for run in candidate.runs]
    there = sum(run.is_complete for run in runs)
    return f"{there} of {len(runs)} runs are finished and kept in {root}; the same command goes on from there"


def _write_parquet(report: ComparisonReport, root: str) -> None:
    """Of all runs that have none yet."""
    from stowplan_autoscaling.experiment.parquet import write_comparison_parquet

    write_comparison_parquet(report, root)


def _write_report(report: ComparisonReport, arguments: CompareArguments, root: str) -> str:
    """The path of the page; "" for none."""
    if not arguments.with_report:
        return ""
    from stowplan_autoscaling.report import write_report

    path = arguments.report or str(Path(root, "report.html"))
    try:
        write_report(report, root, path)
    except OSError as error:
        raise Failure(f"--report: {path}: cannot be written: {error.strerror}") from None
    except ValueError:
        damage = _damage(report, root)
        if not damage:
            raise
        raise Failure(f"{damage}; without that folder the same command runs it again") from None
    return path


def _damage(report: ComparisonReport, root: str) -> str:
    """What is wrong with the tables of the runs; "" for nothing."""
    from stowplan_autoscaling.experiment.run_tables import DamagedTableError, check_tables

    for candidate in report.candidates:
        for run in candidate.runs:
            try:
                check_tables(str(Path(root, run.folder)))
            except DamagedTableError as error:
                return str(error)
    return ""


def _show(report: ComparisonReport, output: str, root: str, page: str) -> None:
    if output == "table":
        from .compare_tables import print_comparison

        print_comparison(report, sys.stdout, root, page)
        return
    print_document(report, output)
