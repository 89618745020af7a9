"""Reads a simulation and everything that it names. Whatever is wrong becomes an InputError of one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stowplan_autoscaling.inputs.decode import without_nulls
from stowplan_autoscaling.inputs.errors import FieldError, InputError, shown
from stowplan_autoscaling.inputs.sources import Format
from stowplan_autoscaling.inputs.yaml_reader import read_yaml
from stowplan_autoscaling.prices import NO_PRICES, PriceBook, read_catalog, read_price_book
from stowplan_autoscaling.prices.book import DEFAULT_CURRENCY
from stowplan_autoscaling.streams import Streams
from stowplan_autoscaling.supply.pools import MachineType, Pool
from stowplan_scheduler.config import (
    ConfigurationError,
    KubeSchedulerConfiguration,
    load_configuration,
    load_configuration_text,
)

from . import checks
from .base import duplicate
from .candidates import BY_CANDIDATES, Candidate, own_changes, with_candidates_as_given, without_effect
from .findings import field_error, near
from .loads import Clock, Load, job_of, load_of
from .manifests import Files, Manifest, Manifests
from .merging import check_removals, merged
from .node_groups import nodes_of
from .node_labels import check_group
from .object_checks import check_fields
from .patching import patched
from .pool_loading import catalog_types, group_prices, pools_of
from .pool_use import unusable_pools
from .price_use import unused_prices
from .simulation import API_VERSION, KIND, Simulation, SimulationSpec
from .typed import OWN_READERS, typed_object
from .values import format_duration

if TYPE_CHECKING:
    from stowplan_scheduler.framework.handle import PluginFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSimulation:
    """A simulation that can be run: the kind, the objects it begins with, and what is asked of them.

    `objects`: those of spec.cluster first (inline, files, snapshot, node groups), then those of spec.workloads; the
    names are unique per kind. `pools`: those of spec.nodePools, with their machines. `group_prices`: per hour and
    node, by name of the node group, where one has a price. `loads`: by the name of the entry in spec.demand.
    `digest`: of everything that was read, but for what only says how candidates are compared. `files`: of the
    contents of all files, the simulation's own among them. `candidate`: of spec.candidates, "" for none. `prices`: the
    price book of spec.prices.
    """

    source: str
    simulation: Simulation
    objects: tuple[Manifest, ...]
    scheduler: KubeSchedulerConfiguration
    loads: Mapping[str, Load]
    warnings: tuple[str, ...] = ()
    digest: str = ""
    files: str = ""
    pools: tuple[Pool, ...] = ()
    group_prices: Mapping[str, float] = field(default_factory=dict)
    prices: PriceBook = NO_PRICES
    candidate: str = ""
    third_party: Mapping[str, PluginFactory] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.simulation.metadata.name

    @property
    def spec(self) -> SimulationSpec:
        """What is simulated."""
        return self.simulation.spec

    def of(self, *kinds: str) -> tuple[Manifest, ...]:
        """The objects of some kinds, in order."""
        return tuple(manifest for manifest in self.objects if manifest.kind in kinds)


def load_simulation(
    source: str,
    *,
    seed: int | None = None,
    duration: int | None = None,
    candidate: str = "",
    third_party: Mapping[str, PluginFactory] | None = None,
) -> LoadedSimulation:
    """Reads a file with one Simulation. `seed` and `duration` (nanoseconds) replace those of the file.

    `candidate`: the one of spec.candidates that is to be run; "" is the simulation without any. Raises InputError.
    """
    files = Files(source)
    return _load(_document(source, files), source, files, seed, duration, candidate, third_party or {})


def check_simulation(value: Any, files: Files, *, third_party: Mapping[str, PluginFactory] | None = None) -> None:
    """Whether a simulation that is no file could be run, with each of its candidates. Raises InputError."""
    for candidate in ("", *_candidate_names(value)):
        _load(value, "", files, None, None, candidate, third_party or {})


def _candidate_names(value: Any) -> list[str]:
    try:
        return [candidate.name for candidate in parse_simulation(value).spec.candidates]
    except FieldError:
        # It is refused without any candidate, with this error.
        return []


def _load(
    value: Any,
    source: str,
    files: Files,
    seed: int | None,
    duration: int | None,
    candidate: str,
    third_party: Mapping[str, PluginFactory],
) -> LoadedSimulation:
    try:
        simulation = parse_simulation(_overridden(value, seed, duration))
        chosen = _candidate(simulation.spec, candidate)
    except FieldError as error:
        raise InputError.of(source, "", error) from None
    about = f"candidate {candidate}" if candidate else ""
    base = simulation.spec
    try:
        if chosen is not None:
            value = _changed(value, chosen)
            simulation = parse_simulation(_overridden(value, seed, duration))
        # A run that is cut short on the command line may leave out what the file plans for later.
        planned = simulation if duration is None else parse_simulation(value)
        length = max(simulation.spec.duration, planned.spec.duration)
        return _loaded(source, simulation, length, files, third_party, chosen, base)
    except FieldError as error:
        raise InputError.of(source, about, error) from None
    except InputError as error:
        objects = ", ".join(text for text in (about, error.object) if text)
        raise InputError(error.source, objects, error.field, error.message) from None


def _candidate(spec: SimulationSpec, name: str) -> Candidate | None:
    names = [candidate.name for candidate in spec.candidates]
    twice = duplicate(names)
    if twice is not None:
        raise FieldError(f"spec.candidates[{twice}].name", f"{shown(names[twice])}: occurs twice")
    if spec.baseline and spec.baseline not in names:
        raise FieldError("spec.baseline", f"no candidate {shown(spec.baseline)}{near(spec.baseline, names)}")
    if not name:
        return None
    if name not in names:
        raise FieldError("spec.candidates", f"no candidate {shown(name)}{near(name, names)}")
    return spec.candidates[names.index(name)]


def _changed(value: Any, candidate: Candidate) -> Any:
    """The document with what is different in spec."""
    check_removals(value["spec"], candidate.spec, SimulationSpec, "spec")
    return {**value, "spec": merged(value["spec"], candidate.spec, SimulationSpec)}


def parse_simulation(value: Any) -> Simulation:
    """The kind from plain values, without anything that it names. Raises FieldError."""
    if not isinstance(value, dict):
        raise FieldError("", f"must be a {KIND}, got {shown(value)}")
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind != KIND:
        message = (
            f"{shown(kind)}: must be {KIND}; stowplan simulate takes manifests as arguments, without -f"
            if kind
            else "must be set"
        )
        raise FieldError("kind", message)
    if version != API_VERSION:
        raise FieldError("apiVersion", f"{shown(version)}: must be {API_VERSION}" if version else "must be set")
    try:
        return Simulation.model_validate(with_candidates_as_given(without_nulls(value), value))
    except ValidationError as error:
        raise field_error(error, Simulation) from None


def _document(source: str, files: Files) -> Any:
    data, form = files.read(source)
    if form is Format.CSV:
        raise InputError(source, "", "", f"is a CSV file: a {KIND} in YAML or JSON is expected")
    documents = list(read_yaml(data, source))
    if not documents:
        raise InputError(source, "", "", f"is empty: a {KIND} is expected")
    if len(documents) > 1:
        message = f"holds {len(documents)} documents: one {KIND} is expected; other objects go into spec.workloads"
        raise InputError(source, "", "", message)
    return documents[0].value


def _overridden(value: Any, seed: int | None, duration: int | None) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("spec"), dict):
        return value
    changes: dict[str, Any] = {}
    if seed is not None:
        changes["seed"] = seed
    if duration is not None:
        changes["duration"] = format_duration(duration)
    return {**value, "spec": {**value["spec"], **changes}}


def _loaded(
    source: str,
    simulation: Simulation,
    length: int,
    files: Files,
    third_party: Mapping[str, PluginFactory],
    candidate: Candidate | None,
    base: SimulationSpec,
) -> LoadedSimulation:
    """`length`: before when everything must happen that is planned. `base`: spec without the candidate's changes."""
    spec = simulation.spec
    manifests = Manifests(files, source)
    _add_objects(manifests, spec)
    warnings: list[str] = []
    if candidate is not None:
        index = spec.candidates.index(candidate)
        before = manifests.objects
        manifests.objects = patched(before, candidate, f"spec.candidates[{index}]")
        is_same = base == spec and [each.value for each in before] == [each.value for each in manifests.objects]
        warnings.extend(without_effect(spec.candidates, candidate, is_same=is_same))
    for manifest in manifests.objects:
        _check_fields(manifest)
        if manifest.kind not in OWN_READERS:
            typed_object(manifest)
    scheduler = _scheduler(spec, files, third_party)
    clock = Clock(duration=spec.duration, start=spec.start, streams=Streams(spec.seed), files=files)
    warnings += [*manifests.warnings(), *checks.check(spec.model_copy(update={"duration": length}), manifests.objects)]
    for index, entry in enumerate(spec.demand):
        if entry.jobs is not None:
            typed_object(manifests.check(job_of(entry), f"spec.demand[{index}].jobs.template"))
    catalog, prices = _catalog(spec, files), _prices(spec, files)
    pools = pools_of(spec, catalog, prices.price)
    warnings.extend(unused_prices(prices, (base, spec), catalog, manifests.objects))
    warnings.extend(unusable_pools(pools, manifests.objects, spec.demand))
    loads = {entry.name: load_of(entry, clock, f"spec.demand[{index}]") for index, entry in enumerate(spec.demand)}
    warnings.extend(note for load in loads.values() for note in load.notes)
    warnings.extend(_other_schedulers(manifests.objects, scheduler))
    return LoadedSimulation(
        source=source,
        simulation=simulation,
        objects=tuple(manifests.objects),
        scheduler=scheduler,
        loads=loads,
        pools=pools,
        group_prices=group_prices(spec, catalog, prices.price),
        warnings=tuple(warnings),
        digest=_digest(simulation, files, candidate),
        files=sha256("\n".join(files.digests).encode()).hexdigest(),
        candidate="" if candidate is None else candidate.name,
        prices=prices,
        third_party=third_party,
    )


def _check_fields(manifest: Manifest) -> None:
    if manifest.dumped:
        return
    try:
        check_fields(manifest.kind, manifest.value)
    except FieldError as error:
        raise InputError.of(manifest.place, manifest.described, error) from None


def _add_objects(manifests: Manifests, spec: SimulationSpec) -> None:
    manifests.add_inline(spec.cluster.objects, "spec.cluster.objects")
    manifests.add_files(spec.cluster.files, "spec.cluster.files")
    if spec.cluster.snapshot:
        manifests.add_files([spec.cluster.snapshot], "spec.cluster.snapshot")
    names = [group.name for group in spec.cluster.node_groups]
    for index, group in enumerate(spec.cluster.node_groups):
        path = f"spec.cluster.nodeGroups[{index}]"
        if group.name in names[:index]:
            raise FieldError(f"{path}.name", f"{shown(group.name)}: occurs twice")
        check_group(group, path)
        manifests.add_group(nodes_of(group, path), path)
    manifests.add_inline(spec.workloads.objects, "spec.workloads.objects")
    manifests.add_files(spec.workloads.files, "spec.workloads.files")


def _catalog(spec: SimulationSpec, files: Files) -> dict[str, MachineType]:
    """The types of spec.instanceTypesFile by name."""
    if not spec.instance_types_file:
        return {}
    try:
        path = files.path(spec.instance_types_file)
        return catalog_types(read_catalog(files.read(path)[0], path))
    except InputError as error:
        raise FieldError("spec.instanceTypesFile", str(error)) from None


def _prices(spec: SimulationSpec, files: Files) -> PriceBook:
    """The price book of spec.prices; an empty one where there is none."""
    if not spec.prices.file:
        return PriceBook(currency=spec.prices.currency or DEFAULT_CURRENCY, rows={})
    try:
        path = files.path(spec.prices.file)
        return read_price_book(BytesIO(files.read(path)[0]), path, spec.prices.currency)
    except InputError as error:
        raise FieldError("spec.prices.file", str(error)) from None


def _scheduler(
    spec: SimulationSpec, files: Files, third_party: Mapping[str, PluginFactory]
) -> KubeSchedulerConfiguration:
    from stowplan_scheduler.profiles import plugin_traits

    profiles = spec.scheduler_profiles
    traits = plugin_traits(third_party)
    if profiles.configuration is not None and profiles.file:
        raise FieldError("spec.schedulerProfiles", "at most one of configuration, file must be set")
    where = "spec.schedulerProfiles.file" if profiles.file else "spec.schedulerProfiles.configuration"
    path = files.path(profiles.file) if profiles.file else ""
    try:
        if not path:
            config = load_configuration(profiles.configuration, extra_plugins=traits)
        else:
            config = load_configuration_text(files.read(path)[0].decode("utf-8-sig"), extra_plugins=traits)
    except InputError as error:
        raise FieldError(where, str(error)) from None
    except UnicodeDecodeError:
        raise FieldError(where, f"{path}: not UTF-8 text") from None
    except ConfigurationError as error:
        raise FieldError(where, f"{path}: {error.errors[0]}" if path else error.errors[0]) from None
    if config.extenders:
        raise FieldError(where, "extenders: not decided yet; take them out")
    return config


def _other_schedulers(objects: list[Manifest], scheduler: KubeSchedulerConfiguration) -> list[str]:
    """Pods for a scheduler that is not here stay pending, which is rarely what is meant."""
    known = sorted({profile.scheduler_name for profile in scheduler.profiles})
    found: dict[str, str] = {}
    for manifest in objects:
        name = _scheduler_name(manifest.value)
        if name and name not in known and not manifest.dumped:
            found.setdefault(name, manifest.described)
    return [
        f"{described}: schedulerName {shown(name)} is no profile here, its pods stay pending{near(name, known)}"
        for name, described in found.items()
    ]


def _scheduler_name(value: Mapping[str, Any]) -> str:
    """spec.schedulerName of the pod, or of the pods of the workload."""
    spec = value.get("spec") or {}
    spec = (spec.get("jobTemplate") or {}).get("spec") or spec
    template = spec.get("template")
    pod = (template.get("spec") or {}) if isinstance(template, dict) else spec
    name = pod.get("schedulerName")
    return name if isinstance(name, str) else ""


def _digest(simulation: Simulation, files: Files, candidate: Candidate | None) -> str:
    """SHA-256 of the specification as it counts, and of the contents of all files, wherever they are."""
    value = simulation.model_dump(mode="json", by_alias=True)
    spec = {name: entry for name, entry in value["spec"].items() if name not in BY_CANDIDATES}
    changes = {} if candidate is None else own_changes(candidate)
    # Objects are patched after they were read: the patches count beside the specification.
    whole = {**value, "spec": spec, **({"changes": changes} if changes else {})}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    # The first file is the simulation itself, which `text` holds with what the command line replaced.
    return sha256("\n".join([text, *files.digests[1:]]).encode()).hexdigest()
