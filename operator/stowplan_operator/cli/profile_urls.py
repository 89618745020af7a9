"""Where the URLs of profiles in files lead, as seen from here: `stowplan profile lint --resolve-urls`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stowplan_operator.net import UrlRefusedError, UrlRules, split_url
from stowplan_operator.net.resolving import resolve
from stowplan_operator.resources.lint import Finding
from stowplan_operator.resources.problems import ProfileProblem
from stowplan_operator.resources.profile_files import ProfileDocument
from stowplan_operator.resources.url_checks import urls_in


def unreachable(documents: Sequence[ProfileDocument], rules: UrlRules) -> list[Finding]:
    """URLs whose names cannot be resolved, or lead to where nobody may be sent. Those whose text is wrong are not asked
    about: that is said already.
    """
    return asyncio.run(_unreachable(documents, rules))


async def _unreachable(documents: Sequence[ProfileDocument], rules: UrlRules) -> list[Finding]:
    places = [
        (document.place, field, url)
        for document in documents
        if not document.is_configuration and isinstance(document.value.get("spec"), dict)
        for field, url in urls_in(document.value["spec"])
        if split_url(url, rules) is not None
    ]
    verdicts = await asyncio.gather(*(_why_not(url, rules) for _, _, url in places))
    return [
        Finding(place, ProfileProblem(field, why))
        for (place, field, _), why in zip(places, verdicts, strict=True)
        if why
    ]


async def _why_not(url: str, rules: UrlRules) -> str:
    try:
        await resolve(url, rules)
    except UrlRefusedError as error:
        return str(error)
    return ""
