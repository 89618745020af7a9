"""`stowplan simulate`: what scheduler configurations would do to a cluster, side by side; or a run in virtual time.

The run (-f) is in `simulation_run`; here are the options of both, and which belong to which.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from .application import BadInput, Failure
from .documents import print_yaml
from .options import duration as duration_option
from .options import size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stowplan_autoscaling.inputs import ClusterInput
    from stowplan_autoscaling.placement import ConfigurationReport, Outcome, PlacementOptions, Report, Shape
    from stowplan_scheduler.framework.handle import PluginFactory

    from .configurations import Named
    from .progress import Report as Progress


@click.command(short_help="what scheduler configurations would do to a cluster")
@click.argument("cluster", nargs=-1, metavar="CLUSTER...")
@click.option(
    "-f", "--file", metavar="FILE",
    help="Run a Simulation (stowplan.io/v1alpha1) in virtual time, instead of CLUSTER.",
)  # fmt: skip
@click.option(
    "--results", metavar="DIR", help="With -f: write summary.json, series, pods, attempts and events to this folder."
)
@click.option("--parquet", is_flag=True, help="With -f and --results: the tables as Parquet, too (needs pyarrow).")
@click.option(
    "--duration", callback=duration_option, metavar="TIME",
    help="With -f: how much virtual time passes, as in 90m or 24h, instead of spec.duration.",
)  # fmt: skip
@click.option("--candidate", metavar="NAME", help="With -f: run this one of spec.candidates.")
@click.option(
    "-c", "--config", "configs", multiple=True, metavar="FILE",
    help="A KubeSchedulerConfiguration (v1), YAML or JSON; give several to compare them. "
    "Without one the default profile is used.",
)  # fmt: skip
@click.option(
    "--reschedule-all", is_flag=True,
    help="Place all pods anew, in order of priority, then of the input. Pods of DaemonSets, static pods, pods being "
    "deleted, pods with persistent volumes or resource claims, and pods of other schedulers keep their node.",
)  # fmt: skip
@click.option(
    "--explain", metavar="POD",
    help="Show every node's verdicts and scores for this pod: namespace/name, a name, or the name of a workload "
    "(its last pod).",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.option(
    "--shape", metavar="AMOUNTS",
    help="Shape of a pod to look for room for, as in cpu=1,memory=4Gi. Default: one core with the cluster's memory "
    "per core.",
)  # fmt: skip
@click.option(
    "--load", type=click.IntRange(1, 1000), metavar="PERCENT",
    help="OpenB lists only: draw copies of pods until they ask for so much of the cluster's GPUs.",
)  # fmt: skip
@click.option(
    "--tie-break", type=click.Choice(["heap", "random", "stable"]), default="heap", show_default=True,
    help="Which of several best nodes is taken: as kube-scheduler 1.35 and later does it, at random (as earlier "
    "ones), or the first.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, metavar="NUMBER",
    help="For what is random: --tie-break random, --load, candidates of preemption. With -f: instead of spec.seed.",
)  # fmt: skip
@click.option(
    "--max-input", callback=size, metavar="SIZE",
    help="Largest file that is read, after decompression, as in 2Gi. Default: YAML and CSV 50M, JSON 1G.",
)  # fmt: skip
@click.option("--timing", is_flag=True, help="Put the times into JSON and YAML, too; they differ from run to run.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no warnings.")
@click.pass_context
def simulate(
    ctx: click.Context,
    cluster: tuple[str, ...],
    file: str | None,
    results: str | None,
    parquet: bool,
    duration: int | None,
    candidate: str | None,
    configs: tuple[str, ...],
    reschedule_all: bool,
    explain: str | None,
    output: str,
    shape: str | None,
    load: int | None,
    tie_break: str,
    seed: int,
    max_input: int | None,
    timing: bool,
    quiet: bool,
) -> None:
    """Place the pending pods of a cluster with each configuration and compare; or, with -f, run a Simulation.

    CLUSTER is any mix of manifests (files, folders, - for standard input), dumps of kubectl get -o json or yaml, and
    OpenB lists (CSV), plain or gzipped. Manifests get what an API server would add; Deployments and other workloads
    become their pods.

    A Simulation has a cluster, workloads with their autoscalers, and demand over time: docs/simulation.md. Ctrl-C ends
    it early and leaves what is finished.

    \b
    Examples:
      stowplan simulate manifests/
      kubectl get nodes,pods -A -o json | stowplan simulate - --config packing.yaml
      stowplan simulate cluster.json -c today.yaml -c packing.yaml --reschedule-all
      stowplan simulate cluster.json --explain shop/cart -o yaml
      stowplan simulate -f examples/bookshop/simulation.yaml --results out/
      stowplan simulate -f simulation.yaml --seed 7 --duration 2h -o json

    \b
    Exit codes:
      0  it ran, whether pods are pending or not
      1  it could not be finished: the pod to explain is not there, a run did not settle
      2  the input or the arguments cannot be used
    """  # noqa: D301 - click looks for the character \b
    from .simulation_run import RunArguments, run_simulation

    _check_mode(ctx, cluster, file)
    if file is not None:
        given = ctx.get_parameter_source("seed") is not click.core.ParameterSource.DEFAULT
        ctx.exit(
            run_simulation(
                RunArguments(
                    file=file,
                    output=output,
                    results=results,
                    parquet=parquet,
                    seed=seed if given else None,
                    duration=duration,
                    candidate=candidate or "",
                    quiet=quiet,
                )
            )
        )
    from stowplan_autoscaling.placement import PlacementOptions
    from stowplan_operator.garbage import relax_collector
    from stowplan_scheduler.framework.selection import TieBreak

    from .configurations import read_configurations, third_party_plugins
    from .progress import progress

    wanted = _shape(shape)
    third_party = third_party_plugins()
    configurations = read_configurations(configs, third_party)
    # From here on objects live as long as the program.
    relax_collector()
    with progress(quiet=quiet) as report:
        data = _inflated(_read_cluster(cluster, max_input, report), load, seed)
        options = PlacementOptions(
            reschedule_all=reschedule_all,
            seed=seed,
            tie_break=TieBreak(tie_break),
            explain=_pod_to_explain(data, explain),
        )
        result = _simulated(data, configurations, options, data.warnings, wanted, third_party, report)
    if not quiet:
        for warning in data.warnings:
            click.echo(f"stowplan: warning: {warning}", err=True)
    _show(result, output, timing=timing)


_OF_RUN = ("results", "parquet", "duration", "candidate")
_OF_BOTH = ("cluster", "file", "output", "seed", "quiet", *_OF_RUN)


def _check_mode(ctx: click.Context, cluster: tuple[str, ...], file: str | None) -> None:
    """Raises UsageError for nothing to simulate, for both, and for options of the other."""
    if file is None and not cluster:
        argument = next(param for param in ctx.command.params if param.name == "cluster")
        raise click.MissingParameter(ctx=ctx, param=argument)
    if file is not None and cluster:
        raise click.UsageError(f"-f and CLUSTER exclude each other: {cluster[0]} goes into spec.cluster.files", ctx)
    for param in ctx.command.params:
        name = param.name or ""
        given = ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        wrong = name not in _OF_BOTH if file is not None else name in _OF_RUN
        if given and wrong:
            where = "is for CLUSTER, not for -f" if file is not None else "needs -f"
            raise click.UsageError(f"{max(param.opts, key=len)} {where}", ctx)


def _about(what: str, report: Progress | None) -> Callable[[int, int], None] | None:
    """A callback that tells how far `what` has come."""
    if report is None:
        return None
    return partial(report, what)


# ---- input -------------------------------------------------------------------------------------------------------


def _read_cluster(sources: tuple[str, ...], max_input: int | None, report: Progress | None) -> ClusterInput:
    from stowplan_autoscaling.inputs import InputError, load_cluster

    try:
        return load_cluster(
            sources,
            max_input_bytes=max_input,
            stdin=None if sys.stdin is None else sys.stdin.buffer,
            progress=_about("reading", report),
        )
    except InputError as error:
        raise BadInput(str(error)) from None


def _inflated(data: ClusterInput, percent: int | None, seed: int) -> ClusterInput:
    """The cluster with as many copies of its pods as ask for `percent` of its GPUs."""
    if percent is None:
        return data
    from dataclasses import replace

    from stowplan_autoscaling.inputs import GPU_RESOURCE, inflate

    if not any(node.status.allocatable.get(GPU_RESOURCE) for node in data.nodes):
        raise BadInput(f"--load: no node of the input has {GPU_RESOURCE}: it needs OpenB lists")
    return replace(data, pods=inflate(data.pods, data.nodes, load_percent=percent, seed=seed))


def _shape(text: str | None) -> Shape | None:
    from stowplan_autoscaling.placement import ShapeError, parse_shape

    try:
        return None if text is None else parse_shape(text)
    except ShapeError as error:
        raise BadInput(f"--shape: {error}") from None


def _pod_to_explain(data: ClusterInput, name: str | None) -> str | None:
    from stowplan_autoscaling.placement import find_pod

    if name is None:
        return None
    pod = find_pod(data.pods, name)
    if pod is not None:
        return pod.key
    from difflib import get_close_matches

    near = get_close_matches(name, [pod.key for pod in data.pods[:5000]], n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise Failure(f"--explain: {name}: no such pod in the input{hint}")


# ---- the run -----------------------------------------------------------------------------------------------------


def _simulated(
    data: ClusterInput,
    configurations: list[Named],
    options: PlacementOptions,
    warnings: tuple[str, ...],
    shape: Shape | None,
    third_party: Mapping[str, PluginFactory],
    report: Progress | None,
) -> Report:
    from stowplan_autoscaling.placement import SCHEMA, Report, cluster_report

    results: list[ConfigurationReport] = []
    outcome: Outcome | None = None
    for named in configurations:
        outcome, measured = _run(data, named, options, shape, third_party, report)
        results.append(measured)
    if outcome is None:
        raise ValueError("there is always a configuration")
    return Report(
        schema=SCHEMA,
        cluster=cluster_report(outcome),
        reschedule_all=options.reschedule_all,
        seed=options.seed,
        tie_break=options.tie_break.value,
        warnings=warnings,
        configurations=tuple(results),
    )


def _run(
    data: ClusterInput,
    named: Named,
    options: PlacementOptions,
    shape: Shape | None,
    third_party: Mapping[str, PluginFactory],
    report: Progress | None,
) -> tuple[Outcome, ConfigurationReport]:
    """Only the run itself is timed: neither reading nor loading nor measuring."""
    from time import perf_counter

    from msgspec.structs import replace

    from stowplan_autoscaling.placement import Placement, Timing, measure

    placement = Placement(data, named.config, options, third_party=third_party)
    began = perf_counter()
    outcome = placement.run(_about(named.name, report))
    seconds = max(perf_counter() - began, 1e-9)
    rate = outcome.decisions.attempts / seconds
    timing = Timing(seconds=round(seconds, 3), decisions_per_second=round(rate, 1))
    return outcome, replace(measure(outcome, name=named.name, shape=shape), timing=timing)


# ---- output ------------------------------------------------------------------------------------------------------


def _show(report: Report, output: str, *, timing: bool) -> None:
    if output == "table":
        from .tables import print_report

        print_report(report, sys.stdout)
        return
    import msgspec
    from msgspec.structs import replace

    if not timing:
        untimed = tuple(replace(result, timing=None) for result in report.configurations)
        report = replace(report, configurations=untimed)
    if output == "json":
        # As bytes: JSON and YAML are UTF-8 whatever the terminal's encoding.
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
        return
    print_yaml(report)
