"""URLs of custom resources: whatever leads to a special address is refused, and nothing is sent there."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from stowplan_operator.net import DEFAULT_RULES, UrlRefusedError, UrlRules, check_url, parse_network, split_url
from stowplan_operator.net.fetch import GuardedClient
from stowplan_operator.net.resolving import resolve
from support.names import Names

ANSWERS: dict[str, tuple[str, ...]] = {
    "good.mon.svc": ("10.96.0.10",),
    "good6.mon.svc": ("fd12:3456::10",),
    "loop.mon.svc": ("127.0.0.1",),
    "loop-far.mon.svc": ("127.200.3.4",),
    "loop6.mon.svc": ("::1",),
    "any.mon.svc": ("0.0.0.0",),
    "this-network.mon.svc": ("0.1.2.3",),
    "any6.mon.svc": ("::",),
    "link.mon.svc": ("169.254.10.20",),
    "link6.mon.svc": ("fe80::1%lo",),
    "site6.mon.svc": ("fec0::1",),
    "metadata.mon.svc": ("169.254.169.254",),
    "metadata-ecs.mon.svc": ("169.254.170.2",),
    "metadata-aws6.mon.svc": ("fd00:ec2::254",),
    "metadata-google6.mon.svc": ("fd20:ce::254",),
    "metadata-alibaba.mon.svc": ("100.100.100.200",),
    "metadata-azure.mon.svc": ("168.63.129.16",),
    "metadata-oracle.mon.svc": ("192.0.0.192",),
    "multicast.mon.svc": ("224.0.0.1",),
    "multicast6.mon.svc": ("ff02::1",),
    "broadcast.mon.svc": ("255.255.255.255",),
    "reserved.mon.svc": ("240.0.0.1",),
    "mapped.mon.svc": ("::ffff:127.0.0.1",),
    "mapped-metadata.mon.svc": ("::ffff:a9fe:a9fe",),
    "compatible.mon.svc": ("::7f00:1",),
    "translated.mon.svc": ("::ffff:0:127.0.0.1",),
    "nat64.mon.svc": ("64:ff9b::a9fe:a9fe",),
    "nat64-local.mon.svc": ("64:ff9b:1::7f00:1",),
    "six-to-four.mon.svc": ("2002:7f00:1::",),
    "teredo-server.mon.svc": ("2001:0:a9fe:a9fe::",),
    "teredo-client.mon.svc": ("2001:0:506:708:0:0:80ff:fffe",),
    "isatap.mon.svc": ("fd12::5efe:7f00:1",),
    "one-of-two.mon.svc": ("10.96.0.10", "127.0.0.1"),
    "one-of-three.mon.svc": ("10.96.0.10", "fd12:3456::10", "169.254.169.254"),
    "node.mon.svc": ("192.168.7.4",),
    "apiserver.mon.svc": ("10.96.0.1",),
}

OF_NODES_AND_API_SERVER = UrlRules(refused=(parse_network("192.168.7.0/24"), parse_network("10.96.0.1/32")))

REFUSED_AS_TEXT = (
    # an address in one of its notations
    "https://127.0.0.1/",
    "https://2130706433/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://0x7f.0.0.1/",
    "https://0x7f000001/",
    "https://127.1/",
    "https://127.0.0.1./",
    "https://10.0.0.1.0x7f/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]:9090/",
    "https://[fe80::1%25eth0]/",
    "https://[::1",
    "https://169.254.169.254/latest/meta-data/",
    # a name that is no service
    "https://localhost/",
    "https://metadata.google.internal/computeMetadata/v1/",
    "https://prometheus.mon/",
    "https://prometheus.mon.svc.example.com/",
    "https://svc/",
    "https://.svc/",
    "https://a.b.c.svc/",
    "https://prometheus.mon.svc./",
    "https://127.0.0.1.nip.io/",
    "https://[]/",
    "https://[127.0.0.1]/",
    "https://kubernetes.default.svc/",
    "https://KUBERNETES.default.svc.cluster.local/api/v1/secrets",
    # somebody's name before it, or a host after it
    "https://user:secret@good.mon.svc/",
    "https://good.mon.svc@127.0.0.1/",
    "https://@good.mon.svc/",
    "https://evil.example#.svc",
    "https://evil.example?.mon.svc",
    "https://evil.example/.mon.svc",
    "https://evil.example\\.mon.svc/",
    "https://good.mon.svc\\@127.0.0.1/",
    # another scheme
    "http://good.mon.svc/",
    "file:///etc/passwd",
    "gopher://good.mon.svc/",
    "unix:///var/run/docker.sock",
    "//good.mon.svc/",
    "good.mon.svc",
    "",
    # another port
    "https://good.mon.svc:22/",
    "https://good.mon.svc:6443/",
    "https://good.mon.svc:0/",
    "https://good.mon.svc:65536/",
    "https://good.mon.svc:/",
    "https://good.mon.svc:+443/",
    "https://good.mon.svc:4_43/",
    # what parsers read differently
    "https://good.mon.svc/%2e%2e/secrets",
    "https://good.mon.svc/a/../b",
    "https://good.mon.svc/?q=1",
    "https://good.mon.svc/#x",
    "https://good.mon.svc /",
    "https://good.mon.svc\t/",
    "https://good.mon.svc/\r\nHost: evil.example",
    " https://good.mon.svc/",
    "https://g\u043e\u043ed.mon.svc/",
    "https://good\u3002mon\u3002svc/",
    "https://good.mon.svc\uff0f@127.0.0.1/",
    "https://\u2460\u2461\u2466.0.0.1/",
    "https://-good.mon.svc/",
    "https://good_.mon.svc/",
    f"https://{'a' * 64}.mon.svc/",
    f"https://good.mon.svc/{'a' * 2048}",
)


class Packets:
    """Stands where the event loop connects: nothing gets past it, and it knows what would have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Any] = []
        monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", self._connect)

    async def _connect(self, sock: socket.socket, address: Any) -> None:
        self.sent.append(address)
        raise ConnectionRefusedError


@pytest.fixture
def packets(monkeypatch: pytest.MonkeyPatch) -> Packets:
    return Packets(monkeypatch)


def ask(url: str, rules: UrlRules, names: Names) -> str:
    """The reason why there is no answer."""

    async def main() -> str:
        async with GuardedClient(rules, resolver=names) as client:
            with pytest.raises(UrlRefusedError) as refused:
                await client.request("GET", url)
        return refused.value.reason

    return asyncio.run(main())


@pytest.mark.parametrize("url", REFUSED_AS_TEXT)
def test_a_url_that_is_no_plain_url_of_a_service_is_refused_before_a_name_is_looked_up(
    url: str, packets: Packets
) -> None:
    """Over sixty of them; each with a text that says what is wrong and does not quote the URL."""
    problems = check_url(url)
    assert problems
    assert all(0 < len(problem) < 150 and "secret" not in problem for problem in problems)
    assert split_url(url) is None
    names = Names(ANSWERS)
    assert ask(url, DEFAULT_RULES, names) == "UrlRefused"
    assert (names.asked, packets.sent) == ([], [])


@pytest.mark.parametrize("host", sorted(set(ANSWERS) - {"good.mon.svc", "good6.mon.svc"}))
def test_a_name_that_leads_to_a_special_address_is_refused_and_nothing_is_sent(host: str, packets: Packets) -> None:
    """Over thirty; one bad answer among good ones is enough."""
    url = f"https://{host}/"
    assert check_url(url, OF_NODES_AND_API_SERVER) == []
    assert ask(url, OF_NODES_AND_API_SERVER, Names(ANSWERS)) == "AddressRefused"
    assert packets.sent == []
    with pytest.raises(UrlRefusedError):
        asyncio.run(resolve(url, OF_NODES_AND_API_SERVER, resolver=Names(ANSWERS)))


@pytest.mark.parametrize(
    ("url", "rules", "address"),
    [
        ("https://good.mon.svc/prefix", DEFAULT_RULES, ("10.96.0.10", 443)),
        ("https://good.mon.svc.cluster.local:9090", UrlRules(), ("10.96.0.10", 9090)),
        ("HTTPS://Good.Mon.Svc:8443/api/v1/", DEFAULT_RULES, ("10.96.0.10", 8443)),
        ("http://good.mon.svc", UrlRules(http=True), ("10.96.0.10", 80)),
        ("https://prom.example.com", UrlRules(hosts=frozenset({"prom.example.com"})), ("10.96.0.10", 443)),
        ("https://good6.mon.svc", DEFAULT_RULES, ("fd12:3456::10", 443, 0, 0)),
        ("https://loop.mon.svc", UrlRules(allowed=(parse_network("127.0.0.0/8"),)), ("127.0.0.1", 443)),
        ("https://127.0.0.1:8443/x", UrlRules(allowed=(parse_network("127.0.0.0/8"),)), ("127.0.0.1", 8443)),
        ("https://[::1]", UrlRules(allowed=(parse_network("::1"),)), ("::1", 443, 0, 0)),
        ("https://10.96.0.10", UrlRules(allowed=(parse_network("10.96.0.0/12"),)), ("10.96.0.10", 443)),
        ("https://mapped.mon.svc", UrlRules(allowed=(parse_network("127.0.0.0/8"),)), ("::ffff:127.0.0.1", 443, 0, 0)),
    ],
)
def test_what_is_allowed_is_connected_to_at_the_address_that_was_checked(
    url: str, rules: UrlRules, address: tuple[object, ...], packets: Packets
) -> None:
    """Services of the cluster, further hosts by flag, and special networks by flag."""
    others = {"good.mon.svc.cluster.local": ("10.96.0.10",), "prom.example.com": ("10.96.0.10",)}
    assert check_url(url, rules) == []
    assert ask(url, rules, Names({**ANSWERS, **others})) == "Unreachable"
    assert packets.sent == [address]


def test_a_network_that_is_refused_is_refused_even_where_a_flag_allows_a_wider_one(packets: Packets) -> None:
    """The addresses of nodes lie inside the private ranges that somebody may allow."""
    rules = UrlRules(allowed=(parse_network("192.168.0.0/16"),), refused=(parse_network("192.168.7.0/24"),))
    assert ask("https://node.mon.svc", rules, Names(ANSWERS)) == "AddressRefused"
    assert packets.sent == []


@pytest.mark.parametrize(
    "url",
    [
        "https://127.1/",
        "https://0177.0.0.1/",
        "https://2130706433/",
        "https://127.0.0.1./",
        "https://[::ffff:127.0.0.1]/",
        "https://[::1%25lo]/",
        "https://192.168.7.4/",
        "https://169.254.169.254/",
        "https://10.0.0.1/",
    ],
)
def test_an_address_instead_of_a_name_is_allowed_in_one_notation_and_in_networks_that_are_named(url: str) -> None:
    """Not because its kind is harmless, and not where a narrower network is refused."""
    rules = UrlRules(
        allowed=tuple(map(parse_network, ("127.0.0.0/8", "::1", "192.168.0.0/16"))),
        refused=(parse_network("192.168.7.0/24"),),
    )
    assert "must name a host, not an IP address" in check_url(url, rules)


def test_a_name_is_resolved_once_for_a_connection_and_a_second_answer_is_not_trusted(packets: Packets) -> None:
    """DNS re-binding: the first answer is good, all later ones are loopback."""
    names = Names({"rebind.mon.svc": ("10.96.0.10",)})

    async def main() -> None:
        async with GuardedClient(resolver=names) as client:
            with pytest.raises(UrlRefusedError, match="no connection"):
                await client.request("GET", "https://rebind.mon.svc")
            assert (names.asked, packets.sent) == (["rebind.mon.svc"], [("10.96.0.10", 443)])
            names.answers = {"rebind.mon.svc": ("127.0.0.1",)}
            with pytest.raises(UrlRefusedError, match="loopback"):
                await client.request("GET", "https://rebind.mon.svc")

    asyncio.run(main())
    assert packets.sent == [("10.96.0.10", 443)]


def test_a_socket_is_not_made_for_an_address_that_came_past_the_resolver() -> None:
    """aiohttp asks no resolver about an IP literal; the last gate does not count on the first."""

    async def main() -> None:
        async with GuardedClient() as client:
            assert client._session is not None
            with pytest.raises(UrlRefusedError, match="loopback"):
                await client._session.get("http://127.0.0.1:9/")

    asyncio.run(main())


@pytest.mark.parametrize(("answers", "reason"), [({}, "NameUnknown"), ({"none.mon.svc": ()}, "NameUnknown")])
def test_a_name_without_an_address_is_said_to_be_unknown(answers: dict[str, tuple[str, ...]], reason: str) -> None:
    """Not an error of ours."""
    assert ask("https://none.mon.svc", DEFAULT_RULES, Names(answers)) == reason


@given(
    st.text(alphabet=st.sampled_from("htps:/@.[]#?\\%0123456789abcdefxsvcmon-_ \t\n\u3002\uff0f"), max_size=40).map(
        "https://".__add__
    )
    | st.text(max_size=60)
)
def test_whatever_passes_means_the_same_to_the_client_as_to_the_check(url: str) -> None:
    """No text makes the check fail, and what it lets through has the host that another parser finds in it."""
    rules = UrlRules(http=True, allowed=(parse_network("0.0.0.0/0"), parse_network("::/0")))
    parts = split_url(url, rules)
    if parts is None:
        assert check_url(url, rules)
        return
    theirs = URL(url)
    assert (theirs.scheme, theirs.host, theirs.port) == (parts.scheme, parts.host, parts.port)
    assert (theirs.user, theirs.password, theirs.query_string, theirs.fragment) == (None, None, "", "")
    if not parts.host.endswith((".svc", ".svc.cluster.local")):
        assert str(ip_address(parts.host)) == str(ip_address(theirs.host or ""))
    assert check_url(parts.url, rules) == []
