"""Which bindings an API server granted, by its own audit log: what "bound exactly once" is checked against."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "None"},
    ],
}


class BindingAudit:
    """The audit log of one control plane. Give `flags` to its API server."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._policy = folder / "audit-policy.json"
        self._policy.write_text(json.dumps(POLICY), encoding="utf-8")
        self.path = folder / "audit.log"

    @property
    def flags(self) -> Sequence[str]:
        """Of kube-apiserver."""
        return (
            *("--audit-policy-file", str(self._policy.absolute()), "--audit-log-path", str(self.path.absolute())),
            *("--audit-log-mode", "blocking-strict"),
        )

    def bound(self) -> Counter[str]:
        """How often each pod (namespace/name) was bound: bindings that were answered with 201."""
        found: Counter[str] = Counter()
        if not self.path.exists():
            return found
        for line in self.path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["responseStatus"]["code"] == 201:
                ref = event["objectRef"]
                found[f"{ref['namespace']}/{ref['name']}"] += 1
        return found
