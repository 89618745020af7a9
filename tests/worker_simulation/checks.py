"""The invariants of workers and core, checked while a simulation runs and when it has come to rest.

| id | what | when |
|---|---|---|
| I1 | a bind overfills no node, but for what its worker could not know | at each bind that the API server accepts |
| I2 | a pod is bound once; what is bound is a free pod of ours, by UID; one bind of a pod at a time | at each request |
| I3 | each waiting pod of an active profile is in exactly one place | every few steps |
| I4 | no pod is lost: at rest no pod waits that fits somewhere | at rest |
| I5 | at rest nothing is assumed, in flight or nominated in vain | at rest |
| I6 | cache = store = world | at rest |
|    | a worker is told of no object as it was before, and of none that is gone | at each change |
| I7 | the chosen node passes every filter of the scalar reference | at decisions |
| I8 | the chosen node has the highest total of the scalar reference | at decisions |
| I10 | victims have a lower priority and are on the nominated node; policy Never preempts nobody | at each eviction |
|     | node and victims are those of the scalar reference, disruption budgets included | at each preemption |
| I11 | at most one worker leads; no write leaves behind the fence; each bind has the lease's epoch | at each step |
| I15, I16 | the same configuration twice changes nothing; a refused one leaves the old one running | at each edit |

I14 (same seed, same log) is a test of its own. I9 is about gangs, I12 and I13 are about node supply and HPA: no worker
has any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from stowplan_operator.api.store import Change, number_of
from stowplan_operator.worker.requests import BindPod, DeletePod, ReadPod, Request
from stowplan_operator.worker.story import Moment, StoryRecord
from stowplan_scheduler.effects import DeleteVictim
from stowplan_scheduler.framework.interface import PostFilterResult
from stowplan_scheduler.objects import Node, Pod, key_of
from stowplan_scheduler.quantity import parse_quantity

from .judge import feasible_nodes, judge_choice, judge_preemption
from .plan import Fault
from .profiles import OURS, reference_profiles
from .violation import Violation
from .world import ENDED, Answered

if TYPE_CHECKING:
    from .process import Process
    from .simulation import Simulation

OFTEN = 16
"""Steps between looks at every pod."""

GONE = 2**63
"""Newer than every version: what is gone does not come back."""


class Decided(msgspec.Struct):
    """A decision as it was taken: what the worker counted on the node then."""

    process: str
    epoch: int
    number: int
    node: str
    counted: frozenset[str]
    barrier: int
    given_up: bool = False
    landed: int = 0
    """The revision at which the API server carried the bind out; 0 if it did not."""


class Checks:
    """All of them, with what they remember."""

    def __init__(self, simulation: Simulation) -> None:
        """Nothing happened yet."""
        self._sim = simulation
        self._steps = 0
        self._decisions = 0
        self._failed_attempts = 0
        self._decided: dict[tuple[str, str], list[Decided]] = {}
        """By pod UID and process."""
        self._landed: dict[str, Decided] = {}
        """The decision by which a pod came to its node."""

    # ---- room ------------------------------------------------------------------------------------

    def has_room(self, name: str, pod: Pod) -> bool:
        """Whether a pod fits a node of the world by its requests."""
        world = self._sim.world
        return _fits(world.nodes[name], [*world.pods_on(name), pod])

    def overcommitted(self, name: str) -> bool:
        """Whether the pods on a node ask for more than it has."""
        world = self._sim.world
        node = world.nodes.get(name)
        return node is not None and not _fits(node, world.pods_on(name))

    # ---- what is heard ---------------------------------------------------------------------------

    def hears(self, process: Process, change: Change) -> None:
        """I6: a machine is told of a change, and never of the past."""
        said = change.old if change.new is None else change.new
        uid, version = said.metadata.uid, number_of(said.metadata.resource_version)
        if version < process.newest.get(uid, 0):
            raise Violation("I6", f"{process.name} is told of the past of {uid}", key_of(said.metadata))
        process.newest[uid] = GONE if change.new is None else version

    # ---- requests --------------------------------------------------------------------------------

    def asked(self, process: Process, request: Request) -> None:
        """The machine asks for something."""
        if isinstance(request, BindPod):
            self._check_bind(process, request)
        elif isinstance(request, DeletePod):
            self._sim.plan.fired["a victim was deleted"] += 1
        elif isinstance(request, ReadPod):
            self._sim.plan.fired["a bind was read back"] += 1

    def _check_bind(self, process: Process, request: BindPod) -> None:
        """I2 and I11, as far as the worker can know."""
        pod = process.view.get(request.key)
        if pod is None or pod.metadata.uid != request.uid:
            raise Violation("I2", f"{process.name} binds a pod that it knows to be gone", request.key)
        wrong = [
            text
            for text, holds in (
                ("has a node", bool(pod.spec.node_name)),
                ("is being deleted", pod.is_terminating),
                ("is gated", bool(pod.spec.scheduling_gates)),
                ("is not ours", pod.spec.scheduler_name not in OURS),
            )
            if holds
        ]
        if wrong:
            raise Violation("I2", f"{process.name} binds a pod that {', '.join(wrong)}", request.key)
        under_way = [
            other for other in process.binds_in_flight.values() if other.uid == request.uid and other.id != request.id
        ]
        if under_way:
            raise Violation("I2", f"{process.name} binds a pod whose bind is in flight", request.key)
        if len(process.binds_in_flight) >= process.machine.settings.max_binds_in_flight:
            raise Violation("I2", f"{process.name} has more binds in flight than allowed", request.key)
        process.binds_in_flight[request.id] = request

    def sent(self, process: Process, request: Request) -> None:
        """A request passed the fence and leaves."""
        if isinstance(request, ReadPod):
            return
        if not process.leading:
            raise Violation("I11", f"{process.name} writes without leading")
        if isinstance(request, BindPod) and request.epoch != process.elector.epoch:
            raise Violation("I11", f"epoch {request.epoch} on a bind in epoch {process.elector.epoch}", request.key)

    # ---- binds -----------------------------------------------------------------------------------

    def decided(self, process: Process, record: StoryRecord) -> None:
        """A node was chosen: I7 and I8, and what the worker counts there."""
        machine = process.machine
        held = machine.scheduler.cache.get_node(record.node)
        counted = (
            frozenset(info.uid for info in held.pods if info.uid != record.uid) if held is not None else frozenset()
        )
        self._decisions += 1
        self._decided.setdefault((record.uid, process.name), []).append(
            Decided(
                process=process.name,
                epoch=record.epoch,
                number=self._decisions,
                node=record.node,
                counted=counted,
                barrier=process.barrier,
            )
        )
        if self._decisions % 3 == 0:
            judge_choice(process, record)

    def binding(self, process: Process, request: BindPod, carry_out: Callable[[], Answered]) -> Answered:
        """The API server looks at a bind."""
        answered = carry_out()
        fired = self._sim.plan.fired
        if answered.status == 409:
            fired["a bind met 409"] += 1
        elif answered.status == 404:
            fired["a bind met 404"] += 1
        if answered.status != 201:
            return answered
        decisions = self._decided.get((request.uid, process.name), [])
        mine = [decided for decided in decisions if decided.node == request.node and decided.epoch == request.epoch]
        if not mine:
            raise Violation("I2", f"{process.name} bound a pod to a node that it had not chosen", request.key)
        if request.uid in self._landed:
            raise Violation("I2", "a pod was bound twice", request.key)
        decided = mine[-1]
        decided.landed = self._sim.world.revision
        self._landed[request.uid] = decided
        if decided.given_up:
            fired["a bind was carried out after it was given up"] += 1
        elif self.overcommitted(request.node):
            self._explain(process, request, decided)
        return answered

    def _explain(self, process: Process, request: BindPod, decided: Decided) -> None:
        """I1: every pod on a node that is too full must be counted by the decision, or be one it could not know of."""
        world = self._sim.world
        unknown = []
        for pod in world.pods_on(request.node):
            uid = pod.metadata.uid
            if uid == request.uid or uid in decided.counted:
                continue
            other = self._landed.get(uid)
            if other is None:
                unknown.append(f"{pod.key}, bound by somebody else")
            elif other.process == decided.process and other.epoch == decided.epoch:
                if other.number > decided.number or other.given_up:
                    unknown.append(f"{pod.key}, decided later or given up")
                    continue
                raise Violation("I1", f"{request.node} is overfull: {pod.key} of before was not counted", request.key)
            elif other.landed > decided.barrier:
                unknown.append(f"{pod.key}, bound by a leader of before behind the barrier")
            else:
                text = f"{request.node} is overfull: {pod.key} of epoch {other.epoch} was bound before the barrier"
                raise Violation("I1", text, request.key)
        if unknown:
            self._sim.plan.fired["a node was overfilled by what its worker could not know"] += 1
        elif not self._sim.node_changed.get(request.node):
            raise Violation("I1", f"{request.node} is overfull although all on it was counted", request.key)

    # ---- stories ---------------------------------------------------------------------------------

    def told(self, process: Process, record: StoryRecord) -> None:
        """A moment of a pod."""
        if record.moment is Moment.ASSUMED:
            self.decided(process, record)
            process.assumed[record.pod] = (record.uid, record.node)
            return
        seen = process.view.get(record.pod)
        if record.moment is Moment.SEEN_BOUND and seen is not None and not seen.spec.node_name:
            # Read back, before the watch shows it.
            process.assumed[record.pod] = (record.uid, record.node)
            self._sim.plan.fired["a read was ahead of the watch"] += 1
            return
        held = process.assumed.get(record.pod)
        if held is None or held[0] != record.uid:
            return
        if record.moment is Moment.UNBOUND:
            self._given_up(process, record)
            del process.assumed[record.pod]
        elif record.moment in {Moment.SEEN_BOUND, Moment.GONE}:
            del process.assumed[record.pod]

    def _given_up(self, process: Process, record: StoryRecord) -> None:
        """I2: who leads gives up no bind that was carried out, for its room would be given away."""
        self._sim.plan.fired[f"given up: {_reason(record.message)}"] += 1
        for decided in self._decided.get((record.uid, process.name), []):
            decided.given_up = True
        landed = self._landed.get(record.uid)
        if landed is None or landed.process != process.name:
            # Somebody else may have bound it, and even to this node: what has not left may be given up nonetheless.
            return
        held = self._sim.world.pods.get(record.pod)
        if held is None or held.metadata.uid != record.uid or held.spec.node_name != record.node:
            return
        if process.leading and process.machine.leading and not held.is_terminating:
            raise Violation("I2", f"{process.name} gives up a bind that was carried out", record.pod)

    def evicting(self, process: Process, effect: DeleteVictim) -> None:
        """I10."""
        victim, preemptor = effect.victim, effect.preemptor
        if victim.priority >= preemptor.priority:
            raise Violation("I10", f"{victim.key} is no less important than {preemptor.key}", preemptor.key)
        if victim.spec.node_name != effect.node_name:
            raise Violation("I10", f"{victim.key} is not on {effect.node_name}", preemptor.key)
        if preemptor.spec.preemption_policy == "Never":
            raise Violation("I10", "policy Never preempts", preemptor.key)
        newest = process.view.get(preemptor.key)
        if newest is not None and newest.metadata.uid == preemptor.metadata.uid and newest.spec.node_name:
            raise Violation("I10", "a bound pod preempts", preemptor.key)

    def post_filtered(self, process: Process, pod: Pod, result: PostFilterResult | None) -> None:
        """I10: each preemption, and now and then that there is none."""
        self._failed_attempts += 1
        if (result is not None and result.victims) or self._failed_attempts % OFTEN == 0:
            judge_preemption(process, pod, result)

    # ---- every step ------------------------------------------------------------------------------

    def after(self, process: Process) -> None:
        """Something happened in a worker."""
        self._steps += 1
        leaders = [other.name for other in self._sim.processes if other.leading]
        if len(leaders) > 1:
            raise Violation("I11", f"{' and '.join(leaders)} lead")
        if self._steps % OFTEN == 0:
            self.check_places(process)

    def check_places(self, process: Process) -> None:
        """I3."""
        machine = process.machine
        if not process.told:
            return
        scheduler = machine.scheduler
        scheduler.queue.check_invariants()
        active = machine.settings.active
        for key, pod in process.view.items():
            if pod.spec.node_name or pod.is_terminating or pod.spec.scheduler_name not in OURS:
                # One that terminates is not tried any more, as upstream has it (skipPodSchedule).
                continue
            uid = pod.metadata.uid
            if uid in machine._ahead:
                # A read showed more than this view: the pod has a node, or has ended there already.
                continue
            info = scheduler.pods.by_key.get(key)
            if info is None or info.uid != uid:
                raise Violation("I3", f"{process.name} does not know of the pod", key)
            place = scheduler.queue.place_of(info)
            binds = machine.is_binding(uid)
            assumed = scheduler.cache.is_assumed_pod(info)
            if place is not None and (binds or assumed):
                raise Violation("I3", f"the pod is in {place} and has a node", key)
            if pod.spec.scheduler_name not in active:
                if place is not None and active:
                    raise Violation("I3", f"a held pod is in {place}", key)
            elif place is None and not assumed and not binds and not info.pod.spec.node_name:
                raise Violation("I3", f"{process.name} has the pod nowhere", key)

    # ---- at rest ---------------------------------------------------------------------------------

    def at_rest(self) -> None:
        """I4, I5 and I6 once nothing goes wrong any more and everything had time."""
        leaders = [process for process in self._sim.processes if process.leading]
        if len(leaders) != 1:
            raise Violation("I11", f"{len(leaders)} workers lead at rest")
        for process in self._sim.processes:
            self.check_places(process)
            self._check_view(process)
            self._check_nothing_under_way(process)
        self._check_nothing_lost()
        self._check_conditions()

    def _check_conditions(self) -> None:
        """A pod that we bound does not say that it is not scheduled, unless a request took its time on the way."""
        tardy = {Fault.LATE_REQUEST, Fault.SLOW, Fault.LEASE_LOST, Fault.PAUSE, Fault.CRASH, Fault.STOP, Fault.THIEF}
        for key, pod in self._sim.world.pods.items():
            said = [c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"]
            if not (said and pod.metadata.uid in self._landed):
                continue
            self._sim.plan.fired["a bound pod says that it is not scheduled"] += 1
            if not tardy & self._sim.plan.faults:
                raise Violation("I5", f"a bound pod says {said[0].message}", key)

    def _check_nothing_under_way(self, process: Process) -> None:
        machine = process.machine
        scheduler = machine.scheduler
        left = {
            "binds": machine.binds_under_way,
            "requests": machine.requests_in_flight,
            "assumed pods": scheduler.cache.assumed_count,
            "pods in flight": scheduler.queue.counts()["in_flight"],  # type: ignore[index]
            "events kept for pods in flight": sum(scheduler.queue.in_flight_events().values()),
            "binds that the shell sees in flight": len(process.binds_in_flight),
        }
        if any(left.values()):
            raise Violation("I5", f"{process.name} at rest: {left}")
        for name in scheduler.nominated_nodes():
            for info in scheduler.nominated_pods_for_node(name):
                held = self._sim.world.pods.get(info.key)
                if held is None or held.metadata.uid != info.uid or held.spec.node_name:
                    raise Violation("I5", f"{process.name} keeps a nomination to {name} in vain", info.key)

    def _check_view(self, process: Process) -> None:
        world, cache = self._sim.world, process.machine.scheduler.cache
        alive = {key: pod for key, pod in world.pods.items() if pod.status.phase not in ENDED}
        if process.view != alive:
            differing = sorted(key for key in {*alive, *process.view} if alive.get(key) != process.view.get(key))
            raise Violation("I6", f"{process.name} does not see the pods as they are", differing[0])
        if process.nodes != world.nodes:
            raise Violation("I6", f"{process.name} does not see the nodes as they are")
        if process.machine.scheduler.stores.pod_disruption_budgets != world.budgets:
            raise Violation("I6", f"{process.name} does not see the disruption budgets as they are")
        process.machine.scheduler.update_snapshot()
        table = process.machine.scheduler.cluster.table
        for name, node in world.nodes.items():
            held = cache.get_node(name)
            pods = world.pods_on(name)
            if held is None or held.node != node:
                raise Violation("I6", f"{process.name} has another {name}")
            if sorted(info.uid for info in held.pods) != sorted(pod.metadata.uid for pod in pods):
                raise Violation("I6", f"{process.name} counts other pods on {name}")
            row = table.row_of[name]
            cpu, memory = _asked(pods)
            seen = (int(table.requested("cpu")[row]), int(table.requested("memory")[row]))
            if seen != (cpu, memory):
                raise Violation("I6", f"{process.name} counts {seen} on {name}, not {(cpu, memory)}")

    def _check_nothing_lost(self) -> None:
        """I4, by the scalar reference; with preemption, if the pod may preempt."""
        world = self._sim.world
        nodes = list(world.nodes.values())
        bound = [pod for pod in world.pods.values() if pod.spec.node_name and pod.status.phase not in ENDED]
        promised = [pod for pod in world.pods.values() if pod.status.nominated_node_name and not pod.spec.node_name]
        profiles = reference_profiles(self._sim.strategy)
        for key, pod in world.pods.items():
            if pod.spec.node_name or pod.spec.scheduler_name not in OURS or pod.is_terminating:
                continue
            if pod.spec.scheduling_gates:
                continue
            others = [other for other in promised if other.key != key]
            profile = profiles[pod.spec.scheduler_name]
            if feasible_nodes(nodes, bound, profile, pod, others):
                raise Violation("I4", "a pod waits at rest although it fits", key)
            if pod.spec.preemption_policy != "Never":
                stronger = [other for other in bound if other.priority >= pod.priority]
                if feasible_nodes(nodes, stronger, profile, pod, others):
                    raise Violation("I4", "a pod waits at rest although it could preempt", key)


GIVEN_UP = (
    "preempted by",
    "does not lead any more",
    "is already assigned to node",
    "is being deleted",
    "was deleted and made anew",
    "not found",
    "not now",
    "forbidden",
)
"""Why binds are given up, by what the texts say."""


def _reason(message: str) -> str:
    if message.endswith("was deleted"):
        return "node deleted" if ": node " in message else "pod deleted"
    return next((text for text in GIVEN_UP if text in message), message)


def _asked(pods: list[Pod]) -> tuple[int, int]:
    """Milli-cores and bytes: all pods here have plain containers only."""
    cpu = memory = 0
    for pod in pods:
        for container in pod.spec.containers:
            requests = container.resources.requests or {}
            cpu += parse_quantity(requests.get("cpu", "0")) // 1_000_000
            memory += parse_quantity(requests.get("memory", "0")) // 1_000_000_000
    return cpu, memory


def _fits(node: Node, pods: list[Pod]) -> bool:
    cpu, memory = _asked(pods)
    there = node.status.allocatable
    return (
        cpu <= parse_quantity(there["cpu"]) // 1_000_000
        and memory <= parse_quantity(there["memory"]) // 1_000_000_000
        and len(pods) <= int(there["pods"])
    )
