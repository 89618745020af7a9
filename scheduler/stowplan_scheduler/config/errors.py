"""The one exception of the configuration package.

Upstream reports a bad configuration at three moments, and the moment decides the shape of the text: decoding stops with
one error, validation lists all of them, building a profile stops with the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .field_error import aggregate_text

Stage = Literal["decode", "validate", "build"]


class ConfigurationError(ValueError):
    """A configuration that kube-scheduler v1.37.2 would refuse.

    `errors` holds upstream's texts, one per finding; `stage` says who found them; `source` names the file, if there is
    one. `str()` is one line, fit for a log or a terminal. `configuration_error_text` gives upstream's own text, line
    breaks included.
    """

    def __init__(self, errors: Sequence[str], stage: Stage, source: str = "") -> None:
        self.errors: tuple[str, ...] = tuple(errors)
        self.stage: Stage = stage
        self.source = source
        super().__init__(self.errors, stage, source)

    def __str__(self) -> str:
        text = aggregate_text(self.errors).replace("\r", "\\r").replace("\n", "\\n")
        return f"{self.source}: {text}" if self.source else text


def configuration_error_text(error: ConfigurationError) -> str:
    """What the real scheduler prints for this error: the text of Go's error value, aggregates in brackets."""
    return aggregate_text(error.errors)
