"""The fingerprint of a pool's template: nodes made from another template have drifted.

Upstream hashes the template with a library whose numbers mean nothing outside of it (`NodePool.Hash`, version v3);
what counts is which fields take part. Requirements do not: those are compared with the labels of the node.

Follows pkg/apis/v1/nodepool.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from .node_pools import NodePool

HASH_VERSION: Final = "v3"


def template_hash(pool: NodePool) -> str:
    """A number in decimal digits: equal for equal templates. Order and absent values do not matter."""
    parts = [
        sorted(pool.labels.items()),
        sorted(pool.annotations.items()),
        sorted({msgspec.json.encode(taint) for taint in pool.taints}),
        sorted({msgspec.json.encode(taint) for taint in pool.startup_taints}),
        sorted(pool.marks.items()),
        pool.termination_grace_period,
        pool.expire_after,
    ]
    digest = hashlib.blake2b(msgspec.msgpack.encode(parts), digest_size=8).digest()
    return str(int.from_bytes(digest, "big"))
