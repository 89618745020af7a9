"""Every test gets a namespace of its own, in the real control plane and in ours."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from itertools import count

import pytest

from integration.control_plane import ControlPlane
from integration.side_by_side import Both
from integration.sides import RealSide, VirtualSide

_RUN = secrets.token_hex(3)
"""Two runs may share a cluster, as they do in test_given_cluster.py."""

_NUMBERS = count(1)


@pytest.fixture
def both(control_plane: ControlPlane) -> Iterator[Both]:
    """An empty namespace on both sides."""
    namespace = f"shop-{_RUN}-{next(_NUMBERS)}"
    with closing(control_plane.api) as api:
        made = Both(RealSide(api, namespace), VirtualSide(namespace))
        yield made
        # These belong to no namespace: the next test would meet them.
        made.delete_classes()
