"""Mode `karpenter`: which claims Karpenter launches, where pods go, and what it disrupts.

A line is a scenario with pools, nodes and pods; the answer is the decision of one provisioning round, or the commands
of successive disruption rounds, in the format of the recorded answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.supply.karpenter.claims import Claim
from stowplan_autoscaling.supply.karpenter.disruption import Candidate, Command, DisruptionController, DisruptionQueue
from stowplan_autoscaling.supply.karpenter.disruption.balanced import scores
from stowplan_autoscaling.supply.karpenter.disruption.budgets import remaining
from stowplan_autoscaling.supply.karpenter.disruption.candidates import PoolTotals
from stowplan_autoscaling.supply.karpenter.disruption.consolidation import by_ratio
from stowplan_autoscaling.supply.karpenter.disruption.simulation import Scene
from stowplan_autoscaling.supply.karpenter.disruption.validation import VALIDATION_DELAY
from stowplan_autoscaling.supply.karpenter.instance_types import available_offerings
from stowplan_autoscaling.supply.karpenter.kwok_catalogue import DOMAIN
from stowplan_autoscaling.supply.karpenter.labels import HOSTNAME, INITIALIZED, INSTANCE_TYPE, NODE_POOL, REGISTERED
from stowplan_autoscaling.supply.karpenter.provisioner import schedule
from stowplan_autoscaling.supply.karpenter.requirement import GREATER_OR_EQUAL, LESS_OR_EQUAL, Requirement
from stowplan_autoscaling.supply.karpenter.scheduler import Results
from stowplan_scheduler.objects import Pod

from .karpenter_world import EPOCH, PlacedNode, PodMaker, World, daemon_pod
from .quantity_format import format_like

_LEFT_OUT: Final = frozenset({HOSTNAME, INSTANCE_TYPE, NODE_POOL, REGISTERED, INITIALIZED, f"{DOMAIN}/kwoknodeclass"})


def run_karpenter(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result line of one scenario."""
    maker = PodMaker()
    nodes = [(raw, maker.pods(raw.get("pods"), raw["name"])) for raw in scenario.get("nodes") or ()]
    pending = maker.pods(scenario.get("pending"), "")
    daemons = [daemon_pod(maker.pod(raw, raw["name"], "")) for raw in scenario.get("daemonSets") or ()]
    if scenario["action"] == "disrupt":
        return {"id": scenario["id"], "result": {"steps": _steps(scenario, nodes, pending, daemons)}}
    world = World(scenario, nodes, pending, daemons)
    results = schedule(world.engine, world.catalogue, world.state, EPOCH)
    return {"id": scenario["id"], "result": {"provision": _provision(results, world, daemons)}}


# ---- disruption ----------------------------------------------------------------------------------------------------


def _steps(
    scenario: dict[str, Any], nodes: Sequence[PlacedNode], pending: Sequence[Pod], daemons: Sequence[Pod]
) -> list[dict[str, Any]]:
    """One command after the other, each on the cluster that the one before left."""
    steps: list[dict[str, Any]] = []
    for number in range(scenario.get("steps") or 1):
        world = World(scenario, nodes, pending, daemons)
        lines, command = _disrupt(world, daemons)
        steps.append({"methods": lines})
        if command is None:
            break
        nodes = _carried_out(nodes, command, world, number)
    return steps


def _disrupt(world: World, daemons: Sequence[Pod]) -> tuple[list[dict[str, Any]], Command | None]:
    """The methods in their order, up to the first with a command that is confirmed."""
    scene = Scene(world.engine, world.catalogue, world.state)
    now = EPOCH
    lines = []
    for method in DisruptionController(DisruptionQueue(world.state)).methods:
        candidates, totals = method.candidates(scene, now)
        line: dict[str, Any] = {"reason": method.reason, "type": method.kind, "candidates": _candidates(candidates)}
        lines.append(line)
        if not candidates:
            continue
        budgets = remaining(world.catalogue.pools, scene.snapshot.pool_counts(), method.reason, now)
        line["budget"] = dict(budgets)
        command = method.propose(scene, candidates, totals, budgets, now)
        if command is not None and method.needs_confirmation:
            now += VALIDATION_DELAY
            command = method.confirm(scene, command, now)
        if command is not None:
            line["command"] = _command(command, totals, world, daemons)
            return lines, command
    return lines, None


def _candidates(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    return [
        {"node": c.name, "pool": c.pool.name, "price": c.price, "disruptionCost": c.cost, "ratio": c.ratio}
        for c in by_ratio(candidates)
    ]


def _command(
    command: Command, totals: Mapping[str, PoolTotals], world: World, daemons: Sequence[Pod]
) -> dict[str, Any]:
    undefined = world.options.well_known
    return {
        "decision": command.decision,
        "nodes": sorted(candidate.name for candidate in command.candidates),
        "replacement": [claim_line(claim, world, daemons) for claim in command.replacements],
        "moves": moves(command.results),
        "savings": command.savings(undefined),
        "scores": {
            pool: {
                "savingsFraction": score.savings,
                "disruptionFraction": score.disruption,
                "score": score.value,
                "approved": score.is_approved,
            }
            for pool, score in scores(command, totals, undefined).items()
        },
    }


def _carried_out(nodes: Sequence[PlacedNode], command: Command, world: World, number: int) -> list[PlacedNode]:
    """The nodes once the command is done: candidates gone, replacements there, pods where they were to go."""
    gone = {candidate.name for candidate in command.candidates}
    homeless = {pod.key: pod for raw, pods in nodes if raw["name"] in gone for pod in pods}
    left = {raw["name"]: (raw, list(pods)) for raw, pods in nodes if raw["name"] not in gone}

    def move(pods: Iterable[Pod], name: str) -> list[Pod]:
        moved = [homeless.pop(pod.key) for pod in pods if pod.key in homeless]
        return [replace(pod, spec=replace(pod.spec, node_name=name)) for pod in moved]

    for node, pods in command.results.existing:
        left[node.name][1].extend(move(pods, node.name))
    for index, claim in enumerate(command.replacements):
        launch = _launch(claim, world)[1]
        if launch is None:
            raise ValueError(f"nothing to launch for {claim.pool}")
        name = f"repl-{number}-{index}"
        raw = {
            "name": name, "nodePool": claim.pool, "instanceType": launch["types"][0], "zone": launch["zones"][0],
            "capacityType": launch["capacityTypes"][0],
        }  # fmt: skip
        left[name] = raw, move(claim.pods, name)
    return list(left.values())


# ---- lines ---------------------------------------------------------------------------------------------------------


def _provision(results: Results, world: World, daemons: Sequence[Pod]) -> dict[str, Any]:
    claims = [claim_line(claim, world, daemons) for claim in results.claims]
    return {
        "newNodeClaims": sorted(claims, key=lambda line: line["pods"][0]),
        "existing": moves(results),
        "errors": {key.partition("/")[2]: reason for key, reason in results.errors.items()},
    }


def moves(results: Results) -> dict[str, list[str]]:
    """Existing node -> names of the pods that it gets."""
    return {node.name: sorted(pod.metadata.name for pod in pods) for node, pods in results.existing}


def claim_line(claim: Claim, world: World, daemons: Sequence[Pod]) -> dict[str, Any]:
    """A claim with what a launch would take: the cheapest offering, and every type, kind and zone that reaches it."""
    types, launch = _launch(claim, world)
    return {
        "nodePool": claim.pool,
        "pods": sorted(pod.metadata.name for pod in claim.pods),
        "requests": {name: format_like(name, nanos, [*claim.pods, *daemons]) for name, nanos in claim.requests.items()},
        "requirements": [_requirement(r) for r in claim.requirements if r.key not in _LEFT_OUT],
        "taints": [_taint(taint) for taint in claim.template.taints],
        "instanceTypes": types,
        "launch": launch,
    }


def _launch(claim: Claim, world: World) -> tuple[list[str], dict[str, Any] | None]:
    rows: list[tuple[float, str]] = []
    found: list[tuple[float, str, str, str]] = []
    for item in claim.types:
        offers = available_offerings(item, claim.requirements, world.options.well_known)
        if offers:
            rows.append((min(offer.price for offer in offers), item.name))
            found += [(offer.price, item.name, offer.capacity_type, offer.zone) for offer in offers]
    if not found:
        return [], None
    price = min(row[0] for row in found)
    best = [row for row in found if row[0] == price]
    names, kinds, zones = (sorted({row[index] for row in best}) for index in (1, 2, 3))
    launch = {"price": price, "types": names, "capacityTypes": kinds, "zones": zones}
    return [name for _, name in sorted(rows)], launch


def _requirement(requirement: Requirement) -> dict[str, Any]:
    operator, values = requirement.operator, sorted(requirement.values)
    if requirement.gte is not None:
        operator = GREATER_OR_EQUAL
    elif requirement.lte is not None:
        operator = LESS_OR_EQUAL
    return {
        "key": requirement.key, "operator": operator, "values": values, "minValues": requirement.min_values,
    }  # fmt: skip


def _taint(taint: Any) -> dict[str, str]:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}
