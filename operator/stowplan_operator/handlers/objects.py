"""The operator's objects as they were last seen, by kind and name.

They come from three sides: kopf's watch, the list that is made now and then whatever the watch says, and the answers to
the operator's own writes. An older version never replaces a newer one: resource versions are ordered since Kubernetes
v1.35, those of deletions included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stowplan_operator.api.store import number_of

from .names import KINDS
from .observed import Observed, mapping, observed, text


class Objects:
    """The newest known version of each object."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Mapping[str, Any]]] = {kind: {} for kind in KINDS}

    def of(self, kind: str) -> list[Observed]:
        """The objects of a kind, by name."""
        return [observed(value) for _, value in sorted(self._found[kind].items())]

    def seen(self, kind: str, value: Mapping[str, Any]) -> bool:
        """An object as somebody saw it; whether that is news."""
        name = _field(value, "name")
        known = self._found[kind].get(name)
        if known is not None and _version(value) <= _version(known):
            return False
        self._found[kind][name] = value
        return True

    def gone(self, kind: str, name: str, uid: str) -> bool:
        """An object that is no more; whether that is news. Its successor under the same name stays."""
        known = self._found[kind].get(name)
        if known is None or _field(known, "uid") != uid:
            return False
        del self._found[kind][name]
        return True

    def replaced(self, kind: str, values: Iterable[Mapping[str, Any]], version: str) -> bool:
        """All objects of a kind as they were at a version; whether that is news.

        What is newer than the list stays: it was heard of while the list was on its way.
        """
        listed = {_field(value, "name"): value for value in values}
        gone = [
            name
            for name, known in self._found[kind].items()
            if name not in listed and _version(known) <= number_of(version)
        ]
        for name in gone:
            del self._found[kind][name]
        news = [self.seen(kind, value) for value in listed.values()]
        return bool(gone) or any(news)


def _field(value: Mapping[str, Any], name: str) -> str:
    return text(mapping(value.get("metadata")).get(name))


def _version(value: Mapping[str, Any]) -> int:
    return number_of(_field(value, "resourceVersion"))
