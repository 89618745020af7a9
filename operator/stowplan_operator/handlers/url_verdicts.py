"""What is known of the URLs in a SchedulerProfile, and which of its fields that speaks against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stowplan_operator.resources.url_checks import urls_in


@dataclass(frozen=True, slots=True)
class UrlVerdict:
    """What came of looking up a URL's name. `reason`: a key of `net.REASONS`; "" if the URL may be asked."""

    reason: str = ""
    message: str = ""


UrlVerdicts = Mapping[str, UrlVerdict | None]
"""By URL; None: it is being looked up. Nothing is known against a URL that is not in it."""


def is_looked_up(spec: Mapping[str, Any], verdicts: UrlVerdicts) -> bool:
    """Whether nothing about the URLs of a spec has to be waited for."""
    return all(verdicts.get(url, _NOTHING) is not None for _, url in urls_in(spec))


def refused_urls(spec: Mapping[str, Any], verdicts: UrlVerdicts) -> list[tuple[str, UrlVerdict]]:
    """The fields whose URLs lead to where nobody may be sent, and why. One that is being looked up is none of them."""
    found = [(field, verdicts.get(url)) for field, url in urls_in(spec)]
    return [(field, verdict) for field, verdict in found if verdict is not None and verdict.reason]


_NOTHING = UrlVerdict()
