"""`stowplan operator` before it reaches a cluster: help, wrong arguments, kubeconfigs that cannot be used."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stowplan_operator.cli import cli


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["operator", *arguments])


def refused(*arguments: str) -> str:
    """The one line that is printed for arguments that cannot be used."""
    result = run(*arguments)
    assert result.exit_code == 2, result
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.removeprefix("stowplan: error: ")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """One that is right in itself; nobody listens at its server."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        "apiVersion: v1\n"
        "kind: Config\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', tls-server-name: other}}]\n"
        "users: [{name: u, user: {token: secret-token}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "current-context: x\n",
        encoding="utf-8",
    )
    return str(path)


def test_help_says_what_is_needed_and_shows_examples() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for text in ("kubectl apply -k crds", "stowplan operator --kubeconfig", "Exit codes:", "--leader-elect-"):
        assert text in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--namespace", "Bad_NS"), 'Invalid value for --namespace: "Bad_NS" is no name of a namespace'),
        (("--bind", "8080"), 'Invalid value for --bind: "8080" is not HOST:PORT'),
        (("--runtime", "pods"), "Invalid value for '--runtime': 'pods' is not one of 'child', 'deployment'."),
        (("--runtime", "deployment"), "Invalid value for --worker-image: is needed with --runtime deployment"),
        (
            ("--worker-scheduler-name", "Main!"),
            'Invalid value for --worker-scheduler-name: "Main!" is no name of a scheduler: lower case letters, digits',
        ),
        (("--leader-elect-lease-duration", "1s"), "Invalid value for --leader-elect-lease-duration: leaseDuration"),
        (("--leader-elect-retry-period", "1500ms"), "Invalid value for --leader-elect-lease-duration: the times of"),
        (("--leader-elect-retry-period", "soon"), "Invalid value for '--leader-elect-retry-period': \"soon\" is not"),
        (("--kubeconfig", "/nowhere"), "kubeconfig /nowhere: no such file"),
        (
            ("--allow-url-network", "10.0.0.1/8"),
            "Invalid value for '--allow-url-network': 10.0.0.1/8 has host bits set: ",
        ),
        (("--deny-url-network", "node"), "Invalid value for '--deny-url-network': 'node' does not appear to be"),
        (("--allow-url-host", "0x7f.1"), "Invalid value for '--allow-url-host': \"0x7f.1\" is no name of a host"),
        (("--allow-url-port", "0"), "Invalid value for '--allow-url-port': 0 is not in the range"),
        (("profile.yaml",), "Got unexpected extra argument (profile.yaml)"),
    ],
)
def test_a_wrong_argument_is_one_line_that_names_it(arguments: tuple[str, ...], expected: str) -> None:
    assert refused(*arguments).startswith(expected)


def test_a_context_that_is_not_there_is_named_with_those_that_are(kubeconfig: str) -> None:
    assert "there is no context 'y'; known are: x" in refused("--kubeconfig", kubeconfig, "--context", "y")


def test_a_kubeconfig_that_kopf_cannot_follow_is_refused_at_once(kubeconfig: str) -> None:
    line = refused("--kubeconfig", kubeconfig)
    assert line.startswith("tls-server-name of the kubeconfig is not supported by the operator")
    assert "secret-token" not in line


def test_a_folder_belongs_to_one_operator_at_a_time(tmp_path: Path, kubeconfig: str) -> None:
    path = Path(kubeconfig)
    path.write_text(path.read_text(encoding="utf-8").replace(", tls-server-name: other", ""), encoding="utf-8")
    work = str(tmp_path / "work")
    program = [sys.executable, "-m", "stowplan_operator", "operator", "--kubeconfig", kubeconfig, "--work-dir", work]
    with subprocess.Popen([*program, "--bind", "127.0.0.1:0"], stderr=subprocess.DEVNULL) as first:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "work" / "lock").exists():
                assert time.monotonic() < deadline
                assert first.poll() is None
                time.sleep(0.02)
            line = refused("--kubeconfig", kubeconfig, "--work-dir", work)
            assert line == f"--work-dir {work}: is in use by another operator: give each its own"
        finally:
            first.kill()
