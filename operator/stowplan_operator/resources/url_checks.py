"""The URLs in a SchedulerProfile, checked as texts: those of its extenders. No name is resolved here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from stowplan_operator.net import UrlRules, check_url

from .problems import ProfileProblem
from .scheduler_profile import Extender

_VERBS: Final = ("filter_verb", "preempt_verb", "prioritize_verb", "bind_verb")


def url_problems(extenders: Sequence[Extender], rules: UrlRules) -> Iterator[ProfileProblem]:
    """What is wrong with the URLs that a scheduler would ask: of each extender, and of each of its verbs."""
    for index, extender in enumerate(extenders):
        where = f"spec.extenders[{index}]"
        found = check_url(extender.url_prefix, rules)
        yield from (ProfileProblem(f"{where}.urlPrefix", problem) for problem in found)
        for name in _VERBS if not found else ():
            verb: str = getattr(extender, name)
            # As upstream joins them (pkg/scheduler/extender.go, send).
            problems = check_url(f"{extender.url_prefix.rstrip('/')}/{verb}", rules) if verb else ()
            field = f"{where}.{Extender.model_fields[name].alias}"
            yield from (ProfileProblem(field, f"as part of its URL it {problem}") for problem in problems)


def urls_in(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The URLs in a spec as it stands there, which may be anything: the path of each, and its text."""
    extenders = spec.get("extenders")
    return [
        (f"spec.extenders[{index}].urlPrefix", extender["urlPrefix"])
        for index, extender in enumerate(extenders if isinstance(extenders, list) else ())
        if isinstance(extender, Mapping) and isinstance(extender.get("urlPrefix"), str)
    ]
