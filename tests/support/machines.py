"""A worker machine with its surroundings in a test's hands: changes go in, requests are looked at and answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from stowplan_operator.worker.machine import WorkerMachine
from stowplan_operator.worker.requests import Answer, BindPod, Request
from stowplan_operator.worker.settings import MachineSettings, Mode, ProfileSettings
from stowplan_operator.worker.story import StoryRecord
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import Observe
from stowplan_scheduler.events import WATCHED
from stowplan_scheduler.framework.handle import PluginFactory
from stowplan_scheduler.objects import Node, Pod
from support.builders import node, pod

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
R = TypeVar("R", bound=Request)


def settings(
    *profiles: ProfileSettings, max_binds: int = 32, strategy: str = "LeastAllocated", **config: Any
) -> MachineSettings:
    """Settings with these profiles, "stowplan" alone if none is named; `strategy`: how all score cpu and memory."""
    profiles = profiles or (ProfileSettings(scheduler_name="stowplan"),)
    scoring = {"type": strategy, "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]}
    args = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}]
    listed = [{"schedulerName": profile.scheduler_name, "pluginConfig": args} for profile in profiles]
    configuration = load_configuration({**CONFIG, "profiles": listed, **config})
    return MachineSettings(configuration=configuration, profiles=profiles, max_binds_in_flight=max_binds)


def profile(name: str = "stowplan", mode: Mode = Mode.ACTIVE, **more: Any) -> ProfileSettings:
    """One profile's settings."""
    return ProfileSettings(scheduler_name=name, mode=mode, **more)


@dataclass(frozen=True)
class Changed:
    """A change, as the store of a kind would tell it."""

    type: str
    old: Any
    new: Any


class Desk:
    """A machine that leads and is fresh unless told otherwise, a clock, and a memory of the objects it was told of."""

    def __init__(
        self,
        *objects: Node | Pod,
        leading: bool = True,
        given: MachineSettings | None = None,
        third_party: Mapping[str, PluginFactory] | None = None,
    ) -> None:
        self.now = 0
        self.version = 0
        self.stories: list[StoryRecord] = []
        self.samples: list[Observe] = []
        self.failures: list[Exception] = []
        self.objects: dict[tuple[str, str], Any] = {}
        self.machine = WorkerMachine(
            given or settings(),
            First(),
            start=0,
            third_party=third_party,
            on_story=self.stories.append,
            on_observe=self.samples.append,
            on_failure=self.failures.append,
        )
        for made in objects:
            self.see(made)
        for kind in WATCHED:
            self.machine.heard(kind, self.version, self.now)
        if leading:
            self.machine.lead(1, 0, self.now)

    # ---- the watches

    def see(self, made: Any) -> list[Request]:
        """The object is there, or changed; it gets a new version, and a nanosecond passes: pods are tried in order."""
        self.version += 1
        self.now += 1
        made = replace(made, metadata=replace(made.metadata, resource_version=str(self.version)))
        key = (type(made).__name__, made.key)
        old = self.objects.get(key)
        self.objects[key] = made
        change = Changed("ADDED" if old is None else "MODIFIED", old, made)
        return self.machine.changed(change, self.now)

    def lose(self, made: Any) -> list[Request]:
        """The object is gone."""
        old = self.objects.pop((type(made).__name__, made.key))
        return self.machine.changed(Changed("DELETED", old, None), self.now)

    def show_bound(self, bind: BindPod) -> list[Request]:
        """The watch shows the pod on the node of a bind."""
        held: Pod = self.objects["Pod", bind.key]
        return self.see(replace(held, spec=replace(held.spec, node_name=bind.node)))

    # ---- time and answers

    def tick(self, after: int = 0) -> list[Request]:
        """Let time pass, with all that is due."""
        self.now += after
        return self.machine.tick(self.now)

    def settle(self, until: int) -> list[Request]:
        """Tick whenever the machine asks for it, up to the time `until`; all requests."""
        requests: list[Request] = []
        for _ in range(1000):
            wake = self.machine.wake_at()
            if wake is None or wake > until:
                break
            self.now = max(self.now, wake)
            requests += self.machine.tick(self.now)
        else:
            raise AssertionError("the machine wants to be woken again and again")
        self.now = max(self.now, until)
        return requests

    def answer(self, request: Request, status: int = 201, message: str = "", **more: Any) -> list[Request]:
        """Answer a request."""
        return self.machine.answered(Answer(id=request.id, status=status, message=message, **more), self.now)

    def story(self, name: str) -> list[str]:
        """The moments of a pod, in order."""
        return [record.moment.value for record in self.stories if record.pod == f"default/{name}"]


def of(kind: type[R], requests: Sequence[Request]) -> list[R]:
    """The requests of one kind."""
    return [request for request in requests if isinstance(request, kind)]


def the(kind: type[R], requests: Sequence[Request]) -> R:
    """The only request of that kind."""
    (found,) = of(kind, requests)
    return found


def small(name: str = "n1", cpu: str = "1", **labels: str) -> Node:
    """A node with room for a few pods."""
    return node(name).capacity(cpu=cpu, memory="4Gi", pods="10").labels(**labels).build()


def waiting(name: str = "p1", cpu: str = "400m", scheduler: str = "stowplan", priority: int = 0, uid: str = "") -> Pod:
    """A pod that waits for a node."""
    made = pod(name).req(cpu=cpu).priority(priority).scheduler(scheduler).build()
    return replace(made, metadata=replace(made.metadata, uid=uid or made.metadata.uid))
