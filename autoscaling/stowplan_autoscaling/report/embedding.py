"""Bokeh documents in the page: as JSON that the page's script draws when it comes into view, the same bytes each time.

Each group of figures that share an axis is a document of its own, so that a tab that nobody opens costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from bokeh.document import Document
from bokeh.models.ui import UIElement
from bokeh.resources import Resources

from .markup import Markup, json_script, tag

_END: Final = re.compile(r"</(?=script)", re.IGNORECASE)


class Documents:
    """The documents of a page."""

    def __init__(self) -> None:
        self._scripts: list[Markup] = []

    def add(self, figures: Sequence[UIElement], labels: Sequence[str]) -> list[Markup]:
        """A document with these figures: the places where they are drawn. labels: what each shows, read aloud."""
        document = Document()
        for model in figures:
            document.add_root(model)
        shown, names = renumbered(document.to_json(deferred=False))
        identity = f"figures-{len(self._scripts) + 1}"
        content = {"document": shown, "roots": [names[model.id] for model in figures]}
        self._scripts.append(json_script(identity, json.dumps(content, separators=(",", ":"), allow_nan=False)))
        return [
            tag("div", class_="plot", data_figures=identity, data_root=str(index), role="img", aria_label=label)
            for index, label in enumerate(labels)
        ]

    def scripts(self) -> Markup:
        """The JSON of all of them."""
        return Markup("".join(self._scripts))


def renumbered(document: Any) -> tuple[Any, dict[str, str]]:
    """The JSON of a document with its models numbered as they come, and the new name of each.

    Bokeh counts models through the life of a process. In its JSON "id" is the key of nothing else: maps of data are
    lists of entries.
    """
    names: dict[str, str] = {}

    def visit(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: names.setdefault(one, f"m{len(names) + 1}") if key == "id" else visit(one)
                for key, one in value.items()
            }
        return [visit(one) for one in value] if isinstance(value, list) else value

    return visit(document), names


def library() -> Markup:
    """Bokeh's own script: the core, no widgets, nothing that is fetched."""
    resources = Resources(mode="inline", minified=True, components=["bokeh"], log_level="warn")
    scripts = [_END.sub("<\\\\/", script) for script in resources.js_raw]
    return Markup("".join(f"<script>\n{script}\n</script>\n" for script in scripts))
