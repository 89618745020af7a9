"""Reads scheduler configurations for the command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from .application import BadInput, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stowplan_scheduler.config import KubeSchedulerConfiguration, PluginTraits
    from stowplan_scheduler.framework.handle import PluginFactory

DEFAULT_NAME = "default profile"
STDIN = "-"
MAX_BYTES = 10 * 10**6
"""Far more than any configuration; a larger file is most likely a mistake."""


@dataclass(frozen=True, slots=True)
class Named:
    """A configuration with the name of its column."""

    name: str
    config: KubeSchedulerConfiguration


def third_party_plugins() -> Mapping[str, PluginFactory]:
    """Plugins of other distributions."""
    from stowplan_scheduler.plugins.registry import PluginLoadError, load_third_party

    try:
        return load_third_party()
    except PluginLoadError as error:
        raise Failure(str(error)) from None


def read_configurations(paths: Sequence[str], third_party: Mapping[str, PluginFactory]) -> list[Named]:
    """The configurations in the order given, named after their files; the default configuration if there are none.

    Raises BadInput with a line for each finding in any of the files.
    """
    from stowplan_scheduler.config import load_configuration
    from stowplan_scheduler.profiles import plugin_traits

    if not paths:
        return [Named(DEFAULT_NAME, load_configuration(None))]
    traits = plugin_traits(third_party)
    names = _names(paths)
    found: list[Named] = []
    errors: list[str] = []
    for name, path in zip(names, paths, strict=True):
        try:
            found.append(Named(name, _read(path, traits)))
        except BadInput as error:
            errors.extend(error.lines)
    if errors:
        raise BadInput(*errors)
    return found


def _read(path: str, traits: Mapping[str, PluginTraits]) -> KubeSchedulerConfiguration:
    from stowplan_scheduler.config import ConfigurationError, load_configuration_text

    try:
        config = load_configuration_text(read_text(path), extra_plugins=traits)
    except ConfigurationError as error:
        raise BadInput(*(f"{path}: {text}{hint(text, traits)}" for text in error.errors)) from None
    if config.extenders:
        raise BadInput(f"{path}: extenders: not decided yet; take them out to see the profile without them")
    return config


def hint(text: str, traits: Mapping[str, PluginTraits]) -> str:
    """What was expected: the kind of a configuration, or which plugins there are."""
    from stowplan_scheduler.config import REGISTRY

    if text.startswith("no kind "):
        return "; a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) is expected"
    unknown = re.search(r'"(\S+)" does not exist', text)
    if unknown is None:
        return ""
    known = sorted({*REGISTRY, *traits})
    near = get_close_matches(unknown[1], known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known plugins: {', '.join(known)}"


def read_text(path: str) -> str:
    """The text of a file, or of standard input for -. Raises BadInput."""
    if path == STDIN and sys.stdin is None:
        raise BadInput("standard input is closed")
    try:
        with sys.stdin.buffer if path == STDIN else Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        message = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise BadInput(f"{path}: {message}") from None
    if len(data) > MAX_BYTES:
        raise BadInput(f"{path}: is larger than {MAX_BYTES // 10**6} MB: not a scheduler configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8 text: a configuration is YAML or JSON") from None


def _names(paths: Sequence[str]) -> list[str]:
    """The names of the files without folder and suffix; the paths where these are not distinct."""
    stems = [Path(path).stem for path in paths]
    names = [stem if stems.count(stem) == 1 else path for stem, path in zip(stems, paths, strict=True)]
    return list(_numbered(names))


def _numbered(names: Sequence[str]) -> Iterator[str]:
    """The same file given twice gets a number."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"
