"""What two profiles do differently, after defaults: plugins at each point, weights, args.

Two texts can differ and decide alike (a default written out), and a small change of a text can move many plugins
(multiPoint). So what is compared is what the scheduler makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import msgspec

from stowplan_scheduler.config import EffectiveProfile, PluginTraits, RawArgs, effective_profiles, load_configuration
from stowplan_scheduler.config.types import ConfigModel

from .documents import configuration_of, extenders_of, profile_document
from .scheduler_profile import SchedulerProfile

_RUNNING: Final = frozenset({"takeOver", "rollout", "workers"})
"""Fields that say how a profile is run, not what it decides."""

Value = bool | int | str | list[Any] | dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A field with its values on both sides; None where there is no such field."""

    field: str
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class Effective:
    """What a profile does, by field, as in plugins.score, weights.ImageLocality, args.NodeAffinity.addedAffinity."""

    scheduler_name: str
    fields: Mapping[str, Value]


def of_configuration(value: Mapping[str, Any], traits: Mapping[str, PluginTraits] | None = None) -> list[Effective]:
    """The profiles of a KubeSchedulerConfiguration. Raises ConfigurationError."""
    config = load_configuration(value, extra_plugins=traits)
    extenders = [_plain(extender) for extender in config.extenders]
    return [
        _effective(profile, config.percentage_of_nodes_to_score or 0, {"extenders": extenders} if extenders else {})
        for profile in effective_profiles(config, traits)
    ]


def of_profile(profile: SchedulerProfile, traits: Mapping[str, PluginTraits] | None = None) -> Effective:
    """A SchedulerProfile, with how it is run. Raises ConfigurationError."""
    configuration = configuration_of([profile_document(profile.spec)], extenders_of(profile.spec))
    (found,) = of_configuration(configuration, traits)
    running = profile.spec.model_dump(by_alias=True, mode="json", include={"take_over", "rollout", "workers"})
    return Effective(found.scheduler_name, {**found.fields, **dict(_flat("", running))})


def differences(before: Effective, after: Effective, *, running: bool) -> list[Difference]:
    """The fields that are not the same, in the order of a profile. `running`: how it is run counts, too."""
    names = dict.fromkeys((*before.fields, *after.fields))
    return [
        Difference(name, before.fields.get(name), after.fields.get(name))
        for name in names
        if (running or name.partition(".")[0] not in _RUNNING) and not _is_same(name, before.fields, after.fields)
    ]


def _is_same(name: str, before: Mapping[str, Value], after: Mapping[str, Value]) -> bool:
    """JSON's idea of it: 1 and true are not the same, and neither are null and nothing."""
    if name not in before or name not in after:
        return False
    return json.dumps(before[name], sort_keys=True) == json.dumps(after[name], sort_keys=True)


def _effective(profile: EffectiveProfile, percentage: int, more: Mapping[str, Value]) -> Effective:
    own = profile.percentage_of_nodes_to_score
    fields: dict[str, Value] = {
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": percentage if own is None else own,
    }
    for point, names in profile.points.items():
        fields[f"plugins.{point}"] = list(names)
    for name, weight in profile.score_weights.items():
        fields[f"weights.{name}"] = weight
    for name, args in sorted(profile.args.items()):
        plain = _plain(args)
        # Args without anything in them are as good as none.
        fields.update(_flat(f"args.{name}", plain) if plain else ())
    return Effective(profile.scheduler_name, {**fields, **more})


def _plain(value: object) -> Any:
    """Plain values under the names that they have in YAML; what is absent is left out."""
    if isinstance(value, ConfigModel):
        fields = {info.alias or name: getattr(value, name) for name, info in type(value).model_fields.items()}
        return {name: _plain(member) for name, member in fields.items() if member is not None}
    if isinstance(value, RawArgs):
        return value.value
    if isinstance(value, msgspec.Struct):
        return _without_empty(msgspec.to_builtins(value))
    if isinstance(value, bytes):
        # Certificates and keys: whether they are the same is all that may be shown.
        return f"sha256:{sha256(value).hexdigest()[:12]}" if value else ""
    return [_plain(member) for member in value] if isinstance(value, tuple) else value


def _without_empty(value: Any) -> Any:
    """Of the objects of the API, where absent and empty are the same."""
    if isinstance(value, dict):
        members = {name: _without_empty(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, [], {})}
    return [_without_empty(member) for member in value] if isinstance(value, list | tuple) else value


def _flat(path: str, value: Any) -> Iterator[tuple[str, Value]]:
    """Mappings by their fields; lists of things with names by these; all else as it is."""
    if isinstance(value, Mapping) and value:
        for name, member in value.items():
            yield from _flat(f"{path}.{name}" if path else name, member)
    elif isinstance(value, list) and _are_named(value):
        for member in value:
            rest = {name: entry for name, entry in member.items() if name != "name"}
            yield from _flat(f"{path}[{member['name']}]", rest)
    else:
        yield path, value


def _are_named(values: Sequence[Any]) -> bool:
    names = [value.get("name") for value in values if isinstance(value, Mapping)]
    return bool(names) and len(names) == len(values) == len({json.dumps(name) for name in names}) and all(names)


def paired(before: Iterable[Effective], after: Iterable[Effective]) -> list[tuple[Effective | None, Effective | None]]:
    """Profiles side by side by schedulerName; of one on each side, these two whatever they are called."""
    first = {each.scheduler_name: each for each in before}
    second = {each.scheduler_name: each for each in after}
    if len(first) == len(second) == 1:
        return list(zip(first.values(), second.values(), strict=True))
    return [(first.get(name), second.get(name)) for name in dict.fromkeys((*first, *second))]
