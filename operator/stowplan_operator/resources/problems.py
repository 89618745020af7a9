"""What is wrong with a custom resource: the path of the field, and why. Never more than one line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan_autoscaling.one_line import one_line

SUMMARY_LENGTH: Final = 1024
"""Characters of a summary: a condition's message may be longer, but nobody reads on."""


@dataclass(frozen=True, slots=True)
class ProfileProblem:
    """One finding. `field` is its path in the resource, as in spec.pluginConfig[1].args.scoringStrategy.type.

    Both texts are printable: a resource can hold any text, and findings quote it.
    """

    field: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "field", one_line(self.field))
        object.__setattr__(self, "message", one_line(self.message))

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ProfileError(ValueError):
    """A resource that cannot be used. `problems` has at least one entry, each once, in the order of the checks."""

    def __init__(self, problems: Iterable[ProfileProblem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__(summary(self.problems))


def refuse(problems: Iterable[ProfileProblem]) -> None:
    """Raises ProfileError if there are any."""
    found = tuple(problems)
    if found:
        raise ProfileError(found)


def summary(problems: Sequence[ProfileProblem], limit: int = SUMMARY_LENGTH) -> str:
    """The problems in one line for a condition, the first of them at least, with the number of those left out."""
    texts = [str(problem) for problem in problems]
    whole = "; ".join(texts)
    if len(whole) <= limit:
        return whole
    for count in range(len(texts) - 1, 0, -1):
        text = "; ".join(texts[:count]) + f"; and {len(texts) - count} more"
        if len(text) <= limit:
            return text
    rest = f"; and {len(texts) - 1} more" if len(texts) > 1 else ""
    return texts[0][: limit - len(rest) - 3] + "..." + rest
