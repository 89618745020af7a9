"""Notices that the configuration's file has changed, and reads it again.

The content is what counts, not times or names: a ConfigMap that is mounted changes by swapping a link. Looking costs a
read of a small file once a second; SIGHUP makes it look at once.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

from stowplan_autoscaling.inputs.errors import InputError
from stowplan_scheduler.config import PluginTraits

from .configuration import MAX_BYTES, LoadedConfiguration, parse_configuration

log = logging.getLogger("stowplan.worker")


class ConfigurationFile:
    """One file and what it held when it was last right."""

    def __init__(
        self, path: Path, loaded: LoadedConfiguration, plugins: Mapping[str, PluginTraits] | None = None
    ) -> None:
        self._path = path
        self._plugins = plugins
        self._looked_at = loaded.digest
        self.current = loaded
        """What runs."""
        self.error = ""
        """Why the file as it is now does not run; "" if it does."""

    def look(self) -> LoadedConfiguration | None:
        """A new configuration that can run in the place of the current one, if the file holds one.

        A file that cannot is an error until it changes again; the current one stays. A file that is not there is one
        too: it may be about to be replaced.
        """
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            self._refuse("", f"{self._path}: cannot be read: {error.strerror}")
            return None
        digest = hashlib.sha256(data).hexdigest()
        if digest == self._looked_at:
            return None
        if digest == self.current.digest:
            # Back to what runs.
            self._looked_at, self.error = digest, ""
            return None
        try:
            loaded = parse_configuration(data, str(self._path), plugins=self._plugins)
        except InputError as error:
            self._refuse(digest, str(error))
            return None
        fixed = _fixed(self.current, loaded)
        if fixed:
            self._refuse(digest, f"{self._path}: {fixed}: cannot change while the worker runs: start it anew")
            return None
        self._looked_at = digest
        return loaded

    def accept(self, loaded: LoadedConfiguration) -> None:
        """It runs."""
        self.current, self.error = loaded, ""

    def refuse(self, loaded: LoadedConfiguration, why: str) -> None:
        """It could not be made to run."""
        self._refuse(loaded.digest, f"{self._path}: {why}")

    def _refuse(self, digest: str, error: str) -> None:
        if error != self.error:
            log.error("configuration refused, the one before stays", extra={"error": error})
        self._looked_at, self.error = digest, error


def _fixed(current: LoadedConfiguration, new: LoadedConfiguration) -> str:
    """What differs of that which a worker keeps for life; "" if nothing does."""
    if current.name != new.name:
        return "name"
    return "leaderElection" if current.lease != new.lease else ""
