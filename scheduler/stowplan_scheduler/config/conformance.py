"""One configuration of the differential suite: is it valid, what is wrong, which plugins come out.

The format is that of the recorded answers: `{"id", "config"}` in, `{"id", "valid", "errors", "stage" | "effective"}`
out. `config` is an object, a text (JSON or YAML), or null for the default configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import load_configuration, load_configuration_text
from .errors import ConfigurationError
from .profiles import EffectiveProfile, effective_profiles


def run_config(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one scenario."""
    given = scenario.get("config")
    try:
        config = load_configuration_text(given) if isinstance(given, str) else load_configuration(given)
    except ConfigurationError as error:
        return {"id": scenario["id"], "valid": False, "stage": error.stage, "errors": list(error.errors)}
    effective = {profile.scheduler_name: _points(profile) for profile in effective_profiles(config)}
    return {"id": scenario["id"], "valid": True, "errors": [], "effective": effective}


def _points(profile: EffectiveProfile) -> dict[str, list[list[object]]]:
    points: dict[str, list[list[object]]] = {
        name: [[plugin] for plugin in plugins] for name, plugins in profile.points.items()
    }
    # Upstream keeps PreEnqueue plugins in a map, so their order says nothing.
    points["preEnqueue"] = [[name] for name in sorted(profile.points["preEnqueue"])]
    points["score"] = [[name, profile.score_weights[name]] for name in profile.points["score"]]
    return points
