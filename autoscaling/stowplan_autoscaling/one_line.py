"""Texts of others in messages of our own: a message stays on its line, and a terminal does what it did before.

In a module of its own, which imports nothing, since a command line that only prints an error must be quick.
"""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text with line breaks and control characters made visible."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
