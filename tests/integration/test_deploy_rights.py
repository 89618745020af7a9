"""The shipped roles, the table of rights, and what the programs ask a real API server for: the same three times.

Worker and operator run with the tokens of their ServiceAccounts. The server's audit log says which rights they used;
none that they use is missing from their roles, and none that their roles grant goes unused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from deploy.manifests import OWN_NAMESPACE, documents, grants
from integration.accounts import api_of, kubeconfig_of
from integration.control_plane import API_SERVER, CONTROLLER_MANAGER, ControlPlane
from integration.crd_cases import BASES
from integration.kube_api import KubeApi, Manifest, sure
from integration.kubectl import Kubectl
from integration.operator_process import OperatorProcess, Profiles
from integration.rights_audit import RightsAudit, uncovered, unused
from integration.scheduling_load import node, pod, pods_of, wait_bound
from integration.worker_process import FAST_LEASE, WorkerProcess, worker_configuration
from stowplan_operator.api.rights import OPERATOR, WORKER, Right
from stowplan_operator.handlers.names import NODE_POOL, SIMULATION

pytestmark = pytest.mark.rig

WORKER_ACCOUNT, OPERATOR_ACCOUNT = "stowplan-worker", "stowplan-operator"
PATIENCE = 60.0
GROUP = "rights"


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> RightsAudit:
    return RightsAudit(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def plane(
    rig: Path, audit: RightsAudit, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane with the shipped manifests in it and nothing that runs.

    Its API server streams no lists, as servers before v1.34 do not: then a list and a watch are two requests, and both
    rights are used.
    """
    flags = {API_SERVER: (*audit.flags, "--feature-gates=WatchList=false")}
    folder = tmp_path_factory.mktemp("rights")
    with ControlPlane(rig, folder, components=(CONTROLLER_MANAGER,), flags=flags) as made:
        kubectl = Kubectl(made)
        kubectl("apply", "--kustomize", str(repository / "deploy" / "kustomize" / "separate-workers"))
        kubectl("wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=50s")
        yield made


@pytest.fixture(scope="module")
def roles(repository: Path) -> list[Manifest]:
    """As files, without what the overlay takes away."""
    found = documents(repository / "deploy" / "kustomize" / "separate-workers")
    return [each for each in found if each["metadata"]["name"] != "stowplan-child-workers"]


def until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


# ---- granted -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("account", "rights"), [(WORKER_ACCOUNT, WORKER), (OPERATOR_ACCOUNT, OPERATOR)])
def test_an_account_has_each_right_of_the_table_and_is_refused_each_that_is_not_in_it(
    plane: ControlPlane, account: str, rights: tuple[Right, ...]
) -> None:
    """Asked with the account's own token, as the programs ask when they start: here over all verbs of all kinds."""
    with closing(api_of(plane, account, OWN_NAMESPACE)) as api:
        denied = [str(right) for right in rights if not is_allowed(api, right.attributes(OWN_NAMESPACE))]
        assert denied == []
        held = {json.dumps(right.attributes(OWN_NAMESPACE), sort_keys=True) for right in rights}
        kinds = {(right.group, right.resource, right.subresource) for right in (*WORKER, *OPERATOR)}
        for group, resource, part in sorted(kinds | OUT_OF_BOUNDS):
            for verb in ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"):
                fields = {"verb": verb, "group": group, "resource": resource, "subresource": part}
                attributes = {field: value for field, value in fields.items() if value}
                expected = json.dumps(attributes, sort_keys=True) in held
                assert is_allowed(api, attributes) is expected, attributes
                # Not in a namespace of somebody else's either, except for what is held in all of them.
                elsewhere = {**attributes, "namespace": "kube-system"}
                assert is_allowed(api, elsewhere) is expected, elsewhere


OUT_OF_BOUNDS = {
    ("", "secrets", ""),
    ("", "nodes", "proxy"),
    ("", "pods", "exec"),
    ("", "pods", "eviction"),
    ("", "persistentvolumes", ""),
    ("", "serviceaccounts", "token"),
    ("apps", "daemonsets", ""),
    ("rbac.authorization.k8s.io", "clusterroles", ""),
    ("certificates.k8s.io", "certificatesigningrequests", "approval"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", ""),
}


def is_allowed(api: KubeApi, attributes: dict[str, Any]) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = sure(api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review))
    return bool(answer["status"]["allowed"])


def test_applying_an_object_that_is_not_there_needs_the_right_to_create_it(plane: ControlPlane) -> None:
    """The audit log calls it a patch; so that some rights to create are never seen in it says nothing against them."""
    meta = {"name": "stowplan-operator", "namespace": OWN_NAMESPACE}
    role: Manifest = {"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": meta}
    with closing(plane.api) as admin, closing(api_of(plane, OPERATOR_ACCOUNT, OWN_NAMESPACE)) as api:
        rules = sure(admin.read(role))["rules"]
        less = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create"]} for rule in rules]
        sure(admin.patch(role, {"rules": [rule for rule in less if rule["verbs"]]}))
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}}
        path = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps/applied?fieldManager=test"

        def apply() -> int:
            return api.request("PATCH", path, body, content="application/apply-patch+yaml").code

        until(lambda: apply() == 403, "the role has lost its right")
        sure(admin.patch(role, {"rules": rules}))
        until(lambda: apply() == 201, "the role has its right again")
        sure(admin.delete({**body, "metadata": {"name": "applied", "namespace": OWN_NAMESPACE}}))


# ---- used --------------------------------------------------------------------------------------


def test_a_worker_uses_every_right_of_its_role_and_asks_for_no_other(
    plane: ControlPlane, audit: RightsAudit, roles: list[Manifest], tmp_path: Path
) -> None:
    """Pods are bound, wait, push others out, and are asked for again when somebody else has bound them."""
    granted = grants(roles, WORKER_ACCOUNT)
    configuration = worker_configuration("dense", name=GROUP, lease={**FAST_LEASE, "namespace": OWN_NAMESPACE})
    kubeconfig = kubeconfig_of(plane, WORKER_ACCOUNT, OWN_NAMESPACE, tmp_path)
    with closing(plane.api) as api, WorkerProcess(plane, tmp_path, configuration, kubeconfig=kubeconfig) as worker:
        worker.wait_leading()
        sure(api.create({**PRIORITY, "metadata": {"name": "urgent"}, "value": 1000}))
        sure(api.create(node("n1", cpu="2")))
        sure(api.create(pod("first", "dense", cpu="1500m")))
        wait_bound(api, 1)
        # Told twice that it waits: the second time adds to the event of the first.
        sure(api.create(pod("waits", "dense", cpu="1")))
        until(lambda: condition(api, "waits") == "Unschedulable", "the pod is told that it waits")
        until(lambda: try_again(api) and (seen(audit, "patch", "events")), "the event is told again")
        sure(api.create(pod("pushes", "dense", cpu="1500m", priorityClassName="urgent")))
        until(lambda: bound(api, "pushes"), "the more important pod has taken the place")
        assert audit.denied(WORKER_ACCOUNT) == set()
        assert uncovered(granted, audit.used(WORKER_ACCOUNT)) == set()
        # Whoever is told that a pod is bound already asks for it. Both bind it; sometimes the worker is the second.
        sure(api.create(node("n2", cpu="32")))
        numbers = count()
        until(lambda: collide(api, f"raced-{next(numbers)}") and seen(audit, "get", "pods"), "two bind one pod")
        assert worker.stop() == 0
    assert unused(granted, audit.used(WORKER_ACCOUNT)) == set()


def test_an_operator_uses_every_right_of_its_roles_and_asks_for_no_other(
    plane: ControlPlane, audit: RightsAudit, roles: list[Manifest], tmp_path: Path
) -> None:
    """Objects of each kind come and go, a profile is refused twice, workers are Deployments with and without budget."""
    granted = grants(roles, OPERATOR_ACCOUNT)
    kubeconfig = kubeconfig_of(plane, OPERATOR_ACCOUNT, OWN_NAMESPACE, tmp_path)
    options = ("--runtime", "deployment", "--worker-image", "stowplan:0.1.0")
    with (
        closing(plane.api) as api,
        OperatorProcess(plane, tmp_path, kubeconfig=kubeconfig, options=options) as operator,
    ):
        operator.wait_acting()
        profiles = Profiles(api)
        for kind in (NODE_POOL, SIMULATION):
            sure(api.create({**ENVELOPE, "kind": kind, "metadata": {"name": GROUP}, "spec": BASES[kind]}))
        profiles.create("deployed", workers={"group": GROUP, "replicas": 2})
        operator.until(lambda: worker_objects(api) == {"ConfigMap", "Deployment", "PodDisruptionBudget"}, "a budget")
        # Their namespace takes restricted pods only: a Deployment that asks for more has none.
        operator.until(lambda: len(worker_pods(api)) == 2, "both pods are let in")
        profiles.edit("deployed", workers={"group": GROUP, "replicas": 1})
        operator.until(lambda: worker_objects(api) == {"ConfigMap", "Deployment"}, "no budget for one worker")
        # The same event twice: the second one adds to the first.
        for _ in range(2):
            profiles.edit("deployed", pluginConfig=WRONG)
            operator.until(lambda: profiles.shows("deployed", Accepted="False"), "the profile is refused")
            profiles.edit("deployed", pluginConfig=None)
            operator.until(lambda: profiles.shows("deployed", Accepted="True"), "the profile is accepted")
        operator.until(lambda: {use[2] for use in audit.used(OPERATOR_ACCOUNT)} >= STATUS, "each kind has a status")
        # No worker runs here, so its Lease is made by hand.
        meta = {"name": f"stowplan-worker-{GROUP}", "namespace": OWN_NAMESPACE}
        sure(api.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {}}))
        profiles.delete("deployed")
        operator.until(lambda: worker_objects(api) == set(), "nothing is left of the group")
        assert operator.stop() == 0
    assert audit.denied(OPERATOR_ACCOUNT) == set()
    used = audit.used(OPERATOR_ACCOUNT)
    assert uncovered(granted, used) == set()
    applied = {(OWN_NAMESPACE, *kind, "create", "") for kind in APPLIED}
    assert unused(granted, used) == applied


APPLIED = {("", "configmaps"), ("apps", "deployments"), ("policy", "poddisruptionbudgets")}
"""Made by applying them, which the audit log calls a patch."""

STATUS = {"schedulerprofiles/status", "nodepools/status", "simulations/status"}
ENVELOPE = {"apiVersion": "stowplan.io/v1alpha1"}
WRONG = [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1000}}]
"""Only the operator can tell: args are free-form for the API server."""


def worker_pods(api: KubeApi) -> list[Manifest]:
    labels = [each["metadata"].get("labels", {}) for each in api.all("v1", "Pod", OWN_NAMESPACE)]
    return [each for each in labels if each.get("app.kubernetes.io/name") == "stowplan-worker"]


def worker_objects(api: KubeApi) -> set[str]:
    """The kinds of what there is of the group of workers."""
    found = set()
    kinds = {"ConfigMap": "v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1"}
    for kind, version in {**kinds, "Lease": "coordination.k8s.io/v1"}.items():
        named = [each["metadata"]["name"] for each in api.all(version, kind, OWN_NAMESPACE)]
        if f"stowplan-worker-{GROUP}" in named:
            found.add(kind)
    return found


PRIORITY = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}


def seen(audit: RightsAudit, verb: str, resource: str) -> bool:
    return any(use[2:4] == (resource, verb) for use in audit.used(WORKER_ACCOUNT))


def condition(api: KubeApi, name: str) -> str:
    status = sure(api.request("GET", f"/api/v1/namespaces/default/pods/{name}"))["status"]
    return next((each["reason"] for each in status.get("conditions", ()) if each["type"] == "PodScheduled"), "")


def bound(api: KubeApi, name: str) -> bool:
    return any(each["metadata"]["name"] == name and each["spec"].get("nodeName") for each in pods_of(api))


def try_again(api: KubeApi) -> bool:
    """Give the worker a reason to look at waiting pods once more: a node gets another amount of memory."""
    memory = f"{32 + int(time.monotonic() * 10) % 7}Gi"
    change = {"status": {"allocatable": {"cpu": "2", "memory": memory, "pods": "110"}}}
    named = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    return bool(sure(api.patch(named, change, subresource="status")))


def collide(api: KubeApi, name: str) -> bool:
    """Make a pod and bind it at once, as another scheduler could do it."""
    sure(api.create(pod(name, "dense", cpu="10m")))
    target = {"apiVersion": "v1", "kind": "Node", "name": "n2"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    return api.request("POST", f"/api/v1/namespaces/default/pods/{name}/binding", binding).code in {201, 409}
