"""Requests to addresses that somebody wrote into a custom resource: extenders, Prometheus.

Whoever may write such a resource must not be able to let the operator ask its own node, the cloud's metadata service or
the API server in their place. So an address is checked three times: as a text (`check_url`), as what its name resolves
to (`resolving`), and once more when a socket is made for it (`fetch.GuardedClient`). docs/security.md says what is
refused; `UrlRules` is what a program may loosen or tighten.

The operator checks the URLs of every profile's extenders in this way (`handlers.url_checking`). Nothing asks one yet:
profiles with extenders are not accepted. Whatever will must come through here.

Only what does no IO is imported here: a check of a text needs no HTTP client.
"""

from .addresses import check_address, parse_network
from .rules import DEFAULT_RULES, REASONS, UrlRefusedError, UrlRules
from .urls import check_url, is_host_name, split_url

__all__ = [
    "DEFAULT_RULES",
    "REASONS",
    "UrlRefusedError",
    "UrlRules",
    "check_address",
    "check_url",
    "is_host_name",
    "parse_network",
    "split_url",
]
