"""What is allowed in a URL of a custom resource, and the error that says why one is not asked."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Final

Network = IPv4Network | IPv6Network

PORTS: Final = frozenset({443, 8443, 8888, 9090})
"""https twice, the port that upstream's examples give an extender, and Prometheus's."""

URL_REFUSED: Final = "UrlRefused"
ADDRESS_REFUSED: Final = "AddressRefused"
NAME_UNKNOWN: Final = "NameUnknown"
UNREACHABLE: Final = "Unreachable"
TOO_SLOW: Final = "TooSlow"
REDIRECTED: Final = "Redirected"
TOO_LARGE: Final = "TooLarge"
ENCODED: Final = "Encoded"

REASONS: Final[dict[str, str]] = {
    URL_REFUSED: "the URL is not allowed",
    ADDRESS_REFUSED: "the host name stands for an address that is not allowed",
    NAME_UNKNOWN: "the host name cannot be resolved",
    UNREACHABLE: "there is no connection, or it was not a trusted one",
    TOO_SLOW: "the answer did not come in time",
    REDIRECTED: "the answer sends the request elsewhere, which is not followed",
    TOO_LARGE: "the answer is larger than is read",
    ENCODED: "the answer is compressed, which was not asked for",
}
"""Why no answer was had: a reason for a condition, and its text. Neither quotes an address or an answer."""


@dataclass(frozen=True, slots=True)
class UrlRules:
    """By default: services of the cluster, by https, on the usual ports, wherever that is no special address.

    `hosts`: further host names, in lower case. `allowed`: networks that are asked although their kind is refused, such
    as 127.0.0.0/8 for a test; a URL may then have an address of theirs instead of a name. `refused`: further networks
    that are not asked, such as those of nodes and of the API server; they win over `allowed`.
    """

    http: bool = False
    hosts: frozenset[str] = frozenset()
    ports: frozenset[int] = PORTS
    cluster_domain: str = "cluster.local"
    allowed: tuple[Network, ...] = ()
    refused: tuple[Network, ...] = ()


DEFAULT_RULES: Final = UrlRules()


class UrlRefusedError(Exception):
    """No answer was had. `reason` is a key of REASONS; the text adds what may be shown to whoever wrote the URL."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{REASONS[reason]}: {detail}" if detail else REASONS[reason])
        self.reason = reason
