"""The Dockerfile and its lock files: read, and what they count on is checked. `make image-check` builds the image."""

from __future__ import annotations

import pwd
import re
import tomllib
from fnmatch import fnmatch
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stowplan_operator.api.connection import ConnectionSettingsError, load_connection

Instruction = tuple[str, str]


@pytest.fixture(scope="module")
def image(repository: Path) -> Path:
    return repository / "deploy" / "image"


@pytest.fixture(scope="module")
def instructions(image: Path) -> list[Instruction]:
    """Names and arguments, lines joined, comments left out."""
    lines = [line for line in (image / "Dockerfile").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (name.upper(), rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def all_of(instructions: list[Instruction], name: str) -> list[str]:
    return [rest for each, rest in instructions if each == name]


def test_the_image_runs_as_a_user_with_a_number_and_starts_the_program_itself(instructions: list[Instruction]) -> None:
    """runAsNonRoot cannot check a name; a shell would keep signals to itself."""
    last_stage = instructions[max(index for index, (name, _) in enumerate(instructions) if name == "FROM") :]
    assert all_of(last_stage, "USER") == ["65532:65532"]
    assert all_of(last_stage, "ENTRYPOINT") == ['["stowplan"]']
    assert {name for name, _ in last_stage} == {"FROM", "LABEL", "COPY", "ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}


def test_both_stages_have_the_same_base_with_a_version_and_no_address(instructions: list[Instruction]) -> None:
    """The environment of the first stage points at the Python of the second."""
    assert instructions[0] == ("ARG", "BASE=python:3.13-slim")
    assert all_of(instructions, "FROM") == ["${BASE} AS build", "${BASE}"]


def test_packages_come_by_hash_and_nothing_is_compiled_or_fetched_besides(instructions: list[Instruction]) -> None:
    """Every installation either checks hashes or uses no network."""
    runs = " && ".join(all_of(instructions, "RUN"))
    installs = re.findall(r"pip (?:install|wheel) [^&]*", runs)
    assert len(installs) == 4
    assert [each for each in installs if "--require-hashes" not in each and "--no-index" not in each] == []
    assert "PIP_ONLY_BINARY=:all:" in all_of(instructions, "ENV")[0]
    assert all_of(instructions, "ADD") == []
    assert not re.search(r"curl|wget|apt|://", runs)


def test_what_is_copied_exists_and_is_let_through_and_the_rest_is_not(
    instructions: list[Instruction], repository: Path
) -> None:
    """The last pattern that fits decides, as in Docker."""
    rules = [
        line
        for line in (repository / ".dockerignore").read_text(encoding="utf-8").split("\n")
        if line and line[:1] != "#"
    ]

    def is_sent(path: str) -> bool:
        sent = True
        parts = path.split("/")
        for rule in rules:
            pattern = rule.removeprefix("!")
            prefixes = ["/".join(parts[: count + 1]) for count in range(len(parts))]
            if any(fnmatch(prefix, pattern) or fnmatch(f"./{prefix}", pattern) for prefix in prefixes):
                sent = rule.startswith("!")
        return sent

    copied = [part for rest in all_of(instructions, "COPY") if "--from" not in rest for part in rest.split()[:-1]]
    assert {"pyproject.toml", "scheduler", "autoscaling", "operator", "README.md", "LICENSE"} <= set(copied)
    for path in copied:
        assert (repository / path).exists()
        assert is_sent(path), path
    for path in (
        ".git/config",
        "tests/conftest.py",
        "build/x",
        "deploy/kustomize/base/namespace.yaml",
        ".venv/bin/pip",
    ):
        assert not is_sent(path), path
    assert not is_sent("operator/stowplan_operator/__pycache__/x.pyc")


def blocks(path: Path) -> dict[str, str]:
    """The pins of a lock file with their hashes, by package and version."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(
        r"^([a-z0-9-]+==\S+)(?: ;[^\\\n]*)?((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE
    )
    return {pin: "".join(sorted(hashes.split(" \\\n    "))) for pin, hashes in found}


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_the_lock_files_of_the_image_pin_what_is_tested(name: str, image: Path, repository: Path) -> None:
    """The same versions with the same hashes as constraints.txt; `make lock` writes all three."""
    tested, shipped = blocks(repository / "constraints.txt"), blocks(image / name)
    assert shipped
    assert shipped.items() <= tested.items()
    text = (image / name).read_text(encoding="utf-8")
    assert text.count("==") - text.count("=='") == len(shipped)
    assert "://" not in text


def needed(requirements: list[str]) -> set[str]:
    """The distributions that these need on this machine."""
    found: set[str] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        wanted = waiting.pop()
        name = wanted.name.lower().replace("_", "-").replace(".", "-")
        if name in found:
            continue
        found.add(name)
        for line in distribution(wanted.name).requires or []:
            requirement = Requirement(line)
            extras = wanted.extras or {""}
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(requirement)
    return found


def test_the_image_has_every_package_that_stowplan_needs_and_no_tool_of_development(
    image: Path, repository: Path
) -> None:
    """What those of pyproject.toml need in turn is in the metadata of what is installed here."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    pins = {pin.partition("==")[0] for pin in blocks(image / "requirements.txt")}
    assert needed(project["project"]["dependencies"]) <= pins
    assert not pins & {"pytest", "ruff", "mypy", "playwright", "hypothesis", "pyarrow", "distributed"}
    (backend,) = project["build-system"]["requires"]
    assert needed([backend]) <= {pin.partition("==")[0] for pin in blocks(image / "build-requirements.txt")}


def test_a_user_that_is_only_a_number_gets_as_far_as_the_account_of_its_pod(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a home there is no kubeconfig in it, which is no error; here there is no pod either, which is one."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConnectionSettingsError):
        load_connection(None, None)
