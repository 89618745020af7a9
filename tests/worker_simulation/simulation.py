"""One run: a world, workers, faults from a seed; then healing, rest and the invariants of rest."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial

import msgspec

from stowplan_operator.worker.requests import Request
from stowplan_operator.worker.settings import MachineSettings, Mode
from stowplan_operator.worker.story import StoryRecord
from stowplan_scheduler.objects import key_of

from .actors import Actors
from .checks import Checks
from .kernel import Kernel
from .network import Network
from .plan import MILLISECOND, SECOND, Fault, Plan
from .process import Process
from .profiles import refused, settings
from .violation import Violation
from .world import BUDGET, Happened, World

WARM_UP = 10 * SECOND
REST = 440 * SECOND
"""From the healing on: a frozen watch of 70 s, the flush of 300 s at a tick of 30 s, the last back-offs."""

MAX_STEPS = 400_000


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended."""

    seed: int
    digest: str
    steps: int
    fired: Counter[str]
    pods: int


class Failure(AssertionError):  # noqa: N818 - says what it is
    """A run that did not end well, with all that is needed to look at it."""


class Simulation:
    """Everything of one seed."""

    def __init__(self, plan: Plan) -> None:
        """Set up; `run` runs it."""
        self.plan = plan
        self.kernel = Kernel()
        self.world = World()
        self.network = Network(self.kernel, plan)
        self.checks = Checks(self)
        self.processes: list[Process] = []
        self.node_changed: Counter[str] = Counter()
        """Nodes that came, changed or went after the start."""
        self.healed = WARM_UP + plan.fault_seconds * SECOND
        """When the last of what goes wrong has happened."""
        self.command = f"worker_simulation --first {plan.seed} --seeds 1"
        """The module and its arguments that repeat the run."""
        self.on_boundary: Callable[[Process, Request, str], None] | None = None
        self.stories: dict[str, deque[str]] = {}
        self.strategy = plan.strategy
        self._dense = Mode.ACTIVE
        self._generation = 1
        self._started = 0
        self._shade = Fault.SECOND_SCHEDULER in plan.faults
        self._bound = 0
        self.actors = Actors(self)

    # ---- running -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """The whole run. Raises Failure."""
        try:
            self._run()
        except Exception as failure:
            raise Failure(self._report(failure)) from failure
        return Outcome(
            seed=self.plan.seed,
            digest=self.kernel.digest(),
            steps=self.kernel.steps,
            fired=self.plan.fired,
            pods=self._bound,
        )

    def _run(self) -> None:
        self.world.listeners.append(self._note)
        for slot in range(self.plan.workers):
            self._start(slot)
        self.actors.begin()
        self._until(WARM_UP)
        self.plan.active = True
        self._until(self.healed)
        self._heal()
        self._until(self.kernel.now + REST)
        self._come_to_rest()
        self.checks.at_rest()

    def _until(self, time: int) -> None:
        while self.kernel.step(time):
            if self.kernel.steps > MAX_STEPS:
                raise Violation("I4", "the run does not come to an end")

    def _come_to_rest(self) -> None:
        """A request or a watch event may be on its way at any moment; there is a moment soon when none is."""
        end = self.kernel.now + 60 * SECOND
        while self.kernel.now < end and not self._is_at_rest():
            self._until(self.kernel.now + 50 * MILLISECOND)

    def _is_at_rest(self) -> bool:
        return all(
            process.machine.requests_in_flight == 0 and all(watch.is_caught_up for watch in process.watches.values())
            for process in self.processes
        ) and all(not pod.is_terminating for pod in self.world.pods.values())

    def _heal(self) -> None:
        self.plan.active = False
        self.log("heal")
        self.network.down_until = self.network.forbids_until = 0
        for process in list(self.processes):
            process.loses_lease_until = 0
            process.wake_up()
        self.actors.heal()
        self.edit(strategy=self.strategy, dense=Mode.ACTIVE)

    # ---- workers ---------------------------------------------------------------------------------

    def settings(self) -> MachineSettings:
        """What a worker is given now."""
        plan = self.plan
        backoff = (plan.initial_backoff, plan.max_backoff)
        return settings(
            self.strategy,
            self._dense,
            self._shade,
            Fault.PLUGIN_BREAKS in plan.faults,
            plan.percentage,
            backoff,
            plan.max_binds,
            self._generation,
        )

    def _start(self, slot: int) -> None:
        self._started += 1
        process = Process(self, slot, self._started, self.settings())
        process.strategy = self.strategy
        self.processes.append(process)
        self.log(f"{process.name} starts")

    def crash(self, process: Process) -> None:
        """It is killed, and started again after a while."""
        self.log(f"{process.name} is killed")
        process.kill()
        self._replace(process)

    def stopped(self, process: Process) -> None:
        """It has ended gracefully."""
        if process.alive:
            self.log(f"{process.name} has stopped")
            process.kill()
            self._replace(process)

    def _replace(self, process: Process) -> None:
        self.processes.remove(process)
        wait = self.plan.stream("restarts").randint(100, 3000) * MILLISECOND
        self.kernel.after(wait, lambda: self._start(process.slot))

    def boundary(self, process: Process, request: Request, what: str) -> None:
        """A request of a process leaves, or was carried out: where a crash may be wanted."""
        self.log(f"{process.name} {request.id} {type(request).__name__} {what}")
        if self.on_boundary is not None:
            self.on_boundary(process, request, what)

    # ---- configuration ---------------------------------------------------------------------------

    def edit(self, strategy: str, dense: Mode) -> None:
        """Profiles change; each worker notices within a second."""
        self.strategy, self._dense = strategy, dense
        self._generation += 1
        generation = self._generation
        for process in self.processes:
            wait = self.plan.stream("edits").randint(0, 1000) * MILLISECOND
            self.kernel.after(wait, process.here(partial(self._apply, process, generation)))

    def _apply(self, process: Process, generation: int) -> None:
        if generation != self._generation:
            return
        if not process.reconfigure(self.settings()):
            raise Violation("I16", "a good configuration was refused")
        process.strategy = self.strategy
        before = process.machine.pending()
        if not process.reconfigure(self.settings()) or process.machine.pending() != before:
            raise Violation("I15", "the same configuration twice changes something")

    def edit_badly(self) -> None:
        """An edit that no worker takes."""
        for process in self.processes:
            if process.reconfigure(refused(self.plan.max_binds)):
                raise Violation("I16", "a bad configuration was taken")

    # ---- what is written down ----------------------------------------------------------------------

    def log(self, text: str) -> None:
        """A line of the log."""
        self.kernel.log(text)

    def story(self, process: Process, record: StoryRecord) -> None:
        """A moment of a pod in a worker."""
        text = f"{process.name} {record.moment.value} {record.pod} {record.uid} {record.node} {record.place}"
        self.log(text)
        lines = self.stories.setdefault(record.pod, deque(maxlen=40))
        status = "" if record.status is None else f" {record.status}"
        lines.append(f"{self.kernel.now / 1e9:10.3f} {text}{status} {record.message}")
        self.plan.fired[f"story: {record.moment.value}"] += 1
        self.checks.told(process, record)

    def _note(self, kind: str, happened: Happened) -> None:
        held = happened.object
        self.log(f"world {happened.revision} {kind} {happened.type} {key_of(held.metadata)}")
        if kind == BUDGET:
            return
        if kind == "Node":
            self.node_changed[held.key] += happened.type != "ADDED" or self.kernel.now > 0
            return
        node = held.spec.node_name
        self._bound += bool(node) and happened.type == "MODIFIED" and not held.status.phase
        terminating = " terminating" if held.is_terminating else ""
        self.stories.setdefault(held.key, deque(maxlen=40)).append(
            f"{self.kernel.now / 1e9:10.3f} world: {happened.type} {held.metadata.uid} {node}{terminating}"
        )

    def _report(self, failure: Exception) -> str:
        """Seed, step, invariant, the pod's story, the last lines, and the command that repeats the run."""
        lines = [
            f"seed {self.plan.seed}, step {self.kernel.steps}, at {self.kernel.now / 1e9:.3f} s: {failure}",
            f"faults: {', '.join(sorted(fault.name for fault in self.plan.faults))}",
        ]
        pod = getattr(failure, "pod", "")
        if pod:
            lines += [f"the story of {pod}:", *(f"  {line}" for line in self.stories.get(pod, ()))]
        lines += ["the last lines of the log:", *(f"  {line}" for line in self.kernel.recent)]
        lines.append(f"to repeat it: PYTHONPATH=scheduler:autoscaling:operator:tests python -m {self.command}")
        return "\n".join(lines)


def run(seed: int) -> Outcome:
    """One seed. Raises Failure."""
    return Simulation(Plan(seed)).run()
