"""What ends a run: an invariant that does not hold."""

from __future__ import annotations


class Violation(AssertionError):  # noqa: N818 - says what it is
    """An invariant does not hold. `pod`: namespace/name of the pod that it is about, for its story."""

    def __init__(self, invariant: str, text: str, pod: str = "") -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.pod = pod
