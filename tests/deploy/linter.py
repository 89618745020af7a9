"""What must hold for every manifest that is shipped: no right that leads to more rights, no container that may do much.

The rights are those of the security advice for RBAC that are as good as being an administrator. A rule here yields half
a sentence for each place where a manifest breaks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from deploy.manifests import OWN_NAMESPACE, Manifest, name_of, pod_templates

WORKLOADS: Final = {
    *("pods", "replicationcontrollers", "daemonsets", "deployments", "replicasets", "statefulsets"),
    *("jobs", "cronjobs"),
}
MAKE: Final = {"create", "update", "patch"}
READ: Final = {"get", "list", "watch"}

ESCALATIONS: Final[dict[str, tuple[set[str], set[str]]]] = {
    "reads secrets": ({"secrets"}, READ),
    "makes pods or workloads outside of its own namespace": (WORKLOADS, MAKE),
    "makes persistent volumes": ({"persistentvolumes"}, MAKE),
    "reaches kubelets": ({"nodes/proxy"}, READ | MAKE),
    "escalates roles": ({"roles", "clusterroles"}, {"escalate", *MAKE}),
    "binds roles": ({"roles", "clusterroles", "rolebindings", "clusterrolebindings"}, {"bind", *MAKE}),
    "impersonates": ({"users", "groups", "serviceaccounts", "uids"}, {"impersonate"}),
    "approves certificates": ({"certificatesigningrequests/approval", "signers"}, {*MAKE, "approve", "sign"}),
    "makes tokens": ({"serviceaccounts/token"}, {"create"}),
    "changes webhooks": (
        {
            *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
            *("mutatingadmissionpolicies", "validatingadmissionpolicies"),
        },
        MAKE,
    ),
    "changes namespaces": ({"namespaces"}, {"update", "patch"}),
    "runs commands in pods": (
        {"pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers"},
        READ | MAKE,
    ),
}


def lint(manifests: Iterable[Manifest]) -> list[str]:
    """All findings; [] if there is nothing to say."""
    everything = list(manifests)
    found: list[str] = []
    for manifest in everything:
        found += (f"{name_of(manifest)}: {finding}" for finding in _role(manifest))
        found += (f"{name_of(manifest)}: {finding}" for finding in _binding(manifest))
    for name, template in pod_templates(everything):
        found += (f"{name}: {finding}" for finding in _pod(template.get("spec") or {}))
    return found


# ---- roles -----------------------------------------------------------------------------------


def _role(manifest: Manifest) -> Iterator[str]:
    if manifest["kind"] not in {"ClusterRole", "Role"}:
        return
    own = manifest["kind"] == "Role" and manifest["metadata"].get("namespace") == OWN_NAMESPACE
    for rule in manifest.get("rules") or ():
        groups, resources, verbs = (set(rule.get(field) or ()) for field in ("apiGroups", "resources", "verbs"))
        if any("*" in value for value in groups | resources | verbs) or rule.get("nonResourceURLs"):
            yield "has a wildcard or a path"
        for what, (guarded, used) in ESCALATIONS.items():
            if own and guarded is WORKLOADS:
                continue
            if resources & guarded and verbs & used:
                yield what


def _binding(manifest: Manifest) -> Iterator[str]:
    if manifest["kind"] not in {"ClusterRoleBinding", "RoleBinding"}:
        return
    for subject in manifest.get("subjects") or ():
        if subject["kind"] != "ServiceAccount":
            yield f"binds a {subject['kind']}"
    if not manifest["roleRef"]["name"].startswith("stowplan-"):
        yield "binds a role that is not ours"


# ---- pods ------------------------------------------------------------------------------------


def _pod(spec: dict[str, Any]) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        if spec.get(field):
            yield f"uses {field}"
    if any("hostPath" in volume for volume in spec.get("volumes") or ()):
        yield "mounts a hostPath"
    if "automountServiceAccountToken" not in spec:
        yield "does not say whether it needs a token"
    pod = spec.get("securityContext") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if not containers:
        yield "has no container"
    for container in containers:
        for finding in _container(container, pod):
            yield f"container {container['name']} {finding}"


def _container(container: dict[str, Any], pod: dict[str, Any]) -> Iterator[str]:
    own = container.get("securityContext") or {}
    both = {**pod, **own}
    if both.get("runAsNonRoot") is not True or not both.get("runAsUser"):
        yield "may run as root"
    if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
        yield "may gain privileges"
    if own.get("readOnlyRootFilesystem") is not True:
        yield "may write to its root"
    capabilities = own.get("capabilities") or {}
    if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
        yield "keeps capabilities"
    if (both.get("seccompProfile") or {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    for probe in ("livenessProbe", "readinessProbe"):
        if probe not in container:
            yield f"has no {probe}"
    resources = container.get("resources") or {}
    if set(resources.get("requests") or ()) != {"cpu", "memory"} or "memory" not in (resources.get("limits") or {}):
        yield "does not say what it needs"
    if container["image"].endswith(":latest"):
        yield "has an image that changes"
    if any(port.get("hostPort") for port in container.get("ports") or ()):
        yield "takes a port of its node"
