"""Who may talk HTTP: the API server's client, the operator with its own workers, and the guard for all other URLs."""

from __future__ import annotations

import ast
from pathlib import Path

CLIENTS = {"aiohttp", "http.client", "urllib.request", "requests", "httpx", "socket", "prometheus_api_client"}

MAY = {
    "api/client.py": "the API server of the kubeconfig or of the pod's environment",
    "api/connection.py": "the same",
    "api/errors.py": "names of errors",
    "handlers/children.py": "child workers, on loopback",
    "handlers/deployments.py": "workers' pods, at the addresses that the API server names",
    "handlers/kopf_thread.py": "the API server, for kopf",
    "handlers/url_checking.py": "nobody: it has names looked up by net/lookup.py",
    "net/fetch.py": "URLs of custom resources, guarded",
    "net/lookup.py": "names of such URLs",
    "net/resolving.py": "names of such URLs",
    "serving.py": "serves, asks nobody",
}
"""What they talk to."""

NAMES_ONLY = {"api/lease_runner.py", "handlers/operator_process.py", "worker/runner.py"}
"""Ask for the name of this machine."""


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(each, ast.Import):
            found.update(alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
            found.add(each.module)
    return found


def test_no_other_module_can_ask_a_url(repository: Path) -> None:
    """A new client has to be put on the list, with what it talks to; a URL of a resource goes through net/fetch.py."""
    package = repository / "operator" / "stowplan_operator"
    using = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(f"{name}.".startswith(f"{client}.") for name in imported(path) for client in CLIENTS)
    }
    assert using - NAMES_ONLY <= set(MAY)
    for name in NAMES_ONLY & using:
        names = imported(package / name)
        assert not any(each.startswith(("aiohttp", "http", "urllib", "requests")) for each in names)
