"""Random numbers by name: one stream per purpose and entity, so that two runs that differ elsewhere meet the same luck.

A draw depends on (seed, purpose, key) and on how often that very stream was asked before, never on what other streams
did. Candidates of a comparison that share a seed therefore share their random numbers (common random numbers).
"""

from __future__ import annotations

import hashlib

import numpy as np


class Streams:
    """All random streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[tuple[str, str], np.random.Generator] = {}

    def generator(self, purpose: str, key: str = "") -> np.random.Generator:
        """The stream of a purpose ("pull", "boot", "arrivals") for an entity (a pod's or node's name)."""
        found = self._generators.get((purpose, key))
        if found is None:
            found = self._generators[purpose, key] = np.random.default_rng(self._seed(purpose, key))
        return found

    def uniform(self, purpose: str, key: str = "") -> float:
        """One number in [0, 1) that depends on the seed and the names only: asked twice, it is the same."""
        return _in_unit(self._seed(purpose, key))

    def stem(self, purpose: str, beginning: str) -> Stem:
        """For many keys that begin alike: `stem(p, "n1#").uniform("7")` is `uniform(p, "n1#7")`."""
        return Stem(hashlib.blake2b(f"{self.seed}\0{purpose}\0{beginning}".encode(), digest_size=16))

    def _seed(self, purpose: str, key: str) -> int:
        digest = hashlib.blake2b(f"{self.seed}\0{purpose}\0{key}".encode(), digest_size=16).digest()
        return int.from_bytes(digest, "big")


class Stem:
    """The beginning of keys; see `Streams.stem`."""

    __slots__ = ("_begun",)

    def __init__(self, begun: hashlib.blake2b) -> None:
        self._begun = begun

    def uniform(self, rest: str) -> float:
        """The number of the key that goes on with `rest`."""
        digest = self._begun.copy()
        digest.update(rest.encode())
        return _in_unit(int.from_bytes(digest.digest(), "big"))


def _in_unit(seed: int) -> float:
    return (seed >> 75) / (1 << 53)
