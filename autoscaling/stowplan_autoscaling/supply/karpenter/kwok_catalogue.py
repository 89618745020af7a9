"""The catalogue of Karpenter's kwok provider: 144 made-up types in four zones, spot and on demand.

Follows kwok/tools/gen_instance_types.go and kwok/cloudprovider/helpers.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

import math
from typing import Final

from stowplan_scheduler.quantity import NANOS, NANOS_PER_MILLI

from .instance_types import InstanceType, Offering
from .labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, SPOT, WELL_KNOWN, ZONE
from .requirement import one_of
from .requirements import Requirements

DOMAIN: Final = "karpenter.kwok.sh"
CPU_LABEL: Final = f"{DOMAIN}/instance-cpu"
FAMILY_LABEL: Final = f"{DOMAIN}/instance-family"
MEMORY_LABEL: Final = f"{DOMAIN}/instance-memory"
SIZE_LABEL: Final = f"{DOMAIN}/instance-size"

KWOK_WELL_KNOWN: Final = WELL_KNOWN | {CPU_LABEL, FAMILY_LABEL, MEMORY_LABEL, SIZE_LABEL}
ZONES: Final = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")

_CORES: Final = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
_FAMILIES: Final = {2: "c", 4: "s", 8: "m"}
_ROUNDED_DOWN: Final = frozenset({"c-48x-arm64-windows", "c-192x-arm64-linux"})
"""Types whose price in the published catalogue is one bit below that of their equals, from another order of adding."""

_GIBIBYTE: Final = 1 << 30
_MEBIBYTE: Final = 1 << 20


def kwok_instance_types() -> list[InstanceType]:
    """All of them, in the order of the catalogue."""
    return [
        _instance_type(cores, factor, os, arch)
        for cores in _CORES
        for factor in _FAMILIES
        for os in ("linux", "windows")
        for arch in ("amd64", "arm64")
    ]


def _instance_type(cores: int, factor: int, os: str, arch: str) -> InstanceType:
    family = _FAMILIES[factor]
    name = f"{family}-{cores}x-{arch}-{os}"
    gibibytes = cores * factor
    price = 0.025 * cores + 0.001 * float(gibibytes * _GIBIBYTE) / 1e9
    if name in _ROUNDED_DOWN:
        price = math.nextafter(price, 0.0)
    memory = f"{gibibytes // 1024}Ti" if gibibytes % 1024 == 0 else f"{gibibytes}Gi"
    return InstanceType(
        name=name,
        requirements=Requirements.of(
            [
                one_of(INSTANCE_TYPE, name),
                one_of(ARCH, arch),
                one_of(OS, os),
                one_of(ZONE, *ZONES),
                one_of(CAPACITY_TYPE, SPOT, ON_DEMAND),
                one_of(SIZE_LABEL, str(cores)),
                one_of(FAMILY_LABEL, family),
                one_of(CPU_LABEL, str(cores)),
                one_of(MEMORY_LABEL, memory),
            ]
        ),
        offerings=tuple(
            offering
            for zone in ZONES
            for offering in (Offering(zone, SPOT, price * 0.7), Offering(zone, ON_DEMAND, price))
        ),
        capacity={
            "cpu": cores * NANOS,
            "memory": gibibytes * _GIBIBYTE * NANOS,
            "pods": min(cores * 16, 1024) * NANOS,
            "ephemeral-storage": 20 * _GIBIBYTE * NANOS,
        },
        overhead={"cpu": 100 * NANOS_PER_MILLI, "memory": 10 * _MEBIBYTE * NANOS},
    )
