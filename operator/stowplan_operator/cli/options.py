"""Kinds of arguments that click does not have."""

from __future__ import annotations

import click

from .application import BadInput


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Callback of an option: whole bytes, at least one, of a Kubernetes quantity such as 500M or 2Gi."""
    from stowplan_scheduler.quantity import NANOS, QuantityError, parse_quantity

    if value is None:
        return None
    try:
        count = parse_quantity(value) // NANOS
    except QuantityError:
        count = 0
    if count < 1:
        raise click.BadParameter(f'"{value}" is not a size such as 500M or 2Gi', ctx, param)
    return count


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Callback of an option: nanoseconds, more than none, of a duration such as 90m or 24h."""
    from stowplan_autoscaling.resources.values import parse_duration

    if value is None:
        return None
    try:
        nanos = parse_duration(value)
    except ValueError:
        nanos = 0
    if nanos < 1:
        raise click.BadParameter(f'"{value}" is not a duration such as 90m or 24h', ctx, param)
    return nanos


def check_parquet() -> None:
    """For --parquet, before anything runs."""
    from stowplan_autoscaling.results.parquet import is_available

    if not is_available():
        raise BadInput("--parquet: needs pyarrow, which is not installed; CSV files are written without it")


def host_and_port(text: str) -> tuple[str, int]:
    """The parts of HOST:PORT, as --bind takes it; IPv6 in brackets. Raises click.BadParameter."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f'"{text}" is not HOST:PORT, as in 127.0.0.1:8080 or [::1]:8080', param_hint="--bind")
    return host or "0.0.0.0", int(port)  # noqa: S104 - asked for, as in :10270
