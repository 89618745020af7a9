"""`stowplan profile diff`: the profiles of two files side by side, as values and as a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table

from stowplan_operator.resources.differences import (
    Difference,
    Effective,
    Value,
    differences,
    of_configuration,
    of_profile,
    paired,
)
from stowplan_operator.resources.lint import lint
from stowplan_operator.resources.profile_files import ProfileDocument
from stowplan_operator.resources.reading import read_profile
from stowplan_scheduler.profiles import plugin_traits

from .application import BadInput
from .configurations import third_party_plugins
from .console import console_of

_NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two profiles, of which one may be missing, and what they do differently."""

    before: Effective | None
    after: Effective | None
    found: Sequence[Difference]

    @property
    def name(self) -> str:
        """schedulerName; of two with different names the first one's."""
        profile = self.before or self.after
        return "" if profile is None else profile.scheduler_name

    @property
    def is_different(self) -> bool:
        """Whether they differ, or one of them is missing."""
        return self.before is None or self.after is None or bool(self.found)

    def as_value(self) -> dict[str, Any]:
        """For JSON and YAML."""
        rows = [{"field": each.field, "a": each.before, "b": each.after} for each in self.found]
        return {
            "schedulerName": self.name,
            "inA": self.before is not None,
            "inB": self.after is not None,
            "differences": rows,
        }


def compare(first: Sequence[ProfileDocument], second: Sequence[ProfileDocument]) -> list[Pair]:
    """The profiles of two files. Raises BadInput with everything that is wrong with them."""
    third_party = third_party_plugins()
    findings = [
        str(finding)
        for documents in (first, second)
        for finding in lint(documents, third_party)
        # What is not decided yet can be compared all the same.
        if not finding.problem.field.endswith("extenders")
    ]
    if findings:
        raise BadInput(*findings)
    running = not any(document.is_configuration for document in (*first, *second))
    sides = [
        [
            effective
            for document in documents
            for effective in (
                of_configuration(document.value, plugin_traits(third_party))
                if document.is_configuration
                else [of_profile(read_profile(document.value), plugin_traits(third_party))]
            )
        ]
        for documents in (first, second)
    ]
    return [Pair(a, b, () if a is None or b is None else differences(a, b, running=running)) for a, b in paired(*sides)]


def print_table(pairs: Sequence[Pair], before: str, after: str) -> None:
    """One table for each pair that differs; a line for each that does not."""
    console = console_of(sys.stdout)
    for index, pair in enumerate(pairs):
        if index:
            console.print()
        if pair.before is None or pair.after is None:
            console.print(f"{pair.name}: only in {after if pair.before is None else before}", soft_wrap=True)
        elif not pair.found:
            console.print(f"{pair.name}: no difference", soft_wrap=True)
        else:
            console.print(_table(pair, before, after))


def _table(pair: Pair, before: str, after: str) -> Table:
    table = Table(box=None, pad_edge=False, title=pair.name, title_justify="left", title_style="bold")
    table.add_column("field", overflow="fold")
    table.add_column(before, overflow="fold")
    table.add_column(after, overflow="fold")
    for each in pair.found:
        if isinstance(each.before, list) and isinstance(each.after, list) and each.field.startswith("plugins."):
            table.add_row(each.field, *_only(each.before, each.after))
        else:
            table.add_row(each.field, _shown(each.before), _shown(each.after))
    return table


def _only(before: list[Any], after: list[Any]) -> tuple[str, str]:
    """Of two lists of plugins what only one has; both as they are if only the order differs."""
    left = [name for name in before if name not in after]
    right = [name for name in after if name not in before]
    if not left and not right:
        return ", ".join(before), ", ".join(after)
    return ", ".join(left) or _NOTHING, ", ".join(right) or _NOTHING


def _shown(value: Value) -> str:
    if value is None:
        return _NOTHING
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
