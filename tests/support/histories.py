"""Random histories of a cluster: what a scheduler is told, when it is asked to decide, and what becomes of that.

A `History` is drawn from hypothesis: a few templates of nodes and pods, and steps that are small numbers. A `Play`
plays one to a scheduler and takes the part of everything around it: API server, kubelet, clock. The same history and
the same effects give the same events, so two schedulers that decide alike hear exactly the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.conformance.scenario import First
from stowplan_scheduler.effects import Bind, DeleteVictim, Effect, Outcome, PatchPodStatus, Result
from stowplan_scheduler.events import EffectDone, Event, ObjectAdded, ObjectDeleted, ObjectUpdated, TimerFired
from stowplan_scheduler.objects import Namespace, Node, Pod, PodCondition, PodDisruptionBudget, ReplicaSet, Service
from stowplan_scheduler.scheduler import Scheduler

from .builders import HOSTNAME, budget, namespace, replica_set, selector, service
from .strategies import configurations, nodes, pods

SECOND = 1_000_000_000
DELETED_AT = "2000-01-01T00:00:00Z"

COMMON = ("pods", "pods", "cycle", "cycle", "cycle", "cycle", "cycle")
RARE = (
    "add node", "remove node", "bound pod", "remove pod", "terminate pod", "relabel pod", "resize pod", "namespace",
    "service", "budget", "wait", "wait", *["change node"] * 6,
)  # fmt: skip
BINDINGS = ("failing cycle", "late cycle", "answer")
"""Steps in which a binding fails, or is not answered before the next step."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happens: `one` and `two` choose among whatever there is to choose from."""

    kind: str
    one: int
    two: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """`size` nodes at first, made from the templates in turn. `grace`: victims go on until a step removes them."""

    node_templates: tuple[Node, ...]
    pod_templates: tuple[Pod, ...]
    size: int
    grace: bool
    configuration: Mapping[str, Any] | None
    steps: tuple[Step, ...]


@st.composite
def histories(
    draw: st.DrawFn,
    *,
    sizes: tuple[int, ...] = (3, 6),
    percentages: tuple[int, ...] = (0,),
    steps: int = 40,
    kinds: tuple[str, ...] = (*COMMON, *COMMON, *RARE),
) -> History:
    """A history of up to `steps` steps over one of these numbers of nodes."""
    numbers = st.integers(0, 1000)
    step = st.builds(Step, st.sampled_from(kinds), numbers, numbers)
    return History(
        node_templates=tuple(draw(nodes(f"n{i}")) for i in range(draw(st.integers(2, 4)))),
        pod_templates=tuple(draw(pods(f"p{i}", count=6)) for i in range(draw(st.integers(2, 4)))),
        size=draw(st.sampled_from(sizes)),
        grace=draw(st.booleans()),
        configuration=_with_percentage(draw(configurations()), draw(st.sampled_from(percentages))),
        steps=tuple(draw(st.lists(step, min_size=steps // 2, max_size=steps))),
    )


def _with_percentage(configuration: dict[str, Any] | None, percentage: int) -> dict[str, Any]:
    made = dict(configuration or {})
    made |= {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**made, "percentageOfNodesToScore": percentage}


def scheduler_of(history: History, **options: Any) -> Scheduler:
    """A scheduler with the history's configuration."""
    return Scheduler(load_configuration(history.configuration), First(), **options)


class Play:
    """The world around one scheduler. `effects` are all that it has asked for, in order."""

    def __init__(self, history: History, scheduler: Scheduler) -> None:
        self.history = history
        self.scheduler = scheduler
        self.now = 0
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.namespaces: dict[str, Namespace] = {}
        self.services: dict[str, Service] = {}
        self.replica_sets: dict[str, ReplicaSet] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.assumed: dict[str, str] = {}
        """Pods whose binding is not answered, with their nodes."""
        self.waiting: list[Bind] = []
        self.effects: list[Effect] = []
        self._pods_made = 0
        self._set_up()

    def _set_up(self) -> None:
        for made in (namespace("default"), namespace("team-a", team="a"), namespace("team-b")):
            self.namespaces[made.metadata.name] = made
            self.tell(ObjectAdded(made))
        owner = replica_set("rs", selector(app="web"))
        self.replica_sets["default/rs"] = owner
        self.tell(ObjectAdded(owner))
        for number in range(self.history.size):
            self._set_node(number, number)

    def run(self) -> list[Effect]:
        """Play every step; returns all effects."""
        for step in self.history.steps:
            self.apply(step)
        return self.effects

    def tell(self, event: Event) -> list[Effect]:
        """Tell the scheduler and carry out what it asks for."""
        effects = self.scheduler.receive(event, self.now)
        self.effects += effects
        self.carry_out(effects)
        return effects

    # ---- steps -------------------------------------------------------------------------------

    def apply(self, step: Step) -> None:
        """Play one step."""
        self.now += SECOND // 10
        one, two = step.one, step.two
        match step.kind:
            case "pods":
                for _ in range(1 + one % 3):
                    self._add_pod(two, "")
            case "cycle" | "failing cycle" | "late cycle":
                self.cycle(step.kind)
            case "answer":
                self._answer_all(fail=one % 3 == 0)
            case "add node" | "change node":
                self._set_node(self.history.size + one % 4 if step.kind == "add node" else one, two)
            case "remove node" if self.nodes:
                self.tell(ObjectDeleted(self.nodes.pop(_pick(self.nodes, one))))
            case "bound pod":
                self._add_pod(two, f"n{one % (self.history.size + 2)}")
            case "wait":
                self.now += (1 + one % 30) * SECOND
                self.tell(TimerFired())
            case "namespace":
                changed = namespace("team-a", team="ab"[one % 2])
                self.namespaces["team-a"] = changed
                self.tell(ObjectUpdated(changed))
            case "service":
                self._toggle_service()
            case "budget":
                made = budget("b", selector(app=("web", "db")[one % 2]), two % 3)
                self.budgets["default/b"] = made
                self.tell(ObjectAdded(made))
            case _ if self.pods:
                self._change_pod(step.kind, _pick(self.pods, one), two)

    def _toggle_service(self) -> None:
        held = self.services.pop("default/web", None)
        if held is None:
            held = self.services["default/web"] = service("web", app="web")
            self.tell(ObjectAdded(held))
        else:
            self.tell(ObjectDeleted(held))

    def _set_node(self, number: int, template: int) -> None:
        """Node number `number` of those that can be, as a template has it. Images have one size per name."""
        name = f"n{number % (self.history.size + 4)}"
        made = self.history.node_templates[template % len(self.history.node_templates)]
        labels = made.metadata.labels
        if HOSTNAME in labels:
            labels = {**labels, HOSTNAME: name}
        made = replace(made, metadata=replace(made.metadata, name=name, uid=name, labels=labels))
        event = ObjectUpdated(made) if name in self.nodes else ObjectAdded(made)
        self.nodes[name] = made
        self.tell(event)

    def _add_pod(self, template: int, node_name: str) -> None:
        made = self.history.pod_templates[template % len(self.history.pod_templates)]
        self._pods_made += 1
        name = f"pod-{self._pods_made}"
        metadata = replace(made.metadata, name=name, uid=f"uid-{self._pods_made}")
        made = replace(made, metadata=metadata, spec=replace(made.spec, node_name=node_name))
        self.pods[made.key] = made
        self.tell(ObjectAdded(made))

    def _change_pod(self, kind: str, key: str, template: int) -> None:
        held = self.pods[key]
        other = self.history.pod_templates[template % len(self.history.pod_templates)]
        match kind:
            case "remove pod":
                self._remove_pod(key)
            case "terminate pod":
                self._store(replace(held, metadata=replace(held.metadata, deletion_timestamp=DELETED_AT)))
            case "relabel pod":
                self._store(replace(held, metadata=replace(held.metadata, labels=other.metadata.labels)))
            case "resize pod":
                spec = replace(held.spec, containers=other.spec.containers, init_containers=other.spec.init_containers)
                self._store(replace(held, spec=spec))

    def _store(self, changed: Pod) -> None:
        self.pods[changed.key] = changed
        self.tell(ObjectUpdated(changed))

    def _remove_pod(self, key: str) -> None:
        self.assumed.pop(key, None)
        self.tell(ObjectDeleted(self.pods.pop(key)))

    # ---- cycles and effects ------------------------------------------------------------------

    def cycle(self, kind: str = "cycle") -> list[Effect]:
        """One scheduling cycle; the binding succeeds, fails, or is answered later."""
        effects = self.scheduler.run_cycle(self.now)
        self.effects += effects
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        for effect in binds:
            self.assumed[effect.pod.key] = effect.node_name
        if kind == "late cycle":
            self.waiting += binds
        else:
            for effect in binds:
                self._answer(effect, fail=kind == "failing cycle")
        self.carry_out(effects)
        return effects

    def _answer_all(self, *, fail: bool) -> None:
        waiting, self.waiting = self.waiting, []
        for effect in waiting:
            self._answer(effect, fail=fail)

    def _answer(self, effect: Bind, *, fail: bool) -> None:
        held = self.pods.get(effect.pod.key)
        outcome = Outcome()
        if fail or held is None or held.metadata.uid != effect.pod.metadata.uid:
            outcome = Outcome(Result.FAILED, "the API server said no")
        else:
            status = replace(held.status, phase="Running", nominated_node_name="", start_time=DELETED_AT)
            bound = replace(held, spec=replace(held.spec, node_name=effect.node_name), status=status)
            self._store(bound)
        self.assumed.pop(effect.pod.key, None)
        self.tell(EffectDone(effect.id, outcome))

    def carry_out(self, effects: list[Effect]) -> None:
        """Patches and deletions happen at once."""
        for effect in effects:
            if isinstance(effect, PatchPodStatus):
                self._patch(effect)
            elif isinstance(effect, DeleteVictim):
                self._delete_victim(effect)

    def _patch(self, effect: PatchPodStatus) -> None:
        held = self.pods.get(effect.pod.key)
        if held is None:
            return
        status = held.status
        if effect.reason:
            condition = PodCondition(type="PodScheduled", status="False", reason=effect.reason, message=effect.message)
            status = replace(status, conditions=(condition,))
        if effect.nominated_node_name is not None:
            status = replace(status, nominated_node_name=effect.nominated_node_name)
        self._store(replace(held, status=status))

    def _delete_victim(self, effect: DeleteVictim) -> None:
        key = effect.victim.key
        held = self.pods.get(key)
        if held is not None and self.history.grace:
            reason = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
            metadata = replace(held.metadata, deletion_timestamp=DELETED_AT)
            self._store(replace(held, metadata=metadata, status=replace(held.status, conditions=(reason,))))
        elif held is not None:
            self._remove_pod(key)
        self.tell(EffectDone(effect.id))

    # ---- reading -----------------------------------------------------------------------------

    def believed_pods(self) -> list[Pod]:
        """All pods as a scheduler must see them: assumed ones on their nodes."""
        return [
            replace(pod, spec=replace(pod.spec, node_name=self.assumed[key])) if key in self.assumed else pod
            for key, pod in self.pods.items()
        ]


def _pick(objects: Mapping[str, object], number: int) -> str:
    return list(objects)[number % len(objects)]
