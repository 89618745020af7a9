"""The client against a real API server: who is let in, what it means that no answer comes, what stays secret."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.api_support import account, kubeconfig, new_namespace, run, until
from integration.control_plane import API_SERVER, HOST, ControlPlane
from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient, Stream
from stowplan_operator.api.connection import load_connection
from stowplan_operator.api.errors import ApiError, UnauthorizedError, UnreachableError

pytestmark = pytest.mark.rig

VERSION = Call("GET", "/version")
MYSELF = Call("GET", "/api/v1/namespaces")
READ_NAMESPACES = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}]


@pytest.fixture(scope="module")
def own_plane(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One that may be frozen and killed."""
    with ControlPlane(rig, tmp_path_factory.mktemp("own-plane"), components=()) as plane:
        yield plane


def test_a_kubeconfig_lets_in_and_the_context_names_the_namespace(control_plane: ControlPlane, tmp_path: Path) -> None:
    """TLS is verified with the authority of the file."""
    path = kubeconfig(control_plane, tmp_path / "config", {"token": control_plane.token})
    connection = load_connection(path, "rig")
    assert (connection.server, connection.namespace) == (f"https://{HOST}:{control_plane.port}", "shop")
    assert connection.ssl_context.verify_mode is ssl.CERT_REQUIRED

    async def test() -> None:
        async with ApiClient(connection) as client:
            assert (await client.call(VERSION)).sure().json()["gitVersion"] == "v1.37.2"

    asyncio.run(test())


def test_a_server_with_another_certificate_gets_no_token(control_plane: ControlPlane, tmp_path: Path) -> None:
    """No answer; the text says that it is the certificate."""
    path = kubeconfig(control_plane, tmp_path / "config", {"token": control_plane.token})
    text = path.read_text(encoding="utf-8").replace(f'"certificate-authority": "{control_plane.certificate}", ', "")
    path.write_text(text.replace(f', "certificate-authority": "{control_plane.certificate}"', ""), encoding="utf-8")

    async def test() -> None:
        async with ApiClient(load_connection(path)) as client:
            reply = await client.call(VERSION)
            assert reply.status == 0
            assert "certificate verify failed" in reply.message

    asyncio.run(test())


def test_a_token_file_is_read_again_and_at_once_when_the_server_refuses(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Every minute; and after a 401, though not with every call. The rights are those of the account."""
    namespace = new_namespace(control_plane)
    token = account(control_plane, namespace, "reader", READ_NAMESPACES)
    file = tmp_path / "token"
    file.write_text("wrong", encoding="utf-8")
    connection = load_connection(kubeconfig(control_plane, tmp_path / "config", {"tokenFile": str(file)}))
    now = [100.0]

    async def test() -> None:
        async with ApiClient(connection, clock=lambda: now[0]) as client:
            assert (await client.call(MYSELF)).status == 401
            file.write_text(f"{token}\n", encoding="utf-8")
            assert (await client.call(MYSELF)).status == 401
            now[0] += 5
            assert (await client.call(MYSELF)).status == 200
            reply = await client.call(Call("GET", "/api/v1/nodes"))
            assert (reply.status, reply.reason) == (403, "Forbidden")
            assert f'User "system:serviceaccount:{namespace}:reader" cannot list' in reply.message
            file.write_text("wrong again", encoding="utf-8")
            now[0] += 59
            assert (await client.call(MYSELF)).status == 200
            now[0] += 1
            assert (await client.call(MYSELF)).status == 401
            with pytest.raises(UnauthorizedError):
                async with client.stream(MYSELF):
                    pass
            file.write_text(token, encoding="utf-8")
            now[0] += 60
            async with client.stream(MYSELF) as stream:
                assert await stream.lines()

    asyncio.run(test())


def test_a_client_certificate_is_presented_and_read_again(own_plane: ControlPlane, tmp_path: Path) -> None:
    """This one nobody trusts, so the server takes its owner for nobody; the connection stands all the same."""
    certs = own_plane.certificate.parent
    for name in ("apiserver.crt", "apiserver.key"):
        (tmp_path / name).write_bytes((certs / name).read_bytes())
    user = {"client-certificate": "apiserver.crt", "client-key": "apiserver.key"}
    connection = load_connection(kubeconfig(own_plane, tmp_path / "config", user))
    assert (connection.credential.header, connection.credential.rotates) == ("", True)
    now = [0.0]

    async def test() -> None:
        async with ApiClient(connection, clock=lambda: now[0]) as client:
            assert (await client.call(VERSION)).is_success
            assert (await client.call(MYSELF)).status == 403
            # What cannot be read in its place leaves the one before in use.
            (tmp_path / "apiserver.crt").write_text("none", encoding="utf-8")
            now[0] = 60.0
            assert (await client.call(VERSION)).is_success

    asyncio.run(test())


def test_nobody_listening_and_nobody_answering_are_unknown_outcomes(own_plane: ControlPlane, tmp_path: Path) -> None:
    """Status 0 and what happened; a frozen server is given up after the time that the call may take."""
    path = kubeconfig(own_plane, tmp_path / "config", {"token": own_plane.token})
    # Taken, so that nobody else does, and not listened on.
    closed = socket.socket()
    closed.bind((HOST, 0))
    port = closed.getsockname()[1]
    path.write_text(path.read_text(encoding="utf-8").replace(f":{own_plane.port}", f":{port}"), encoding="utf-8")

    async def nobody() -> None:
        async with ApiClient(load_connection(path)) as client:
            reply = await client.call(VERSION)
            assert (reply.status, reply.is_unknown) == (0, True)
            assert "ConnectorError" in reply.message
            with pytest.raises(UnreachableError):
                async with client.stream(VERSION):
                    pass

    async def frozen(client: ApiClient) -> None:
        (await client.call(VERSION)).sure()
        own_plane.freeze(API_SERVER)
        try:
            reply = await client.call(Call("GET", "/version", timeout=0.2))
            assert reply.status == 0
            assert "Timeout" in reply.message
            with pytest.raises(UnreachableError):
                async with client.stream(Call("GET", "/version", timeout=0.2)):
                    pass
        finally:
            own_plane.thaw(API_SERVER)
        await until(lambda: _answers(client))

    with closed:
        asyncio.run(nobody())
    run(own_plane, frozen)


async def _answers(client: ApiClient) -> bool:
    return (await client.call(VERSION)).is_success


def test_a_stream_that_breaks_off_is_an_error_and_not_an_end(own_plane: ControlPlane) -> None:
    """The server is killed in the middle of a watch."""

    async def test(client: ApiClient) -> None:
        call = Call("GET", "/api/v1/namespaces", (("watch", "true"),))
        async with client.stream(call) as stream:
            assert await stream.lines()
            own_plane.kill(API_SERVER)
            with pytest.raises(UnreachableError):
                await _to_the_end(stream)

    try:
        run(own_plane, test)
    finally:
        own_plane.restart(API_SERVER)


async def _to_the_end(stream: Stream) -> None:
    while await stream.lines():
        pass


def test_the_token_is_in_no_text(control_plane: ControlPlane, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Neither in what objects show of themselves nor in logs, replies and errors, whatever goes wrong."""
    secret = "s3cret-token-of-the-test"
    file = tmp_path / "token"
    file.write_text(secret, encoding="utf-8")
    caplog.set_level(logging.DEBUG)
    connection = load_connection(kubeconfig(control_plane, tmp_path / "config", {"tokenFile": str(file)}))
    now = [0.0]
    shown: list[object] = [connection, connection.credential]

    async def test() -> None:
        async with ApiClient(connection, clock=lambda: now[0]) as client:
            shown.append(client)
            shown.append(await client.call(MYSELF))
            for path in ("/version", "/no/such/path", "/api/v1/namespaces?watch=x"):
                shown.append(await client.call(Call("GET", path)))
                try:
                    async with client.stream(Call("GET", path)):
                        pass
                except ApiError as error:
                    shown.append(error)
            file.unlink()
            now[0] = 100.0
            shown.append(await client.call(MYSELF))

    asyncio.run(test())
    assert "credential not renewed" in caplog.text
    assert secret not in caplog.text
    assert secret not in " ".join(f"{each} {each!r}" for each in shown)


def test_the_server_sees_who_is_calling(rig: Path, tmp_path: Path) -> None:
    """The user agent, as the API server's audit log has it."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n", encoding="utf-8")
    log = tmp_path / "audit.log"
    flags = {API_SERVER: ("--audit-policy-file", str(policy), "--audit-log-path", str(log))}
    with ControlPlane(rig, tmp_path / "plane", components=(), flags=flags) as plane:

        async def test(client: ApiClient) -> None:
            (await client.call(MYSELF)).sure()
            await until(lambda: '"userAgent":"stowplan/0.1.0"' in log.read_text(encoding="utf-8"))

        run(plane, test)
