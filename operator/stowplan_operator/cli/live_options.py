"""What `stowplan operator` and `stowplan worker` both take: which cluster, where they serve, how they log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .application import BadInput

if TYPE_CHECKING:
    from stowplan_operator.api.connection import Connection

Command = TypeVar("Command", bound=Callable[..., Any])


def cluster_options(command: Command) -> Command:
    """--kubeconfig and --context, as `kubeconfig` and `context`; see `connection_of`."""
    command = click.option(
        "--context", metavar="NAME", help="Context of the kubeconfig. Default: the current one."
    )(command)  # fmt: skip
    return click.option(
        "--kubeconfig", metavar="FILE",
        help="The cluster. Default: KUBECONFIG, ~/.kube/config, or the service account of the pod.",
    )(command)  # fmt: skip


def bind_option(default: str) -> Callable[[Command], Command]:
    """--bind, as `address`; see `options.host_and_port`."""
    return click.option(
        "--bind", "address", default=default, show_default=True, metavar="HOST:PORT",
        help="Where /healthz, /livez, /readyz, /metrics, /configz and /status are served; port 0 takes a free one.",
    )  # fmt: skip


def log_options(about: str) -> Callable[[Command], Command]:
    """--log-format and --log-level, as `log_format` and `log_level`. `about`: help of the format."""

    def add(command: Command) -> Command:
        command = click.option(
            "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True,
            help="From warning on the moments of pods are not logged.",
        )(command)  # fmt: skip
        return click.option(
            "--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True, help=about
        )(command)

    return add


def connection_of(kubeconfig: str | None, context: str | None) -> Connection:
    """The cluster of `cluster_options`. Raises BadInput."""
    from stowplan_operator.api.connection import ConnectionSettingsError, load_connection

    try:
        return load_connection(None if kubeconfig is None else Path(kubeconfig), context)
    except ConnectionSettingsError as error:
        raise BadInput(str(error)) from None
