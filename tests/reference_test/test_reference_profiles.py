"""The reference expands plugin sets itself; the shipped configuration must come to the same profile."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from reference.adapter import profile_of
from reference.profile import default_profile, profiles_of
from stowplan_scheduler.config import effective_profiles, load_configuration
from support.strategies import configurations


def test_the_default_profiles_are_equal() -> None:
    """Plugins, order, weights and arguments of the empty configuration."""
    (effective,) = effective_profiles(load_configuration(None))
    assert profile_of(effective) == default_profile()


@given(configurations())
@settings(max_examples=60)
def test_changed_profiles_are_equal(configuration: dict[str, Any] | None) -> None:
    """Two expansions of the same configuration, written apart."""
    (effective,) = effective_profiles(load_configuration(configuration))
    assert profile_of(effective) == profiles_of(configuration)["default-scheduler"]
