"""Conversions as functions; `tests/operator/cli/test_profile.py` has them as a command."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan_operator.resources import ProfileError
from stowplan_operator.resources.convert import to_configuration
from support.profiles import profile

EXTENDER: dict[str, Any] = {"urlPrefix": "https://extender.example.com/", "filterVerb": "filter"}


def test_two_profiles_of_one_scheduler_make_no_configuration() -> None:
    with pytest.raises(ProfileError) as caught:
        to_configuration([profile("a", schedulerName="dense"), profile("b", schedulerName="dense")])
    assert str(caught.value) == 'b: spec.schedulerName: "dense": is that of a, too'


def test_a_configuration_has_one_list_of_extenders_for_all_its_profiles() -> None:
    alike = [profile(name, extenders=[EXTENDER]) for name in ("a", "b")]
    (configuration,) = to_configuration(alike).documents
    assert configuration["extenders"] == [EXTENDER]
    with pytest.raises(ProfileError) as caught:
        to_configuration([*alike, profile("c")])
    assert str(caught.value) == ("c: spec.extenders: must be those of a: a configuration has one list for all profiles")
