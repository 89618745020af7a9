"""The audit log of a real API server: what it was asked and what it answered, whoever asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


class AuditLog:
    """The audit log of one control plane. Give `flags` to its API server; `rules` are those of the audit policy."""

    def __init__(self, folder: Path, rules: Sequence[Mapping[str, Any]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [*rules, {"level": "None"}],
        }
        self._policy = folder / "audit-policy.json"
        self._policy.write_text(json.dumps(policy), encoding="utf-8")
        self.path = folder / "audit.log"

    @property
    def flags(self) -> Sequence[str]:
        """Of kube-apiserver."""
        return (
            *("--audit-policy-file", str(self._policy.absolute()), "--audit-log-path", str(self.path.absolute())),
            *("--audit-log-mode", "blocking-strict"),
        )

    def entries(self) -> Iterator[dict[str, Any]]:
        """All that was written so far."""
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                yield json.loads(line)
