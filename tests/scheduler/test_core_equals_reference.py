"""The vector core against the scalar reference: one pod in full, then whole histories decision by decision.

The reference (tests/reference) follows the same upstream code node by node and imports no plugin. It is itself held to
recorded answers of the real kube-scheduler.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, settings

from reference.cluster import PlacedPod, ReferenceCluster
from reference.cycle import Cycle
from reference.decide import new_cycle, place
from reference.diagnosis import fit_message
from reference.oracle_lines import answer
from reference.preemption import run_post_filters
from reference.profile import profiles_of
from stowplan_scheduler.conformance.evaluate import evaluate
from stowplan_scheduler.effects import AttemptFailed, Bind, DeleteVictim, Effect
from stowplan_scheduler.objects import Pod
from support.histories import COMMON, History, Play, histories, scheduler_of
from support.recorded import comparer
from support.stopwatch import Stopwatch
from support.strategies import Scenario, scenarios

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)


# ---- one pod ------------------------------------------------------------------------------


@given(scenarios())
@settings(max_examples=80, phases=PHASES, suppress_health_check=SLOW)
def test_one_pod_is_judged_like_the_reference_judges_it(scenario: Scenario) -> None:
    """Every verdict, raw and normalised score, total, choice, message, rejector and victim."""
    line = scenario.line("random")
    assert comparer().differences("evaluate", answer(line), evaluate(line)) == []


# ---- histories ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decided:
    """How an attempt ended. `start` is where the next search begins."""

    pod: str
    node: str
    message: str
    rejectors: tuple[str, ...]
    victims: tuple[str, ...]
    start: int


class Compared(Play):
    """A play in which the reference decides, too, from nothing but the objects there are."""

    def __init__(self, history: History) -> None:
        self.watch = Stopwatch()
        super().__init__(history, scheduler_of(history, hooks=self.watch))
        self.decisions: list[Decided] = []
        self.cycles: list[Cycle] = []

    def cycle(self, kind: str = "cycle") -> list[Effect]:
        pods, start, before = self.believed_pods(), self._start, self._asked
        effects = super().cycle(kind)
        decided = self._decided(effects)
        if decided is not None:
            (pod,) = [each for each in pods if each.key == decided.pod]
            assert decided == self._reference_decides(pod, pods, start)
            assert self._asked - before == self.cycles[-1].asked
            self.decisions.append(decided)
        return effects

    @property
    def _asked(self) -> Counter[tuple[str, str]]:
        """How often each plugin was asked so far, by plugin and extension point."""
        totals = self.watch.evaluations.totals()
        return Counter({(plugin, point): times for (plugin, point, _), times in totals.items()})

    @property
    def _start(self) -> int:
        return self.scheduler.attempts._start_index

    def _decided(self, effects: list[Effect]) -> Decided | None:
        victims = sorted(effect.victim.key for effect in effects if isinstance(effect, DeleteVictim))
        for effect in effects:
            if isinstance(effect, Bind):
                return Decided(effect.pod.key, effect.node_name, "", (), (), self._start)
            if isinstance(effect, AttemptFailed):
                return Decided(effect.pod.key, "", effect.message, effect.plugins, tuple(victims), self._start)
        return None

    def _reference_decides(self, pod: Pod, pods: list[Pod], start: int) -> Decided:
        profile = profiles_of(self.history.configuration)["default-scheduler"]
        cluster = self._reference_cluster([each for each in pods if each.key != pod.key])
        cycle = new_cycle(cluster, profile, pod)
        self.cycles.append(cycle)
        percentage = int((self.history.configuration or {}).get("percentageOfNodesToScore", 0))
        outcome = place(cycle, percentage, start)
        if outcome.node:
            return Decided(pod.key, outcome.node, "", (), (), outcome.next_start)
        if outcome.error:
            return Decided(pod.key, "", outcome.error, (), (), outcome.next_start)
        diagnosis = outcome.diagnosis
        victims: tuple[str, ...] = ()
        if profile.post_filter:
            result = run_post_filters(cycle, diagnosis)
            diagnosis.post_filter_message = result.status.message
            victims = _first_deleted([victim for victim in result.victims if not victim.is_terminating])
        message = fit_message(diagnosis, len(cluster.nodes))
        return Decided(pod.key, "", message, tuple(sorted(diagnosis.rejectors)), victims, outcome.next_start)

    def _reference_cluster(self, pods: list[Pod]) -> ReferenceCluster:
        """The objects as they are. What depends on how they came to be is taken from the snapshot.

        That is the order of nodes and of their pods, ports that two pods of a node have taken, and the number of nodes
        that an image was known to be on; tests/scheduler/cache holds the snapshot to a naive cache.
        """
        cluster = ReferenceCluster(
            self.nodes.values(),
            pods,
            namespaces=self.namespaces.values(),
            services=list(self.services.values()),
            replica_sets=list(self.replica_sets.values()),
            pdbs=list(self.budgets.values()),
        )
        infos = self.scheduler.cluster.snapshot.node_info_map
        cluster.nodes.sort(key=lambda state: infos[state.node.metadata.name].row)
        for state in cluster.nodes:
            info = infos[state.node.metadata.name]
            order = {each.key: place for place, each in enumerate(info.pods)}
            state.pods.sort(key=lambda each: _place_in(order, each))
            assert len(state.pods) == len(order)
            state.ports = {(port.ip, port.protocol, port.port) for port in info.used_ports or ()}
            state.images = {name: (image.size, image.num_nodes) for name, image in info.image_states.items()}
        return cluster


def _place_in(order: dict[str, int], each: PlacedPod) -> int:
    return order[each.pod.key]


def _first_deleted(victims: list[Pod]) -> tuple[str, ...]:
    """The last victim is deleted when the others are, so a cycle asks for all but one, or for the only one."""
    first = victims[:-1] if len(victims) > 1 else victims
    return tuple(sorted(victim.key for victim in first))


@given(histories(steps=60))
@settings(max_examples=60, phases=PHASES, suppress_health_check=SLOW)
def test_a_history_is_decided_like_the_reference_decides_it(history: History) -> None:
    """The core carries memo entries, counters and a table from one decision to the next; the reference carries nothing.

    The counts of who was asked are those of the reference, too, which asks plugin by plugin and node by node.

    Nodes, pods, namespaces, services and budgets change in between; pods preempt others and are nominated.
    """
    Compared(history).run()


@given(
    histories(sizes=(101, 120), percentages=(0, 1, 85), steps=36, kinds=(*COMMON, *COMMON, "change node", "remove pod"))
)
@settings(max_examples=8, phases=PHASES, suppress_health_check=SLOW)
def test_sampling_visits_the_nodes_that_the_reference_visits(history: History) -> None:
    """From 100 nodes on a search ends early, and the next one begins where it ended."""
    Compared(history).run()
