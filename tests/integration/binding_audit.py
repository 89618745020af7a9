"""Which bindings an API server granted, by its own audit log: what "bound exactly once" is checked against."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from integration.audit_log import AuditLog

BINDINGS: Final = {
    "level": "Metadata",
    "verbs": ["create"],
    "resources": [{"group": "", "resources": ["pods/binding"]}],
}


class BindingAudit(AuditLog):
    """The bindings of one control plane."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, [BINDINGS])

    def bound(self) -> Counter[str]:
        """How often each pod (namespace/name) was bound: bindings that were answered with 201."""
        found: Counter[str] = Counter()
        for event in self.entries():
            if event["responseStatus"]["code"] == 201:
                ref = event["objectRef"]
                found[f"{ref['namespace']}/{ref['name']}"] += 1
        return found
