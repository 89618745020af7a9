"""`stowplan compare`: candidates x seeds, side by side, with a verdict."""

from __future__ import annotations

import click

from .options import duration as duration_option


@click.command(short_help="which of several settings is better: cost, waiting, risk")
@click.option(
    "-f", "--file", metavar="FILE", required=True,
    help="A Simulation (stowplan.io/v1alpha1) with spec.candidates.",
)  # fmt: skip
@click.option(
    "--results", metavar="DIR",
    help="Folder for the results of all runs. Runs that are finished there are not run again. Default: "
    "NAME-comparison, after the simulation.",
)  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 1000), metavar="NUMBER", help="Runs per candidate, not spec.seeds.")
@click.option("--seed", type=click.IntRange(0), metavar="NUMBER", help="The first seed, instead of spec.seed.")
@click.option(
    "--duration", callback=duration_option, metavar="TIME",
    help="How much virtual time passes in each run, as in 90m or 24h, instead of spec.duration.",
)  # fmt: skip
@click.option(
    "-j", "--jobs", type=click.IntRange(1, 1024), metavar="NUMBER",
    help="Runs at the same time on this machine. Default: the number of cores.",
)  # fmt: skip
@click.option(
    "--executor", metavar="ADDRESS",
    help="Run on a Dask cluster, as in dask://host:8786; its workers need Stowplan, and no shared disk.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.option("--report", metavar="FILE", help="Where the HTML report goes. Default: report.html in the results.")
@click.option("--no-report", is_flag=True, help="No HTML report.")
@click.option("--parquet", is_flag=True, help="All tables as Parquet, too (needs pyarrow).")
@click.option(
    "--require-limits", is_flag=True,
    help="Exit with 3 if no candidate keeps the limits of all goals: for pipelines.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="No progress and no warnings.")
@click.pass_context
def compare(
    ctx: click.Context,
    file: str,
    results: str | None,
    seeds: int | None,
    seed: int | None,
    duration: int | None,
    jobs: int | None,
    executor: str | None,
    output: str,
    report: str | None,
    no_report: bool,
    parquet: bool,
    require_limits: bool,
    quiet: bool,
) -> None:
    """Run each candidate of a Simulation with the same seeds, and say which one is better at what.

    A candidate changes settings of the simulation: scheduler profile, autoscalers, node pools, requests. All candidates
    meet the same demand and the same luck, seed by seed, so that differences are theirs. docs/compare.md says how
    candidates and goals are written.

    Ctrl-C ends it; what is finished stays, and the same command goes on from there.

    \b
    Examples:
      stowplan compare -f examples/bookshop/simulation.yaml
      stowplan compare -f simulation.yaml --seeds 11 --jobs 4 --results out/
      stowplan compare -f simulation.yaml --duration 2h --no-report -o json
      stowplan compare -f simulation.yaml --executor dask://scheduler:8786

    \b
    Exit codes:
      0  it ran, whatever the verdict
      1  it could not be finished: a run did not settle, a worker died; finished runs are kept
      2  the input or the arguments cannot be used
      3  with --require-limits: no candidate keeps the limits of all goals
    """  # noqa: D301 - click looks for the character \b
    from .comparison_run import CompareArguments, run_comparison

    if report is not None and no_report:
        raise click.UsageError("--report and --no-report exclude each other", ctx)
    if jobs is not None and executor is not None:
        raise click.UsageError("--jobs is for this machine: with --executor the cluster's workers count", ctx)
    ctx.exit(
        run_comparison(
            CompareArguments(
                file=file,
                results=results,
                seeds=seeds,
                seed=seed,
                duration=duration,
                jobs=jobs,
                executor=executor,
                output=output,
                report=report,
                with_report=not no_report,
                parquet=parquet,
                require_limits=require_limits,
                quiet=quiet,
            )
        )
    )
