"""Writes nodes.yaml of the demo cluster: four pools over three zones. Run it after a change of the table below.

python examples/demo/generate_nodes.py > examples/demo/nodes.yaml
"""

from __future__ import annotations

from typing import NamedTuple


class Pool(NamedTuple):
    """Machines of one type: how many in each zone, and what is left on each for pods."""

    per_zone: int
    instance: str
    allocatable: str
    taint: str = ""
    labels: str = ""


ZONES = ("zone-a", "zone-b", "zone-c")

POOLS = {
    "general": Pool(16, "g8", 'cpu: 7910m, memory: 29Gi, ephemeral-storage: 90Gi, pods: "110"'),
    "memory": Pool(4, "m16", 'cpu: 15890m, memory: 122Gi, ephemeral-storage: 90Gi, pods: "110"'),
    "spot": Pool(
        8,
        "g8",
        'cpu: 7910m, memory: 29Gi, ephemeral-storage: 90Gi, pods: "110"',
        taint='{key: demo.stowplan.io/spot, value: "true", effect: PreferNoSchedule}',
    ),
    "gpu": Pool(
        3,
        "a32x4",
        'cpu: 31850m, memory: 240Gi, ephemeral-storage: 400Gi, pods: "110", nvidia.com/gpu: "4"',
        taint="{key: nvidia.com/gpu, value: present, effect: NoSchedule}",
        labels="demo.stowplan.io/accelerator: a-series",
    ),
}

HEADER = """\
# The nodes of the demo cluster. Made by generate_nodes.py; edit the table there.
#
# pool     nodes  each
# general     48  8 cores, 32 GiB
# memory      12  16 cores, 128 GiB
# spot        24  8 cores, 32 GiB, tainted PreferNoSchedule: cheap, but may vanish
# gpu          9  32 cores, 256 GiB, 4 GPUs, tainted NoSchedule: only for pods that tolerate it
"""


def document(pool_name: str, pool: Pool, zone: str, number: int) -> str:
    """One Node as YAML."""
    name = f"{pool_name}-{zone[-1]}{number:02d}"
    labels = [
        f"kubernetes.io/hostname: {name}",
        f"topology.kubernetes.io/zone: {zone}",
        f"node.kubernetes.io/instance-type: {pool.instance}",
        f"demo.stowplan.io/pool: {pool_name}",
    ]
    if pool.labels:
        labels.append(pool.labels)
    lines = ["---", "apiVersion: v1", "kind: Node", "metadata:", f"  name: {name}", "  labels:"]
    lines += [f"    {label}" for label in labels]
    if pool.taint:
        lines += ["spec:", f"  taints: [{pool.taint}]"]
    lines += ["status:", f"  allocatable: {{{pool.allocatable}}}"]
    return "\n".join(lines)


def main() -> None:
    """Prints all nodes."""
    print(HEADER, end="")
    for pool_name, pool in POOLS.items():
        for number in range(1, pool.per_zone + 1):
            for zone in ZONES:
                print(document(pool_name, pool, zone, number))


if __name__ == "__main__":
    main()
