"""The settings of candidates as flat paths, so that one sees what is different: of the simulation with its defaults, of
the scheduler's configuration, of Kubernetes objects.

    nodePools[spot].max, schedulerProfiles[default-scheduler].pluginConfig[NodeResourcesFit].args.scoringStrategy.type,
    HorizontalPodAutoscaler shop/web: spec.maxReplicas
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic.alias_generators import to_camel

from stowplan_autoscaling.resources.candidates import BY_CANDIDATES

from .comparison import Change, Difference, SettingEffect, SettingReport

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation

Settings = dict[str, str]

_ELSEWHERE: Final = (*BY_CANDIDATES, "seed", "schedulerProfiles")
_NAMES: Final = ("name", "schedulerName")


def settings_of(loaded: LoadedSimulation) -> Settings:
    """All that are set, by path, as text."""
    spec = loaded.simulation.model_dump(mode="json", by_alias=True)["spec"]
    found: Settings = {}
    # Of an engine only what is set: another one has other settings, and a list of defaults says nothing.
    spec["supply"] = loaded.spec.supply.model_dump(mode="json", by_alias=True, exclude_unset=True)
    found.update({f"supply.{engine}": "yes" for engine in spec["supply"]})
    for name, value in spec.items():
        if name not in _ELSEWHERE:
            found.update(_flat(name, _without_objects(name, value)))
    scheduler = loaded.scheduler.model_dump(mode="json", serialize_as_any=True)
    for name, value in scheduler.items():
        path = "schedulerProfiles" if name == "profiles" else f"schedulerProfiles.{to_camel(name)}"
        found.update(_flat(path, _camel(value)))
    groups = f"{loaded.source}: spec.cluster.nodeGroups"
    for manifest in loaded.objects:
        if not manifest.place.startswith(groups):
            found.update(_flat(f"{manifest.described}: ", {k: v for k, v in manifest.value.items() if k != "status"}))
    return found


def _without_objects(name: str, value: Any) -> Any:
    """Objects are compared by name, wherever they stand; files by what they hold."""
    if name not in {"cluster", "workloads"}:
        return value
    return {key: entry for key, entry in value.items() if key not in {"objects", "files", "snapshot"}}


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {to_camel(key): _camel(entry) for key, entry in value.items()}
    return [_camel(entry) for entry in value] if isinstance(value, list) else value


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from _flat(f"{path}{key}" if path.endswith(": ") else f"{path}.{key}", entry)
    elif isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value):
        for index, entry in enumerate(value):
            yield from _flat(f"{path}[{_label(entry, index)}]", entry)
    elif value not in (None, {}, [], ""):
        yield path, _text(value)


def _label(entry: Any, index: int) -> str:
    if isinstance(entry, dict):
        for key in _NAMES:
            if isinstance(entry.get(key), str):
                return str(entry[key])
    return str(index)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(_text(entry) for entry in value)
    return str(value)


def changes(before: Settings, after: Settings) -> tuple[Change, ...]:
    """In which settings one differs from the other, by path."""
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return tuple(Change(path=path, baseline=before.get(path, ""), value=after.get(path, "")) for path in paths)


# ---- what mattered ---------------------------------------------------------------------------------------------------


def effects_of(
    settings: Mapping[str, Settings], differences: Sequence[Difference], goals: Sequence[str]
) -> tuple[SettingEffect, ...]:
    """What settings did to the metrics of goals, the largest first within each metric.

    `differences`: of pairs of candidates. What several settings did together is left out where a pair differs in a part
    of them only.
    """
    distances = {
        (each.candidate, each.baseline): frozenset(
            change.path for change in changes(settings[each.baseline], settings[each.candidate])
        )
        for each in differences
    }
    sets = [paths for paths in distances.values() if paths]
    found: dict[tuple[frozenset[str], str], SettingEffect] = {}
    for each in differences:
        paths = distances[each.candidate, each.baseline]
        if not paths or each.metric not in goals or any(other < paths for other in sets):
            continue
        found.setdefault((paths, each.metric), SettingEffect(settings=tuple(sorted(paths)), difference=each))
    return tuple(
        sorted(
            found.values(),
            key=lambda effect: (
                goals.index(effect.difference.metric),
                -abs(effect.difference.median),
                effect.settings,
            ),
        )
    )


def settings_report(settings: Mapping[str, Settings], effects: Sequence[SettingEffect]) -> tuple[SettingReport, ...]:
    """The settings in which candidates differ, those that mattered first."""
    paths = {path for each in settings.values() for path in each}
    found = []
    for path in paths:
        values = {name: each.get(path, "") for name, each in settings.items()}
        if len(set(values.values())) < 2:
            continue
        about = [effect for effect in effects if path in effect.settings]
        moved = dict.fromkeys(
            effect.difference.metric for effect in about if effect.difference.outcome != "no difference"
        )
        is_alone = any(effect.settings == (path,) for effect in about)
        found.append(SettingReport(path=path, values=values, is_alone=is_alone, mattered=tuple(moved)))
    return tuple(sorted(found, key=lambda each: (-len(each.mattered), each.path)))
