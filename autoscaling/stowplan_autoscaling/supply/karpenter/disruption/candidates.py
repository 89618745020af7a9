"""Candidates: nodes that may be taken away, with what that costs and what it saves.

Follows NewCandidate of pkg/controllers/disruption/types.go, GetCandidatesWithTotals of helpers.go and the checks of
pkg/controllers/state/statenode.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from stowplan_autoscaling.supply.karpenter.budget_limits import BudgetLimits
from stowplan_autoscaling.supply.karpenter.instance_types import InstanceType
from stowplan_autoscaling.supply.karpenter.labels import CAPACITY_TYPE, DO_NOT_DISRUPT, INSTANCE_TYPE, TRUE, ZONE
from stowplan_autoscaling.supply.karpenter.node_claims import NodeClaim
from stowplan_autoscaling.supply.karpenter.node_pools import BALANCED, NodePool
from stowplan_autoscaling.supply.karpenter.pods import is_disruptable
from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue
from stowplan_autoscaling.supply.karpenter.snapshot import Snapshot
from stowplan_autoscaling.supply.karpenter.state_nodes import KnownPod, StateNode

from .cost import NODE_COST, disruption_cost, node_price
from .loads import PodLoad, load_of

_MEMO_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be taken away. `price` per hour; `cost` see `disruption_cost`; `pods` will need another place.

    `load`: what the pods demand. `is_guarded`: a pod on the node has the annotation that protects it, perhaps no
    longer. `turn`: candidates go in this order, the most saved per disruption first, then by name.
    """

    node: StateNode
    claim: NodeClaim
    pool: NodePool
    instance_type: InstanceType | None
    pods: tuple[KnownPod, ...]
    price: float
    cost: float
    load: PodLoad
    is_guarded: bool
    turn: tuple[float, str]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def key(self) -> str:
        """The provider id."""
        return self.claim.provider_id

    @property
    def capacity_type(self) -> str:
        """The terms on which the node was had."""
        return self.node.labels.get(CAPACITY_TYPE, "")

    @property
    def ratio(self) -> float:
        """What is saved per unit of disruption: the more, the sooner the node goes."""
        return self.price / self.cost

    @property
    def is_empty(self) -> bool:
        """Whether no pod makes the node dearer to take away than an empty one."""
        return self.cost <= NODE_COST


class PoolTotals(NamedTuple):
    """Price per hour and disruption cost of all nodes of a pool."""

    price: float
    cost: float


class _Known(NamedTuple):
    """What is known of a node at one of its versions. `candidate`: what it would be if nothing speaks against that."""

    node: StateNode
    version: int
    catalogue: Catalogue
    candidate: Candidate | None
    is_guarded: bool


class _Found(NamedTuple):
    snapshot: Snapshot
    catalogue: Catalogue
    until: int | None
    """The moment for which it holds; None: nothing in it runs out with time."""
    candidates: list[Candidate]
    totals: dict[str, PoolTotals]
    wanted: dict[Callable[[Candidate], bool], list[Candidate]]
    """The candidates that a method wants, of those methods that have asked."""

    def holds(self, snapshot: Snapshot, catalogue: Catalogue, now: int) -> bool:
        """Whether a look at these would find the same."""
        return self.snapshot is snapshot and self.catalogue is catalogue and self.until in {None, now}


class CandidateFinder:
    """Finds candidates; what the pods of a node add up to is kept until they change, and so is what was found."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._found: dict[bool, _Found] = {}

    def find(
        self, snapshot: Snapshot, catalogue: Catalogue, wanted: Callable[[Candidate], bool], now: int,
        taken: Callable[[str], bool], *, eventual: bool,
    ) -> tuple[list[Candidate], dict[str, PoolTotals]]:  # fmt: skip
        """The candidates that a method wants, by name, and the totals of their pools, where these are Balanced.

        `taken` says which nodes (by provider id) a command holds already. The lists are not to be changed; the very
        same list comes again as long as nothing has changed, not even with time.
        """
        known = self._found.get(eventual)
        if known is None or not known.holds(snapshot, catalogue, now):
            known = self._found[eventual] = self._look(snapshot, catalogue, now, taken, eventual=eventual)
        chosen = known.wanted.get(wanted)
        if chosen is None:
            chosen = known.wanted[wanted] = [candidate for candidate in known.candidates if wanted(candidate)]
        return chosen, known.totals

    def _look(
        self, snapshot: Snapshot, catalogue: Catalogue, now: int, taken: Callable[[str], bool], *, eventual: bool
    ) -> _Found:
        limits = snapshot.limits
        found = []
        runs_out = False
        for node in snapshot.nodes:
            known = self._of(node, catalogue)
            if node.nominated_until is not None and node.nominated_until > now:
                runs_out = True
                continue
            runs_out = runs_out or known.is_guarded
            candidate = known.candidate
            if candidate is None or taken(candidate.claim.provider_id):
                continue
            is_eventual = eventual and candidate.claim.termination_grace_period is not None
            if is_eventual or self._lets_go(known, limits, now):
                found.append(candidate)
        totals = self._totals(snapshot.nodes, found, catalogue)
        return _Found(snapshot, catalogue, now if runs_out else None, found, totals, {})

    def _of(self, node: StateNode, catalogue: Catalogue) -> _Known:
        known = self._known.get(id(node))
        if known is None or known.node is not node or known.version != node.version or known.catalogue is not catalogue:
            if len(self._known) > _MEMO_LIMIT:
                self._known.clear()
            guarded = any(DO_NOT_DISRUPT in bound.pod.metadata.annotations for bound in node.bound.values())
            candidate = _candidate(node, catalogue, is_guarded=guarded)
            known = self._known[id(node)] = _Known(node, node.version, catalogue, candidate, guarded)
        return known

    @staticmethod
    def _lets_go(known: _Known, limits: BudgetLimits, now: int) -> bool:
        if not known.is_guarded and not limits.are_any:
            return True
        pods = known.node.bound.values()
        if known.is_guarded and not all(is_disruptable(bound.pod, now) for bound in pods):
            return False
        return limits.can_evict(pods, now)

    @staticmethod
    def _totals(
        nodes: Iterable[StateNode], found: Sequence[Candidate], catalogue: Catalogue
    ) -> dict[str, PoolTotals]:  # fmt: skip
        """Over all nodes of the pools that have candidates, not only over these."""
        prices: dict[str, float] = {}
        costs: dict[str, float] = {}
        pools = {c.pool.name for c in found if c.pool.disruption.policy == BALANCED}
        if not pools:
            return {}
        candidates = {candidate.name: candidate for candidate in found}
        for node in nodes:
            pool = node.pool
            if pool is None or pool not in pools:
                continue
            candidate = candidates.get(node.name)
            if candidate is not None:
                costs[pool] = costs.get(pool, 0.0) + candidate.cost
            else:
                others = (bound.pod for bound in node.bound.values() if not bound.is_daemon)
                costs[pool] = costs.get(pool, 0.0) + disruption_cost(others)
            if node.claim is not None:
                table = catalogue.tables[pool]
                row = table.rows.get(node.claim.labels.get(INSTANCE_TYPE, ""))
                item = None if row is None else table.types[row]
                prices[pool] = prices.get(pool, 0.0) + node_price(node.claim.labels, item)
        for pool in pools:
            if not prices.get(pool):
                prices[pool] = sum(c.price for c in found if c.pool.name == pool)
        return {pool: PoolTotals(prices[pool], costs[pool]) for pool in sorted(pools)}


def may_be_disrupted(node: StateNode, now: int) -> bool:
    """Whether the node itself allows it: initialized, not on its way out, not awaited by a pod, not protected."""
    return node.claim is not None and node.pool is not None and not node.is_nominated(now) and _is_settled(node)


def _is_settled(node: StateNode) -> bool:
    is_there = node.node is not None and node.is_initialized and not node.is_deleting
    return is_there and node.annotations.get(DO_NOT_DISRUPT) != TRUE


def _candidate(node: StateNode, catalogue: Catalogue, *, is_guarded: bool) -> Candidate | None:
    """The node as a candidate: initialized, not on its way out, not protected, of a pool that has types."""
    claim = node.claim
    pool = catalogue.by_name.get(node.pool or "")
    table = catalogue.tables.get(node.pool or "")
    if claim is None or pool is None or table is None or not len(table) or not _is_settled(node):
        return None
    row = table.rows.get(node.labels.get(INSTANCE_TYPE, ""))
    item = None if row is None else table.types[row]
    pods = tuple([bound for bound in node.bound.values() if bound.is_reschedulable])
    price, cost = node_price(node.labels, item), disruption_cost([bound.pod for bound in pods])
    return Candidate(node, claim, pool, item, pods, price, cost, load_of(pods), is_guarded, (-price / cost, node.name))


def is_priceable(candidate: Candidate) -> bool:
    """Whether type, zone and terms of the node are known, without which prices cannot be compared."""
    labels = candidate.node.labels
    return candidate.instance_type is not None and CAPACITY_TYPE in labels and ZONE in labels


def total_price(candidates: Sequence[Candidate]) -> float:
    """What the candidates cost per hour."""
    total = 0.0
    for candidate in candidates:
        total += candidate.price
    return total
