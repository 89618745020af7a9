"""priority: the groups whose names the user ranks highest.

Follows pkg/expander/priority/priority.go of kubernetes-sigs/cluster-autoscaler. Patterns are Go's there and Python's
here; for names of groups they mean the same, but for the rarest syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import yaml

from .base import Option

_LOWEST: Final = -1


def parse_priorities(text: str) -> Mapping[int, Sequence[re.Pattern[str]]] | None:
    """Priority -> patterns, from the ConfigMap's text; None for a text that cannot be read or is empty."""
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(tree, dict):
        return None
    found: dict[int, list[re.Pattern[str]]] = {}
    for priority, patterns in tree.items():
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            return None
        try:
            found[int(priority)] = [re.compile(pattern) for pattern in patterns]
        except (re.error, ValueError, TypeError):
            return None
    return found


def by_priority(text: str) -> Callable[[Sequence[Option]], list[Option]]:
    """A filter for the text of the ConfigMap; without a readable one, or where it names no option, all pass."""
    priorities = parse_priorities(text)

    def best_options(options: Sequence[Option]) -> list[Option]:
        highest, best = _LOWEST, list[Option]()
        for option in options:
            for priority, patterns in sorted((priorities or {}).items()):
                if priority < highest or not any(pattern.search(option.group.id) for pattern in patterns):
                    continue
                if priority > highest:
                    highest, best = priority, []
                best.append(option)
        return best or list(options)

    return best_options
