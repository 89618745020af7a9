"""The parts that all sections of the page are made of: sections, panels, tabs, pickers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .markup import Child, Markup, tag


class Tab(NamedTuple):
    """A tab and what it opens."""

    title: str
    content: Child


def section(identity: str, title: str, lead: Child, *content: Child) -> Markup:
    """A section with a heading, and a sentence of what it shows."""
    heading = tag("h2", title, id=f"{identity}-title")
    return tag(
        "section", heading, tag("p", lead, class_="lead"), content, id=identity, aria_labelledby=f"{identity}-title"
    )


def panel(title: Child, unit: str, place: Child, words: Child, legend: Child = None, control: Child = None) -> Markup:
    """A figure with its title, what can be chosen for it, its legend, and what it shows in words."""
    heading: Child = tag("h3", title, tag("span", f" {unit}", class_="unit") if unit else None)
    if control:
        heading = tag("div", heading, control, class_="heading")
    return tag("figure", heading, legend, place, tag("figcaption", words), class_="panel")


def tabs(identity: str, shown: Sequence[Tab], *, group: str) -> Markup:
    """Tabs. Tabs of one group follow each other: what is opened in one is opened in all that have it."""
    buttons: list[Markup] = []
    panels: list[Markup] = []
    for index, one in enumerate(shown):
        name = f"{identity}-{index}"
        buttons.append(
            tag(
                "button",
                one.title,
                type="button",
                role="tab",
                id=f"{name}-tab",
                aria_controls=name,
                aria_selected="true" if index == 0 else "false",
                tabindex="0" if index == 0 else "-1",
            )
        )
        panels.append(
            tag(
                "div",
                tag("p", one.title, class_="print-only tab-title"),
                one.content,
                role="tabpanel",
                id=name,
                aria_labelledby=f"{name}-tab",
                hidden=index > 0,
            )
        )
    strip = tag("div", buttons, role="tablist", aria_label=identity)
    return tag("div", strip, panels, class_="tabs", data_group=group)


def picker(name: str, title: str, options: Sequence[str]) -> Markup | None:
    """A choice of what figures show; none where there is nothing to choose."""
    if len(options) < 2:
        return None
    choices = [tag("option", option, value=str(index)) for index, option in enumerate(options)]
    return tag("label", f"{title} ", tag("select", choices, data_picker=name), class_="picker")


def time_buttons() -> Markup:
    """Zoom and pan by keyboard, for all figures over time."""
    actions = (
        ("in", "+", "Zoom in"),
        ("out", "−", "Zoom out"),
        ("back", "◀", "Earlier"),
        ("on", "▶", "Later"),
        ("all", "All", "Show the whole run"),
    )
    buttons = [
        tag("button", sign, type="button", data_time=action, aria_label=title, title=title)
        for action, sign, title in actions
    ]
    return tag("span", buttons, class_="buttons", role="group", aria_label="Time shown")
