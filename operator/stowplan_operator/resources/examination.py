"""All that is wrong with one SchedulerProfile, at once.

Checks build on each other: only what has the right types is compiled, only what compiles is built. One wrong number
would hide all else. So whatever was found is taken out of a copy, and the rest is checked again, until nothing new is
found. What is found only because something was taken out is not reported.

examined = examine(object)
examined.problems, examined.profile
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from stowplan_operator.net import DEFAULT_RULES, UrlRules
from stowplan_scheduler.framework.handle import PluginFactory

from .compile import NO_PLUGINS, compile_profile
from .problems import ProfileError, ProfileProblem
from .reading import read_profile
from .scheduler_profile import SchedulerProfile

MAX_PASSES: Final = 50
"""Each takes out something; real profiles need two or three."""

UNNAMED: Final = "unnamed"
"""Stands for a name that is wrong, so that the rest can be checked."""

_NAME: Final = "spec.schedulerName"
_INDEX: Final = re.compile(r"\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of it. `profile` is without what is wrong; None if it cannot be read at all."""

    problems: tuple[ProfileProblem, ...]
    profile: SchedulerProfile | None
    taken_out: tuple[str, ...]
    """Paths of what is wrong."""

    def is_sound(self, *fields: str) -> bool:
        """Whether nothing was taken out at or below these fields."""
        return not any(_is_within(path, field) for path in self.taken_out for field in fields)


def examine(
    value: Mapping[str, Any],
    third_party: Mapping[str, PluginFactory] = NO_PLUGINS,
    urls: UrlRules | None = DEFAULT_RULES,
    *,
    passes: int = MAX_PASSES,
) -> Examined:
    """All findings about an object, in the order of the checks. `third_party` and `urls`: as of `compile_profile`.

    `passes`: how often it is looked at, at most; each look costs as much as compiling it.
    """
    found: list[ProfileProblem] = []
    rest = _Rest(value)
    profile: SchedulerProfile | None = None
    for _ in range(passes):
        try:
            profile = read_profile(rest.value)
            compile_profile(profile, third_party, urls)
        except ProfileError as error:
            problems = [ProfileProblem(rest.original(each.field), each.message) for each in error.problems]
            found += [each for each in problems if not rest.explains(each.field)]
            if not rest.take_out([each.field for each in problems]):
                break
        else:
            break
    return Examined(tuple(dict.fromkeys(found)), profile, rest.taken_out)


class _Rest:
    """A copy of an object from which things are taken out. Paths have the positions that entries had at first."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.value: dict[str, Any] = dict(value)
        self._is_copied = False
        self._gone: dict[str, bool] = {}
        """What was taken out, and whether that was an entry of a list."""
        self._entries: dict[str, list[int]] = {}
        """Positions of the entries that were taken out, by the path of their list."""

    @property
    def taken_out(self) -> tuple[str, ...]:
        return tuple(self._gone)

    def original(self, field: str) -> str:
        """The path at first of what has this path now."""
        done, last = "", 0
        for match in _INDEX.finditer(field):
            done += field[last : match.start()]
            position = int(match[1])
            for gone in self._entries.get(done, ()):
                position += gone <= position
            done += f"[{position}]"
            last = match.end()
        return done + field[last:]

    def explains(self, field: str) -> bool:
        """Whether a finding about a field may come of what was taken out before."""
        for path, was_entry in self._gone.items():
            if _is_within(field, path):
                return True
            above = "." in field and _is_within(path, field)
            if above and (was_entry or _parent(path) == field):
                return True
        return False

    def take_out(self, fields: list[str]) -> bool:
        """Take out what these paths name, or what is above of it if it is not there; whether anything was."""
        if any(field in {"", "apiVersion", "kind", "spec"} for field in fields):
            # With another kind, or with a spec that is none, nothing else that is said would help.
            return False
        before = len(self._gone)
        fresh: list[str] = []
        # These two as a whole, and first: they may be what cannot be copied.
        for part, instead in (("metadata", {"name": UNNAMED}), ("status", {})):
            if any(_is_within(field, part) for field in fields):
                fresh.append(part)
                self.value[part] = instead
                self._gone[part] = False
        if not self._is_copied:
            self.value, self._is_copied = deepcopy(self.value), True
        for field in fields:
            if not any(_is_within(field, path) for path in fresh):
                path = self._take_one(field)
                if path:
                    fresh.append(path)
        return len(self._gone) > before

    def _take_one(self, field: str) -> str:
        """Returns the path of what was taken out; "" if that was nothing."""
        if _is_within(field, _NAME):
            if self.value["spec"].get("schedulerName") == UNNAMED:
                return ""
            self.value["spec"]["schedulerName"] = UNNAMED
            self._gone[_NAME] = False
            return _NAME
        path, container, key = self._find(field)
        if container is None or path == "spec":
            return ""
        del container[key]
        self._gone[path] = isinstance(container, list)
        if isinstance(container, list):
            positions = self._entries.setdefault(_parent(path), [])
            positions.append(int(path.rpartition("[")[2][:-1]))
            positions.sort()
        return path

    def _find(self, field: str) -> tuple[str, Any, Any]:
        """The last thing on the way to a field that is there: its path, what it is in, and its key or position."""
        node: Any = self.value
        path, container, key = "", None, None
        while len(path) < len(field):
            step = self._step(node, path, field[len(path) :])
            if step is None:
                break
            container, (key, text) = node, step
            node = node[key]
            path += text
        return path, container, key

    def _step(self, node: Any, path: str, rest: str) -> tuple[Any, str] | None:
        """The next key or position, and how the path spells it."""
        if isinstance(node, list):
            match = _INDEX.match(rest)
            if match is None:
                return None
            position, gone = int(match[1]), self._entries.get(path, [])
            current = position - sum(each < position for each in gone)
            return (current, match[0]) if position not in gone and current < len(node) else None
        if not isinstance(node, dict):
            return None
        dot = "." if path else ""
        # A key may have dots of its own: the longest one that fits.
        for name in sorted((each for each in node if isinstance(each, str)), key=len, reverse=True):
            for text in (f"{dot}{name}", f"[{name}]"):
                if rest.startswith(text) and rest[len(text) : len(text) + 1] in {"", ".", "["}:
                    return name, text
        return None


def _is_within(path: str, outer: str) -> bool:
    return path.startswith(outer) and path[len(outer) : len(outer) + 1] in {"", ".", "["}


def _parent(path: str) -> str:
    """Of a path that ends in a plain step."""
    return path[: max(path.rfind("."), path.rfind("["))]
