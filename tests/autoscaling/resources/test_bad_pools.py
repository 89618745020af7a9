"""Whatever a person gets wrong about machines, node pools and who decides about them is one line."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.inputs import InputError
from stowplan_autoscaling.resources import load_simulation
from support.simulations import Change, at, small, write

MACHINE: dict[str, Any] = {"name": "m", "capacity": {"cpu": 4, "memory": "16Gi"}, "price": "0.2"}


def pool(path: str = "", value: Any = None) -> Change:
    """Adds a type of machines and a pool of it; then sets a field, such as nodePools.0.max."""

    def change(simulation: dict[str, Any]) -> None:
        simulation["spec"]["instanceTypes"] = [deepcopy(MACHINE)]
        simulation["spec"]["nodePools"] = [{"name": "burst", "instanceTypes": ["m*"], "max": 3}]
        if path:
            at(f"spec.{path}", value)(simulation)

    return change


def without(out: dict[str, Any]) -> Change:
    """Two zones, a type that no pool has, and a time without some machines."""

    def change(simulation: dict[str, Any]) -> None:
        pool("nodePools.0.zones", ["a", "b"])(simulation)
        simulation["spec"]["instanceTypes"].append({**deepcopy(MACHINE), "name": "spare"})
        simulation["spec"]["provider"] = {"stockOuts": [{"at": "1m", **out}]}

    return change


def changing(*changes: dict[str, Any], engine: str = "karpenter") -> Change:
    """A pool that changes during the run."""

    def change(simulation: dict[str, Any]) -> None:
        pool("nodePools.0.changes", list(changes))(simulation)
        simulation["spec"]["supply"] = {engine: {}}

    return change


def reserved(key: str, message: str) -> tuple[Change, str]:
    """A label of a pool that is not the pool's to give."""
    return pool("nodePools.0.labels", {key: "x"}), f'spec.nodePools[0].labels: "{key}": cannot be set here: {message}'


BUDGETS = "spec.nodePools[0].disruption.budgets[0]"
CRON_UTC = "must be a cron schedule in UTC such as 0 9 * * 1-5 or @daily"
WHOLE_MINUTES = "must be hours and whole minutes such as 30m, 8h or 1h30m"
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LABEL_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)

CASES: dict[str, tuple[Change, str]] = {
    "a budget of a schedule that is none": (
        pool("nodePools.0.disruption.budgets", [{"schedule": "x x", "duration": "1h"}]),
        f'{BUDGETS}.schedule: "x x": {CRON_UTC}: expected exactly 5 fields, found 2: [x x]',
    ),
    "a budget in a time zone": (
        pool("nodePools.0.disruption.budgets", [{"schedule": "TZ=Asia/Tokyo 0 9 * * *", "duration": "1h"}]),
        (
            f'{BUDGETS}.schedule: "TZ=Asia/Tokyo 0 9 * * *": {CRON_UTC}: expected exactly 5 fields, found 6: '
            "[TZ=Asia/Tokyo 0 9 * * *]"
        ),
    ),
    "a budget of too many": (
        pool("nodePools.0.disruption.budgets", [{"nodes": "200%"}]),
        f'{BUDGETS}.nodes: "200%": must be a number or a percentage such as 3 or 10%, at most 100%',
    ),
    "a budget of nothing one can count": (
        pool("nodePools.0.disruption.budgets", [{"nodes": "abc"}]),
        f'{BUDGETS}.nodes: "abc": must be a number or a percentage such as 3 or 10%',
    ),
    "a budget of a duration in seconds": (
        pool("nodePools.0.disruption.budgets", [{"schedule": "@daily", "duration": "90s"}]),
        f'{BUDGETS}.duration: "90s": {WHOLE_MINUTES}',
    ),
    "a budget of a duration in fractions": (
        pool("nodePools.0.disruption.budgets", [{"schedule": "@daily", "duration": "1.5h"}]),
        f'{BUDGETS}.duration: "1.5h": {WHOLE_MINUTES}',
    ),
    "a budget of no time": (
        pool("nodePools.0.disruption.budgets", [{"schedule": "@daily", "duration": "0m"}]),
        f'{BUDGETS}.duration: "0m": must be greater than zero',
    ),
    "a budget of a reason that is none": (
        pool("nodePools.0.disruption.budgets", [{"reasons": ["Sick"]}]),
        f'{BUDGETS}.reasons[0]: "Sick": must be Underutilized, Empty, Drifted or Unhealthy',
    ),
    "a change of nothing": (
        changing({"at": "1m"}),
        "spec.nodePools[0].changes[0]: nothing changes: set at least one other field than at",
    ),
    "a change at no time": (changing({"labels": {"a": "b"}}), "spec.nodePools[0].changes[0].at: must be set"),
    "a change after the end": (
        changing({"at": "99h", "labels": {"a": "b"}}),
        'spec.nodePools[0].changes[0].at: "99h": must be before the end of the run, 10m',
    ),
    "a change before the one before": (
        changing({"at": "2m", "labels": {"a": "b"}}, {"at": "1m", "labels": {}}),
        'spec.nodePools[0].changes[1].at: "1m": must be at least that of the change before, 2m',
    ),
    "a change to what there is not": (
        changing({"at": "1m", "instanceTypes": ["x"]}),
        'spec.nodePools[0].changes[0].instanceTypes[0]: no instance type "x"; known are m',
    ),
    "a change to terms without a price": (
        changing({"at": "1m", "capacityTypes": ["spot"]}),
        (
            "spec.nodePools[0].changes[0].instanceTypes: m: has no price spot: set price or spotPrice of the instance "
            "type, or give it a row in spec.prices.file"
        ),
    ),
    "a change to a label that is not the pool's": (
        changing({"at": "1m", "labels": {"kubernetes.io/arch": "arm64"}}),
        (
            'spec.nodePools[0].changes[0].labels: "kubernetes.io/arch": cannot be set here: architecture of the '
            "instance type sets it"
        ),
    ),
    "a change of what is no template": (
        changing({"at": "1m", "weight": 3}),
        (
            "spec.nodePools[0].changes[0].weight: unknown field; known are at, capacityTypes, instanceTypes, labels, "
            "startupTaints, taints, zones"
        ),
    ),
    "a change of a pool of the Cluster Autoscaler": (
        changing({"at": "1m", "labels": {"a": "b"}}, engine="clusterAutoscaler"),
        "spec.nodePools[0].changes: are Karpenter's: nobody else replaces nodes whose pool has changed",
    ),
    "a priority that the expander ignores": (
        pool("nodePools.0.priority", -2),
        "spec.nodePools[0].priority: -2: must be at least 0",
    ),
    "the label of the pool": reserved("stowplan.io/node-pool", "the name of the pool sets it"),
    "the label of node groups": reserved("stowplan.io/node-group", "it belongs to spec.cluster.nodeGroups"),
    "the label of the host": reserved("kubernetes.io/hostname", "each node has its own name"),
    "the label of the zone": reserved("topology.kubernetes.io/zone", "zones of the pool set it"),
    "the label of the type": reserved("node.kubernetes.io/instance-type", "the name of the instance type sets it"),
    "the label of the architecture": reserved("kubernetes.io/arch", "architecture of the instance type sets it"),
    "the label of the system": reserved("kubernetes.io/os", "os of the instance type sets it"),
    "labels of Karpenter": reserved(
        "karpenter.sh/capacity-type",
        "it is Karpenter's own; name and capacityTypes of the pool set such labels",
    ),
    "a label of a type that is the zone's": (
        pool("instanceTypes.0.labels", {"topology.kubernetes.io/zone": "a"}),
        'spec.instanceTypes[0].labels: "topology.kubernetes.io/zone": cannot be set here: zones of the pool set it',
    ),
    "a label without name": (
        pool("nodePools.0.labels", {"a.io/": "x"}),
        'spec.nodePools[0].labels: "a.io/": name part must be non-empty',
    ),
    "a value that is no label's": (
        pool("nodePools.0.labels", {"a.io/b": "x y"}),
        f'spec.nodePools[0].labels[a.io/b]: "x y": {LABEL_VALUE}',
    ),
    "a key that is no taint's": (
        pool("nodePools.0.taints", [{"key": "a b", "effect": "NoSchedule"}]),
        f'spec.nodePools[0].taints[0].key: "a b": {LABEL_KEY}',
    ),
    "a taint twice": (
        pool("nodePools.0.startupTaints", [{"key": "a", "value": v, "effect": "NoExecute"} for v in ("1", "2")]),
        "spec.nodePools[0].startupTaints[1]: a:NoExecute: occurs twice",
    ),
    "a zone without name": (pool("nodePools.0.zones", [""]), "spec.nodePools[0].zones[0]: must not be empty"),
    "a zone that is no label": (
        pool("nodePools.0.zones", ["a", "zone b"]),
        f'spec.nodePools[0].zones[1]: "zone b": {LABEL_VALUE}',
    ),
    "a zone twice": (pool("nodePools.0.zones", ["a", "a"]), 'spec.nodePools[0].zones[1]: "a": occurs twice'),
    "terms twice": (
        pool("nodePools.0.capacityTypes", ["on-demand", "on-demand"]),
        'spec.nodePools[0].capacityTypes[1]: "on-demand": occurs twice',
    ),
    "a type whose name is no label": (
        pool("instanceTypes.0.name", "m large"),
        f'spec.instanceTypes[0].name: "m large": {LABEL_VALUE}',
    ),
    "a type without name": (pool("instanceTypes.0.name", ""), "spec.instanceTypes[0].name: must be set"),
    "a machine without memory": (
        pool("instanceTypes.0.capacity", {"cpu": 4}),
        "spec.instanceTypes[0].capacity.memory: must be set: a machine without it runs no pod",
    ),
    "a machine of no cpu": (
        pool("instanceTypes.0.capacity", {"cpu": 0, "memory": "1Gi"}),
        'spec.instanceTypes[0].capacity.cpu: "0": must be greater than zero: a machine without it runs no pod',
    ),
    "a machine of no pods": (
        pool("instanceTypes.0.capacity.pods", "0"),
        'spec.instanceTypes[0].capacity.pods: "0": must be greater than zero: a machine without it runs no pod',
    ),
    "a boot that ends before it begins": (
        pool("provider.boot", {"minimum": "30s", "maximum": "10s"}),
        'spec.provider.boot.maximum: "10s": must be at least minimum, 30s',
    ),
    "a batch shorter than its pause": (
        pool("supply.karpenter", {"batchIdleDuration": "20s"}),
        'spec.supply.karpenter.batchMaxDuration: "10s": must be at least batchIdleDuration, 20s',
    ),
    "more than all": (
        at("spec.goals", [{"metric": "used.cpu", "limit": "120%"}]),
        'spec.goals[0]: limit: "120%": must be between 0 and 1, or a percentage',
    ),
    "a stock-out in a zone of nobody": (
        without({"zone": "c"}),
        'spec.provider.stockOuts[0].zone: no zone "c"; known are a, b',
    ),
    "a stock-out on terms of nobody": (
        without({"pool": "burst", "zone": "a", "capacityType": "spot"}),
        "spec.provider.stockOuts[0].capacityType: spot: pool burst rents no such machine",
    ),
    "a stock-out of a type of nobody": (
        without({"instanceType": "spare"}),
        'spec.provider.stockOuts[0].instanceType: "spare": no machine of it belongs to any pool',
    ),
    "a label of a group that is none": (
        at("spec.cluster.nodeGroups.0.labels", {"a.io/b": "x y"}),
        f'spec.cluster.nodeGroups[0].labels[a.io/b]: "x y": {LABEL_VALUE}',
    ),
    "a zone of a group that is no label": (
        at("spec.cluster.nodeGroups.0.zones", ["zone b"]),
        f'spec.cluster.nodeGroups[0].zones[0]: "zone b": {LABEL_VALUE}',
    ),
    "a fault of a pool that is none": (
        pool("faults", [{"at": "1m", "nodeLost": {"nodePool": "brst", "count": 1}}]),
        'spec.faults[0].nodeLost.nodePool: no pool "brst"; did you mean burst?',
    ),
    "a goal twice": (
        at("spec.goals", [{"metric": "cost"}, {"metric": "cost", "limit": 5}]),
        'spec.goals[1].metric: "cost": occurs twice',
    ),
}


@pytest.mark.parametrize(("change", "message"), CASES.values(), ids=CASES)
def test_a_mistake_is_one_line_with_file_and_path(change: Change, message: str, tmp_path: Path) -> None:
    """With what is allowed."""
    simulation = small()
    change(simulation)
    path = write(tmp_path, simulation)
    with pytest.raises(InputError) as failure:
        load_simulation(path)
    assert str(failure.value) == f"{path}: {message}"


@pytest.mark.parametrize("engine", ["karpenter", "clusterAutoscaler"])
def test_an_engine_without_pools_is_a_warning(engine: str, tmp_path: Path) -> None:
    """It would never do anything."""
    simulation = small()
    simulation["spec"]["supply"] = {engine: {}}
    assert load_simulation(write(tmp_path, simulation)).warnings == (
        f"spec.supply.{engine}: there are no spec.nodePools: it has nothing to decide about",
    )


def test_a_pool_with_all_that_it_can_have_is_no_mistake(tmp_path: Path) -> None:
    """Labels in the domain of Kubernetes, the ends of what budgets allow, all sorts of schedules."""
    simulation = small()
    budgets = [
        {"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"},
        {"nodes": "100%", "schedule": "@daily", "duration": "1h30m0s", "reasons": ["Unhealthy", "Empty"]},
    ]
    pool("nodePools.0.disruption.budgets", budgets)(simulation)
    simulation["spec"]["nodePools"][0]["labels"] = {"node.kubernetes.io/lifecycle": "x", "mykarpenter.sh/a": ""}
    simulation["spec"]["nodePools"][0]["taints"] = [{"key": "a", "effect": e} for e in ("NoSchedule", "NoExecute")]
    [found] = load_simulation(write(tmp_path, simulation)).pools
    assert [budget.nodes for budget in found.spec.disruption.budgets] == ["0", "100%"]
    assert found.labels(found.types[0], found.types[0].offers[0])["mykarpenter.sh/a"] == ""


def test_a_pool_may_begin_with_all_that_it_can_have(tmp_path: Path) -> None:
    """Three of at most three."""
    simulation = small()
    pool("nodePools.0.initial", 3)(simulation)
    [found] = load_simulation(write(tmp_path, simulation)).pools
    assert (found.spec.first_count, found.spec.max) == (3, 3)


def test_a_zone_may_fail_that_only_a_pool_has(tmp_path: Path) -> None:
    """Its nodes need not be there at the start."""
    simulation = small()
    pool("nodePools.0.zones", ["c"])(simulation)
    simulation["spec"]["faults"] = [{"at": "1m", "zoneLost": {"zone": "c"}}]
    [fault] = load_simulation(write(tmp_path, simulation)).spec.faults
    assert fault.zone_lost is not None
    assert fault.zone_lost.zone == "c"


def test_a_pool_without_zones_has_the_cheapest_price_of_any(tmp_path: Path) -> None:
    """3 an hour in zone a, 2 in zone b."""
    offerings = [
        {
            "Price": price,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ],
        }
        for zone, price in (("a", 3), ("b", 2))
    ]
    entry = {"name": "m", "resources": {"cpu": "4", "memory": "16Gi", "pods": "110"}, "offerings": offerings}
    (tmp_path / "types.json").write_text(json.dumps([entry]))
    simulation = small()
    simulation["spec"]["instanceTypesFile"] = "types.json"
    simulation["spec"]["nodePools"] = [{"name": "burst", "instanceTypes": ["m"], "max": 3}]
    [found] = load_simulation(write(tmp_path, simulation)).pools
    assert [offer.price for offer in found.types[0].offers] == [2]
