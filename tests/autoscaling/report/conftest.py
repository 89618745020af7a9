"""Comparisons that several tests look at; made once."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from stowplan_autoscaling.experiment.comparison import Change, ComparisonReport, Finding
from stowplan_autoscaling.report import write_report
from support.browser import launched
from support.comparisons import write_comparison
from support.run_folders import Plan

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>@time $x &amp;"
"""A name that would do harm wherever it is not taken for text."""

BROKEN = Change(path=HOSTILE, baseline="LeastAllocated", value=HOSTILE)


class Written(NamedTuple):
    """A comparison, its folder, and its page."""

    comparison: ComparisonReport
    folder: Path
    page: Path


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Three candidates with three seeds; the third has many nodes and hostile names, and one of its runs is missing."""
    folder = tmp_path_factory.mktemp("shop")
    plans = {
        "default": Plan(pods_per_node=4, step=120.0),
        "packed": Plan(boot=100.0, step=120.0),
        HOSTILE: Plan(
            boot=240.0, step=120.0, short_nodes=100, pools=("general", HOSTILE), workload=f"Deployment {HOSTILE}"
        ),
    }
    path = "schedulerProfiles[batch].scoringStrategy.type"
    comparison = write_comparison(
        folder,
        plans,
        changes={"packed": [Change(path=path, baseline="LeastAllocated", value="MostAllocated")], HOSTILE: [BROKEN]},
        findings={"packed": [Finding(text=f"pool {HOSTILE} comes and goes", seeds=(1, 3))]},
        missing=[(HOSTILE, 3)],
    )
    page = folder / "report.html"
    write_report(comparison, str(folder), str(page))
    return Written(comparison, folder, page)


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """Chromium without a window. Of a module: its event loop runs so long, and would be in the way of other tests."""
    with launched() as found:
        yield found
