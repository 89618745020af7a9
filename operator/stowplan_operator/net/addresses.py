"""Which IP addresses are not asked on behalf of a custom resource, however they are written.

An IPv6 address can carry an IPv4 one: mapped, translated, tunnelled. What it carries is checked too, since somebody on
the way will take it out. Private networks are not refused: the services of a cluster live there.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from .rules import DEFAULT_RULES, Network, UrlRules

Address = IPv4Address | IPv6Address

LOOPBACK: Final = "a loopback address"
LINK_LOCAL: Final = "a link-local address"
METADATA: Final = "an address of a cloud's metadata service"
UNSPECIFIED: Final = "an unspecified address"
MULTICAST: Final = "a multicast address"
RESERVED: Final = "a reserved address"
OF_THE_CLUSTER: Final = "an address of a node or of the API server"

SPECIAL: Final[tuple[tuple[Network, str], ...]] = tuple(
    (ip_network(network), kind)
    for network, kind in (
        # The first one that fits gives the reason. AWS, Azure, GCP and OpenStack answer at 169.254.169.254.
        ("169.254.169.254/32", METADATA),
        ("169.254.170.2/32", METADATA),  # credentials of ECS tasks
        ("100.100.100.200/32", METADATA),  # Alibaba
        ("168.63.129.16/32", METADATA),  # Azure's host
        ("192.0.0.192/32", METADATA),  # Oracle
        ("fd00:ec2::/32", METADATA),  # AWS
        ("fd20:ce::254/128", METADATA),  # Google
        ("0.0.0.0/8", UNSPECIFIED),  # Linux connects 0.0.0.0 to itself
        ("127.0.0.0/8", LOOPBACK),
        ("169.254.0.0/16", LINK_LOCAL),
        ("192.0.0.0/24", RESERVED),
        ("224.0.0.0/4", MULTICAST),
        ("240.0.0.0/4", RESERVED),  # with the broadcast address
        ("::/128", UNSPECIFIED),
        ("::1/128", LOOPBACK),
        ("fe80::/10", LINK_LOCAL),
        ("fec0::/10", LINK_LOCAL),  # site-local, deprecated
        ("ff00::/8", MULTICAST),
        ("64:ff9b:1::/48", RESERVED),  # translation inside a site: where the IPv4 address stands is up to the site
        ("100::/64", RESERVED),
    )
)

_EMBEDS_AT_THE_END: Final[tuple[IPv6Network, ...]] = (
    IPv6Network("::ffff:0:0/96"),  # mapped
    IPv6Network("::ffff:0:0:0/96"),  # translated, RFC 2765
    IPv6Network("::/96"),  # compatible, deprecated
    IPv6Network("64:ff9b::/96"),  # NAT64
)
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_TEREDO: Final = IPv6Network("2001::/32")
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
"""The third quarter of an ISATAP address; the fourth is the IPv4 address."""


def check_address(address: Address | str, rules: UrlRules = DEFAULT_RULES) -> str:
    """Why an address is not asked, as "a loopback address"; "" if it may be. Raises ValueError."""
    if isinstance(address, str):
        address = ip_address(address)
    forms = [address, *_embedded(address)]
    if any(_within(form, rules.refused) for form in forms):
        return OF_THE_CLUSTER
    kinds = (_kind(form) for form in forms if not _within(form, rules.allowed))
    return next((kind for kind in kinds if kind), "")


def is_allowed(address: Address, rules: UrlRules) -> bool:
    """Whether an address is in a network that is allowed by name, and may be asked."""
    return _within(address, rules.allowed) and not check_address(address, rules)


def parse_network(text: str) -> Network:
    """A network from its text: 10.0.0.0/8, or one address. Raises ValueError, whose text says what is wrong with it."""
    return ip_network(text.strip(), strict=True)


def _kind(address: Address) -> str:
    return next((kind for network, kind in SPECIAL if _is_in(address, network)), "")


def _within(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(_is_in(address, network) for network in networks)


def _is_in(address: Address, network: Network) -> bool:
    """The zone of fe80::1%eth0 is no matter here."""
    if isinstance(network, IPv4Network):
        return isinstance(address, IPv4Address) and address in network
    return isinstance(address, IPv6Address) and int(address) & int(network.netmask) == int(network.network_address)


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address may be turned into on its way."""
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    # :: and ::1 are what they are; as IPv4 they would be 0.0.0.0 and 0.0.0.1.
    if bits > 1 and any(_is_in(address, network) for network in _EMBEDS_AT_THE_END):
        yield IPv4Address(bits & 0xFFFF_FFFF)
    if _is_in(address, _SIX_TO_FOUR):
        yield IPv4Address(bits >> 80 & 0xFFFF_FFFF)
    if _is_in(address, _TEREDO):
        yield IPv4Address(bits >> 64 & 0xFFFF_FFFF)  # the server
        yield IPv4Address(bits & 0xFFFF_FFFF ^ 0xFFFF_FFFF)  # the client
    if bits >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(bits & 0xFFFF_FFFF)
