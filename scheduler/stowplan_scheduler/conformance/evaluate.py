"""Mode `evaluate`: one pod against one snapshot, every extension point's answer shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.config import configuration_error_text
from stowplan_scheduler.events import ObjectAdded
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.diagnosis import SchedulingError
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.runtime import FitFailure, Profile
from stowplan_scheduler.framework.scoring import score_table
from stowplan_scheduler.framework.search import Search
from stowplan_scheduler.framework.status import Status
from stowplan_scheduler.objects import Pod, PriorityClass
from stowplan_scheduler.scheduler import Scheduler

from .scenario import (
    LISTS,
    ConfigurationError,
    First,
    Unsupported,
    admit,
    check_supported,
    configuration,
    decode,
    with_uid,
)

_EVERY_NODE = 100


def evaluate(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result line of one scenario."""
    identifier = scenario["id"]
    try:
        check_supported(scenario)
        return {"id": identifier, **_Evaluation(scenario).result()}
    except Unsupported as missing:
        return {"id": identifier, "unsupported": str(missing)}
    except ConfigurationError as failure:
        return {"id": identifier, "error": configuration_error_text(failure)}


class _Evaluation:
    """A scheduler with the scenario's objects, and the pod to evaluate."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        config = configuration(scenario.get("config"))
        self.scheduler = Scheduler(config, First())
        for profile in self.scheduler.profiles.values():
            profile.percentage = _EVERY_NODE
        objects = scenario.get("objects") or {}
        classes = [decode(PriorityClass, raw) for raw in objects.get("priorityClasses", ())]
        for listed, kind in LISTS:
            for raw in objects.get(listed, ()):
                item = decode(kind, raw)
                if isinstance(item, Pod):
                    item = _stored(item, classes)
                    if item.is_terminal:
                        continue
                self.scheduler.receive(ObjectAdded(item), 0)
        for raw in scenario.get("nominated") or ():
            self.scheduler.receive(ObjectAdded(_stored(decode(Pod, raw), classes)), 0)
        pod = _stored(decode(Pod, scenario["pod"]), classes)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        self.scheduler.receive(ObjectAdded(msgspec.structs.replace(pod, spec=spec)), 0)
        self.pod: PodInfo = self.scheduler.pods.interner.info(pod, with_node_name=True)

    def result(self) -> dict[str, Any]:
        name = self.pod.pod.spec.scheduler_name
        profile = self.scheduler.profiles.get(name)
        if profile is None:
            return {"error": f"no profile for schedulerName {name}"}
        self.scheduler.update_snapshot()
        table = self.scheduler.cluster.table
        result: dict[str, Any] = {
            "nodeOrder": [info.name for info in table.infos],
            "filter": {},
            "feasible": [],
            "scores": {},
            "totals": {},
            "selected": "",
            "fitMessage": "",
            "postFilter": None,
            "message": "",
            "rejectors": None,
            "error": "",
        }
        self._phases(profile, result)
        self._decide(profile, result)
        return result

    # ---- extension point by extension point --------------------------------------------------

    def _phases(self, profile: Profile, result: dict[str, Any]) -> None:
        scheduler, table = self.scheduler, self.scheduler.cluster.table
        state = CycleState()
        search, outcome = profile.search(self.pod, state, scheduler.cluster, scheduler)
        names = outcome.node_names
        result["preFilter"] = {**_described(outcome.status), "nodeNames": None if names is None else sorted(names)}
        if not outcome.status.is_success:
            return
        rows = np.arange(table.size, dtype=np.intp)
        if names is not None:
            rows = np.array([row for row in rows if table.infos[row].name in names], np.intp)
        verdicts = search.verdicts(rows)
        for row, verdict in zip(rows.tolist(), verdicts.tolist(), strict=True):
            if verdict:
                result["filter"][table.infos[row].name] = _described(profile.status(verdict))
        feasible = rows[verdicts == 0]
        result["feasible"] = [table.infos[row].name for row in feasible]
        if len(feasible) > 1:
            try:
                self._scores(search, NodeView(table, feasible), result)
            except SchedulingError as failure:
                result["error"] = f"PreScore: {failure}"

    def _scores(self, search: Search, view: NodeView, result: dict[str, Any]) -> None:
        table = score_table(search.plan, self.pod, self.scheduler.cluster, view)
        for index, name in enumerate(result["feasible"]):
            scores = {}
            for plugin in table:
                normalized = int(plugin.normalized[index])
                scores[plugin.plugin] = {
                    "raw": int(plugin.raw[index]),
                    "normalized": normalized,
                    "weighted": normalized * plugin.weight,
                }
            result["scores"][name] = scores
            result["totals"][name] = sum(score["weighted"] for score in scores.values())

    # ---- the decision ------------------------------------------------------------------------

    def _decide(self, profile: Profile, result: dict[str, Any]) -> None:
        scheduler = self.scheduler
        try:
            decision, _ = profile.schedule(
                self.pod, scheduler.cluster, scheduler, 0, scheduler.tie_break, scheduler.rng
            )
        except SchedulingError as failure:
            result["error"] = str(failure)
            return
        if not isinstance(decision, FitFailure):
            result["selected"] = decision.node_name
            return
        diagnosis = decision.diagnosis
        result["fitMessage"] = diagnosis.message()
        result["rejectors"] = sorted(diagnosis.unschedulable_plugins)
        if profile.post_filters:
            post, status = scheduler.attempts.run_post_filters(self.pod, profile, decision)
            diagnosis.post_filter_message = status.message
            victims = () if post is None else post.victims
            result["postFilter"] = {
                **_described(status),
                "nominatedNode": "" if post is None else post.nominated_node or "",
                "victims": sorted(victim.key for victim in victims if not victim.terminating),
            }
        result["message"] = diagnosis.message()


def _stored(pod: Pod, classes: list[PriorityClass]) -> Pod:
    stored: Pod = with_uid(admit(pod, classes), pod.key)
    return stored


def _described(status: Status) -> dict[str, Any]:
    if status.is_success:
        return {"code": status.code.label}
    return {"code": status.code.label, "plugin": status.plugin, "reasons": sorted(status.reasons)}
