"""Short ways to write configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan_scheduler.config import ConfigurationError, load_configuration

Config = dict[str, Any]


def configuration(**fields: Any) -> Config:
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}


@pytest.fixture
def config() -> Callable[..., Config]:
    """A configuration with the given top-level fields."""
    return configuration


@pytest.fixture
def profile_config() -> Callable[..., Config]:
    """A configuration with one profile of the given fields."""
    return lambda **fields: configuration(profiles=[{"schedulerName": "default-scheduler", **fields}])


@pytest.fixture
def args_config() -> Callable[..., Config]:
    """A configuration with args for one plugin."""

    def build(plugin: str, args: object) -> Config:
        profile = {"schedulerName": "default-scheduler", "pluginConfig": [{"name": plugin, "args": args}]}
        return configuration(profiles=[profile])

    return build


@pytest.fixture
def errors_of() -> Callable[[Config], tuple[str, list[str]]]:
    """Stage and errors of a configuration that is refused."""

    def run(data: Config) -> tuple[str, list[str]]:
        with pytest.raises(ConfigurationError) as caught:
            load_configuration(data)
        return caught.value.stage, list(caught.value.errors)

    return run
