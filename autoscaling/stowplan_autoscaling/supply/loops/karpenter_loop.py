"""Karpenter as controllers of the virtual cluster: provisioner, disruption, termination, expiration, liveness.

    pod unschedulable -> batch -> round -> claims -> machines -> registered -> initialized
    node quiet -> candidates -> command -> 15 s -> replacements up -> terminated -> machine back

Controllers act at the moment at which they hear of something; what takes time are the batch, the provider, polls and
waits. Follows pkg/controllers/{provisioning,disruption,nodeclaim,node} of Karpenter core v1.15.0. A launch takes the
cheapest offering that is in stock; those that were not are left out for three minutes, as the AWS provider does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.kernel import MILLISECOND, MINUTE, SECOND
from stowplan_autoscaling.supply.karpenter.claims import Claim
from stowplan_autoscaling.supply.karpenter.cluster_state import ClusterState
from stowplan_autoscaling.supply.karpenter.consolidatable import expires_at
from stowplan_autoscaling.supply.karpenter.disruption.commands import DRIFTED, Command
from stowplan_autoscaling.supply.karpenter.disruption.controller import DisruptionController, Idle, Start
from stowplan_autoscaling.supply.karpenter.disruption.queue import FAILED as COMMAND_FAILED
from stowplan_autoscaling.supply.karpenter.disruption.queue import POLL, READY, DisruptionQueue, Running
from stowplan_autoscaling.supply.karpenter.disruption.simulation import Scene
from stowplan_autoscaling.supply.karpenter.instance_types import available_offerings
from stowplan_autoscaling.supply.karpenter.labels import INITIALIZED, NODE_POOL, REGISTERED, TRUE
from stowplan_autoscaling.supply.karpenter.node_pools import NodePool
from stowplan_autoscaling.supply.karpenter.pods import is_provisionable, may_not_be_disrupted
from stowplan_autoscaling.supply.karpenter.provisioner import may_launch, nominate, schedule
from stowplan_autoscaling.supply.karpenter.scheduler import Engine
from stowplan_autoscaling.supply.karpenter.taints import DISRUPTED
from stowplan_autoscaling.supply.machines import FAILED, PROVISIONING, REPLACEMENT, Machine
from stowplan_autoscaling.supply.pools import MachineType, Offer, Pool

from .base import INTERRUPTION, SupplyLog
from .changes import is_same_node, is_same_placement
from .daemon_pods import daemon_pod
from .karpenter_asking import Asking
from .karpenter_claims import Claims, is_complete
from .karpenter_setup import Shelf, options_of
from .lost_pods import tell_lost_pods
from .node_taints import add_taint, remove_taint
from .node_termination import NodeTermination
from .pool_drift import DRIFT, PoolDrift

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.cluster.objects.policy import PodDisruptionBudget
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.resources.supply import KarpenterSpec
    from stowplan_autoscaling.supply.provider import Provider

UP: Final = "Provisioning"
CONSOLIDATION: Final = "Consolidation"
EXPIRATION: Final = "Expiration"
EXPIRED: Final = "Expired"
INTERRUPTED: Final = "Interrupted"

REGISTRATION_LIMIT: Final = 15 * MINUTE
"""A claim that has not registered by then is deleted (nodeclaim/lifecycle/liveness.go)."""
_AT_ONCE: Final = MILLISECOND


class KarpenterLoop:
    """The one of a run."""

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        informers: Informers,
        provider: Provider,
        pools: Sequence[Pool],
        spec: KarpenterSpec,
        *,
        start: int,
        log: SupplyLog,
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._informers = informers
        self._provider = provider
        self._pools = {pool.name: pool for pool in pools}
        self._drift = PoolDrift(kernel, pools, start=start, on_change=self._pool_changed, log=log)
        self._node_pools = self._drift.node_pools
        self._types = {(pool.name, machine.name): machine for pool in pools for machine in pool.all_types}
        self._log = log
        self.engine = Engine(options_of(spec, pools))
        self.state = ClusterState(self.engine.shapes)
        self.queue = DisruptionQueue(self.state)
        self._disruption = DisruptionController(self.queue)
        self._shelf = Shelf(self.engine, pools, self._node_pools)
        self._asking = Asking(kernel, server, informers, self.engine.options, self._provision)
        self._claims = Claims(kernel, server, provider, self.state, self._shelf, self._drift)
        self._terminating: dict[str, NodeTermination] = {}
        self._said: dict[str, str] = {}
        provider.listeners.append(self)
        informers.handle("Node", self._node_changed)
        informers.handle("Pod", self._pod_changed)
        informers.handle("PodDisruptionBudget", self._budget_changed)
        informers.handle("DaemonSet", self._daemon_sets_changed)

    def start(self) -> None:
        """Take the initial nodes over, and begin."""
        for key, namespace in self._server.all("Namespace").items():
            self.state.namespaces[key] = namespace.metadata.labels
        for machine in list(self._provider.machines.values()):
            self._claim(machine, self._node_pools[machine.pool.name])
            self._claims.label(machine.node, REGISTERED, INITIALIZED)
            self._claims.initialized(machine)
        self._drift.start()
        self._kernel.at(self._kernel.now, self._disrupt)

    # ---- what it sees ------------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        now = self._kernel.now
        if new is None:
            if old is not None:
                self.state.delete_node(old.metadata.name, now)
                if old.metadata.name not in self._provider.machines:
                    self._forget(old.metadata.name)
            return
        if old is not None and is_same_node(old, new):
            return
        self.state.update_node(new, now)
        machine = self._provider.machines.get(new.metadata.name)
        if machine is None or new.metadata.labels.get(INITIALIZED) == TRUE:
            return
        if new.metadata.labels.get(REGISTERED) == TRUE and is_complete(new, machine):
            self._claims.label(new.metadata.name, INITIALIZED)
            self._claims.initialized(machine)

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        now = self._kernel.now
        if new is None:
            if old is not None:
                self.state.delete_pod(old.key, now)
            return
        if old is not None and _is_same_pod(old, new):
            return
        self.state.update_pod(new, now)
        if old is not None and _is_pod_event(old, new):
            self._claims.pod_event(new)
        if is_provisionable(new) and not new.is_terminal:
            self._asking.ask(new.metadata.uid, new.key)

    def _budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        budget = new or old
        if budget is None:
            return
        key = f"{budget.metadata.namespace}/{budget.metadata.name}"
        if new is None:
            self.state.budgets.pop(key, None)
        else:
            self.state.budgets[key] = new

    def _pool_changed(self, pool: Pool) -> int:
        """A pool asks for other machines from now on. Returns how many of its claims have drifted by that."""
        self._pools[pool.name] = pool
        self._shelf.forget()
        self.state.mark_unconsolidated(self._kernel.now)
        claims = [state.claim for state in self.state.in_order() if state.claim is not None]
        names = [claim.name for claim in claims if claim.labels[NODE_POOL] == pool.name]
        return sum(self._claims.mark_drifted(name) for name in names)

    def _daemon_sets_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        self._shelf.set_daemons([daemon_pod(each) for each in self._informers.all("DaemonSet").values()])

    # ---- claims ------------------------------------------------------------------------------

    def _claim(self, machine: Machine, pool: NodePool) -> None:
        """Karpenter's record of a machine, and when that will be looked at again."""
        claim = self._claims.make(machine, pool)
        end = expires_at(claim)
        if end is not None:
            self._kernel.at(end, lambda: self._expire(machine.node, claim.provider_id))
        if machine.registered is None:
            self._kernel.at(self._kernel.now + REGISTRATION_LIMIT, lambda: self._check_registration(machine))

    def machine_changed(self, machine: Machine) -> None:
        """Its Node registers: Karpenter takes it over at once."""
        if machine.launched == self._kernel.now and machine.pool.name in self._drift.changing:
            self._claims.mark_drifted(machine.node)
        if machine.registered == self._kernel.now and machine.ready is None:
            self._claims.label(machine.node, REGISTERED)

    def machine_failed(self, machine: Machine) -> None:
        """It could not be had after all; its pods will ask again."""
        self._shelf.mark(machine.type.name, machine.offer.zone, machine.offer.capacity_type, self._kernel.now)
        self._out_of_stock(machine.pool, machine.type, machine.offer)
        self.state.delete_claim(machine.node, self._kernel.now)

    def machine_noticed(self, machine: Machine) -> None:
        """Karpenter empties it before it goes."""
        self.noticed(machine)

    def machine_ended(self, machine: Machine) -> None:
        """It is gone, and the claim with it; where its Node is still there, the claim is so, too."""
        if machine.node in self._provider.left_behind:
            tell_lost_pods(machine, self._informers, self._log)
        else:
            self._forget(machine.node)

    def _forget(self, name: str) -> None:
        self.state.delete_claim(name, self._kernel.now)
        self._terminating.pop(name, None)

    def noticed(self, machine: Machine) -> None:
        """The provider will take it back. What it wants back it has no more of for a while."""
        kind, offer = machine.type, machine.offer
        self._shelf.mark(kind.name, offer.zone, offer.capacity_type, self._kernel.now)
        pods = len(self._informers.pods_on(machine.node))
        self._log.ran(INTERRUPTION)
        self._log.decided(INTERRUPTION, machine.pool.name, -1, pods, "SpotInterruption", machine.node)
        self._terminate(machine.node, INTERRUPTED)

    def _out_of_stock(self, pool: Pool, kind: MachineType, offer: Offer) -> None:
        where = f"{offer.capacity_type} in {offer.zone}" if offer.zone else offer.capacity_type
        self._log.stopped(UP, pool.name, 0, "OutOfStock", f"no {kind.name} can be had {where}")

    # ---- provisioning ------------------------------------------------------------------------

    def _provision(self) -> None:
        """One round for what the batch has gathered."""
        now = self._kernel.now
        if not self._is_synced():
            # The batch is gone, as upstream: its pods ask again when their ten seconds are over.
            return
        self._log.ran(UP)
        catalogue = self._shelf.catalogue(now)
        results = schedule(self.engine, catalogue, self.state, now)
        nominate(results, self.state, self.engine.options, now)
        for claim in results.claims:
            exceeded = may_launch(claim, self.state)
            if exceeded is not None:
                self._log.stopped(UP, claim.pool, len(claim.pods), "LimitExceeded", exceeded)
                continue
            machine = self._launch(claim, PROVISIONING)
            if machine is not None:
                self._log.decided(UP, claim.pool, 1, len(claim.pods), "PendingPods", _described(machine))
        for key, reason in results.errors.items():
            if self._said.get(key) != reason:
                self._log.stopped(UP, "", 1, "NoPlace", f"{key}: {reason}")
        self._said = results.errors

    def _is_synced(self) -> bool:
        """Not while a claim has no machine yet (Cluster.Synced of pkg/controllers/state)."""
        return all(machine.launched is not None for machine in self._provider.machines.values())

    def _launch(self, claim: Claim, began: str) -> Machine | None:
        """The cheapest that is in stock, the first by type, zone and terms at equal prices; None if nothing is."""
        pool, well_known = self._pools[claim.pool], self.engine.options.well_known
        found = [
            (offer.price, item.name, offer.capacity_type, offer.zone)
            for item in claim.types
            for offer in available_offerings(item, claim.requirements, well_known)
        ]
        for price, name, capacity_type, zone in sorted(found):
            kind, offer = self._types[pool.name, name], Offer(zone, capacity_type, price)
            if self._provider.is_in_stock(pool.name, name, zone, capacity_type):
                machine = self._provider.request(pool, kind, offer, began)
                self._claim(machine, self._node_pools[pool.name])
                return machine
            self._shelf.mark(name, zone, capacity_type, self._kernel.now)
            self._out_of_stock(pool, kind, offer)
        return None

    def _check_registration(self, machine: Machine) -> None:
        if machine.registered is None and machine.ended is None:
            self._log.stopped(UP, machine.pool.name, 0, "NeverRegistered", machine.node)
            self._terminate(machine.node, FAILED)

    # ---- disruption --------------------------------------------------------------------------

    def _disrupt(self) -> None:
        """One step of the disruption loop."""
        now = self._kernel.now
        if self._disruption.is_at_rest and not self._is_synced():
            self._kernel.at(now + SECOND, self._disrupt)
            return
        self._claims.mark_settled()
        self._log.ran(CONSOLIDATION)
        self._log.ran(DRIFT)
        scene = Scene(self.engine, self._shelf.catalogue(now), self.state)
        step = self._disruption.advance(scene, now)
        self._drift.tell(self._disruption, scene, now, is_idle=isinstance(step, Idle))
        if isinstance(step, Start):
            self._start(step.command)
            self._kernel.at(now + _AT_ONCE, self._disrupt)
        else:
            self._kernel.at(step.until, self._disrupt)

    def _start(self, command: Command) -> None:
        """Taint the candidates and launch what replaces them."""
        loop = DRIFT if command.reason == DRIFTED else CONSOLIDATION
        replacements = []
        for claim in command.replacements:
            machine = self._launch(claim, REPLACEMENT)
            if machine is None:
                self._log.stopped(loop, claim.pool, 0, "OutOfStock", "no replacement can be had")
                return
            replacements.append(machine.node)
            self._log.decided(loop, claim.pool, 1, len(claim.pods), "Replacement", _described(machine))
        for candidate in command.candidates:
            add_taint(self._server, candidate.name, DISRUPTED)
            self._disrupted(candidate.name, is_disrupted=True)
            self._asking.ask_for_node(candidate.name)
            pods = len(candidate.pods)
            self._log.decided(
                loop, candidate.pool.name, -1, pods, command.reason, f"{command.decision} {candidate.name}"
            )
        nominate(command.results, self.state, self.engine.options, self._kernel.now)
        running = self.queue.start(command, replacements, self._kernel.now)
        self._follow(running)

    def _follow(self, running: Running) -> None:
        """See how a command stands."""
        verdict = self.queue.check(running, self._claims.is_initialized, self._kernel.now)
        if verdict == READY:
            for candidate in running.command.candidates:
                self._terminate(candidate.name, running.command.reason)
            self.queue.finish(running, succeeded=True)
        elif verdict == COMMAND_FAILED:
            self.queue.finish(running, succeeded=False)
            for candidate in running.command.candidates:
                claim = self._claims.of(candidate.name)
                if claim is not None and not claim.deleting:
                    # One that is deleted for another reason keeps its taint: whoever drains it put it there, too.
                    remove_taint(self._server, candidate.name, DISRUPTED.key)
                    self._disrupted(candidate.name, is_disrupted=False)
            names = ", ".join(candidate.name for candidate in running.command.candidates)
            self._log.stopped(CONSOLIDATION, "", 0, "ReplacementFailed", names)
        else:
            self._kernel.at(self._kernel.now + POLL, lambda: self._follow(running))

    def _disrupted(self, name: str, *, is_disrupted: bool) -> None:
        machine = self._provider.machines.get(name)
        if machine is not None and (machine.disrupted is not None) != is_disrupted:
            machine.disrupted = self._kernel.now if is_disrupted else None
            self._log.disrupted(machine)

    def _expire(self, name: str, id: str) -> None:
        claim, machine = self._claims.of(name), self._provider.machines.get(name)
        if claim is None or machine is None or claim.provider_id != id or claim.deleting:
            return
        self._log.ran(EXPIRATION)
        pods = len(self._informers.pods_on(name))
        self._log.decided(EXPIRATION, machine.pool.name, -1, pods, EXPIRED, name)
        self._terminate(name, EXPIRED)

    def _terminate(self, name: str, reason: str) -> None:
        """Delete a claim: its node is emptied, then its machine goes back."""
        claim, machine = self._claims.of(name), self._provider.machines.get(name)
        if claim is None or machine is None or claim.deleting:
            return
        self._claims.update(replace(claim, deleting=True))
        self._disrupted(name, is_disrupted=True)
        if machine.registered is None:
            self._provider.terminate(name, reason)
            return
        termination = self._terminating[name] = NodeTermination(
            self._kernel,
            self._server,
            name,
            pods_on=self._informers.pods_on,
            grace=claim.termination_grace_period,
            is_kept=lambda pod: may_not_be_disrupted(pod, self._kernel.now),
            on_drained=lambda _: self._drained(name, reason),
        )
        termination.start()
        self._asking.ask_for_node(name)

    def _drained(self, name: str, reason: str) -> None:
        claim = self._claims.of(name)
        if claim is not None:
            self._claims.update(replace(claim, terminating=True))
        self._provider.terminate(name, reason)


def _described(machine: Machine) -> str:
    offer = machine.offer
    where = f" in {offer.zone}" if offer.zone else ""
    return f"{machine.node}: {machine.type.name} {offer.capacity_type}{where}"


def _is_same_pod(old: ClusterPod, new: ClusterPod) -> bool:
    """The same; readiness is none of its business."""
    return (
        is_same_placement(old, new)
        and old.status.phase == new.status.phase
        and old.status.conditions == new.status.conditions
        and old.status.start_time == new.status.start_time
    )


def _is_pod_event(old: ClusterPod, new: ClusterPod) -> bool:
    """It was bound, or on its node it ended or began to end."""
    if not new.spec.node_name:
        return False
    is_bound = not old.spec.node_name
    return is_bound or old.is_terminal != new.is_terminal or (old.deleted is None) != (new.deleted is None)
