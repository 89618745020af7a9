"""`stowplan bench`: how fast the scheduler is on this machine. One JSON line per measurement, for scripts to read."""

from __future__ import annotations

import click

from stowplan_operator.bench.workloads import WORKLOADS

MAX_NODES = 1_000_000
MAX_PODS = 100_000_000


@click.group(short_help="how fast the scheduler is")
def bench() -> None:
    """Measure the speed of Stowplan on this machine."""


@bench.command(short_help="pods per second of the scheduler core")
@click.option(
    "-w", "--workload", type=click.Choice(list(WORKLOADS)), default="plain", show_default=True,
    help="Which nodes there are and which pods come.",
)  # fmt: skip
@click.option("--nodes", type=click.IntRange(1, MAX_NODES), default=5000, show_default=True, metavar="N")
@click.option(
    "--pods", type=click.IntRange(1, MAX_PODS), default=2000, show_default=True, metavar="N",
    help="Pods that are placed while the clock runs.",
)  # fmt: skip
@click.option(
    "--initial", type=click.IntRange(0, MAX_PODS), default=1000, show_default=True, metavar="N",
    help="Pods that are placed before the clock starts.",
)  # fmt: skip
@click.option(
    "--percent", type=click.IntRange(0, 100), default=0, show_default=True, metavar="0..100",
    help="percentageOfNodesToScore: 0 lets the number of nodes decide, 100 scores every node that fits.",
)  # fmt: skip
@click.option("--memo/--no-memo", default=True, help="Without the memo every cycle computes everything anew.")
def scheduler(workload: str, nodes: int, pods: int, initial: int, percent: int, memo: bool) -> None:
    """Place pods with the default profile on one core and print the rate as one JSON line.

    A pod's time goes from its arrival in the queue to the confirmation of its binding. What is printed has the keys of
    tests/benchmarks/upstream, which measures kube-scheduler, and "placed", the number of pods that found a node.
    "heap_mb" is the largest size of the process.

    \b
    Workloads:
      plain      20 templates of cpu and memory
      distinct   every pod asks for another amount
      anti       20 groups, anti-affinity on the host name within the group
      spread     20 groups, spread over three zones
      preferred  20 groups, preferred affinity over zones
      taints     tainted nodes, tolerations, required and preferred node affinity
      mix        half plain, the rest of all kinds
      backlog    pods that fit nowhere

    \b
    Examples:
      stowplan bench scheduler
      stowplan bench scheduler --workload anti --nodes 20000 --percent 100
      stowplan bench scheduler -w distinct --pods 500 --no-memo
    """  # noqa: D301 - click wants the character, not a backslash
    import json

    from stowplan_operator.bench.measure import measure

    line = measure(workload, nodes, pods, percent, initial=initial, memo=memo).as_json()
    click.echo(json.dumps(line, sort_keys=True, separators=(",", ":")))
