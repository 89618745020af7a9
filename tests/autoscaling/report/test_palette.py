"""Colours that one can tell from the page in both schemes."""

from __future__ import annotations

import re

import pytest

from stowplan_autoscaling.report import palette
from stowplan_autoscaling.report.page import asset
from stowplan_autoscaling.results.records import Waiting

COLOURS = {*palette.SERIES, *palette.END_REASONS.values(), *palette.WAITING.values()}
TEXT = ("--text", "--soft", "--link")


def luminance(colour: str) -> float:
    """Of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def schemes() -> dict[str, dict[str, str]]:
    """The names of colours in the style sheet, light and dark."""
    sheet = asset("page.css")
    light, dark, system = re.findall(r"\{\s*color-scheme: (?:light|dark);(.*?)\}", sheet, re.DOTALL)[:3]
    assert dark.split() == system.split(), "the reader's choice of dark is not the system's"
    return {
        name: dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]{6});", block))
        for name, block in (("light", light), ("dark", dark))
    }


def test_contrast_is_computed_as_wcag_does() -> None:
    """Black on white is 21 to 1; #767676 is the lightest grey for text."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_colours_of_figures_stand_out_from_both_grounds(colour: str) -> None:
    """3 to 1, as WCAG asks for graphics."""
    assert contrast(colour, palette.LIGHT_PAGE) >= 3
    assert contrast(colour, palette.DARK_PAGE) >= 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_every_ground(scheme: str) -> None:
    """4.5 to 1, as WCAG asks for text."""
    colours = schemes()[scheme]
    assert colours["--card"] == {"light": palette.LIGHT_PAGE, "dark": palette.DARK_PAGE}[scheme]
    for ground in ("--card", "--page", "--mark"):
        for text in TEXT:
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["--good"], colours["--good-ground"]) >= 4.5
    assert contrast(colours["--bad"], colours["--bad-ground"]) >= 4.5


def test_every_part_of_waiting_has_a_colour_of_its_own() -> None:
    """In the order in which they happen."""
    assert tuple(palette.WAITING) == Waiting._fields
    assert len(set(palette.WAITING.values())) == len(Waiting._fields)
