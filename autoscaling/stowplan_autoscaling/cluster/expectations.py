"""What a controller has asked for and not yet seen: until then it must not act on what it sees.

`Expectations` counts creations and deletions per owner (pkg/controller/controller_utils.go, ControllerExpectations);
`WriteRecord` remembers the versions of a controller's own writes (pkg/controller/util/consistency, behind the feature
gates StaleControllerConsistency*, on in Kubernetes v1.37.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stowplan_autoscaling.kernel import MINUTE

from .errors import ApiError
from .informers import Informers

TIMEOUT: Final = 5 * MINUTE
"""After this an expectation no longer holds anybody up."""


class _Expected:
    __slots__ = ("adds", "deletions", "keys", "since")

    def __init__(self, adds: int, keys: frozenset[str], since: int) -> None:
        self.adds = adds
        self.keys = set(keys)
        self.deletions = len(keys)
        self.since = since


class Expectations:
    """By owner key."""

    def __init__(self) -> None:
        self._expected: dict[str, _Expected] = {}

    def expect_creations(self, key: str, count: int, now: int) -> None:
        """Replaces what was expected."""
        self._expected[key] = _Expected(count, frozenset(), now)

    def expect_deletions(self, key: str, pods: Iterable[str], now: int) -> None:
        """Replaces what was expected."""
        self._expected[key] = _Expected(0, frozenset(pods), now)

    def creation_observed(self, key: str) -> None:
        """One creation was seen, or will never be."""
        found = self._expected.get(key)
        if found is not None:
            found.adds -= 1

    def deletion_observed(self, key: str, pod: str) -> None:
        """The deletion of a pod was seen; each counts once."""
        found = self._expected.get(key)
        if found is not None and pod in found.keys:
            found.keys.discard(pod)
            found.deletions -= 1

    def expect(self, key: str, creations: int, deletions: int, now: int) -> None:
        """Replaces what was expected, by plain numbers: for controllers that count every event of a deletion."""
        expected = self._expected[key] = _Expected(creations, frozenset(), now)
        expected.deletions = deletions

    def lower(self, key: str, creations: int, deletions: int) -> None:
        """So many fewer are still to be seen."""
        found = self._expected.get(key)
        if found is not None:
            found.adds -= creations
            found.deletions -= deletions

    def are_satisfied(self, key: str, now: int) -> bool:
        """Whether the owner may act."""
        found = self._expected.get(key)
        return found is None or (found.adds <= 0 and found.deletions <= 0) or now - found.since > TIMEOUT

    def forget(self, key: str) -> None:
        """The owner is gone."""
        self._expected.pop(key, None)


class StaleReadError(ApiError):
    """The controller does not see its own writes yet."""


class WriteRecord:
    """The newest version a controller wrote, by owner and kind."""

    def __init__(self, informers: Informers) -> None:
        self._seen = informers.seen
        self._written: dict[str, dict[str, int]] = {}

    def wrote(self, key: str, kind: str, version: int) -> None:
        """Note a write on behalf of an owner."""
        versions = self._written.setdefault(key, {})
        if version > versions.get(kind, 0):
            versions[kind] = version

    def check(self, key: str) -> None:
        """Raises StaleReadError while a write of the owner is not seen."""
        versions = self._written.get(key)
        if versions is None:
            return
        for kind, version in versions.items():
            if version > self._seen[kind]:
                raise StaleReadError(f"{kind}: version {version} was written, {self._seen[kind]} is seen")
        del self._written[key]

    def clear(self, key: str) -> None:
        """The owner is gone."""
        self._written.pop(key, None)
