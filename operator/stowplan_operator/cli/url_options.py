"""Which URLs a custom resource may have: options of whatever checks them, as one `urls`. docs/security.md says why."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from stowplan_operator.net import DEFAULT_RULES, UrlRules, is_host_name, parse_network


def url_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--allow-url-network and its like; the command gets `urls`, a UrlRules."""

    @click.option(
        "--allow-url-network",
        "allowed",
        multiple=True,
        metavar="CIDR",
        callback=_networks,
        help="URLs in profiles may lead to addresses of this network although it is loopback, link-local or the like; "
        "they may then name such an address instead of a service. May be given several times, as all of these.",
    )
    @click.option(
        "--deny-url-network",
        "refused",
        multiple=True,
        metavar="CIDR",
        callback=_networks,
        help="They may not lead to addresses of this network, such as that of nodes, whatever else is allowed.",
    )
    @click.option(
        "--allow-url-host",
        "hosts",
        multiple=True,
        metavar="NAME",
        callback=_hosts,
        help="They may name this host, too, and not only services of the cluster.",
    )
    @click.option(
        "--allow-url-port",
        "ports",
        multiple=True,
        metavar="PORT",
        type=click.IntRange(1, 65535),
        help=f"They may have this port, too. Always allowed: {', '.join(map(str, sorted(DEFAULT_RULES.ports)))}.",
    )
    @click.option("--allow-url-http", "http", is_flag=True, help="They may begin with http://, port 80 included.")
    @wraps(command)
    def run(
        *args: Any,
        allowed: tuple[Any, ...],
        refused: tuple[Any, ...],
        hosts: frozenset[str],
        ports: tuple[int, ...],
        http: bool,
        **kwargs: Any,
    ) -> Any:
        urls = UrlRules(
            http=http, hosts=hosts, ports=DEFAULT_RULES.ports | set(ports), allowed=allowed, refused=refused
        )
        return command(*args, urls=urls, **kwargs)

    return run


def _networks(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[Any, ...]:
    try:
        return tuple(map(parse_network, value))
    except ValueError as error:
        raise click.BadParameter(f"{error}: as in 10.0.0.0/8, fd00::/8 or 127.0.0.1", ctx, param) from None


def _hosts(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> frozenset[str]:
    for name in value:
        if not is_host_name(name.lower()):
            raise click.BadParameter(f'"{name}" is no name of a host, as in extender.example.com', ctx, param)
    return frozenset(map(str.lower, value))
