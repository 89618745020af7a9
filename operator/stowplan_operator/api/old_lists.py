"""Whether a list may be believed that shows an older state than what is known already.

An API server that is asked for the newest state waits until its cache has it. A list from before what this client was
told comes from something in between, or from a server that breaks this promise: whoever took it would go back in time,
see pods unbound again and give their room away. So it is asked for anew. Only where the answer stays the same is the
storage itself older now: it was restored from a backup, and the past is the truth.

client-go gets the same by the resourceVersion of its lists (relistResourceVersion in tools/cache/reflector.go of
v0.37.2): not older than what it has seen, and from the storage if the server does not get there. No IO and no clock.
"""

from __future__ import annotations

from typing import Final

PATIENCE_SECONDS: Final = 60.0
"""How long a server may be behind. Where a cache of an API server is, it says so after three seconds."""


class OldLists:
    """What one client makes of the lists of one kind. Times are seconds of the caller's monotonic clock."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        """Nothing was refused yet."""
        self._patience = patience
        self._since: float | None = None
        """When the first of the lists in a row came that were not believed."""

    def refuses(self, version: int, known: int, now: float) -> bool:
        """Whether a list as of `version` must be asked for anew. `known`: everything up to there was told."""
        if version >= known:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if now - self._since < self._patience:
            return True
        self._since = None
        return False
