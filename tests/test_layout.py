"""Rules of the repository's layout that neither import-linter nor a type checker can hold."""

from __future__ import annotations

import ast
import re
from importlib.metadata import entry_points, version
from pathlib import Path

import stowplan_scheduler


def imported_names(path: Path) -> set[str]:
    """Every dotted name that a module imports, at any depth: ``from a import b`` counts as ``a`` and ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_the_scalar_reference_imports_no_plugin(repository: Path) -> None:
    """It judges the plugins: what it shared with them, it could not find wrong."""
    modules = sorted((repository / "tests/reference").rglob("*.py"))
    assert modules, "the scalar reference has moved: this test must follow it"
    guilty = [
        f"{module.name}: {name}"
        for module in modules
        for name in sorted(imported_names(module))
        if f"{name}.".startswith("stowplan_scheduler.plugins.")
    ]
    assert guilty == []


def test_no_folder_shadows_the_operator_module_of_the_standard_library(repository: Path) -> None:
    """Both folders stand in a folder that can be on the path; as packages they would replace ``operator``."""
    assert not (repository / "operator/__init__.py").exists()
    assert not (repository / "tests/operator/__init__.py").exists()


def test_every_package_says_that_it_is_typed(repository: Path) -> None:
    """Without the marker, mypy ignores our annotations in the code of plugin authors."""
    packages = sorted(path.parent for path in repository.glob("[a-z]*/stowplan_*/__init__.py"))
    assert [package.name for package in packages] == ["stowplan_autoscaling", "stowplan_operator", "stowplan_scheduler"]
    assert [package.name for package in packages if not (package / "py.typed").exists()] == []


def test_pins_name_versions_and_hashes_but_no_address(repository: Path) -> None:
    """The pins must work with whatever registry or mirror the reader's pip is set up for."""
    text = (repository / "constraints.txt").read_text(encoding="utf-8")
    requirements = re.findall(r"^(?!#)(\S.*?)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)
    pinned = {line.partition("==")[0] for line, _ in requirements}
    assert {"numpy", "pytest", "hatchling", "editables"} <= pinned
    assert all(re.match(r"[a-z0-9-]+==[0-9][^ ]*( ; .+)?$", line) for line, _ in requirements)
    assert "://" not in text
    assert "index" not in text


def test_the_installed_distribution_is_this_one(repository: Path) -> None:
    """The version has one home, and the command line one entry point."""
    assert version("stowplan") == stowplan_scheduler.__version__
    assert Path(stowplan_scheduler.__file__).is_relative_to(repository / "scheduler")
    (script,) = entry_points(group="console_scripts", name="stowplan")
    assert script.value == "stowplan_operator.cli:main"
