"""What a URL in a custom resource may look like, as a text: no name is resolved here.

Parsers disagree about unusual URLs, and a check by one parser says little about where another one connects. So the form
is narrow: what a URL of a service needs, in ASCII. Whatever is left means the same to everybody.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from .addresses import Address, is_allowed
from .rules import DEFAULT_RULES, UrlRules

LONGEST: Final = 2048
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:-]*)*", re.ASCII)
_SPLIT: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>.*)", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)

_API_SERVERS: Final = frozenset({"kubernetes", "kubernetes.default"})


class UrlParts(NamedTuple):
    """A URL that may be asked, in parts. `host`: without brackets. `path` is "" or begins with a slash."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def check_url(url: str, rules: UrlRules = DEFAULT_RULES) -> list[str]:
    """What is wrong with a URL; [] if it may be asked, as far as its text says. Each entry is half a sentence."""
    problems, _ = _examine(url, rules)
    return problems


def split_url(url: str, rules: UrlRules = DEFAULT_RULES) -> UrlParts | None:
    """The parts of a URL in which `check_url` finds nothing; None for any other."""
    problems, parts = _examine(url, rules)
    return None if problems else parts


def _examine(url: str, rules: UrlRules) -> tuple[list[str], UrlParts | None]:
    if len(url) > LONGEST:
        return [f"must have at most {LONGEST} characters"], None
    if not url.isascii() or not url.isprintable() or " " in url:
        return ["must consist of printable ASCII characters without spaces"], None
    split = _SPLIT.fullmatch(url)
    if split is None:
        return ["must have the form https://host[:port][/path]"], None
    problems = []
    scheme = split["scheme"].lower()
    if scheme not in ("https", "http"):
        problems.append("must begin with https://")
    elif scheme == "http" and not rules.http:
        problems.append("must begin with https://: http is not allowed here")
    _, at, authority = split["authority"].rpartition("@")
    if at:
        problems.append("must not hold a user name or password")
    host, port = _host_and_port(authority)
    problems += _check_host(host.lower(), rules)
    number = _DEFAULT_PORTS.get(scheme, 0)
    if port is not None:
        number = int(port) if re.fullmatch(r"[0-9]{1,5}", port) else -1
    # Whoever allows http means its port too.
    if number not in rules.ports and not (number == 80 and rules.http):
        problems.append(f"has a port that is not allowed: one of {', '.join(map(str, sorted(rules.ports)))}")
    path = split["rest"]
    if not _PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        problems.append("must have a plain path: no query, no fragment, no escapes, no dots as parts, no backslashes")
    return problems, UrlParts(scheme, host.lower().strip("[]"), number, path)


def _host_and_port(authority: str) -> tuple[str, str | None]:
    if authority.startswith("["):
        host, _, rest = authority.partition("]")
        return f"{host}]", rest[1:] if rest.startswith(":") else None
    host, colon, port = authority.partition(":")
    return host, port if colon else None


def _check_host(host: str, rules: UrlRules) -> list[str]:
    if not host:
        return ["must name a host"]
    address = _address(host)
    if address is not None and is_allowed(address, rules):
        return []
    labels = host.split(".")
    # As browsers have it: a last label that is a number makes the whole an IPv4 address, in one of its many notations.
    if host.startswith("[") or _NUMBER.fullmatch(labels[-1]) or (labels[-1] == "" and _NUMBER.fullmatch(labels[-2])):
        return ["must name a host, not an IP address"]
    if not is_host_name(host):
        return ["has a host that is no DNS name"]
    if host in rules.hosts:
        return []
    name = host.removesuffix(f".{rules.cluster_domain}").removesuffix(".svc")
    if name in _API_SERVERS:
        return ["names the API server"]
    if _is_service(host, rules.cluster_domain):
        return []
    return ["must name a service as <service>.<namespace>.svc, or a host that is allowed by name"]


def is_host_name(host: str) -> bool:
    """Whether a text in lower case is a DNS name, and no address in disguise."""
    labels = host.split(".")
    return len(host) <= 253 and all(map(_LABEL.fullmatch, labels)) and not _NUMBER.fullmatch(labels[-1])


def _address(host: str) -> Address | None:
    """The address that a host is, in the one notation that everybody reads alike."""
    try:
        return IPv6Address(host[1:-1]) if host.startswith("[") and "%" not in host else IPv4Address(host)
    except ValueError:
        return None


def _is_service(host: str, cluster_domain: str) -> bool:
    """Two labels before .svc: an ExternalName service still leads outside, which is why the address is checked too."""
    labels = host.removesuffix(f".{cluster_domain}").split(".")
    return len(labels) == 3 and labels[2] == "svc"
