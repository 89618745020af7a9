"""Fixtures that every test may use: data beside the repository, the real Kubernetes programs, hypothesis profiles.

A test that needs something which is not part of the repository asks for it here and is skipped, with a reason that says
how to get it, where that is absent. Continuous integration sets
``STOWPLAN_REQUIRE_ORACLE=1``: there the tests that need the real programs must run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from integration.control_plane import ControlPlane

REPOSITORY = Path(__file__).resolve().parent.parent

# Deadlines are off everywhere: a slow machine is no counter-example.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True, database=None)
settings.register_profile("dev", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of this repository's clone."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of data and recorded answers beside the repository: ``STOWPLAN_SHARED``, by default ``../shared``."""
    folder = Path(os.environ.get("STOWPLAN_SHARED") or REPOSITORY.parent / "shared")
    if not folder.is_dir():
        pytest.skip("needs the shared folder: not beside the repository, and STOWPLAN_SHARED does not name it")
    return folder


@pytest.fixture(scope="session")
def shared_data(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """A getter of data files by name; skips for an absent one. ``STOWPLAN_DATA``, by default ``<shared>/data``."""
    named = os.environ.get("STOWPLAN_DATA")

    def get(name: str) -> Path:
        folder = Path(named) if named else request.getfixturevalue("shared_dir") / "data"
        path = folder / name
        if not path.exists():
            pytest.skip(f"needs the data file {name}: set STOWPLAN_DATA to the folder that holds it")
        return path

    return get


def build_folder() -> Path:
    """Where ``tests/conformance/build.sh`` puts its programs; the same rule as in there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("STOWPLAN_BUILD") or cache / "stowplan") / "bin"


def _program(name: str, variable: str, what: str) -> Path:
    """A program that `make oracle` builds, unless a variable of the environment names another one; skips without it."""
    program = Path(os.environ.get(variable) or build_folder() / name)
    if not os.access(program, os.X_OK):
        reason = f"needs {what}: run `make oracle` (needs Go) or set {variable}"
        if os.environ.get("STOWPLAN_REQUIRE_ORACLE") == "1":
            pytest.fail(f"{reason}; STOWPLAN_REQUIRE_ORACLE=1 forbids skipping")
        pytest.skip(reason)
    return program


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The program that runs the real kube-scheduler: ``STOWPLAN_ORACLE``, by default what ``make oracle`` built."""
    return _program("oracle", "STOWPLAN_ORACLE", "the real kube-scheduler")


@pytest.fixture(scope="session")
def rig() -> Path:
    """The program that runs a real control plane: ``STOWPLAN_RIG``, by default what ``make oracle`` built."""
    return _program("rig", "STOWPLAN_RIG", "a real control plane")


@pytest.fixture(scope="session")
def kwok() -> Path:
    """The program that plays nodes and kubelets: ``STOWPLAN_KWOK``, by default what ``make oracle`` built."""
    from live.peers import KWOK

    return _program(KWOK, "STOWPLAN_KWOK", "kwok, which plays nodes and kubelets")


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One real control plane for all tests, without scheduler: etcd, API server, controllers.

    Its logs stay in pytest's temporary folder; the report of a failed test names it. STOWPLAN_KUBECONFIG names
    a cluster to use instead.
    """
    from integration.control_plane import ControlPlane
    from integration.given_cluster import GivenCluster, given_kubeconfig

    folder = tmp_path_factory.mktemp("control-plane")
    given = given_kubeconfig()
    if given is not None:
        yield GivenCluster(given, folder)
        return
    with ControlPlane(request.getfixturevalue("rig"), folder) as plane:
        yield plane


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With a cluster of somebody else's, run what runs on any cluster."""
    if not os.environ.get("STOWPLAN_KUBECONFIG"):
        return
    reason = "needs a control plane of its own, and STOWPLAN_KUBECONFIG names somebody else's"
    for item in items:
        if item.get_closest_marker("rig") and not item.get_closest_marker("any_cluster"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say where the logs are if a test with a control plane fails."""
    report = yield
    plane = getattr(item, "funcargs", {}).get("control_plane")
    if report.failed and plane is not None:
        report.sections.append(("control plane", f"its logs: {plane.folder}"))
    return report
