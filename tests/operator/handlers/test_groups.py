"""The text of a WorkerConfiguration: JSON for whoever writes it, YAML for whoever reads it."""

from __future__ import annotations

import pytest

from stowplan_operator.handlers.choosing import ProblemError
from stowplan_operator.handlers.compiling import ProfileCompiler
from stowplan_operator.worker.configuration import parse_configuration
from support.situations import Cluster, profile


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "snow \u2603",
        "rocket \U0001f680",
        r"\ud83d\ude80 is no rocket",
        "\\\U0001f680",
        "\\\\\U0001f680",
        "\x00\x7f\x85",
    ],
)
def test_any_text_that_a_profile_may_hold_reaches_the_worker_as_it_is(name: str) -> None:
    cluster = Cluster(profile("dense", {"plugins": {"score": {"disabled": [{"name": name}]}}}))
    cluster.settle()
    loaded = parse_configuration(cluster.files["default"].text.encode(), "default")
    plugins = loaded.scheduler.profiles[0].plugins
    assert plugins is not None
    assert name in [each.name for each in plugins.score.disabled]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ProblemError, match="not Unicode"):
        ProfileCompiler().compile({"schedulerName": "dense", "plugins": {"score": {"disabled": [{"name": "\ud83d"}]}}})
