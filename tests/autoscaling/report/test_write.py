"""The page: one file, the same bytes each time, with everything in it and nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from stowplan_autoscaling.report import write_report
from stowplan_autoscaling.report.embedding import renumbered
from stowplan_autoscaling.report.runs import shown_seed
from stowplan_autoscaling.report.timeline import WORKLOADS
from stowplan_autoscaling.results import report_bytes
from support.comparisons import write_comparison
from support.processes import environment
from support.run_folders import Plan

from .conftest import HOSTILE, Written

MEGABYTE = 2**20

AGAIN = """
import sys
from pathlib import Path
from bokeh.plotting import figure
from stowplan_autoscaling.experiment.comparison import read_comparison
from stowplan_autoscaling.report import write_report
figure()  # numbers of Bokeh's models have been used before
folder, page = sys.argv[1:]
write_report(read_comparison(Path(folder, "comparison.json").read_bytes()), folder, page)
"""


class Page(HTMLParser):
    """What a page consists of. Scripts are kept apart: what is in them is no markup."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.sections: dict[str, str] = {}
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((name, dict(attributes)))
        if name == "section":
            self.sections[dict(attributes)["id"] or ""] = ""
        if name not in {"meta", "br", "hr", "input", "col"}:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        if not self.open or self.open.pop() != name:
            self.unbalanced.append(name)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in {"script", "style"}:
            self.words.append(data)
            if "section" in self.open:
                self.sections[next(reversed(self.sections))] += f"{data} "

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def ids(self) -> list[str]:
        return [attributes["id"] or "" for _, attributes in self.tags if "id" in attributes]


@pytest.fixture(scope="module")
def page(shop: Written) -> Page:
    return Page(shop.page)


def test_every_section_is_there(page: Page) -> None:
    """Each with a heading that names it, and a link to it."""
    sections = [attributes for name, attributes in page.tags if name == "section"]
    names = [section["id"] for section in sections]
    assert names == [
        "verdict", "time", "pending", "waiting", "packing", "supply", "loops", "metrics", "settings", "origin",
    ]  # fmt: skip
    assert {section["aria-labelledby"] for section in sections} <= set(page.ids())
    links = [
        attributes["href"] for name, attributes in page.tags if name == "a" and attributes.get("href") != "#content"
    ]
    assert set(links) == {f"#{name}" for name in names}


def test_the_markup_is_sound(page: Page) -> None:
    """Elements end where they should, and no two have the same identity."""
    assert page.unbalanced == []
    assert page.open == []
    assert len(page.ids()) == len(set(page.ids()))


def test_nothing_comes_from_elsewhere(page: Page) -> None:
    """No element names a source, and the browser is told to allow none."""
    for _, attributes in page.tags:
        assert not {"src", "srcset", "action", "poster"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    (policy,) = [attributes["content"] for _, attributes in page.tags if attributes.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe-eval" not in policy
    assert "http" not in policy


def test_names_of_others_are_text(page: Page) -> None:
    """They are on the page as they are, and no element is made of them."""
    assert HOSTILE in page.text
    assert not [attributes for name, attributes in page.tags if name == "img" or "onerror" in attributes]
    scripts = [attributes for name, attributes in page.tags if name == "script"]
    figures = [attributes for attributes in scripts if "id" in attributes]
    # Bokeh's script, its log level, and that of the page.
    assert len(scripts) - len(figures) == 3


def test_every_figure_says_in_words_what_it_shows(page: Page) -> None:
    """For those who do not see it."""
    figures = [attributes for _, attributes in page.tags if "data-figures" in attributes]
    assert len(figures) > 20
    for figure in figures:
        assert figure["role"] == "img"
        assert re.search(r"\w{3,}.*: .*\d", figure["aria-label"] or ""), figure["aria-label"]


def test_what_is_missing_is_said(page: Page) -> None:
    """One run of nine."""
    assert "1 of 9 runs are missing" in page.text
    assert page.text.count("interrupted") >= 1


def test_the_verdict_has_goals_findings_and_changes(page: Page) -> None:
    """What a person decides by."""
    verdict = page.sections["verdict"]
    for words in ("recommended", "packed is cheaper", "Goals", "at most 2.0 min", "Findings", "(seeds 1, 3)"):
        assert words in verdict, words
    assert "MostAllocated" in page.sections["settings"]


def test_the_rules_by_which_things_are_left_out_are_stated(page: Page) -> None:
    """Points of series, and pages of nodes."""
    assert "Series of more than 2,880 points are cut into 2,880 equal parts" in page.text
    assert "40 on a page" in page.text


def test_the_page_stays_small(shop: Written) -> None:
    """Bokeh is more than a megabyte of it; a day of three candidates adds less than two."""
    assert shop.page.stat().st_size < 3.5 * MEGABYTE


def test_the_same_comparison_gives_the_same_bytes(shop: Written, tmp_path: Path) -> None:
    """In another process, with other hashes, and after other figures."""
    (shop.folder / "comparison.json").write_bytes(report_bytes(shop.comparison))
    again = tmp_path / "again.html"
    subprocess.run(
        [sys.executable, "-c", AGAIN, str(shop.folder), str(again)], check=True, env=environment(PYTHONHASHSEED="12345")
    )
    assert again.read_bytes() == shop.page.read_bytes()


def test_models_are_numbered_as_they_come() -> None:
    """Whatever Bokeh called them."""
    shown, names = renumbered({"roots": [{"id": "p9", "a": {"id": "p7"}}, {"id": "p9"}], "text": ["p9"]})
    assert shown == {"roots": [{"id": "m1", "a": {"id": "m2"}}, {"id": "m1"}], "text": ["p9"]}
    assert names == {"p9": "m1", "p7": "m2"}


def test_a_comparison_without_any_run_still_has_its_page(tmp_path: Path) -> None:
    """Interrupted before the first was finished."""
    plans = {"default": Plan(duration=600.0), "packed": Plan(duration=600.0)}
    comparison = write_comparison(tmp_path, plans, seeds=(1,), missing=[("default", 1), ("packed", 1)])
    write_report(comparison, str(tmp_path), str(tmp_path / "report.html"))
    found = Page(tmp_path / "report.html")
    assert "2 of 2 runs are missing" in found.text
    assert "No run can be read." in found.text
    assert found.unbalanced == []


def test_without_a_verdict_the_page_says_why_and_nothing_else(shop: Written, tmp_path: Path) -> None:
    """Such as without prices; limits are a reason only where there are some."""
    judged = msgspec.structs.replace(shop.comparison.verdict, recommended="", passes=None, summary="No verdict: why.")
    write_report(
        msgspec.structs.replace(shop.comparison, verdict=judged), str(shop.folder), str(tmp_path / "report.html")
    )
    text = Page(tmp_path / "report.html").text
    assert "no recommendation" in text
    assert "No verdict: why." in text
    assert "No candidate keeps all limits" not in text


def test_a_fixed_cluster_without_prices_has_a_page(tmp_path: Path) -> None:
    """No pools, no cost, no supply: those parts say so or are left out."""
    comparison = write_comparison(tmp_path, {"default": Plan(duration=3600.0)}, seeds=(1,))
    folder = tmp_path / comparison.candidates[0].runs[0].folder
    for name in ("series/pools.csv", "nodes.csv", "supply.csv"):
        (folder / name).unlink()
    summary = msgspec.json.decode((folder / "summary.json").read_bytes())
    (folder / "summary.json").write_bytes(msgspec.json.encode({**summary, "pools": [], "cost": None, "loops": []}))
    write_report(comparison, str(tmp_path), str(tmp_path / "report.html"))
    text = Page(tmp_path / "report.html").text
    assert "No node of a pool came or went." in text
    assert "No autoscaler of pods or nodes." in text
    assert "Nodes by pool" not in text


def test_of_many_workloads_the_largest_can_be_chosen(tmp_path: Path) -> None:
    """And the page says so."""
    comparison = write_comparison(tmp_path, {"default": Plan(duration=3600.0, extra_workloads=20)}, seeds=(1,))
    write_report(comparison, str(tmp_path), str(tmp_path / "report.html"))
    found = Page(tmp_path / "report.html")
    assert f"Of 21 workloads the {WORKLOADS} largest can be chosen (by replicas at their peak)." in found.text
    assert "Deployment shop/web" in found.text
    assert "Deployment shop/extra-9" not in found.text


def test_the_run_that_is_shown_has_the_median_cost_of_the_baseline(shop: Written) -> None:
    """Of the seeds that all candidates have; of two in the middle the cheaper one."""
    cost = shop.comparison.candidates[0].metrics["cost"].values
    assert cost[0] is not None
    assert cost[1] is not None
    cheaper = 1 if cost[0] < cost[1] else 2
    present = {"default": (1, 2, 3), "packed": (1, 2, 3), HOSTILE: (1, 2)}
    assert shown_seed(shop.comparison, present) == cheaper
    assert shown_seed(shop.comparison, {**present, "packed": ()}) is None
    middle = sorted((value, seed) for value, seed in zip(cost, (1, 2, 3), strict=True) if value is not None)[1][1]
    assert shown_seed(shop.comparison, dict.fromkeys(present, (1, 2, 3))) == middle


def test_nothing_but_the_report_needs_bokeh(repository: Path) -> None:
    """So that runs, and commands that draw nothing, start without it."""
    importing = {
        path.relative_to(repository).parts[:3]
        for folder in ("scheduler", "autoscaling", "operator")
        for path in (repository / folder).rglob("*.py")
        if re.search(r"^\s*(import|from) bokeh\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert importing == {("autoscaling", "stowplan_autoscaling", "report")}
