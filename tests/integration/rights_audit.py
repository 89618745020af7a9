"""Which rights ServiceAccounts use, by the API server's own audit log: what roles are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from deploy.manifests import OWN_NAMESPACE, Grant
from integration.audit_log import AuditLog

USERS: Final = f"system:serviceaccount:{OWN_NAMESPACE}:"

REQUESTS: Final = {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{OWN_NAMESPACE}"]}
"""Requests of our namespace's accounts; a watch is written down when it begins."""

EVERYBODY: Final = frozenset({"authorization.k8s.io", "authentication.k8s.io"})
"""Reviews of one's own rights and name are allowed to every user."""


class RightsAudit(AuditLog):
    """The requests of our accounts at one control plane."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, [REQUESTS])

    def used(self, account: str) -> set[Grant]:
        """What an account asked for and was allowed."""
        return {_grant(entry) for entry in self._entries(account) if _decision(entry) == "allow"}

    def denied(self, account: str) -> set[Grant]:
        """What an account asked for in vain."""
        return {_grant(entry) for entry in self._entries(account) if _decision(entry) == "forbid"}

    def _entries(self, account: str) -> Iterator[dict[str, Any]]:
        for entry in self.entries():
            reference = entry.get("objectRef")
            if reference and entry["user"]["username"] == f"{USERS}{account}":
                if reference.get("apiGroup", "") not in EVERYBODY:
                    yield entry


def _decision(entry: dict[str, Any]) -> str:
    return str(entry.get("annotations", {}).get("authorization.k8s.io/decision", ""))


def _grant(entry: dict[str, Any]) -> Grant:
    reference = entry["objectRef"]
    resource, part = reference["resource"], reference.get("subresource", "")
    return (
        reference.get("namespace", ""),
        reference.get("apiGroup", ""),
        f"{resource}/{part}" if part else resource,
        entry["verb"],
        reference.get("name", ""),
    )


def covers(grant: Grant, use: Grant) -> bool:
    """Whether a rule allows this request: "" stands for any namespace and for any name."""
    namespace, group, resource, verb, name = grant
    return namespace in {"", use[0]} and (group, resource, verb) == use[1:4] and name in {"", use[4]}


def unused(grants: set[Grant], uses: set[Grant]) -> set[Grant]:
    """The rules that allowed nothing that was asked for."""
    return {grant for grant in grants if not any(covers(grant, use) for use in uses)}


def uncovered(grants: set[Grant], uses: set[Grant]) -> set[Grant]:
    """What was asked for and no rule allows."""
    return {use for use in uses if not any(covers(grant, use) for grant in grants)}
