"""`stowplan worker`: what is wrong before it runs is one line and an exit code. tests/integration has it running."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stowplan_operator.cli import cli

CONFIG = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: dense}]\n"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "worker.yaml"
    path.write_text(CONFIG)
    return path


def worker(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["worker", *map(str, arguments)])


def test_a_configuration_that_is_wrong_is_named_with_its_field(config: Path) -> None:
    config.write_text(CONFIG + "parallelism: many\n")
    result = worker("--config", config)
    assert result.exit_code == 2
    assert result.output.startswith(f"stowplan: error: {config}: ")
    assert "parallelism" in result.output


def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = worker("--config", tmp_path / "absent.yaml")
    assert (result.exit_code, result.output) == (2, f"stowplan: error: {tmp_path}/absent.yaml: no such file\n")


def test_a_kubeconfig_that_is_not_there_is_named(config: Path, tmp_path: Path) -> None:
    result = worker("--config", config, "--kubeconfig", tmp_path / "absent")
    assert (result.exit_code, result.output) == (2, f"stowplan: error: kubeconfig {tmp_path}/absent: no such file\n")


def test_an_address_without_a_port_is_refused(config: Path) -> None:
    result = worker("--config", config, "--bind", "localhost")
    assert result.exit_code == 2
    assert "HOST:PORT" in result.output
