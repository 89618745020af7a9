"""The manifests under deploy/kustomize, read as files; tests/integration applies them to a real API server."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import stowplan_scheduler
from deploy.linter import ESCALATIONS, lint
from deploy.manifests import OWN_NAMESPACE, Grant, Manifest, documents, grants, listed, name_of, pod_templates, read
from stowplan_operator.api.rights import OPERATOR, WORKER, Right, Scope
from stowplan_operator.handlers.deployments import DeploymentSettings, objects_of
from stowplan_operator.handlers.groups import GroupPlan

OPERATOR_ACCOUNT, WORKER_ACCOUNT = "stowplan-operator", "stowplan-worker"

WORKER_OBJECTS = objects_of(
    GroupPlan(name="default", runtime="Deployment", replicas=2, text="{}"),
    DeploymentSettings(namespace=OWN_NAMESPACE, image="stowplan:0.1.0"),
)
"""What the operator writes for a group of workers that is a Deployment."""


@pytest.fixture(scope="module")
def kustomize(repository: Path) -> Path:
    return repository / "deploy" / "kustomize"


@pytest.fixture(scope="module")
def base(kustomize: Path) -> list[Manifest]:
    return documents(kustomize / "base")


def test_the_linter_finds_nothing_in_what_is_shipped(base: list[Manifest]) -> None:
    """No wildcard, none of the rights that lead to more rights, every container as small as it can be."""
    assert lint(base) == []
    assert len(list(pod_templates(base))) >= 1


def test_every_file_is_listed_and_every_object_has_the_labels(kustomize: Path, base: list[Manifest]) -> None:
    """A file that no kustomization lists would be shipped and never applied."""
    files = {path.name for path in (kustomize / "base").glob("*.yaml")}
    assert files == {"kustomization.yaml", *(path.name for path in listed(kustomize / "base"))}
    names = [name_of(manifest) for manifest in base]
    assert len(names) == len(set(names))
    assert [name_of(each) for each in base if "app.kubernetes.io/name" not in each["metadata"].get("labels", {})] == []


def test_the_linter_finds_nothing_in_what_the_operator_writes_for_workers() -> None:
    """They run in the same restricted namespace, with a token of their own account."""
    manifests = [
        {**body, "kind": kind, "metadata": {**body["metadata"], "name": "w", "namespace": OWN_NAMESPACE}}
        for kind, body in WORKER_OBJECTS.items()
    ]
    assert lint(manifests) == []
    assert {each["kind"] for each in manifests} == {"ConfigMap", "Deployment", "PodDisruptionBudget"}
    pod = WORKER_OBJECTS["Deployment"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (WORKER_ACCOUNT, True)


def expected(rights: tuple[Right, ...]) -> set[Grant]:
    namespaces = {Scope.CLUSTER: "", Scope.OWN: OWN_NAMESPACE, Scope.DEFAULT: "default"}
    return {
        (
            namespaces[right.scope],
            right.group,
            f"{right.resource}/{right.subresource}" if right.subresource else right.resource,
            right.verb,
            right.name,
        )
        for right in rights
    }


def test_the_roles_grant_what_the_table_of_rights_says_and_nothing_else(base: list[Manifest]) -> None:
    """The operator holds the workers' rights too, as long as these are its children; the overlay takes them away."""
    assert grants(base, WORKER_ACCOUNT) == expected(WORKER)
    assert grants(base, OPERATOR_ACCOUNT) == expected(OPERATOR) | expected(WORKER)
    alone = [manifest for manifest in base if manifest["metadata"]["name"] != "stowplan-child-workers"]
    assert grants(alone, OPERATOR_ACCOUNT) == expected(OPERATOR)


def test_the_table_of_rights_names_nothing_twice() -> None:
    """And an error message can tell its entries apart."""
    for rights in (OPERATOR, WORKER):
        assert len(rights) == len(set(rights)) == len({str(right) for right in rights})


def test_a_right_is_asked_for_as_the_api_server_wants_it() -> None:
    """Subresource and group are fields of their own; what is not there is left out."""
    bind = next(right for right in WORKER if right.subresource == "binding")
    assert bind.attributes("ns") == {"verb": "create", "resource": "pods", "subresource": "binding"}
    renew = next(right for right in OPERATOR if right.name)
    assert renew.attributes("ns") == {
        "namespace": "ns",
        "verb": "get",
        "group": "coordination.k8s.io",
        "resource": "leases",
        "name": "stowplan-operator",
    }
    assert str(renew) == "get leases.coordination.k8s.io stowplan-operator in the own namespace"
    assert str(bind) == "create pods/binding"


def test_the_namespace_takes_only_restricted_pods_and_all_of_ours_stand_in_it(base: list[Manifest]) -> None:
    """Enforced, not only warned about."""
    (namespace,) = (each for each in base if each["kind"] == "Namespace")
    assert namespace["metadata"]["name"] == OWN_NAMESPACE
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    placed = {each["metadata"].get("namespace") for each in base} - {None}
    assert placed == {OWN_NAMESPACE, "default"}
    assert {each["kind"] for each in base if each["metadata"].get("namespace") == "default"} == {"Role", "RoleBinding"}


def test_selectors_and_policies_meet_the_pods_that_they_are_for(base: list[Manifest]) -> None:
    """A Service, a budget or a policy that selects nothing is a silent failure."""
    ((_, template),) = pod_templates(base)
    templates = {OPERATOR_ACCOUNT: template, "stowplan-workers": WORKER_OBJECTS["Deployment"]["spec"]["template"]}
    by_kind: dict[str, list[Manifest]] = {}
    for manifest in base:
        by_kind.setdefault(manifest["kind"], []).append(manifest)
    for manifest in (*by_kind["Deployment"], *by_kind["PodDisruptionBudget"]):
        assert meets(manifest["spec"]["selector"]["matchLabels"], template)
    assert {each["metadata"]["name"] for each in by_kind["Service"]} == set(templates)
    for service in by_kind["Service"]:
        pods = templates[service["metadata"]["name"]]
        assert meets(service["spec"]["selector"], pods)
        assert [other for other in templates.values() if meets(service["spec"]["selector"], other)] == [pods]
        (container,) = pods["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= set(ports)
        assert f"--bind=0.0.0.0:{ports['http']}" in container["args"]
    for policy in by_kind["NetworkPolicy"]:
        assert all(meets(policy["spec"]["podSelector"].get("matchLabels", {}), pods) for pods in templates.values())
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def meets(selector: dict[str, str], template: Manifest) -> bool:
    """Whether a selector chooses the pods of a template."""
    labels = template["metadata"]["labels"]
    return all(labels.get(key) == value for key, value in selector.items())


def test_leases_travel_before_everything_else(base: list[Manifest]) -> None:
    """The schema of our Leases comes before that of our other requests, and both before that of all accounts (9000)."""
    schemas = {each["metadata"]["name"]: each["spec"] for each in base if each["kind"] == "FlowSchema"}
    leases, others = schemas["stowplan-leases"], schemas["stowplan"]
    assert leases["matchingPrecedence"] < others["matchingPrecedence"] < 9000
    for schema in schemas.values():
        (rule,) = schema["rules"]
        named = {each["serviceAccount"]["name"] for each in rule["subjects"]}
        assert named == {OPERATOR_ACCOUNT, WORKER_ACCOUNT}


def test_the_image_is_the_one_of_this_version(kustomize: Path) -> None:
    """The version has one home; the manifests follow it."""
    (content,) = read(kustomize / "base" / "kustomization.yaml")
    assert content["images"] == [{"name": "stowplan", "newTag": stowplan_scheduler.__version__}]


# ---- the linter itself -----------------------------------------------------------------------


def role(resource: str, verb: str, *, kind: str = "ClusterRole", namespace: str = "") -> Manifest:
    meta = {"name": "r", "namespace": namespace} if namespace else {"name": "r"}
    return {"kind": kind, "metadata": meta, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]}


@pytest.mark.parametrize(
    ("resource", "verb", "finding"),
    [
        ("*", "get", "has a wildcard or a path"),
        ("pods", "*", "has a wildcard or a path"),
        ("pods/*", "get", "has a wildcard or a path"),
        ("secrets", "list", "reads secrets"),
        ("deployments", "create", "makes pods or workloads outside of its own namespace"),
        ("pods", "create", "makes pods or workloads outside of its own namespace"),
        ("persistentvolumes", "create", "makes persistent volumes"),
        ("nodes/proxy", "get", "reaches kubelets"),
        ("clusterroles", "escalate", "escalates roles"),
        ("clusterroles", "bind", "binds roles"),
        ("serviceaccounts", "impersonate", "impersonates"),
        ("certificatesigningrequests/approval", "update", "approves certificates"),
        ("serviceaccounts/token", "create", "makes tokens"),
        ("validatingwebhookconfigurations", "patch", "changes webhooks"),
        ("namespaces", "patch", "changes namespaces"),
        ("pods/exec", "create", "runs commands in pods"),
    ],
)
def test_the_linter_finds_each_right_that_leads_to_more(resource: str, verb: str, finding: str) -> None:
    """Whether in a ClusterRole or in a Role of another namespace."""
    assert lint([role(resource, verb)]) == [f"ClusterRole r: {finding}"]
    assert lint([role(resource, verb, kind="Role", namespace="shop")]) == [f"Role shop/r: {finding}"]


def test_the_linter_lets_the_operator_make_workers_in_its_own_namespace() -> None:
    """But not read secrets there."""
    assert lint([role("deployments", "create", kind="Role", namespace=OWN_NAMESPACE)]) == []
    assert lint([role("secrets", "get", kind="Role", namespace=OWN_NAMESPACE)]) != []
    assert len(ESCALATIONS) == 12


def changed(manifest: Manifest, path: str, value: Any) -> Manifest:
    """A copy with another value at a dotted path; None takes the field away."""
    made = copy.deepcopy(manifest)
    target: Any = made
    *way, last = path.split(".")
    for step in way:
        target = target[int(step)] if step.isdigit() else target[step]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return made


CONTAINER = "containers.0"


@pytest.mark.parametrize(
    ("path", "value", "finding"),
    [
        ("hostNetwork", True, "uses hostNetwork"),
        ("volumes", [{"name": "v", "hostPath": {"path": "/"}}], "mounts a hostPath"),
        ("automountServiceAccountToken", None, "does not say whether it needs a token"),
        ("securityContext.runAsNonRoot", None, "container operator may run as root"),
        ("securityContext.runAsUser", 0, "container operator may run as root"),
        ("securityContext.seccompProfile", None, "container operator has no seccomp profile"),
        (f"{CONTAINER}.securityContext.allowPrivilegeEscalation", None, "container operator may gain privileges"),
        (f"{CONTAINER}.securityContext.privileged", True, "container operator may gain privileges"),
        (f"{CONTAINER}.securityContext.readOnlyRootFilesystem", None, "container operator may write to its root"),
        (f"{CONTAINER}.securityContext.capabilities.drop", ["NET_RAW"], "container operator keeps capabilities"),
        (f"{CONTAINER}.securityContext.capabilities.add", ["SYS_TIME"], "container operator keeps capabilities"),
        (f"{CONTAINER}.livenessProbe", None, "container operator has no livenessProbe"),
        (f"{CONTAINER}.resources.limits", None, "container operator does not say what it needs"),
        (f"{CONTAINER}.image", "stowplan:latest", "container operator has an image that changes"),
    ],
)
def test_the_linter_finds_each_way_in_which_a_container_may_do_more(
    base: list[Manifest], path: str, value: Any, finding: str
) -> None:
    """Each taken from the shipped Deployment, with one field changed."""
    (deployment,) = (each for each in base if each["kind"] == "Deployment")
    bad = changed(deployment, f"spec.template.spec.{path}", value)
    assert lint([bad]) == [f"{name_of(deployment)}: {finding}"]
