"""A scheduler with plugins of other distributions, for tests, and plugins that write down their calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import AttemptFailed, Bind, Effect
from stowplan_scheduler.events import EffectDone, ObjectAdded
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import (
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SKIP, SUCCESS, Status
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.profiles import plugin_traits
from stowplan_scheduler.scheduler import Scheduler
from support.builders import PodBuilder

SECOND = 1_000_000_000
Classes = Mapping[str, type[Plugin]]


def configured(*plugins: str, **points: Any) -> dict[str, Any]:
    """A configuration with these plugins at every point, in this order."""
    enabled = [{"name": name} for name in plugins]
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": enabled}, **points}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


class World:
    """A scheduler with plugins of others."""

    def __init__(self, classes: Classes, nodes: list[Node], configuration: Any = None, **options: Any) -> None:
        raw = configured(*classes) if configuration is None else configuration
        config = load_configuration(raw, extra_plugins=plugin_traits(classes))
        self.scheduler = Scheduler(config, First(), third_party=classes, **options)
        self.now = 0
        for made in nodes:
            self.tell(made)

    def tell(self, made: Node | Pod) -> list[Effect]:
        """Add an object."""
        return self.scheduler.receive(ObjectAdded(made), self.now)

    def cycle(self) -> list[Effect]:
        """The next cycle, nothing carried out."""
        return self.scheduler.run_cycle(self.now)

    def place(self, made: PodBuilder) -> str:
        """Where a pod goes, or why it goes nowhere; the binding succeeds."""
        self.tell(made.build())
        effects = self.cycle()
        for bind in effects:
            if isinstance(bind, Bind):
                self.scheduler.receive(EffectDone(bind.id), self.now)
        (said,) = [
            e.node_name if isinstance(e, Bind) else e.message for e in effects if isinstance(e, Bind | AttemptFailed)
        ]
        return said


def of_kind(effects: list[Effect], kind: Any) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


CALLS: list[str] = []


class Recorder(ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin):
    """Writes down who is called, and answers what class variables say."""

    name = "First"
    reserves: ClassVar[Status] = SUCCESS
    permits: ClassVar[tuple[Status, int]] = (SUCCESS, 0)
    pre_binds: ClassVar[Status] = SKIP

    def __init__(self, args: object, handle: PluginHandle) -> None:
        pass

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        CALLS.append(f"{self.name} reserve {node_name}")
        return self.reserves

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        CALLS.append(f"{self.name} unreserve {node_name}")

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, int]:
        CALLS.append(f"{self.name} permit {node_name}")
        return self.permits

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        CALLS.append(f"{self.name} prebind {node_name}")
        return self.pre_binds

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        CALLS.append(f"{self.name} postbind {node_name}")


class SecondRecorder(Recorder):
    name = "Second"


class ThirdRecorder(Recorder):
    name = "Third"


RECORDERS: Classes = {"First": Recorder, "Second": SecondRecorder, "Third": ThirdRecorder}
