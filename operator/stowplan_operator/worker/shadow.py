"""Shadow profiles: they decide about another scheduler's pods, bind nothing, and count how it would have differed.

A shadow decides at the moment in which the watch shows that the other scheduler has bound the pod, from the state
before that bind is taken in. It uses the live view of the cluster and its own memo, start index and random numbers, so
the decisions of the active profiles are the same with and without it.

What is compared, all in whole numbers (ShadowReport):

- *agreement*: the same node, or a node that the shadow gives the same total, or another one;
- *packing*: how full the chosen node is with the pod on it: the requested share of cpu and of memory, in permille,
  averaged over the two; summed over the decisions, for the shadow's node and for the real one. And how often a node
  was chosen that ran nothing but daemons: a node that could have been given back;
- *spreading*: how many pods of the same controller are on the chosen node already, summed;
- *pending*: pods that the other scheduler placed and the shadow would not have, and the other way round: pods that the
  other scheduler has just called unschedulable and the shadow would have placed.

Each decision starts from what the real scheduler made of the cluster. So these figures say how single decisions differ;
what a cluster becomes that is run by the profile all day is a question for `stowplan simulate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.runtime import Decision, FitFailure, Profile
from stowplan_scheduler.framework.scoring import total_scores
from stowplan_scheduler.framework.search import nodes_to_find
from stowplan_scheduler.framework.selection import TieBreak
from stowplan_scheduler.objects import Pod, controller_of
from stowplan_scheduler.plugins.volumes_and_devices import (
    DynamicResources,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)
from stowplan_scheduler.profiles import build_profiles

from .settings import MachineSettings, Mode

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_info import NodeInfo
    from stowplan_scheduler.framework.handle import PluginFactory
    from stowplan_scheduler.framework.pod_info import PodInfo
    from stowplan_scheduler.scheduler import Scheduler

UNSCHEDULABLE: Final = "Unschedulable"


class ShadowReport(msgspec.Struct, rename="camel"):
    """What one shadow has counted since it began. Sums belong to the `placed` decisions.

    `placed`: pods for which both chose a node. Fullness is in permille per decision, so 1000 x placed is the most.
    """

    decided: int = 0
    """Pods that the other scheduler bound and the shadow decided about."""
    placed: int = 0
    agreed: int = 0
    """The same node."""
    tied: int = 0
    """Another node, to which the shadow gives the total of the real one."""
    would_not_fit: int = 0
    """The shadow would have left the pod pending."""
    would_fit: int = 0
    """Pods that the other scheduler called unschedulable and the shadow would have placed at that moment."""
    failed: int = 0
    """No decision: a plugin failed, or the pod uses what is not decided yet."""
    missed: int = 0
    """Pods that were bound when they were first seen."""
    fullness: int = 0
    real_fullness: int = 0
    opened: int = 0
    """Decisions for a node that ran nothing but daemons."""
    real_opened: int = 0
    together: int = 0
    """Pods of the same controller on the chosen nodes."""
    real_together: int = 0

    @property
    def different(self) -> int:
        """Decisions for another node, which the shadow prefers."""
        return self.placed - self.agreed - self.tied

    def as_dict(self) -> dict[str, int]:
        """All figures, for a status."""
        figures: dict[str, int] = msgspec.to_builtins(self)
        return {**figures, "different": self.different}


class _NoChance:
    """The shadow's random numbers: none are needed with upstream's way of breaking ties."""

    def integers(self, low: int, high: int) -> int:
        return low


class Shadow:
    """One shadow profile over the scheduler's view of the cluster."""

    def __init__(self, profile: Profile, scheduler: Scheduler) -> None:
        """Nothing counted yet."""
        self.profile = profile
        self.report = ShadowReport()
        self._scheduler = scheduler
        self._start = 0

    def bound(self, pod: Pod, node_name: str) -> None:
        """The other scheduler has bound `pod`, shown here as it was without a node, to `node_name`."""
        report, start = self.report, self._start
        info, result = self._decide(pod)
        report.decided += 1
        if info is None or result is None:
            report.failed += 1
        elif isinstance(result, Decision):
            self._compare(info, result, node_name, start)
        else:
            report.would_not_fit += 1

    def rejected(self, pod: Pod) -> None:
        """The other scheduler found no node for the pod."""
        _, result = self._decide(pod)
        self.report.would_fit += isinstance(result, Decision)

    def _decide(self, pod: Pod) -> tuple[PodInfo | None, Decision | FitFailure | None]:
        """What the profile decides now; None if it decides nothing."""
        scheduler = self._scheduler
        try:
            info = scheduler.pods.interner.info(pod)
            scheduler.update_snapshot()
            result, self._start = self.profile.schedule(
                info, scheduler.cluster, scheduler, self._start, TieBreak.HEAP, _NoChance()
            )
        except Exception:  # noqa: BLE001 - whatever a plugin of a shadow does, the pods of others must be placed
            return None, None
        return info, None if isinstance(result, FitFailure) and _is_refusal(result) else result

    def _compare(self, info: PodInfo, decision: Decision, node_name: str, start: int) -> None:
        report, table = self.report, self._scheduler.cluster.table
        row = table.row_of.get(node_name)
        agrees = node_name == decision.node_name
        ties = False if row is None or agrees or decision.ties == 1 else self._ties(info, row, start)
        if row is None or ties is None:
            report.failed += 1
            return
        report.placed += 1
        report.agreed += agrees
        report.tied += ties
        chosen, real = table.infos[decision.row], table.infos[row]
        report.fullness += _fullness(chosen, info)
        report.real_fullness += _fullness(real, info)
        report.opened += _runs_daemons_only(chosen)
        report.real_opened += _runs_daemons_only(real)
        report.together += _together(chosen, info.pod)
        report.real_together += _together(real, info.pod)

    def _ties(self, info: PodInfo, row: int, start: int) -> bool | None:
        """Whether the shadow gives the real node the best total, too, had it looked at it; None if a plugin broke."""
        try:
            return self._is_best(info, row, start)
        except Exception:  # noqa: BLE001 - as above
            return None

    def _is_best(self, info: PodInfo, row: int, start: int) -> bool:
        profile, cluster = self.profile, self._scheduler.cluster
        search, outcome = profile.search(info, CycleState(), cluster, self._scheduler)
        candidates, size = None, cluster.table.size
        if outcome.node_names is not None:
            rows = sorted(cluster.table.row_of[name] for name in outcome.node_names if name in cluster.table.row_of)
            candidates, size = np.array(rows, np.intp), len(rows)
        view = NodeView(cluster.table, search.find(candidates, start, nodes_to_find(size, profile.percentage)).rows)
        totals = total_scores(search.plan, info, cluster, view)
        at = np.flatnonzero(view.row_numbers() == row)
        return bool(len(at)) and int(totals[at[0]]) == int(totals.max())


class Shadows:
    """All shadow profiles of a worker, by the scheduler whose pods they decide about. False if there is none."""

    def __init__(
        self, settings: MachineSettings, scheduler: Scheduler, third_party: Mapping[str, PluginFactory] | None
    ) -> None:
        """The shadows of these settings. Raises ConfigurationError."""
        self._scheduler = scheduler
        self._third_party = third_party
        self._by_name: dict[str, Shadow] = {}
        self._by_target: dict[str, list[Shadow]] = {}
        names = {p.scheduler_name: p.shadow_of for p in settings.profiles if p.mode is Mode.SHADOW}
        if not names:
            return
        configuration = settings.configuration
        profiles = tuple(profile for profile in configuration.profiles if profile.scheduler_name in names)
        built = build_profiles(
            configuration.model_copy(update={"profiles": profiles}),
            PluginHandle(scheduler.stores),
            third_party=third_party,
        )
        for name, profile in built.items():
            shadow = self._by_name[name] = Shadow(profile, scheduler)
            self._by_target.setdefault(names[name], []).append(shadow)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def rebuilt(self, settings: MachineSettings) -> Shadows:
        """The shadows of other settings; those configured as before go on counting. Raises ConfigurationError."""
        new = Shadows(settings, self._scheduler, self._third_party)
        targets = {shadow: target for target, shadows in self._by_target.items() for shadow in shadows}
        for target, shadows in new._by_target.items():
            for index, shadow in enumerate(shadows):
                old = self._by_name.get(shadow.profile.scheduler_name)
                if old is not None and targets[old] == target and _same(old.profile, shadow.profile):
                    shadows[index] = new._by_name[shadow.profile.scheduler_name] = old
        return new

    def before(self, old: Pod | None, new: Pod) -> None:
        """A pod changed, and the change has not been taken in yet."""
        shadows = self._by_target.get(new.spec.scheduler_name)
        if not shadows:
            return
        known = old if old is not None and old.metadata.uid == new.metadata.uid else None
        if not new.spec.node_name:
            if known is not None and _is_unschedulable(new) and not _is_unschedulable(known):
                for shadow in shadows:
                    shadow.rejected(new)
        elif known is None:
            for shadow in shadows:
                shadow.report.missed += 1
        elif not known.spec.node_name:
            for shadow in shadows:
                shadow.bound(known, new.spec.node_name)

    def reports(self) -> dict[str, ShadowReport]:
        """By scheduler name of the shadow."""
        return {name: shadow.report for name, shadow in self._by_name.items()}


def _same(old: Profile, new: Profile) -> bool:
    return old.made_of == new.made_of and old.percentage == new.percentage


def _is_unschedulable(pod: Pod) -> bool:
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == UNSCHEDULABLE
        for condition in pod.status.conditions
    )


def _is_refusal(failure: FitFailure) -> bool:
    """Whether the pod was turned away for what it uses, and not for want of a node (see volumes_and_devices.py)."""
    diagnosis = failure.diagnosis
    return bool(diagnosis.pre_filter_message) and diagnosis.absent.plugin in _REFUSING


_REFUSING: Final = frozenset(
    plugin.name for plugin in (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, DynamicResources)
)


def _fullness(node: NodeInfo, pod: PodInfo) -> int:
    """The requested share of a node with the pod on it, in permille: the mean of cpu and memory, rounded down."""
    asked, held, there = pod.shape.node_requested, node.requested, node.allocatable
    cpu = _permille(held.milli_cpu + asked.milli_cpu, there.milli_cpu)
    return (cpu + _permille(held.memory + asked.memory, there.memory)) // 2


def _permille(part: int, whole: int) -> int:
    return min(part * 1000 // whole, 1000) if whole else 0


def _runs_daemons_only(node: NodeInfo) -> bool:
    owners = (controller_of(info.pod.metadata) for info in node.pods)
    return all(owner is not None and owner.kind == "DaemonSet" for owner in owners)


def _together(node: NodeInfo, pod: Pod) -> int:
    """How many pods of the same controller are on the node."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return 0
    owners = (controller_of(info.pod.metadata) for info in node.pods)
    return sum(1 for other in owners if other is not None and other.uid == owner.uid)
