"""What Stowplan may do in a cluster: every right that the operator and the workers use, and what for.

One table for three readers: the roles in deploy/kustomize grant these rights and no others (tests compare them),
programs ask for their own when they start, and a test compares them with what a real API server's audit log says was
used.

A right on a named object does not cover making it: names are not known to the API server when something is created.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import Any, Final

import msgspec

from .kinds import WATCHED


class Scope(StrEnum):
    """Where a right is held."""

    CLUSTER = "cluster"
    OWN = "own namespace"
    DEFAULT = "namespace default"
    """Events about objects without a namespace are kept there."""


class Right(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One verb on one kind. `name`: only on the object of that name."""

    scope: Scope
    group: str
    resource: str
    subresource: str = ""
    verb: str
    name: str = ""

    def __str__(self) -> str:
        """As in messages: "patch pods/status", "create events.events.k8s.io in namespace default"."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        what = f"{kind}/{self.subresource}" if self.subresource else kind
        named = f" {self.name}" if self.name else ""
        where = {Scope.CLUSTER: "", Scope.OWN: " in the own namespace", Scope.DEFAULT: " in namespace default"}
        return f"{self.verb} {what}{named}{where[self.scope]}"

    def attributes(self, own_namespace: str) -> dict[str, Any]:
        """The resourceAttributes of a SelfSubjectAccessReview."""
        namespace = {Scope.CLUSTER: "", Scope.OWN: own_namespace, Scope.DEFAULT: "default"}[self.scope]
        found = {
            "namespace": namespace,
            "verb": self.verb,
            "group": self.group,
            "resource": self.resource,
            "subresource": self.subresource,
            "name": self.name,
        }
        return {field: value for field, value in found.items() if value}


def _rights(
    scope: Scope, group: str, resources: str, verbs: str, *, subresource: str = "", name: str = ""
) -> tuple[Right, ...]:
    return tuple(
        Right(scope=scope, group=group, resource=resource, subresource=subresource, verb=verb, name=name)
        for resource, verb in product(resources.split(), verbs.split())
    )


WORKER: Final[tuple[Right, ...]] = (
    # What a scheduler knows of the cluster.
    *(right for kind in WATCHED for right in _rights(Scope.CLUSTER, kind.group, kind.plural, "list watch")),
    # Whether a binding whose answer was lost took place.
    *_rights(Scope.CLUSTER, "", "pods", "get"),
    *_rights(Scope.CLUSTER, "", "pods", "create", subresource="binding"),
    # Why a pod waits, the node that was promised to it, and why a victim goes.
    *_rights(Scope.CLUSTER, "", "pods", "patch", subresource="status"),
    # Victims of preemption.
    *_rights(Scope.CLUSTER, "", "pods", "delete"),
    *_rights(Scope.CLUSTER, "events.k8s.io", "events", "create patch"),
    # One Lease for each group of workers; the groups are named by profiles.
    *_rights(Scope.OWN, "coordination.k8s.io", "leases", "get create update"),
)

OPERATOR: Final[tuple[Right, ...]] = (
    *_rights(Scope.CLUSTER, "stowplan.io", "schedulerprofiles nodepools simulations", "list watch"),
    *_rights(Scope.CLUSTER, "stowplan.io", "schedulerprofiles nodepools simulations", "patch", subresource="status"),
    *_rights(Scope.DEFAULT, "events.k8s.io", "events", "create patch"),
    *_rights(Scope.OWN, "coordination.k8s.io", "leases", "create"),
    *_rights(Scope.OWN, "coordination.k8s.io", "leases", "get update", name="stowplan-operator"),
    # Those that groups of workers leave behind.
    *_rights(Scope.OWN, "coordination.k8s.io", "leases", "list delete"),
    # The last good specification of each profile, and the configurations of workers. Applying makes what is not there.
    *_rights(Scope.OWN, "", "configmaps", "get list create patch delete"),
    *_rights(Scope.OWN, "", "configmaps", "watch", name="stowplan-accepted"),
    # Workers that are Deployments of their own, and the addresses of their pods.
    *_rights(Scope.OWN, "apps", "deployments", "list create patch delete"),
    *_rights(Scope.OWN, "policy", "poddisruptionbudgets", "list create patch delete"),
    *_rights(Scope.OWN, "", "pods", "list"),
)
