"""STOWPLAN_KUBECONFIG: the suite on a cluster that somebody else runs."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from integration.accounts import api_of, kubeconfig_of
from integration.control_plane import API_SERVER, ControlPlane
from integration.given_cluster import Access, GivenCluster, KubeconfigError
from integration.kube_api import sure
from integration.pod_cluster import pod_cluster

REASON = "STOWPLAN_KUBECONFIG names somebody else's"


@pytest.mark.rig
def test_the_suite_runs_against_the_cluster_of_a_kubeconfig_and_says_what_it_skips(
    control_plane: ControlPlane, repository: Path
) -> None:
    """A second pytest, pointed at the control plane of this one: it must not start another, and may not have a rig."""
    files = ("test_limit_ranges.py", "test_control_plane.py")
    command = [sys.executable, "-m", "pytest", "--no-header", "-p", "no:cacheprovider", "-ra"]
    done = subprocess.run(
        [*command, *(str(repository / "tests" / "integration" / file) for file in files)],
        cwd=repository,
        env={**os.environ, "STOWPLAN_KUBECONFIG": str(control_plane.kubeconfig), "STOWPLAN_RIG": "/no/such/program"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert REASON in done.stdout
    assert " passed, " in done.stdout.splitlines()[-1]
    assert "failed" not in done.stdout.splitlines()[-1]


@pytest.mark.rig
@pytest.mark.slow
def test_all_that_runs_on_any_cluster_passes_on_one_with_stowplan_in_it(
    rig: Path, repository: Path, tmp_path: Path
) -> None:
    """What `deploy/kind/up.sh test` does on kind: the manifests as shipped, pods that run, the tests beside them."""
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {shlex.quote(str(rig.absolute()))} kubectl "$@"\n', encoding="utf-8")
    kubectl.chmod(0o755)
    with pod_cluster(rig, repository / "deploy" / "kustomize" / "default", tmp_path / "cluster") as cluster:
        cluster.wait_ready("app.kubernetes.io/name=stowplan-operator", 2)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "--no-header", "--no-cov", "-p", "no:cacheprovider"),
                *("-m", "any_cluster", "tests/integration"),
            ],
            cwd=repository,
            env={
                **os.environ,
                "PATH": f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}",
                "STOWPLAN_KUBECONFIG": str(cluster.plane.kubeconfig),
                "STOWPLAN_RIG": "/no/such/program",
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        logs = cluster.kubelet.logs()
    assert done.returncode == 0, f"{done.stdout}\n{logs}"
    last = done.stdout.splitlines()[-1]
    assert " passed, " in last
    assert "skipped" not in last


@pytest.mark.rig
def test_a_given_cluster_does_what_a_control_plane_does_and_skips_what_it_cannot(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Its clients have the rights of the kubeconfig's user; it loses no component for a test."""
    given = GivenCluster(control_plane.kubeconfig, tmp_path)
    with given, closing(given.api) as api:
        assert sure(api.request("GET", "/version"))["major"] == "1"
    with pytest.raises(pytest.skip.Exception, match=f"kills kube-apiserver, which needs .*{REASON}"):
        given.kill(API_SERVER)
    with closing(control_plane.api) as api:
        assert api.request("GET", "/readyz").code == 200


@pytest.mark.rig
@pytest.mark.any_cluster
def test_a_service_account_has_no_rights_but_those_of_its_roles(control_plane: ControlPlane, tmp_path: Path) -> None:
    """By its token, given to a client and written to a kubeconfig."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "nobody-special", "namespace": "default"},
    }
    with closing(control_plane.api) as admin:
        sure(admin.create(account))
        try:
            path = kubeconfig_of(control_plane, "nobody-special", "default", tmp_path)
            assert path.stat().st_mode & 0o077 == 0
            for made in (api_of(control_plane, "nobody-special", "default"), Access(path).client(tmp_path)):
                with closing(made) as api:
                    assert api.request("GET", "/api/v1/nodes").code == 403
                    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
                    answer = sure(api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review))
                    user = answer["status"]["userInfo"]["username"]
                    assert user == "system:serviceaccount:default:nobody-special"
        finally:
            admin.delete(account)


def kubeconfig(path: Path, user: dict[str, Any], server: str = "https://cluster.example:6443") -> Path:
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_credentials_come_as_data_or_as_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    """kind writes data; the control plane of the tests writes file names."""
    (tmp_path / "key").write_text("KEY", encoding="utf-8")
    data = base64.b64encode(b"CERTIFICATE").decode()
    access = Access(kubeconfig(tmp_path / "a", {"client-certificate-data": data, "client-key": "key"}))
    assert (access._certificate, access._key) == ("CERTIFICATE", "KEY")
    assert (access.host, access.port) == ("cluster.example", 6443)


@pytest.mark.parametrize(
    ("user", "server", "message"),
    [
        ({"exec": {"command": "login"}}, "https://cluster.example", "must have a token, or a client certificate"),
        ({"client-certificate-data": "QQ=="}, "https://cluster.example", "and its key"),
        ({"token": "t"}, "http://cluster.example", "must be an https URL"),
        ({"token": "t"}, "cluster.example", "must be an https URL"),
    ],
)
def test_a_kubeconfig_that_a_test_cannot_use_says_what_is_missing(
    tmp_path: Path, user: dict[str, Any], server: str, message: str
) -> None:
    """Plugins that log in somewhere are the user's affair, not a test's."""
    with pytest.raises(KubeconfigError, match=message):
        Access(kubeconfig(tmp_path / "a", user, server))


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    """An empty file has none."""
    (tmp_path / "a").write_text("", encoding="utf-8")
    with pytest.raises(KubeconfigError, match="there is no context named None"):
        Access(tmp_path / "a")
