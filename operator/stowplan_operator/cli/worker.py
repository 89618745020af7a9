"""`stowplan worker`: a live scheduler for the profiles of one configuration."""

from __future__ import annotations

import gc
from pathlib import Path

import click

from stowplan_operator.garbage import THRESHOLDS

from .application import BadInput, Failure
from .live_options import bind_option, cluster_options, connection_of, log_options
from .options import host_and_port


@click.command(short_help="run scheduler profiles on a cluster")
@click.option(
    "--config", required=True, metavar="FILE",
    help="A WorkerConfiguration (stowplan.io/v1alpha1), or a plain KubeSchedulerConfiguration, whose profiles are "
    "then all active.",
)  # fmt: skip
@cluster_options
@bind_option("127.0.0.1:10270")
@click.option(
    "--ready-file", metavar="FILE",
    help='Written as {"pid": ..., "port": ...} once the server listens; removed at the end.',
)  # fmt: skip
@log_options("stowplan story reads json.")
@click.option(
    "--tether", "parent", type=click.IntRange(1), metavar="PID",
    help="End when this process ends, which must be the one that started this worker.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), metavar="NUMBER", help="For what is random. Default: a new one.")
def worker(
    config: str,
    kubeconfig: str | None,
    context: str | None,
    address: str,
    ready_file: str | None,
    log_format: str,
    log_level: str,
    parent: int | None,
    seed: int | None,
) -> None:
    """Watch a cluster and place the pods whose schedulerName is a profile of the configuration.

    Of several workers of one group one acts, by a Lease; the others are ready to take over. The file is read again when
    it changes, and at SIGHUP: the new profiles then decide, without losing the queue or what is being bound. A file
    that is wrong changes nothing; /status and the log say why.

    SIGTERM and Ctrl-C end it: no pod is tried any more, bindings that were sent are waited for, the Lease is given
    back. A second one ends it at once.

    \b
    Examples:
      stowplan worker --config worker.yaml
      stowplan worker --config kube-scheduler.yaml --kubeconfig ~/.kube/config --log-format text

    \b
    Exit codes:
      0  it was asked to end, and did
      1  something broke, or the address is taken
      2  the configuration, the kubeconfig or the arguments cannot be used
    """  # noqa: D301 - click looks for the character \b
    # Hundreds of thousands of objects are made below, and nearly all of them stay.
    gc.set_threshold(*THRESHOLDS)
    import asyncio
    import logging

    from stowplan_autoscaling.inputs.errors import InputError
    from stowplan_operator.tether import tether_to
    from stowplan_operator.worker.configuration import read_configuration
    from stowplan_operator.worker.logs import set_up_logging
    from stowplan_operator.worker.runner import Worker, WorkerOptions, run_worker
    from stowplan_scheduler.config import ConfigurationError
    from stowplan_scheduler.profiles import plugin_traits

    from .configurations import third_party_plugins

    host, port = host_and_port(address)
    third_party = third_party_plugins()
    try:
        loaded = read_configuration(Path(config), plugins=dict(plugin_traits(third_party)))
    except InputError as error:
        raise BadInput(str(error)) from None
    connection = connection_of(kubeconfig, context)
    set_up_logging(log_format, log_level)
    options = WorkerOptions(
        config=Path(config),
        host=host,
        port=port,
        ready_file=None if ready_file is None else Path(ready_file),
        log_format=log_format,
        seed=seed,
    )

    async def main() -> None:
        if parent is not None:
            # Where a signal that comes at once is taken for what it is.
            asyncio.get_running_loop().call_soon(tether_to, parent)
        await run_worker(Worker(loaded, connection, options, third_party=third_party))

    try:
        asyncio.run(main())
    except ConfigurationError as error:
        raise BadInput(f"{config}: {error}") from None
    except OSError as error:
        raise Failure(f"{error.filename or address}: {error.strerror or error}") from None
    except asyncio.CancelledError:
        raise Failure("stopped before everything was answered") from None
    except ExceptionGroup as errors:
        logging.getLogger("stowplan.worker").critical("a part of the worker broke, so it ends", exc_info=errors)
        raise Failure("a part of the worker broke: see the log") from None
