"""Profiles as the API server has them, reports of workers, and a cluster that carries out what `reconcile` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from stowplan_operator.handlers.accepted import Memory, Stored, decode_memory, encode_memory
from stowplan_operator.handlers.compiling import ProfileCompiler
from stowplan_operator.handlers.groups import GroupPlan, GroupSettings
from stowplan_operator.handlers.names import STATUS_MANAGER
from stowplan_operator.handlers.observed import Health, RunningProfile, WorkerReport, observed
from stowplan_operator.handlers.reconcile import Desired, Situation, reconcile
from stowplan_operator.handlers.url_verdicts import UrlVerdict
from stowplan_operator.worker.configuration import parse_configuration
from stowplan_scheduler.timestamps import NANOSECONDS, format_time, parse_time

START: Final = parse_time("2026-11-30T12:00:00Z")
COMPILER: Final = ProfileCompiler()
SETTINGS: Final = GroupSettings()

PACK: Final = {"scoringStrategy": {"type": "MostAllocated"}}
SPREAD: Final = {"scoringStrategy": {"type": "LeastAllocated"}}
BAD: Final = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}}
BAD_FIELD: Final = "spec.scoringStrategy.resources[0].weight"


def profile(name: str = "dense", spec: Mapping[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A SchedulerProfile; its schedulerName is its name unless `spec` says otherwise."""
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "generation": 1,
        "creationTimestamp": "2026-11-30T10:00:00Z",
        **meta,
    }
    return {"metadata": metadata, "spec": {"schedulerName": name, **deepcopy(dict(spec or {}))}}


class Cluster:
    """The state that outlives the operator: objects, its ConfigMap, the workers' files; and a count of writes.

    `writes`: what was written, in order, as (what, name).
    """

    def __init__(self, *profiles: dict[str, Any]) -> None:
        self.objects = {each["metadata"]["name"]: each for each in profiles}
        self.config_map: dict[str, str] = {}
        self.files: dict[str, GroupPlan] = {}
        self.running: dict[str, str] = {}
        self.refusing: dict[str, str] = {}
        self.writes: list[tuple[str, str]] = []
        self.urls: dict[str, UrlVerdict | None] = {}
        self.now = START

    # ---- what people do ----------------------------------------------------------------------

    def edit(self, name: str, **spec: Any) -> None:
        """Replace fields of spec."""
        found = self.objects[name]
        found["spec"] = {**found["spec"], **deepcopy(spec)}
        found["metadata"]["generation"] += 1

    def delete(self, name: str) -> None:
        del self.objects[name]

    # ---- what workers do ---------------------------------------------------------------------

    def workers_read(self) -> None:
        """Each worker takes up the file that is there, unless it refuses."""
        for group in list(self.running):
            if group not in self.files:
                del self.running[group]
        for group, plan in self.files.items():
            if group not in self.refusing:
                self.running[group] = plan.text

    def report(self, group: str, health: Health = Health.ANSWERS, **fields: Any) -> WorkerReport:
        """What the worker of a group says."""
        loaded = parse_configuration(self.running[group].encode(), group)
        return WorkerReport(
            group=group,
            name=f"{group}-0",
            health=health,
            error=self.refusing.get(group, ""),
            profiles={
                each.profile: RunningProfile(
                    generation=each.generation, hash=each.hash, mode=each.mode, scheduler_name=each.scheduler_name
                )
                for each in loaded.profiles
            },
            **{"is_leading": True, "is_synced": True, **fields},
        )

    def reports(self, health: Health = Health.ANSWERS, **fields: Any) -> list[WorkerReport]:
        return [self.report(group, health, **fields) for group in sorted(self.running)]

    # ---- what the operator does --------------------------------------------------------------

    @property
    def memory(self) -> Memory:
        return decode_memory(Stored(self.config_map))

    def situation(self, reports: list[WorkerReport] | None = None) -> Situation:
        return Situation(
            profiles=[observed(deepcopy(each)) for each in self.objects.values()],
            memory=self.memory,
            reports=self.reports() if reports is None else reports,
            urls=self.urls,
        )

    def desired(self, reports: list[WorkerReport] | None = None) -> Desired:
        return reconcile(self.situation(reports), COMPILER, SETTINGS, self.now)

    def carry_out(self, desired: Desired) -> Iterator[None]:
        """Do what should be, one write at a time: whoever stops iterating has crashed in between."""
        data = dict(encode_memory(desired.memory).data)
        if data != self.config_map:
            self.config_map = data
            self.writes.append(("memory", ""))
            yield
        for name in sorted({*self.files, *desired.groups}):
            plan = desired.groups.get(name)
            if plan is None:
                del self.files[name]
            elif self.files.get(name) != plan:
                self.files[name] = plan
            else:
                continue
            self.writes.append(("group", name))
            yield
        for write in desired.statuses:
            found = next(each for each in self.objects.values() if each["metadata"]["uid"] == write.uid)
            found["status"] = deepcopy(dict(write.status))
            found["metadata"]["managedFields"] = [
                {"manager": STATUS_MANAGER, "subresource": "status", "time": format_time(self.now)}
            ]
            self.writes.append(("status", write.name))
            yield

    def step(self, reports: list[WorkerReport] | None = None) -> Desired:
        """One reconciliation, carried out."""
        desired = self.desired(reports)
        for _ in self.carry_out(desired):
            pass
        return desired

    def settle(self) -> None:
        """Until nothing more is written."""
        for _ in range(20):
            before = len(self.writes)
            self.step()
            self.workers_read()
            if len(self.writes) == before and not self.desired().statuses:
                return
        raise AssertionError(f"does not settle: {self.writes[-10:]}")

    def later(self, seconds: float) -> None:
        self.now += int(seconds * NANOSECONDS)

    # ---- what can be seen --------------------------------------------------------------------

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.objects[name].get("status", {})
        return found

    def condition(self, name: str, type: str) -> dict[str, Any]:
        return next(each for each in self.status(name)["conditions"] if each["type"] == type)

    def shown(self, name: str) -> str:
        """The conditions in one line: "Ready=True/Ready@1 ...", with reasons and observed generations."""
        return " ".join(
            f"{each['type']}={each['status']}/{each['reason']}@{each['observedGeneration']}"
            for each in self.status(name)["conditions"]
        )
