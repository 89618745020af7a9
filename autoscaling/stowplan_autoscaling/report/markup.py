"""HTML made of nested calls, escaped by construction: whatever is not Markup is text.

Names of pods, nodes and candidates, messages and settings are other people's: they may hold anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_VOID: Final = frozenset({"br", "col", "hr", "input", "meta"})
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_SCRIPT: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class Markup(str):
    """HTML as it is."""

    __slots__ = ()


Child = str | None | Sequence["Child"]
"""Text, markup, several of them, or nothing."""


def text(child: Child) -> Markup:
    """A child as markup."""
    if child is None:
        return Markup()
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        # A zero byte is no text in HTML.
        return Markup(child.translate(_ENTITIES).replace("\0", "\ufffd"))
    return Markup("".join(text(one) for one in child))


def tag(name: str, /, *children: Child, **attributes: str | bool | None) -> Markup:
    """An element. Attributes: "class_" is class, "data_x" is data-x; True has no value; False and None are left out."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        parts.append(attribute if value is True else f'{attribute}="{text(str(value))}"')
    opening = f"<{' '.join(parts)}>"
    return Markup(opening if name in _VOID else f"{opening}{text(children)}</{name}>")


def json_script(identity: str, json: str) -> Markup:
    """JSON that a script of the page reads. No text in it can end the element."""
    return Markup(f'<script type="application/json" id="{text(identity)}">{json.translate(_SCRIPT)}</script>\n')


def table(
    head: Sequence[Child], rows: Sequence[Sequence[Child]], *, label: str, numbers: bool = True, words: int = 1
) -> Markup:
    """A table that scrolls by itself where the page is too narrow; the first cell of each row is its heading.

    numbers: cells are short and stand to the right, but for the first `words` columns.
    """
    sides = ["left" if index < words else None for index in range(len(head))]
    header = tag(
        "thead", tag("tr", [tag("th", cell, scope="col", class_=side) for cell, side in zip(head, sides, strict=True)])
    )
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            [tag("td", cell, class_=side) for cell, side in zip(row[1:], sides[1:], strict=True)],
        )
        for row in rows
    ]
    kind = "numbers" if numbers else "words"
    return scrolling(tag("table", header, tag("tbody", body), class_=kind), label=label)


def scrolling(content: Child, *, label: str) -> Markup:
    """Wide content that the keyboard can scroll, too."""
    return tag("div", content, class_="scroll", role="region", aria_label=label, tabindex="0")


def chip(content: Child, kind: str = "") -> Markup:
    """A short word with a colour of its own."""
    return tag("span", content, class_=f"chip {kind}".strip())


def key(colour: str, content: Child, style: str = "area") -> Markup:
    """An entry of a legend. style: area, hatch, pale, line or dashes."""
    return tag(
        "span", tag("i", class_=f"key {style}", style=f"--c:{colour}", aria_hidden="true"), content, class_="entry"
    )


def legend(*entries: Child) -> Markup:
    """What the colours mean."""
    return tag("p", entries, class_="legend")
