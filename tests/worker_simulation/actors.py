"""Everybody else in the world: controllers that want pods, kubelets, another scheduler, and whoever breaks things."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stowplan_operator.worker.settings import Mode
from stowplan_scheduler.objects import (
    Affinity,
    LabelSelector,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from support.builders import HOSTNAME, ZONE, node, pod

from .budgets import Budgets
from .plan import MILLISECOND, SECOND, Fault
from .profiles import OTHER
from .world import DELETED, ENDED, NOW, Happened

if TYPE_CHECKING:
    from .simulation import Simulation


class App(msgspec.Struct):
    """Pods that a controller keeps up."""

    name: str
    scheduler: str
    cpu: int
    memory: int
    priority: int
    replicas: int
    stable: bool
    """Pods keep their names, as a stateful set's."""
    apart: bool
    """At most one on a node."""
    spread: bool
    zone: str
    tolerates: bool
    never_preempts: bool
    made: int = 0

    def pod(self, name: str) -> Pod:
        """One of its pods."""
        made = pod(name).req(cpu=f"{self.cpu}m", memory=f"{self.memory}Mi").scheduler(self.scheduler)
        made.labels(app=self.name).priority(self.priority, "Never" if self.never_preempts else None)
        if self.zone:
            made.node_selector(zone=self.zone)
        built = made.build()
        owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=self.name, uid=self.name, controller=True)
        spec = built.spec
        selector = LabelSelector(match_labels={"app": self.name})
        if self.apart:
            term = PodAffinityTerm(label_selector=selector, topology_key=HOSTNAME)
            anti = PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
            spec = replace(spec, affinity=Affinity(pod_anti_affinity=anti))
        if self.spread:
            constraint = TopologySpreadConstraint(
                max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=selector
            )
            spec = replace(spec, topology_spread_constraints=(constraint,))
        if self.tolerates:
            spec = replace(spec, tolerations=(*spec.tolerations, Toleration(key="dedicated", operator="Exists")))
        return replace(built, metadata=replace(built.metadata, owner_references=(owner,)), spec=spec)


class Actors:
    """All of them, driven by the kernel."""

    def __init__(self, simulation: Simulation) -> None:
        """Nodes and apps of the seed; `begin` starts them."""
        self._sim = simulation
        self._world = simulation.world
        self._kernel = simulation.kernel
        self._plan = simulation.plan
        rng = self._plan.stream("workload")
        self.apps = [self._app(number) for number in range(self._plan.apps)]
        for number in range(self._plan.nodes):
            cores = rng.choice((1, 2, 4))
            self._world.create(_node(f"n{number}", cores, f"z{number % 2}"))
        self._impossible = 0
        self._budgets = Budgets(simulation)

    def _app(self, number: int) -> App:
        rng = self._plan.stream("workload")
        busy = Fault.SECOND_SCHEDULER in self._plan.faults
        schedulers = ("stowplan", "stowplan", "dense", OTHER) if busy else ("stowplan", "stowplan", "dense")
        return App(
            name=f"a{number}",
            scheduler=rng.choice(schedulers),
            cpu=rng.choice((100, 200, 300, 500, 900)),
            memory=rng.choice((64, 256, 700)),
            priority=rng.choice((0, 0, 0, 5, 10)),
            replicas=rng.randint(1, 8),
            stable=rng.random() < 0.4,
            apart=rng.random() < 0.2,
            spread=rng.random() < 0.2,
            zone=rng.choice(("", "", "", "z0")),
            tolerates=rng.random() < 0.3,
            never_preempts=rng.random() < 0.2,
        )

    def begin(self) -> None:
        """Start."""
        self._world.listeners.append(self._saw)
        self._budgets.begin()
        self._controllers()
        self._trouble()
        self._other_scheduler()

    # ---- controllers -------------------------------------------------------------------------

    def _controllers(self) -> None:
        for app in self.apps:
            self._keep_up(app)
        for key, held in list(self._world.pods.items()):
            if held.status.phase in ENDED:
                self._world.remove("Pod", key)
            elif held.spec.node_name and held.spec.node_name not in self._world.nodes:
                self._end(key, held.metadata.uid)
        self._again("controllers", (100, 600), self._controllers)

    def _again(self, purpose: str, milliseconds: tuple[int, int], action: Callable[[], None]) -> None:
        """Once more after a while; a longer one when nothing goes wrong any more."""
        pace = 1 if self._plan.active or self._kernel.now < self._sim.healed else 10
        self._kernel.after(self._plan.stream(purpose).randint(*milliseconds) * pace * MILLISECOND, action)

    def _keep_up(self, app: App) -> None:
        mine = [p for p in self._world.pods.values() if p.metadata.labels.get("app") == app.name]
        alive = [p for p in mine if p.metadata.deletion_timestamp is None and p.status.phase not in ENDED]
        if app.stable:
            for number in range(app.replicas):
                if f"default/{app.name}-{number}" not in self._world.pods:
                    self._create(app, f"{app.name}-{number}")
        else:
            for _ in range(app.replicas - len(alive)):
                app.made += 1
                self._create(app, f"{app.name}-x{app.made}")
        surplus = sorted((p.metadata.name for p in alive), key=lambda name: (len(name), name))[app.replicas :]
        for name in surplus:
            self._world.delete(f"default/{name}")

    def _create(self, app: App, name: str) -> None:
        made = app.pod(name)
        if self._plan.rolls(Fault.FINALIZER, 0.1):
            made = replace(made, metadata=replace(made.metadata, finalizers=("example.com/hold",)))
        if self._plan.rolls(Fault.POD_GATED, 0.15):
            made = replace(made, spec=replace(made.spec, scheduling_gates=(PodSchedulingGate(name="later"),)))
            wait = self._plan.stream("gates").randint(1, 20) * SECOND
            self._kernel.after(wait, lambda: self._lift(f"default/{name}"))
        self._world.create(made)

    def _lift(self, key: str) -> None:
        held = self._world.pods.get(key)
        if held is not None and held.spec.scheduling_gates:
            self._world.update(replace(held, spec=replace(held.spec, scheduling_gates=())))

    # ---- kubelets ------------------------------------------------------------------------------

    def _saw(self, kind: str, happened: Happened) -> None:
        for process in self._sim.processes:
            if kind in process.watches:
                process.watches[kind].poke()
        if kind != "Pod" or happened.type == DELETED:
            return
        held: Pod = happened.object
        key, uid = held.key, held.metadata.uid
        rng = self._plan.stream("kubelets")
        if held.metadata.deletion_timestamp is not None:
            slow = self._plan.rolls(Fault.SLOW_END, 0.3)
            self._kernel.after(rng.randint(5, 30) * SECOND if slow else rng.randint(50, 900) * MILLISECOND,
                               lambda: self._end(key, uid))  # fmt: skip
        elif held.spec.node_name and not held.status.phase:
            self._kernel.after(rng.randint(50, 2000) * MILLISECOND, lambda: self._run(key, uid))

    def _run(self, key: str, uid: str) -> None:
        held = self._world.pods.get(key)
        if held is None or held.metadata.uid != uid or held.status.phase or held.metadata.deletion_timestamp:
            return
        on = self._world.nodes.get(held.spec.node_name)
        if on is None:
            return
        full = self._sim.checks.overcommitted(held.spec.node_name)
        phase = "Failed" if full and self._plan.rolls(Fault.KUBELET_REJECTS, 0.9) else "Running"
        self._world.update(replace(held, status=replace(held.status, phase=phase, start_time=NOW)))

    def _end(self, key: str, uid: str) -> None:
        held = self._world.pods.get(key)
        if held is None or held.metadata.uid != uid:
            return
        if held.metadata.finalizers:
            self._world.update(replace(held, metadata=replace(held.metadata, finalizers=(), deletion_timestamp=NOW)))
        else:
            self._world.remove("Pod", key)

    # ---- others --------------------------------------------------------------------------------

    def _other_scheduler(self) -> None:
        """Binds its own pods to whatever node has room, as it sees the world itself; sometimes it takes ours."""
        rng = self._plan.stream("other scheduler")
        waiting = [p for p in self._world.pods.values() if not p.spec.node_name and not p.spec.scheduling_gates]
        for held in waiting:
            theirs = held.spec.scheduler_name == OTHER
            if theirs and self._plan.active:
                self._plan.fired[Fault.SECOND_SCHEDULER.name] += 1
            if not theirs and not self._plan.rolls(Fault.THIEF, 0.03):
                continue
            names = sorted(self._world.nodes)
            rng.shuffle(names)
            for name in names:
                if not theirs or self._sim.checks.has_room(name, held):
                    self._world.bind(held.key, held.metadata.uid, name)
                    break
        self._again("other scheduler", (50, 400), self._other_scheduler)

    # ---- trouble -------------------------------------------------------------------------------

    def _trouble(self) -> None:
        """A few times in a second, whatever the dice say."""
        if self._plan.active:
            self._trouble_with_pods()
            self._trouble_with_nodes()
            self._trouble_with_the_server()
            self._trouble_with_workers()
            self._trouble_with_profiles()
            self._budgets.trouble()
        self._again("trouble", (100, 500), self._trouble)

    def _trouble_with_pods(self) -> None:
        rng = self._plan.stream("pod trouble")
        if self._plan.stream("scaling").random() < 0.1:
            app = self._plan.stream("scaling").choice(self.apps)
            app.replicas = self._plan.stream("scaling").randint(0, 10)
        pods = sorted(self._world.pods)
        if pods and self._plan.rolls(Fault.POD_DELETED, 0.15):
            self._world.delete(rng.choice(pods))
        stable = [key for key in sorted(self._world.pods) if not self._world.pods[key].spec.node_name]
        if stable and self._plan.rolls(Fault.POD_MADE_ANEW, 0.15):
            held = self._world.pods[rng.choice(stable)]
            self._world.remove("Pod", held.key)
            bare = ObjectMeta(
                name=held.metadata.name,
                namespace=held.metadata.namespace,
                labels=held.metadata.labels,
                owner_references=held.metadata.owner_references,
            )
            self._world.create(replace(held, metadata=bare, status=replace(held.status, conditions=())))
        if self._plan.rolls(Fault.IMPOSSIBLE, 0.1):
            self._impossible += 1
            made = pod(f"huge-{self._impossible}").req(cpu="64").scheduler("stowplan").build()
            self._world.create(made)

    def _trouble_with_nodes(self) -> None:
        rng = self._plan.stream("node trouble")
        names = sorted(self._world.nodes)
        if len(names) > 1 and self._plan.rolls(Fault.NODE_DELETED, 0.02):
            gone = self._world.nodes[rng.choice(names)]
            self._world.remove("Node", gone.key)
            if rng.random() < 0.7:
                self._kernel.after(rng.randint(1, 15) * SECOND, lambda: self._add_again(gone))
            return
        if names and self._plan.rolls(Fault.NODE_SHRUNK, 0.02):
            held = self._world.nodes[rng.choice(names)]
            less = {**held.status.allocatable, "cpu": rng.choice(("500m", "1", "2"))}
            self._world.update(replace(held, status=replace(held.status, allocatable=less)))
        if names and self._plan.rolls(Fault.NODE_CHANGED, 0.05):
            held = self._world.nodes[rng.choice(names)]
            taint = Taint(key="dedicated", value="x", effect="NoSchedule")
            spec = replace(
                held.spec,
                unschedulable=rng.random() < 0.3,
                taints=(taint,) if rng.random() < 0.4 else (),
            )
            labels = {**held.metadata.labels, ZONE: rng.choice(("z0", "z1"))}
            self._world.update(replace(held, spec=spec, metadata=replace(held.metadata, labels=labels)))

    def _add_again(self, gone: Node) -> None:
        if gone.key not in self._world.nodes:
            metadata = ObjectMeta(name=gone.metadata.name, labels=gone.metadata.labels)
            self._world.create(replace(gone, metadata=metadata))

    def _trouble_with_the_server(self) -> None:
        rng = self._plan.stream("server trouble")
        if self._plan.rolls(Fault.OUTAGE, 0.008):
            self._sim.network.outage(rng.randint(1, 6) * SECOND)
            for process in self._sim.processes:
                for watch in process.watches.values():
                    watch.end()
        if self._plan.rolls(Fault.WATCH_EXPIRED, 0.02):
            self._world.compact()
            for process in self._sim.processes:
                for watch in process.watches.values():
                    watch.end()
        for process in self._sim.processes:
            for watch in process.watches.values():
                if self._plan.rolls(Fault.WATCH_FREEZE, 0.004):
                    watch.freeze()

    def _trouble_with_workers(self) -> None:
        rng = self._plan.stream("worker trouble")
        for process in list(self._sim.processes):
            if self._plan.rolls(Fault.CRASH, 0.012):
                self._sim.crash(process)
            elif self._plan.rolls(Fault.STOP, 0.01):
                process.stop()
            elif self._plan.rolls(Fault.PAUSE, 0.01):
                process.pause(rng.randint(1, 25) * SECOND)
            elif process.machine.leading and self._plan.rolls(Fault.LEASE_LOST, 0.03):
                process.loses_lease_until = self._kernel.now + rng.randint(5, 25) * SECOND

    def _trouble_with_profiles(self) -> None:
        rng = self._plan.stream("profile trouble")
        if self._plan.rolls(Fault.PROFILE_EDITED, 0.1):
            self._sim.edit(strategy=rng.choice(("LeastAllocated", "MostAllocated")), dense=rng.choice(list(Mode)))
        if self._plan.rolls(Fault.BAD_PROFILE, 0.05):
            self._sim.edit_badly()

    # ---- the end -------------------------------------------------------------------------------

    def heal(self) -> None:
        """Everything that was broken is mended; what was asked for stays."""
        for key, held in list(self._world.pods.items()):
            if held.metadata.finalizers and held.metadata.deletion_timestamp is None:
                self._world.update(replace(held, metadata=replace(held.metadata, finalizers=())))
            self._lift(key)
        if len(self._world.nodes) < 2:
            for name in ("spare0", "spare1"):
                self._world.create(_node(name, 4, "z0"))


def _node(name: str, cores: int, zone: str) -> Node:
    return node(name).capacity(cpu=str(cores), memory="4Gi", pods="12").zone(zone).build()
