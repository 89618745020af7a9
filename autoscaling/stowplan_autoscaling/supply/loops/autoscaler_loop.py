"""The Cluster Autoscaler as a controller of the virtual cluster.

It watches, runs a loop every scan interval (at once after a loop that changed something, or when a pod has become
unschedulable), and carries out what the engine decides: machines from the provider, taints, drains, machines back.
Follows pkg/loop/trigger.go of kubernetes-sigs/cluster-autoscaler with --frequent-loops-enabled. It does not hear of
notices of the provider: a node that is taken back is emptied by a node termination handler, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stowplan_autoscaling.cluster.drain import Drain
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.decisions import (
    AddTaint,
    Decision,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNode,
    IncreaseSize,
    LoopResult,
    RemoveTaint,
)
from stowplan_autoscaling.supply.cluster_autoscaler.expanders import ExpanderContext
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import (
    CREATING,
    DELETING,
    OUT_OF_RESOURCES,
    RUNNING,
    GroupState,
    Instance,
    InstanceError,
)
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation
from stowplan_autoscaling.supply.cluster_autoscaler.static_autoscaler import StaticAutoscaler
from stowplan_autoscaling.supply.cluster_autoscaler.taints import TO_BE_DELETED
from stowplan_autoscaling.supply.machines import FAILED, INTERRUPTED, LOST, SCALE_UP, Machine
from stowplan_autoscaling.supply.pools import POOL_LABEL, Offer, Pool, provider_id

from .autoscaler_setup import node_group_of, pod_prices_of, priorities_of
from .base import INTERRUPTION, SupplyLog
from .changes import is_same_node, is_same_placement
from .lost_pods import tell_lost_pods
from .node_taints import add_taint, remove_taint, set_unschedulable
from .scale_down_drain import ScaleDownDrain

if TYPE_CHECKING:
    from numpy.random import Generator

    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.kernel import Kernel, Timer
    from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
    from stowplan_autoscaling.supply.provider import Provider
    from stowplan_scheduler.framework.cluster import Stores

LOOP_TIME: Final = 200 * MILLISECOND
"""How long a loop takes; it matters only where one follows another at once."""
RECENT: Final = 10 * SECOND
"""maxPodChangeAge: a pod that became unschedulable within this time starts a loop."""

UP: Final = "ScaleUp"
DOWN: Final = "ScaleDown"
UNNEEDED: Final = "Unneeded"
_OWNERS: Final = ("ReplicaSet", "ReplicationController", "StatefulSet", "Job", "DaemonSet")
_ORDINARY: Final = frozenset(
    {"CurrentlyBeingDeleted", "NotUnderutilized", "NotUnneededLongEnough", "RecentlyUnremovable", "NotAutoscaled"}
)
"""Reasons for which a node stays that say nothing but that it is used, or for now."""


class AutoscalerLoop:
    """The one of a run. `result`: of the last loop."""

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        informers: Informers,
        provider: Provider,
        pools: Sequence[Pool],
        options: AutoscalingOptions,
        stores: Stores,
        *,
        has_handler: bool,
        log: SupplyLog,
        rng: Generator,
        local_volumes: Callable[[ClusterPod], tuple[str, ...]],
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._informers = informers
        self._provider = provider
        self._pools = {pool.name: pool for pool in pools}
        self._has_handler = has_handler
        self._log = log
        self._local_volumes = local_volumes
        self._observation = Observation(stores)
        self._options = options
        groups = [node_group_of(pool) for pool in pools]
        context = ExpanderContext(pod_prices=pod_prices_of(pools), priorities=priorities_of(pools), rng=rng)
        self.autoscaler = StaticAutoscaler(options, groups, self._observation, now=kernel.now, expander_context=context)
        self.result: LoopResult | None = None
        self._numbers: dict[str, int] = {}
        self._unschedulable_since: dict[str, int] = {}
        self._changed = dict.fromkeys(self._pools)
        """Pools whose machines have changed since the last loop."""
        self._refused: dict[str, dict[str, Offer]] = {name: {} for name in self._pools}
        """Machines that could not be had, with their offers: instances in error until the autoscaler deletes them."""
        self._timer: Timer | None = None
        self._signalled = False
        self._said: dict[tuple[str, str], str] = {}
        provider.listeners.append(self)
        informers.handle("Node", self._node_changed)
        informers.handle("Pod", self._pod_changed)
        informers.handle("PodDisruptionBudget", self._budgets_changed)
        informers.handle("DaemonSet", self._daemon_sets_changed)
        for kind in _OWNERS:
            informers.handle(kind, lambda old, new, kind=kind: self._owner_changed(kind, old, new))  # type: ignore[misc]

    def start(self) -> None:
        """The first loop."""
        self._wait(0)

    # ---- what it sees ------------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._observation.remove_node(old.metadata.name)
            return
        if old is not None and is_same_node(old, new):
            return
        pool = new.metadata.labels.get(POOL_LABEL)
        group = pool if pool in self._pools else None
        gone = group is not None and new.metadata.name not in self._provider.machines
        self._observation.set_node(new, group=group, created=new.created, has_instance=not gone)

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        pod = new or old
        if pod is None:
            return
        uid = pod.metadata.uid
        if new is None or new.is_terminal:
            self._observation.remove_pod(uid)
            self._numbers.pop(uid, None)
            self._unschedulable_since.pop(uid, None)
            return
        if old is not None and _is_same_pod(old, new):
            return
        self._observation.set_pod(
            new,
            number=self._numbers.setdefault(uid, new.version),
            created=new.created,
            deleted=new.deleted,
            unschedulable=new.unschedulable,
            local_volumes=self._local_volumes(new),
        )
        if not new.unschedulable or new.spec.node_name:
            self._unschedulable_since.pop(uid, None)
        elif self._kernel.now - self._unschedulable_since.setdefault(uid, self._kernel.now) <= RECENT:
            self._signal()

    def _budgets_changed(self, old: object, new: object) -> None:
        self._observation.set_budgets(self._informers.all("PodDisruptionBudget").values())

    def _daemon_sets_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        self._observation.set_daemon_sets(self._informers.all("DaemonSet").values())

    def _owner_changed(self, kind: str, old: Any, new: Any) -> None:
        obj = new if new is not None else old
        meta = obj.metadata
        key = f"{meta.namespace}/{meta.name}"
        if new is None:
            self._observation.remove_owner(kind, key)
        else:
            self._observation.set_owner(kind, key, getattr(obj.spec, "replicas", None))

    def machine_changed(self, machine: Machine) -> None:
        """Its group has something to tell. One that was given notice while it booted is drained once it registers."""
        self._changed[machine.pool.name] = None
        if machine.end == INTERRUPTED and machine.registered == self._kernel.now and machine.deleting is None:
            self.noticed(machine)

    def machine_failed(self, machine: Machine) -> None:
        """It stays in its group as an instance with an error, until the autoscaler deletes it."""
        self._changed[machine.pool.name] = None
        self._refused[machine.pool.name][machine.node] = machine.offer
        where = f" in {machine.offer.zone}" if machine.offer.zone else ""
        self._log.stopped(UP, machine.pool.name, 0, "OutOfStock", f"no {machine.type.name}{where} can be had")

    def machine_noticed(self, machine: Machine) -> None:
        """A node termination handler cordons and drains it."""
        self.noticed(machine)

    def machine_ended(self, machine: Machine) -> None:
        """Its group has one less."""
        self._changed[machine.pool.name] = None
        held = self._observation.nodes.get(machine.node)
        if held is not None:
            node: Node | None = self._informers.get("Node", machine.node)
            if node is not None:
                self._observation.set_node(node, group=held.group, created=held.created, has_instance=False)
        if machine.node in self._provider.left_behind:
            tell_lost_pods(machine, self._informers, self._log)
        if machine.end == LOST or (machine.end == INTERRUPTED and machine.deleting is None):
            self._replace(machine)

    def _replace(self, machine: Machine) -> None:
        """A group keeps the size that was asked for: it replaces what it lost, as auto scaling groups do.

        Only who gives a machine back by name, as the autoscaler does, makes the group smaller by that.
        """
        self._log.decided(INTERRUPTION, machine.pool.name, 1, 0, "Replaced", machine.node)
        self._grow(machine.pool, 1)

    def noticed(self, machine: Machine) -> None:
        """The provider will take it back. The autoscaler itself does nothing about it."""
        self._log.ran(INTERRUPTION)
        if not self._has_handler:
            self._log.stopped(INTERRUPTION, machine.pool.name, 0, "NoTerminationHandler", machine.node)
            return
        if self._server.find("Node", machine.node) is None:
            return
        pods = self._informers.pods_on(machine.node)
        self._log.decided(INTERRUPTION, machine.pool.name, -1, len(pods), "SpotInterruption", machine.node)
        machine.disrupted = self._kernel.now
        self._log.disrupted(machine)
        Drain(self._kernel, self._server, machine.node).start(list(pods.values()))

    # ---- when it runs ------------------------------------------------------------------------

    def _signal(self) -> None:
        """A pod has become unschedulable: the channel holds one such message."""
        if self._timer is None:
            self._signalled = True
        else:
            self._timer.cancel()
            self._wait(0)

    def _wait(self, delay: int) -> None:
        self._timer = self._kernel.at(self._kernel.now + delay, self._run)

    def _run(self) -> None:
        self._timer = None
        now = self._kernel.now
        for name in self._changed:
            self._observation.set_group(name, self._group_state(name))
        self._changed.clear()
        self.result = result = self.autoscaler.run_once(now)
        self._log.ran(UP)
        if self._options.scale_down_enabled:
            self._log.ran(DOWN)
        self._tell(result)
        for decision in result.decisions:
            self._carry_out(decision)
        self._kernel.at(now + LOOP_TIME, lambda: self._sleep(now))

    def _sleep(self, began: int) -> None:
        """Wait for the next loop."""
        is_productive = max(self.autoscaler.last_scale_up, self.autoscaler.last_scale_down_delete) >= began
        if is_productive or self._signalled:
            self._signalled = False
            self._wait(0)
        else:
            self._wait(self._options.scan_interval)

    def _group_state(self, name: str) -> GroupState:
        instances: list[Instance] = []
        size = 0
        for machine in self._provider.machines.values():
            if machine.pool.name != name:
                continue
            leaves = machine.deleting is not None
            size += not leaves
            state = DELETING if leaves else CREATING if machine.launched is None else RUNNING
            instances.append(Instance(provider_id(machine.offer, machine.node), state))
        for node, offer in self._refused[name].items():
            error = InstanceError(OUT_OF_RESOURCES, "OutOfStock", "no such machine can be had")
            instances.append(Instance(provider_id(offer, node), CREATING, error))
        return GroupState(size + len(self._refused[name]), tuple(instances))

    # ---- what it does ------------------------------------------------------------------------

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case IncreaseSize():
                self._grow(self._pools[decision.group], decision.amount)
            case DecreaseTargetSize():
                coming = [each for each in self._provider.machines.values() if self._is_coming(each, decision.group)]
                for machine in coming[-decision.amount :]:
                    self._provider.terminate(machine.node, FAILED)
            case DeleteInstances():
                self._delete_instances(decision)
            case AddTaint():
                add_taint(self._server, decision.node, decision.taint)
                if decision.cordon:
                    set_unschedulable(self._server, decision.node, unschedulable=True)
            case RemoveTaint():
                remove_taint(self._server, decision.node, decision.key)
                if decision.uncordon:
                    set_unschedulable(self._server, decision.node, unschedulable=False)
            case DeleteNode():
                self._delete(decision)

    def _is_coming(self, machine: Machine, pool: str) -> bool:
        return machine.pool.name == pool and machine.registered is None and machine.deleting is None

    def _grow(self, pool: Pool, amount: int) -> None:
        """Each machine goes to the zone with the fewest, the first of several, as auto scaling groups balance zones."""
        kind = pool.types[0]
        counts = dict.fromkeys(kind.offers, 0)
        for machine in self._provider.machines.values():
            if machine.pool.name == pool.name and machine.deleting is None and machine.offer in counts:
                counts[machine.offer] += 1
        for _ in range(amount):
            offer = min(self._in_stock(pool, counts), key=lambda each: counts[each])
            counts[offer] += 1
            self._provider.request(pool, kind, offer, SCALE_UP)
        self._changed[pool.name] = None

    def _in_stock(self, pool: Pool, offers: Mapping[Offer, int]) -> list[Offer]:
        """Where there are machines; anywhere if there are none."""
        name = pool.types[0].name
        found = [each for each in offers if self._provider.is_in_stock(pool.name, name, each.zone, each.capacity_type)]
        return found or list(offers)

    def _delete_instances(self, decision: DeleteInstances) -> None:
        for instance in decision.instances:
            node = instance.rpartition("/")[2]
            if self._refused[decision.group].pop(node, None) is None:
                self._provider.terminate(node, FAILED)
            self._changed[decision.group] = None

    def _delete(self, decision: DeleteNode) -> None:
        machine = self._provider.machines.get(decision.node)
        if machine is not None:
            machine.disrupted = self._kernel.now
            self._log.disrupted(machine)
        pods = len(decision.evict)
        self._log.decided(DOWN, decision.group, -1, pods, "Drained" if decision.drain else "Empty", decision.node)
        ScaleDownDrain(
            self._kernel,
            self._server,
            decision,
            objection=lambda: self._objection(decision),
            on_done=self._deleted,
        ).start()

    def _objection(self, decision: DeleteNode) -> str:
        """Whether the node may go after all: rules and budgets are asked once more, of what is there by now."""
        moves = self.autoscaler.pods_to_move(decision.node, self._kernel.now)
        if moves is None:
            return "the node is gone"
        if moves.blocking is not None:
            return f"{moves.blocking.pod.key}: {moves.reason}"
        if not decision.drain and (moves.pods or moves.on_completion):
            return "pods have come to the empty node"
        return ""

    def _deleted(self, drain: ScaleDownDrain) -> None:
        name, group = drain.decision.node, drain.decision.group
        self.autoscaler.deletion_ended(name, self._kernel.now, deleted=not drain.failure)
        if not drain.failure:
            self._provider.terminate(name, UNNEEDED)
            return
        remove_taint(self._server, name, TO_BE_DELETED)
        set_unschedulable(self._server, name, unschedulable=False)
        self._log.stopped(DOWN, group, len(drain.decision.evict), "DrainFailed", f"{name}: {drain.failure}")
        machine = self._provider.machines.get(name)
        if machine is not None:
            machine.disrupted = None
            self._log.disrupted(machine)

    # ---- what it says ------------------------------------------------------------------------

    def _tell(self, result: LoopResult) -> None:
        """Plans, and what stands in their way: that once, until it is something else."""
        for group, before, after in result.scale_up.plan:
            self._log.decided(UP, group, after - before, len(result.scale_up.triggered), "PendingPods", result.chosen)
        said: dict[tuple[str, str], str] = {}
        for group, reasons in result.scale_up.skipped.items():
            said[UP, group] = "; ".join(reasons)
        for limit in result.scale_up.limited_by:
            said[UP, f"limit {limit}"] = limit
        for unhelped in result.scale_up.unhelped:
            texts = sorted({text for reasons in unhelped.rejected.values() for text in reasons})
            said[UP, f"pod {unhelped.pod.pod.key}"] = "; ".join(texts)
        for node, status in result.scale_down.unremovable.items():
            if status.reason not in _ORDINARY:
                blocker = "" if status.pod is None else f" {status.pod.pod.key}"
                said[DOWN, node] = f"{status.reason}{blocker} {status.pod_reason}".strip()
        for (loop, about), text in said.items():
            if self._said.get((loop, about)) != text:
                self._say(loop, about, text)
        self._said = said

    def _say(self, loop: str, about: str, text: str) -> None:
        if loop == DOWN:
            machine = self._provider.machines.get(about)
            pool = "" if machine is None else machine.pool.name
            self._log.stopped(loop, pool, 1, text.split(" ", 1)[0], f"{about}: {text}")
        elif about.startswith("pod "):
            self._log.stopped(loop, "", 1, "NoPoolFits", f"{about[4:]}: {text}")
        elif about.startswith("limit "):
            self._log.stopped(loop, "", 0, "Limited", text)
        else:
            self._log.stopped(loop, about, 0, "NotConsidered", text)


def _is_same_pod(old: ClusterPod, new: ClusterPod) -> bool:
    """The same; readiness is none of its business."""
    return is_same_placement(old, new) and old.unschedulable == new.unschedulable
