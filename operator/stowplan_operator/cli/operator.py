"""`stowplan operator`: has SchedulerProfiles run on a cluster."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from stowplan_operator.net import UrlRules

from .application import BadInput, Failure
from .live_options import bind_option, cluster_options, connection_of, log_options
from .options import duration, host_and_port
from .url_options import url_options


class ClusterFailure(Failure):
    """The cluster is not as it has to be."""

    exit_code = 3


@click.command(short_help="have SchedulerProfiles run on a cluster")
@cluster_options
@click.option(
    "--namespace", default="stowplan-system", show_default=True, metavar="NS",
    help="Where the operator keeps its Lease, the last good profiles, and the Deployments of workers.",
)  # fmt: skip
@click.option(
    "--runtime", type=click.Choice(["child", "deployment"]), default="child", show_default=True,
    help="Where workers run if their profiles do not say: as processes beside the operator, or as Deployments.",
)  # fmt: skip
@click.option(
    "--worker-image", metavar="IMAGE", default="", envvar="STOWPLAN_WORKER_IMAGE", show_envvar=True,
    help="Image of workers that are Deployments, as in stowplan:0.1.0.",
)  # fmt: skip
@click.option(
    "--worker-scheduler-name", metavar="NAME", default="default-scheduler", show_default=True,
    envvar="STOWPLAN_WORKER_SCHEDULER_NAME", show_envvar=True,
    help="The scheduler that places the pods of workers that are Deployments; one that does not depend on them.",
)  # fmt: skip
@click.option(
    "--work-dir", metavar="DIR",
    help="Folder for the files of child workers, for this operator alone. Default: a new one, removed at the end.",
)  # fmt: skip
@url_options
@bind_option("127.0.0.1:10271")
@click.option(
    "--no-leader-election", is_flag=True, help="Act without a Lease. No other operator may run in this cluster then."
)
@click.option(
    "--leader-elect-lease-duration", "lease", callback=duration, default="15s", show_default=True, metavar="TIME",
    help="How long others wait after the last renewal before they take over; for the Leases of workers, too.",
)  # fmt: skip
@click.option(
    "--leader-elect-renew-deadline", "deadline", callback=duration, default="10s", show_default=True, metavar="TIME",
    help="How long a leader acts after its last renewal.",
)  # fmt: skip
@click.option(
    "--leader-elect-retry-period", "period", callback=duration, default="2s", show_default=True, metavar="TIME",
    help="Time between tries.",
)  # fmt: skip
@log_options("Of the operator and of its child workers.")
def operator(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    runtime: str,
    worker_image: str,
    worker_scheduler_name: str,
    work_dir: str | None,
    address: str,
    no_leader_election: bool,
    lease: int,
    deadline: int,
    period: int,
    log_format: str,
    log_level: str,
    urls: UrlRules,
) -> None:
    """Watch SchedulerProfiles, NodePools and Simulations, and keep a worker running for each group of profiles.

    A profile that is good is handed to its workers, which take it up without being started anew. One that is not good
    is refused in its status, and what ran before goes on. Of several operators one acts, by a Lease.

    The cluster must know the kinds (kubectl apply -k crds), and the namespace must be there.

    SIGTERM and Ctrl-C end it: child workers answer what they have begun, and end with it. A second one ends it at once.

    \b
    Examples:
      stowplan operator --kubeconfig ~/.kube/config --log-format text
      stowplan operator --namespace stowplan-system --runtime deployment --worker-image stowplan:0.1.0

    \b
    Exit codes:
      0  it was asked to end, and did
      1  something broke, or the address is taken
      2  the kubeconfig or the arguments cannot be used
      3  the cluster is not ready: a kind, the namespace or a right is missing
    """  # noqa: D301 - click looks for the character \b
    import asyncio
    import re
    import signal

    from stowplan_operator.handlers.groups import CHILD, DEPLOYMENT, LeaseTimes
    from stowplan_operator.handlers.operator_process import Operator, OperatorOptions, run_operator
    from stowplan_operator.handlers.self_check import NotReadyError
    from stowplan_operator.handlers.term import KopfEndedError
    from stowplan_operator.resources.names import DNS_LABEL, DNS_SUBDOMAIN
    from stowplan_operator.worker.logs import set_up_logging

    from .configurations import third_party_plugins

    host, port = host_and_port(address)
    if len(namespace) > 63 or not re.fullmatch(DNS_LABEL, namespace):
        raise click.BadParameter(
            f"\"{namespace}\" is no name of a namespace: lower case letters, digits and '-', at most 63",
            param_hint="--namespace",
        )
    if runtime == "deployment" and not worker_image:
        raise click.BadParameter("is needed with --runtime deployment", param_hint="--worker-image")
    if len(worker_scheduler_name) > 63 or not re.fullmatch(DNS_SUBDOMAIN, worker_scheduler_name):
        raise click.BadParameter(
            f'"{worker_scheduler_name}" is no name of a scheduler: '
            "lower case letters, digits, '-' and '.', at most 63",
            param_hint="--worker-scheduler-name",
        )
    try:
        times = LeaseTimes.of(lease, deadline, period)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--leader-elect-lease-duration") from None
    third_party = third_party_plugins()
    connection = connection_of(kubeconfig, context)
    if connection.tls_server_name is not None:
        raise BadInput("tls-server-name of the kubeconfig is not supported by the operator; it is by stowplan worker")
    set_up_logging(log_format, log_level)
    arguments = ["--log-format", log_format, "--log-level", log_level]
    arguments += ["--kubeconfig", str(Path(kubeconfig).absolute())] if kubeconfig is not None else []
    arguments += ["--context", context] if context is not None else []

    async def main(folder: Path) -> None:
        options = OperatorOptions(
            namespace=namespace,
            runtime=CHILD if runtime == "child" else DEPLOYMENT,
            work_dir=folder,
            host=host,
            port=port,
            elects=not no_leader_election,
            lease=times,
            worker_image=worker_image,
            worker_scheduler_name=worker_scheduler_name,
            worker_arguments=tuple(arguments),
            urls=urls,
        )
        await run_operator(Operator(connection, options, third_party), (signal.SIGTERM, signal.SIGINT))

    with _folder(work_dir) as folder:
        try:
            asyncio.run(main(folder))
        except NotReadyError as error:
            raise ClusterFailure(str(error)) from None
        except KopfEndedError as error:
            raise Failure(str(error)) from None
        except OSError as error:
            raise Failure(f"{address}: {error.strerror or error}") from None
        except asyncio.CancelledError:
            raise Failure("stopped before all workers had ended") from None


@contextmanager
def _folder(named: str | None) -> Iterator[Path]:
    """The folder for files of workers, for one operator at a time."""
    if named is None:
        made = Path(tempfile.mkdtemp(prefix="stowplan-operator-"))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    folder = Path(named)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("w", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--work-dir {named}: cannot be used: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(f"--work-dir {named}: is in use by another operator: give each its own") from None
        yield folder
