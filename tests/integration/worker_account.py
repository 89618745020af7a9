"""A ServiceAccount with exactly the rights of a worker, for tests in which rights and their caches matter."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from integration.accounts import kubeconfig_of
from integration.control_plane import ControlPlane
from integration.kube_api import Manifest, sure
from integration.worker_process import NAMESPACE
from stowplan_operator.api.rights import WORKER, Right, Scope

ACCOUNT: Final = "worker-of-a-test"


def worker_kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    """Make the account with its roles; returns a kubeconfig with its token."""
    with closing(plane.api) as api:
        for manifest in _manifests():
            sure(api.create(manifest))
    return kubeconfig_of(plane, ACCOUNT, NAMESPACE, folder)


def _manifests() -> list[Manifest]:
    named = {"name": ACCOUNT, "namespace": NAMESPACE}
    rbac = "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", **named}]
    own = [right for right in WORKER if right.scope is not Scope.CLUSTER]
    everywhere = [right for right in WORKER if right.scope is Scope.CLUSTER]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": ACCOUNT},
            "rules": [_rule(right) for right in everywhere],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "subjects": subjects,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ACCOUNT},
        },
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": [_rule(right) for right in own]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": named,
            "subjects": subjects,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": ACCOUNT},
        },
    ]


def _rule(right: Right) -> Manifest:
    resource = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    return {"apiGroups": [right.group], "resources": [resource], "verbs": [right.verb]}
