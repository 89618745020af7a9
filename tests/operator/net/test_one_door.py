"""Who may talk HTTP: the API server's client, the operator with its own workers, and the guard for all other URLs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

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


def test_the_only_urls_in_custom_resources_are_those_of_extenders(repository: Path) -> None:
    """A new one has to be checked like these (resources/url_checks.py, handlers/url_checking.py)."""
    found = set()
    for path in (repository / "crds").glob("*.stowplan.io.yaml"):
        definition = yaml.safe_load(path.read_text(encoding="utf-8"))
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        kind = definition["spec"]["names"]["kind"]
        found |= {f"{kind} {field}" for field in fields(schema, "") if SMELLS_OF_A_URL.search(field.rpartition(".")[2])}
    assert found == {"SchedulerProfile spec.extenders[].urlPrefix"}


SMELLS_OF_A_URL = re.compile(r"ur[il]|endpoint|address|webhook|^host$", re.IGNORECASE)


def fields(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """The paths of all fields below a schema."""
    for name, inner in schema.get("properties", {}).items():
        field = f"{path}.{name}" if path else name
        yield field
        yield from fields(inner, field)
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}{{}}")
