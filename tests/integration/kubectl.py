"""kubectl commands that must succeed, with what they print: for tests that do what a user does."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Protocol


class Cluster(Protocol):
    """What kubectl can be run against."""

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it; it may fail."""


class KubectlError(Exception):
    """A command failed; the text is what it said on standard error."""


class Kubectl:
    """kubectl for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.run = cluster.kubectl

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """The standard output. Raises KubectlError."""
        done = self.run(*arguments, stdin=stdin)
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """The objects of a `get`, decoded. Raises KubectlError."""
        return json.loads(self("get", *arguments, "--output", "json"))
