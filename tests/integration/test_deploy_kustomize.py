"""deploy/kustomize on a real API server, applied by kubectl as a user does it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from deploy.linter import lint
from deploy.manifests import OWN_NAMESPACE, Manifest, documents, named
from integration.accounts import api_of
from integration.control_plane import CONTROLLER_MANAGER, ControlPlane
from integration.kubectl import Kubectl
from stowplan_operator.cli import cli

pytestmark = pytest.mark.rig

KINDS = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,flowschemas"
OWN_KINDS = "serviceaccounts,roles,rolebindings,services,deployments,poddisruptionbudgets,networkpolicies"
SELECTED = ("--selector", "app.kubernetes.io/part-of=stowplan")


@pytest.fixture(scope="module")
def plane(rig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: what is applied here belongs to no namespace, and other tests would meet it.

    ServiceAccount admission is on, as in any cluster: it and Pod Security judge the pods of the Deployment.
    """
    folder = tmp_path_factory.mktemp("deploy")
    with ControlPlane(rig, folder, components=(CONTROLLER_MANAGER,), service_accounts=True) as made:
        yield made


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    return Kubectl(plane)


@pytest.fixture(scope="module")
def default(repository: Path) -> str:
    return str(repository / "deploy" / "kustomize" / "default")


@pytest.fixture(scope="module")
def separate(repository: Path) -> str:
    return str(repository / "deploy" / "kustomize" / "separate-workers")


@pytest.fixture(scope="module")
def applied(kubectl: Kubectl, default: str) -> dict[str, str]:
    """What kubectl said when everything was applied to an empty cluster, by object."""
    said = outcomes(kubectl("apply", "--kustomize", default))
    # The API server writes status of these by itself, a moment later.
    kubectl("wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=50s")
    kubectl("wait", "--for=condition=Dangling=False", "flowschemas", *SELECTED, "--timeout=50s")
    return said


def outcomes(output: str) -> dict[str, str]:
    """`kind.group/name outcome`, by the part before the space."""
    return dict(line.rsplit(" ", 1) for line in output.splitlines())


def objects(kubectl: Kubectl) -> dict[str, Manifest]:
    """All objects of ours that there are."""
    found = [
        *kubectl.get(KINDS, *SELECTED)["items"],
        *kubectl.get(OWN_KINDS, "--all-namespaces", *SELECTED)["items"],
    ]
    return {f"{named(each)} {each['metadata'].get('namespace', '')}": each for each in found}


def specs(kubectl: Kubectl) -> dict[str, Any]:
    """What each object is asked to be."""
    ignored = {"metadata", "status"}
    return {
        name: {field: value for field, value in each.items() if field not in ignored}
        for name, each in objects(kubectl).items()
    }


def versions(kubectl: Kubectl) -> dict[str, str]:
    """Resource versions; of objects whose status a controller writes meanwhile, the generation."""
    return {
        name: str(each["metadata"]["generation" if each["kind"] in CONTROLLED else "resourceVersion"])
        for name, each in objects(kubectl).items()
    }


CONTROLLED = {"Deployment", "PodDisruptionBudget"}


def test_everything_is_made_in_an_empty_cluster_with_one_command(
    applied: dict[str, str], kubectl: Kubectl, repository: Path
) -> None:
    """Every object of every file, with kubectl's default settings, although the CRDs lie outside of that folder."""
    everything = documents(repository / "deploy" / "kustomize" / "default")
    assert set(applied.values()) == {"created"}
    assert len(applied) == len(everything) == 29
    established = {
        crd["metadata"]["name"]: {each["type"]: each["status"] for each in crd["status"]["conditions"]}
        for crd in kubectl.get("customresourcedefinitions")["items"]
    }
    assert {name for name, conditions in established.items() if conditions["NamesAccepted"] == "True"} == {
        "nodepools.stowplan.io",
        "schedulerprofiles.stowplan.io",
        "simulations.stowplan.io",
    }


def test_applying_it_again_changes_nothing(applied: dict[str, str], kubectl: Kubectl, default: str) -> None:
    """No object gets another version. (kubectl always sends a budget's selector again, and calls that configured.)"""
    before = versions(kubectl)
    assert len(before) == len(applied)
    again = outcomes(kubectl("apply", "--kustomize", default))
    changed = {name for name, outcome in again.items() if outcome != "unchanged"}
    assert changed <= {"poddisruptionbudget.policy/stowplan-operator"}
    assert versions(kubectl) == before
    assert kubectl("diff", "--kustomize", default) == ""


def test_a_server_side_apply_takes_over_without_a_conflict(
    applied: dict[str, str], kubectl: Kubectl, default: str
) -> None:
    """As GitOps tools do it. What is written here must be what the server stores, or it would look like a change."""
    before = specs(kubectl)
    said = outcomes(kubectl("apply", "--server-side", "--kustomize", default))
    assert set(said.values()) == {"serverside-applied"}
    once = versions(kubectl)
    assert specs(kubectl) == before
    kubectl("apply", "--server-side", "--kustomize", default)
    assert versions(kubectl) == once


def test_the_rendered_manifests_pass_the_linter_too(kubectl: Kubectl, default: str, separate: str) -> None:
    """What kubectl makes of the files, patches of the overlay included."""
    for folder in (default, separate):
        rendered = list(yaml.safe_load_all(kubectl("kustomize", folder)))
        assert lint(rendered) == []
        (deployment,) = (each for each in rendered if each["kind"] == "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert re.fullmatch(r"stowplan:\d+\.\d+\.\d+", container["image"])
        assert worker_image(container) == container["image"]


def test_the_overlay_of_the_documentation_sets_the_image_everywhere(
    kubectl: Kubectl, repository: Path, tmp_path: Path
) -> None:
    container = operator_of_overlay("overlay", kubectl, repository, tmp_path)
    assert container["image"] == worker_image(container) == "registry.example.com/stowplan:0.1.0"


def test_the_overlay_of_the_documentation_adds_flags_about_urls_that_the_operator_knows(
    kubectl: Kubectl, repository: Path, tmp_path: Path
) -> None:
    shipped = repository / "deploy" / "kustomize" / "base" / "operator-deployment.yaml"
    deployment = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    before = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    args = operator_of_overlay("overlay: urls", kubectl, repository, tmp_path)["args"]
    assert args == [*before, "--deny-url-network=192.168.0.0/16", "--allow-url-host=extender.example.com"]
    # It reads them all, and ends with what comes after them.
    refused = CliRunner().invoke(cli, [*args, "--log-level=loud"])
    assert "'loud' is not one of" in refused.stderr


def operator_of_overlay(mark: str, kubectl: Kubectl, repository: Path, tmp_path: Path) -> Manifest:
    """The operator's container in what an overlay of docs/deploy.md makes, beside a clone, as it says."""
    for name in ("deploy", "crds"):
        shutil.copytree(repository / name, tmp_path / "stowplan" / name)
    page = (repository / "docs" / "deploy.md").read_text(encoding="utf-8")
    (overlay,) = re.findall(rf"<!-- {mark} -->\n```yaml\n(.*?)```\n<!-- {mark} -->", page, re.DOTALL)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "kustomization.yaml").write_text(overlay, encoding="utf-8")
    rendered = list(yaml.safe_load_all(kubectl("kustomize", str(tmp_path / "ours"))))
    assert lint(rendered) == []
    (deployment,) = (each for each in rendered if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Manifest = container
    return found


def worker_image(container: Manifest) -> str:
    """What workers that are Deployments will run."""
    (value,) = (each["value"] for each in container["env"] if each["name"] == "STOWPLAN_WORKER_IMAGE")
    return str(value)


def test_the_restricted_namespace_lets_the_operators_pods_in(applied: dict[str, str], kubectl: Kubectl) -> None:
    """The server enforces Pod Security: it refuses a pod that is less careful, and takes ours."""
    kubectl("wait", "--for=create", "pod", "--namespace", OWN_NAMESPACE, "--timeout=50s", *OPERATOR_PODS)
    pods = kubectl.get("pods", "--namespace", OWN_NAMESPACE, *OPERATOR_PODS)["items"]
    assert pods
    assert {pod["spec"]["priority"] for pod in pods} == {2_000_000_000}
    careless = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "careless", "namespace": OWN_NAMESPACE},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    refused = kubectl.run("create", "--filename", "-", stdin=yaml.safe_dump(careless))
    assert 'violates PodSecurity "restricted' in refused.stderr


OPERATOR_PODS = ("--selector", "app.kubernetes.io/name=stowplan-operator")


def test_requests_of_our_accounts_get_their_own_levels_of_priority(
    applied: dict[str, str], plane: ControlPlane, kubectl: Kubectl
) -> None:
    """The server says in each answer which schema the request fell under; without ours it would be service-accounts."""
    schemas = {each["metadata"]["name"]: each for each in kubectl.get("flowschemas", *SELECTED)["items"]}
    assert {each["status"]["conditions"][0]["status"] for each in schemas.values()} == {"False"}, "a level is missing"
    for account in ("stowplan-worker", "stowplan-operator"):
        with closing(api_of(plane, account, OWN_NAMESPACE)) as api:
            for path, schema in (
                (
                    f"/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases/stowplan-operator",
                    "stowplan-leases",
                ),
                ("/api/v1/pods", "stowplan"),
                ("/apis/stowplan.io/v1alpha1/schedulerprofiles", "stowplan"),
            ):
                answer = api.request("GET", path)
                assert answer.headers["X-Kubernetes-PF-FlowSchema-UID"] == schemas[schema]["metadata"]["uid"], path


def test_removing_it_leaves_nothing_behind(applied: dict[str, str], kubectl: Kubectl, separate: str) -> None:
    """Also after a change to the other way of running workers, which takes the operator's rights on pods away."""
    kubectl("apply", "--server-side", "--force-conflicts", "--kustomize", separate)
    operator = f"system:serviceaccount:{OWN_NAMESPACE}:stowplan-operator"
    kubectl("--namespace", OWN_NAMESPACE, "delete", "rolebinding,clusterrolebinding", "stowplan-child-workers")
    assert kubectl.run("auth", "can-i", "list", "pods", "--as", operator).stdout.strip() == "no"
    kubectl("delete", "--kustomize", separate, "--timeout=50s")
    assert objects(kubectl) == {}
