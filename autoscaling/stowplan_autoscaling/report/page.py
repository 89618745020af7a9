"""The page: one file with everything in it, that opens without a network and asks for nothing."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from .embedding import Documents, library
from .markup import Markup, tag

_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
"""The browser holds the page to it: nothing is loaded from anywhere."""


def page(title: str, subtitle: str, sections: list[tuple[str, str, Markup]], documents: Documents) -> str:
    """The HTML. sections: identity, title in the navigation, content."""
    links = [tag("a", name, href=f"#{identity}") for identity, name, _ in sections]
    schemes = (("auto", "Auto"), ("light", "Light"), ("dark", "Dark"))
    theme = tag(
        "span",
        [tag("button", word, type="button", data_theme=name, aria_pressed="false") for name, word in schemes],
        class_="buttons theme",
        role="group",
        aria_label="Colours",
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(asset("page.css"))),
    )
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("div", tag("h1", title), tag("p", subtitle, class_="lead")),
            theme,
        ),
        tag("nav", links, aria_label="Sections"),
        tag("main", [content for _, _, content in sections], id="content"),
        tag("noscript", tag("p", "The figures need JavaScript; the tables do not.", class_="alert")),
        documents.scripts(),
        library(),
        Markup(f"<script>\n{asset('page.js')}\n</script>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def asset(name: str) -> str:
    """A file of the folder assets."""
    return files(__package__ or "").joinpath("assets", name).read_text(encoding="utf-8")
