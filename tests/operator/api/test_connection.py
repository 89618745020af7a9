"""Kubeconfigs, good and bad, and what a pod is given: every mistake is one clear text, and none shows a credential."""

from __future__ import annotations

import base64
import json
import logging
import re
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from stowplan_operator.api import connection as module
from stowplan_operator.api.connection import ConnectionSettingsError, load_connection

SECRET = "s3cret"


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a kubeconfig nor a pod's environment is found unless a test puts it there."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def config(user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "one", "cluster": {"server": "https://one.example:6443", **(cluster or {})}},
            {"name": "two", "cluster": {"server": "https://two.example/prefix/"}},
        ],
        "users": [{"name": "me", "user": {"token": SECRET} if user is None else user}],
        "contexts": [
            {"name": "first", "context": {"cluster": "one", "user": "me", "namespace": "shop"}},
            {"name": "second", "context": {"cluster": "two", "user": "me"}},
            {"name": "anonymous", "context": {"cluster": "one"}},
        ],
        "current-context": "first",
    }


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_the_current_context_or_the_one_that_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, config())
    first, second = load_connection(path), load_connection(path, "second")
    assert (first.server, first.namespace, first.credential.header) == (
        "https://one.example:6443",
        "shop",
        f"Bearer {SECRET}",
    )
    assert (second.server, second.namespace) == ("https://two.example/prefix", "default")
    assert load_connection(path, "anonymous").credential.header == ""
    assert not first.credential.rotates
    assert first.ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert first.ssl_context.check_hostname


def test_without_a_name_the_file_of_the_environment_and_then_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KUBECONFIG may name several; what is not there is passed over as long as one is."""
    usual = tmp_path / ".kube" / "config"
    usual.parent.mkdir()
    usual.write_text(json.dumps({**config(), "current-context": "second"}), encoding="utf-8")
    assert load_connection().server == "https://two.example/prefix"
    path = written(tmp_path, config())
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{path}")
    assert load_connection().server == "https://one.example:6443"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(ConnectionSettingsError, match=r"KUBECONFIG=.*absent: no such file"):
        load_connection()


def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its token is read again, for it is replaced before it ends."""
    incluster = pytest.importorskip("kubernetes.config.incluster_config")
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first\n", encoding="utf-8")
    authority.write_text(Path(ssl.get_default_verify_paths().cafile or "").read_text(encoding="utf-8"), "utf-8")
    (tmp_path / "namespace").write_text("stowplan-system", encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setattr(module, "NAMESPACE_FILE", tmp_path / "namespace")
    found = load_connection()
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "stowplan-system")
    assert (found.credential.header, found.credential.rotates) == ("Bearer first", True)
    token.write_text("second\n", encoding="utf-8")
    assert found.renew(True).header == "Bearer second"
    token.unlink()
    with pytest.raises(ConnectionSettingsError, match="in-cluster configuration: Service token file does not exist"):
        found.renew(True)


def test_a_token_file_is_read_again_and_may_stand_beside_the_kubeconfig(tmp_path: Path) -> None:
    """Its path is relative to the file."""
    (tmp_path / "token").write_text("first\n", encoding="utf-8")
    found = load_connection(written(tmp_path, config({"tokenFile": "token"})))
    assert (found.credential.header, found.credential.rotates) == ("Bearer first", True)
    (tmp_path / "token").write_text("second", encoding="utf-8")
    assert found.renew(False).header == "Bearer second"


def plugin(tmp_path: Path, code: str) -> dict[str, Any]:
    """An exec plugin that counts its runs."""
    program = tmp_path / "plugin.py"
    count = tmp_path / "runs"
    program.write_text(f"open({str(count)!r}, 'a').write('x')\n{code}", encoding="utf-8")
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(program)],
            "interactiveMode": "Never",
        }
    }


def answer(**status: Any) -> str:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(credential)!r})"


def test_an_exec_plugin_is_run_and_again_only_when_its_credential_ends(tmp_path: Path) -> None:
    """A token that holds for long is kept; one that ends within five minutes is replaced; a refusal replaces it too."""
    long = load_connection(
        written(tmp_path, config(plugin(tmp_path, answer(token=SECRET, expirationTimestamp="2999-01-01T00:00:00Z"))))
    )
    assert (long.credential.header, long.credential.rotates) == (f"Bearer {SECRET}", True)
    assert long.renew(False).header == f"Bearer {SECRET}"
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "x"
    assert long.renew(True).header == f"Bearer {SECRET}"
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "xx"
    short = load_connection(
        written(tmp_path, config(plugin(tmp_path, answer(token=SECRET, expirationTimestamp="2020-01-01T00:00:00Z"))))
    )
    runs = len((tmp_path / "runs").read_text(encoding="utf-8"))
    short.renew(False)
    assert len((tmp_path / "runs").read_text(encoding="utf-8")) == runs + 1


def test_a_plugin_that_fails_is_an_error_and_not_an_anonymous_client(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The official loader only logs it. Nothing is printed, and the root logger is left as it was."""
    handlers = list(logging.getLogger().handlers)
    for code, text in (
        ("import sys; sys.exit('log in first')", "exec: process returned 1. log in first"),
        ("print('no JSON')", "exec: failed to decode process output"),
        (answer(), "exec: missing token or clientCertificateData field in plugin output"),
    ):
        with pytest.raises(ConnectionSettingsError, match=text):
            load_connection(written(tmp_path, config(plugin(tmp_path, code))))
    absent = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(tmp_path / "absent")}}
    with pytest.raises(ConnectionSettingsError, match="No such file or directory"):
        load_connection(written(tmp_path, config(absent)))
    assert logging.getLogger().handlers == handlers
    assert capsys.readouterr().err == ""


MISTAKES: dict[str, tuple[Any, str | None, str]] = {
    "no such context": (config(), "third", "there is no context 'third'; known are: anonymous, first, second"),
    "no current context": ({**config(), "current-context": ""}, None, "there is no context ''"),
    "empty": ("", None, "file is empty"),
    "a list": ("[]", None, "not as expected|this is no kubeconfig"),
    "a text": ("text", None, "not as expected|this is no kubeconfig"),
    "no clusters": ({**config(), "clusters": []}, None, "Expected object with name one in .*/clusters list"),
    "clusters as a map": ({**config(), "clusters": {"name": "one"}}, None, "must be lists of entries with a name"),
    "no server": ({**config(), "clusters": [{"name": "one", "cluster": {}}]}, None, "cluster 'one' has no server"),
    "http": (
        config(cluster={"server": "http://one.example"}),
        None,
        "server 'http://one.example' must begin with https://",
    ),
    "unverified": (
        config(cluster={"insecure-skip-tls-verify": True}),
        None,
        "insecure-skip-tls-verify is not supported",
    ),
    "no authority": (
        config(cluster={"certificate-authority": "/no/such/ca.crt"}),
        None,
        "File does not exist: /no/such/ca",
    ),
    "bad authority": (
        config(cluster={"certificate-authority-data": base64.b64encode(b"no certificate").decode()}),
        None,
        "the certificate authority cannot be used",
    ),
    "not base64": (config(cluster={"certificate-authority-data": "*"}), None, "certificate authority"),
    "no token file": (config({"tokenFile": "/no/such/token"}), None, "No such file or directory: '/no/such/token'"),
    "bad client certificate": (
        config(
            {
                "client-certificate-data": base64.b64encode(b"none").decode(),
                "client-key-data": base64.b64encode(SECRET.encode()).decode(),
            }
        ),
        None,
        "the client certificate or its key cannot be used",
    ),
    "user without content": ({**config(), "users": [{"name": "me", "token": SECRET}]}, None, "Expected key user"),
    "user without name": (
        {**config(), "users": [{"user": {"token": SECRET}}]},
        None,
        "Expected all values in .*/users list to have .name. key",
    ),
    "broken YAML": (f"users:\n- user: {{token: {SECRET}\n  x: [", None, "line [23]: "),
}


@pytest.mark.parametrize(("content", "context", "text"), MISTAKES.values(), ids=MISTAKES.keys())
def test_every_mistake_is_one_clear_text_without_secrets(
    tmp_path: Path, content: Any, context: str | None, text: str
) -> None:
    """It names the file; what the official loader quotes of it is left out."""
    path = written(tmp_path, content)
    with pytest.raises(ConnectionSettingsError, match=text) as caught:
        load_connection(path, context)
    message = str(caught.value)
    assert message.startswith(f"kubeconfig {path}: ")
    assert SECRET not in message
    assert "\n" not in message
    assert caught.value.__cause__ is None


def test_without_any_cluster_it_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match=r"~/.kube/config, KUBECONFIG is not set, and this is not a pod"):
        load_connection()
    with pytest.raises(ConnectionSettingsError, match="context 'x': there is no kubeconfig"):
        load_connection(context="x")
    with pytest.raises(ConnectionSettingsError, match="no such file"):
        load_connection(tmp_path / "absent")
    with pytest.raises(ConnectionSettingsError, match=f"^kubeconfig {re.escape(str(tmp_path))}: not a file$"):
        load_connection(tmp_path)


def test_a_file_that_is_no_text_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(b"\x7fELF\xd0\xff")
    with pytest.raises(ConnectionSettingsError, match=r"not UTF-8 text: a kubeconfig is YAML or JSON$"):
        load_connection(path)


def test_nothing_that_is_shown_has_the_credential_in_it(tmp_path: Path) -> None:
    found = load_connection(written(tmp_path, config()))
    for text in (repr(found), str(found), repr(found.credential), f"{found.credential!s}"):
        assert SECRET not in text


def test_the_kubeconfig_is_never_written_to(tmp_path: Path) -> None:
    path = written(tmp_path, config(plugin(tmp_path, answer(token=SECRET))))
    before = path.read_bytes()
    load_connection(path).renew(True)
    assert path.read_bytes() == before
