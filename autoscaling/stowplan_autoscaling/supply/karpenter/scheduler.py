"""One scheduling round: pods to existing nodes, to open claims, to new claims.

A pure function of the state and the pods. The hardest pods come first; a pod that finds no place gives up one wish
after the other, and if that does not help returns to the end of the queue as it was, until a whole turn makes no
progress.

Follows pkg/controllers/provisioning/scheduling (scheduler.go, queue.go) of Karpenter core v1.15.0. Left out: reserved
capacity, volumes, dynamic resources, and the time-out of a minute, which virtual time does not know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final

from stowplan_scheduler.objects import Pod, PodDisruptionBudget
from stowplan_scheduler.tolerations import PREFER_NO_SCHEDULE

from .amounts import NODES, Axis, subtracted
from .budget_limits import BudgetLimits
from .claims import Claim, OpenClaims, amounts_left
from .cluster_state import ClusterState
from .existing_nodes import ExistingNodes
from .instance_types import MAX_INSTANCE_TYPES, InstanceType, TypeTable
from .min_values import unsatisfied
from .node_pools import NodePool, by_weight
from .node_rows import NodeRow, NodeRows
from .node_table import NodeTable
from .options import BEST_EFFORT, Options
from .pending import pending_pods
from .pods import is_provisionable
from .requirements import Algebra
from .shapes import Footing, Shape, Shapes
from .snapshot import Snapshot
from .state_nodes import KnownPod, StateNode
from .taints import TaintMemo
from .templates import Daemon, DomainUniverse, Template, build_templates
from .topology import Topology
from .topology_terms import TermMemo

__all__ = ["NO_POOLS", "Catalogue", "Engine", "Options", "Results", "Scheduler"]

NO_POOLS: Final = "no nodepools found"

_turn = attrgetter("turn")


def _comes_later(row: NodeRow) -> bool:
    return not row.is_initialized


class Catalogue:
    """What can be had: pools, the types of each, and the pods of daemon sets. A new one replaces it when that changes.

    Templates, domains and daemon overhead are worked out once.
    """

    def __init__(
        self, pools: Iterable[NodePool], tables: Mapping[str, TypeTable], daemon_pods: Sequence[Pod], options: Options,
        axis: Axis,
    ) -> None:  # fmt: skip
        self.pools = by_weight(pools)
        self.by_name = {pool.name: pool for pool in self.pools}
        self.tables = tables
        self.options = options
        self.axis = axis
        daemons = [Daemon(pod) for pod in daemon_pods if not pod.spec.resource_claims]
        self.templates = build_templates(
            self.pools, tables, daemons, options.well_known, relax_min_values=options.min_values_policy == BEST_EFFORT
        )
        self.rows = NodeRows(daemons, self.by_name)
        self.universe = DomainUniverse(self.pools, tables)
        self.launchable: dict[Footing, bool] = {}
        """Whether there is a machine for a pod that looks at nothing but the node, as far as that was asked."""
        self.tolerates_soft_taints = any(t.effect == PREFER_NO_SCHEDULE for pool in self.pools for t in pool.taints)


@dataclass(slots=True)
class Results:
    """What a round decided: claims to launch, the pods that existing nodes get, and why others found no place.

    Pods by key. A claim without enough different types left is not in `claims`; its pods are in `errors`.
    """

    claims: list[Claim] = field(default_factory=list)
    existing: list[tuple[StateNode, list[Pod]]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    unplaced: dict[str, Pod] = field(default_factory=dict)

    def fail(self, pod: Pod, reason: str) -> None:
        """A pod found no place."""
        self.errors[pod.key] = reason
        self.unplaced[pod.key] = pod

    @property
    def all_bound_pods_placed(self) -> bool:
        """Whether everything found a place but pods that were pending before."""
        return all(is_provisionable(pod) for pod in self.unplaced.values())


class Engine:
    """What rounds share: columns, shapes, the memo of requirements, and the last snapshot."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.axis = Axis()
        self.shapes = Shapes(self.axis, ignore_preferences=options.ignore_preferences)
        self.algebra = Algebra(options.well_known)
        self.taints = TaintMemo()
        self.terms = TermMemo(ignore_preferences=options.ignore_preferences)
        self._snapshot: tuple[Catalogue, Snapshot] | None = None
        self._limits: tuple[tuple[PodDisruptionBudget, ...], BudgetLimits] | None = None

    def table(self, types: Sequence[InstanceType]) -> TypeTable:
        """A table of instance types on the engine's columns."""
        return TypeTable(types, self.axis, self.options.well_known)

    def snapshot(self, state: ClusterState, catalogue: Catalogue) -> Snapshot:
        """The cluster as it is; the last one, if nothing has changed since."""
        limits, before = self._budget_limits(state), None
        if self._snapshot is not None:
            known, snapshot = self._snapshot
            if known is catalogue:
                if snapshot.version == state.version and snapshot.limits is limits:
                    return snapshot
                before = snapshot.table
        rows = catalogue.rows.of(state.in_order(), self.algebra)
        table = self._table_of(rows, before)
        snapshot = Snapshot(state, rows, table, pending_pods(state, self.options), limits)
        self._snapshot = catalogue, snapshot
        return snapshot

    def _budget_limits(self, state: ClusterState) -> BudgetLimits:
        """What budgets allow; the same object as long as they are the same."""
        budgets = tuple(state.budgets.values())
        if self._limits is None or self._limits[0] != budgets:
            self._limits = budgets, BudgetLimits(budgets, self._limits and self._limits[1])
        return self._limits[1]

    def _table_of(self, rows: Sequence[NodeRow], before: NodeTable | None) -> NodeTable:
        """The active nodes, initialized ones first."""
        active = [row for row in rows if not row.is_deleting]
        active.sort(key=_comes_later)
        if before is not None:
            return before.renewed(active)
        return NodeTable(active, self.axis, self.algebra, self.taints)


class Scheduler:
    """One round over the active nodes of a snapshot but for those in `gone`, by name.

    `moving`: pods on nodes that are to be placed as well. `consolidating`: they do not go to nodes that still settle.
    """

    def __init__(
        self, engine: Engine, catalogue: Catalogue, state: ClusterState, snapshot: Snapshot, now: int,
        moving: Sequence[KnownPod], gone: Iterable[str] = (), *, consolidating: bool = False,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._catalogue = catalogue
        self._snapshot = snapshot
        self._pods = [*snapshot.pending, *moving]
        rows = [snapshot.rows[name] for name in gone]
        self._existing = ExistingNodes(snapshot, rows, engine.algebra, engine.taints, now if consolidating else None)
        self._claims = OpenClaims(engine.algebra, engine.taints, len(snapshot.active))
        self._topology = Topology(
            engine.options.well_known, state, snapshot, catalogue.universe, frozenset(rows), moving, engine.terms
        )  # fmt: skip
        self._cheaper_than: float | None = None
        self._is_hopeless = False
        self._left: dict[str, dict[str, int]] = {}
        for pool in catalogue.pools:
            if pool.limits is not None:
                left = subtracted(pool.limits, snapshot.capacity(pool.name))
                for row in rows:
                    node = snapshot.active[row]
                    if node.pool == pool.name:
                        left = {name: nanos + node.capacity().get(name, 0) for name, nanos in left.items()}
                self._left[pool.name] = left

    def solve(self) -> Results:
        """Place the pods: those that wait, and those that move."""
        return self._results(self._place())

    def solve_below(self, price: float) -> Results | None:
        """The same where only a result with at most one claim, for a machine below that price per hour, is of use.

        None as soon as it is plain that there is none: claims and their pods only grow during a round, and types only
        drop out.
        """
        self._cheaper_than = price
        failed = self._place()
        return None if self._is_hopeless else self._results(failed)

    def _place(self) -> dict[str, tuple[Pod, str]]:
        """Place the pods; returns those that found no place, with the reason."""
        for shape in dict.fromkeys(known.shape for known in self._pods if known.shape.has_terms):
            self._topology.rules(shape)
        waiting = sorted(self._pods, key=_turn)
        queue: deque[KnownPod] = deque()
        last_length: dict[str, int] = {}
        failed: dict[str, tuple[Pod, str]] = {}
        for at, known in self._not_taken_by_nodes(waiting):
            reason = self._try(known)
            if self._is_hopeless:
                return failed
            if reason is not None:
                failed[known.key] = known.pod, reason
                queue.append(known)
                last_length[known.key] = len(queue) + len(waiting) - at - 1
        while queue and last_length.get(queue[0].key) != len(queue):
            known = queue.popleft()
            reason = self._try(known)
            if self._is_hopeless:
                break
            if reason is None:
                failed.pop(known.key, None)
                continue
            failed[known.key] = known.pod, reason
            queue.append(known)
            last_length[known.key] = len(queue)
        return failed

    def _not_taken_by_nodes(self, waiting: Sequence[KnownPod]) -> Iterator[tuple[int, KnownPod]]:
        """The pods, with their places, that are to be tried one by one; those between them were put on nodes."""
        at = 0
        while at < len(waiting):
            alike = self._alike(waiting, at)
            placed = self._fill(alike)
            yield from enumerate(alike[placed:], at + placed)
            at += len(alike)

    def _alike(self, pods: Sequence[KnownPod], at: int) -> Sequence[KnownPod]:
        """The pods from there on that all ask the same of nodes, and of nothing but nodes; at least the first one."""
        first = pods[at]
        footing = first.shape.footing
        if footing is None or not self._topology.rules(first.shape).are_none:
            return pods[at : at + 1]
        is_blank, minds_candidates = self._topology.is_blank, self._existing.minds_candidates
        is_candidate, end = self._is_candidate(first), at
        for known in islice(pods, at, None):
            shape = known.shape
            if shape.footing is not footing or (minds_candidates and self._is_candidate(known) != is_candidate):
                break
            if (shape.has_terms or not is_blank) and not self._topology.rules(shape).are_none:
                break
            end += 1
        return pods[at:end]

    def _fill(self, alike: Sequence[KnownPod]) -> int:
        """Place pods that are alike on nodes, as many as these take."""
        first = alike[0]
        rules = self._topology.rules(first.shape)
        pods = [known.pod for known in alike]
        return self._existing.fill(pods, first.shape, rules, is_candidate=self._is_candidate(first))

    def _is_candidate(self, known: KnownPod) -> bool:
        """Whether the pod has begun on a node that is still wanted: the node is a candidate for disruption."""
        return known.has_begun and known.pod.spec.node_name not in self._snapshot.deleting_names

    def _try(self, known: KnownPod) -> str | None:
        """Place the pod, one wish less at a time. Returns why not."""
        shape = known.shape
        soft = self._catalogue.tolerates_soft_taints
        while True:
            reason = self._add(known, shape)
            if reason is None:
                return None
            looser = self._engine.shapes.relaxed(shape, tolerate_prefer_no_schedule=soft)
            if looser is None or shape.has_claims:
                return reason
            shape = looser

    def _add(self, known: KnownPod, shape: Shape) -> str | None:
        pod = known.pod
        if shape.has_claims:
            return "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter"
        rules = self._topology.rules(shape)
        if self._existing.place(pod, shape, self._topology, rules, is_candidate=self._is_candidate(known)):
            return None
        if self._claims.place(pod, shape, self._topology, rules):
            self._look_at_claims()
            return None
        return self._open(pod, shape)

    def _look_at_claims(self) -> None:
        """Whether the claims are still few and cheap enough."""
        if self._cheaper_than is None:
            return
        claims = self._claims.claims
        if len(claims) > 1:
            self._is_hopeless = True
            return
        template = claims[0].template
        cheap = template.table.cheapest(template.requirements) < self._cheaper_than
        self._is_hopeless = not bool((claims[0].mask & cheap).any())

    def _open(self, pod: Pod, shape: Shape) -> str | None:
        """Place the pod on a new claim of the first pool that has one. Returns why not."""
        rules = self._topology.rules(shape)
        reasons = []
        relax = self._engine.options.min_values_policy == BEST_EFFORT
        for template in self._catalogue.templates:
            claim, reason = self._new_claim(template)
            if claim is None:
                reasons.append(reason)
                continue
            if not self._topology.host_is_open(rules, shape, claim.host):
                reasons.append("unsatisfiable topology constraint")
                continue
            verdict = self._claims.attempt(claim, pod, shape, self._topology, rules, {}, relax_min_values=relax)
            if verdict.requirements is None or verdict.mask is None:
                reasons.append(verdict.reason)
                continue
            claim.take(pod, shape, verdict.requirements, verdict.mask)
            self._claims.open(claim, self._topology)
            self._topology.record(shape, template.taints, claim.requirements, claim.host)
            left = self._left.get(claim.pool)
            if left is not None:
                self._left[claim.pool] = amounts_left(left, claim)
            self._look_at_claims()
            return None
        return "; ".join(reasons) or "nodepool requirements filtered out all available instance types"

    def _new_claim(self, template: Template) -> tuple[Claim | None, str]:
        mask = template.mask
        left = self._left.get(template.pool.name)
        if left is not None:
            if left.get(NODES) == 0:
                return None, "node limits have been exhausted for nodepool"
            mask = mask & template.table.within(left)
            if not mask.any():
                return None, "all available instance types exceed limits for nodepool"
        return Claim(template, mask, f"hostname-placeholder-{len(self._claims.claims):04d}"), ""

    def _results(self, failed: Mapping[str, tuple[Pod, str]]) -> Results:
        results = Results()
        for pod, reason in failed.values():
            results.fail(pod, reason)
        strict = self._engine.options.min_values_policy != BEST_EFFORT
        for claim in self._claims.in_order():
            claim.finish()
            if claim.mask.sum() > MAX_INSTANCE_TYPES:
                kept = claim.types[:MAX_INSTANCE_TYPES]
                if strict and unsatisfied(kept, claim.requirements):
                    for pod in claim.pods:
                        results.fail(pod, "NodePool couldn't meet minValues requirements")
                    continue
                claim.mask = claim.template.table.mask_of(kept)
            results.claims.append(claim)
        for row, pods in sorted(self._existing.pods.items()):
            results.existing.append((self._existing.node(row), pods))
        return results
