"""Mode `run`: a whole scheduler in virtual time, with the oracle's time model.

A cycle starts only at (k + 1/2) * cycleSeconds, one per slot; everything that a cycle or a step causes has settled
before the next slot. API server and kubelet are played here: a bound pod runs at once, a victim goes after its grace
period.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from stowplan_scheduler.config import configuration_error_text
from stowplan_scheduler.effects import (
    DONE,
    AttemptFailed,
    Bind,
    DeleteVictim,
    Effect,
    Outcome,
    PatchPodStatus,
    RecordEvent,
    Result,
)
from stowplan_scheduler.events import EffectDone, ObjectAdded, ObjectDeleted, ObjectUpdated, TimerFired
from stowplan_scheduler.objects import Pod, PodCondition, PriorityClass, key_of
from stowplan_scheduler.scheduler import Scheduler
from stowplan_scheduler.timestamps import format_time, parse_time

from .scenario import (
    KINDS,
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

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
_LOADING = 10 * SECOND
"""Virtual time from the first object to the start of the scenario."""
_EPOCH = parse_time("2000-01-01T00:00:00Z") + _LOADING
_RANK = {"failed": 0, "nominated": 1, "victim": 2, "scheduled": 3}


def run(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result line of one scenario."""
    identifier = scenario["id"]
    try:
        check_supported(scenario)
        return {"id": identifier, **_Run(scenario).result()}
    except Unsupported as missing:
        return {"id": identifier, "unsupported": str(missing)}
    except ConfigurationError as failure:
        return {"id": identifier, "error": configuration_error_text(failure)}
    except ScenarioError as failure:
        return {"id": identifier, "error": str(failure)}


class ScenarioError(Exception):
    """The scenario does something that the API server refuses."""


def _nanoseconds(seconds: float) -> int:
    """Whole microseconds, as the oracle reads times."""
    return round(seconds * 1e6) * 1000


class _Run:
    """The API server's objects, the clock, and the scheduler."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.scheduler = Scheduler(configuration(scenario.get("config")), First())
        self.cycle = _nanoseconds(scenario.get("cycleSeconds") or 0.001)
        self.grace = _nanoseconds(scenario.get("gracePeriodSeconds") or 0)
        self.until = _nanoseconds(scenario["until"])
        steps = [(_nanoseconds(step["at"]), step) for step in scenario.get("steps") or ()]
        self.steps = deque(sorted(steps, key=lambda entry: entry[0]))
        self.objects: dict[tuple[str, str], Any] = {}
        self.classes: list[PriorityClass] = []
        self.uses: dict[tuple[str, str], int] = {}
        self.version = 0
        self.deletions: list[tuple[int, int, str]] = []
        self.events: list[dict[str, Any]] = []
        self.now = -_LOADING
        objects = scenario.get("objects") or {}
        for listed, kind in LISTS:
            for raw in objects.get(listed, ()):
                self._create(kind.__name__, raw)
                if kind is Pod:
                    self.now += MILLISECOND

    def result(self) -> dict[str, Any]:
        self.now = 0
        self._play()
        self.events.sort(key=lambda event: (event["t"], _RANK[event["type"]], event["pod"]))
        pods = (item for (kind, _), item in self.objects.items() if kind == "Pod")
        return {"events": self.events, "final": {pod.key: pod.spec.node_name for pod in pods}, "error": ""}

    # ---- the clock ---------------------------------------------------------------------------

    def _play(self) -> None:
        """Timers, then deletions, then steps, then cycles, in order of time."""
        self._fire_timers()
        while True:
            at, what = self._next()
            if at > self.until:
                return
            self.now = at
            if what == "timer":
                self._fire_timers()
            elif what == "deletion":
                _, _, key = heapq.heappop(self.deletions)
                self._delete("Pod", key)
            elif what == "step":
                self._apply(self.steps.popleft()[1])
            else:
                self._settle(self.scheduler.run_cycle(self.now))

    def _next(self) -> tuple[int, str]:
        """The earliest thing to happen after or at the present."""
        coming = [(self._next_tick(), 0, "timer")]
        if self.deletions:
            coming.append((self.deletions[0][0], 1, "deletion"))
        if self.steps:
            coming.append((self.steps[0][0], 2, "step"))
        if self.scheduler.has_work():
            half = self.cycle // 2
            coming.append((((self.now - half) // self.cycle + 1) * self.cycle + half, 3, "cycle"))
        at, _, what = min(coming)
        return at, what

    def _next_tick(self) -> int:
        """The next whole second at which a flush of the queue may move a pod."""
        following = (self.now // SECOND + 1) * SECOND
        due = self.scheduler.next_timer(self.now)
        if due is None:
            return self.until + 1
        return max(following, -(-due // SECOND) * SECOND)

    def _fire_timers(self) -> None:
        self._settle(self.scheduler.receive(TimerFired(), self.now))

    # ---- effects -----------------------------------------------------------------------------

    def _settle(self, effects: list[Effect]) -> None:
        """Carry out effects, and what they cause, until nothing is left."""
        pending = deque(effects)
        while pending:
            pending.extend(self._carry_out(pending.popleft()))

    def _carry_out(self, effect: Effect) -> list[Effect]:
        match effect:
            case Bind():
                return self._bind(effect)
            case PatchPodStatus():
                return self._patch(effect)
            case DeleteVictim():
                return self._delete_victim(effect)
            case AttemptFailed():
                self._note("failed", effect.pod, message=effect.message, rejectors=list(effect.plugins))
                if effect.nominated_node:
                    self._note("nominated", effect.pod, node=effect.nominated_node)
            case RecordEvent(reason="Preempted") if effect.related is not None:
                node = effect.regarding.spec.node_name
                self._note("victim", effect.regarding, node=node, by=effect.related.key)
            case _:
                pass
        return []

    def _bind(self, effect: Bind) -> list[Effect]:
        pod = self.objects.get(("Pod", effect.pod.key))
        if pod is None:
            return self._done(effect, Outcome(Result.FAILED, f'pods "{effect.pod.metadata.name}" not found'))
        status = msgspec.structs.replace(
            pod.status,
            nominated_node_name="",
            conditions=(PodCondition(type="PodScheduled", status="True"),),
            phase="Running",
            start_time=pod.status.start_time or format_time(_EPOCH + self.now),
        )
        spec = msgspec.structs.replace(pod.spec, node_name=effect.node_name)
        effects = self._store("Pod", msgspec.structs.replace(pod, spec=spec, status=status))
        self._note("scheduled", pod, node=effect.node_name)
        return effects + self._done(effect, DONE)

    def _patch(self, effect: PatchPodStatus) -> list[Effect]:
        pod = self.objects.get(("Pod", effect.pod.key))
        if pod is None:
            return []
        status = pod.status
        if effect.reason:
            condition = PodCondition(type="PodScheduled", status="False", reason=effect.reason, message=effect.message)
            others = tuple(c for c in status.conditions if c.type != "PodScheduled")
            status = msgspec.structs.replace(status, conditions=(*others, condition))
        if effect.nominated_node_name is not None:
            status = msgspec.structs.replace(status, nominated_node_name=effect.nominated_node_name)
        return self._store("Pod", _through_json(msgspec.structs.replace(pod, status=status)))

    def _delete_victim(self, effect: DeleteVictim) -> list[Effect]:
        key = effect.victim.key
        pod = self.objects.get(("Pod", key))
        if pod is None:
            return self._done(effect, Outcome(missing=True))
        condition = PodCondition(
            type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message=effect.message
        )
        others = tuple(c for c in pod.status.conditions if c.type != "DisruptionTarget")
        status = msgspec.structs.replace(pod.status, conditions=(*others, condition))
        pod = _through_json(msgspec.structs.replace(pod, status=status))
        effects = self._store("Pod", pod)
        if self.grace <= 0:
            effects += self._remove("Pod", key)
        elif pod.metadata.deletion_timestamp is None:
            effects += self._terminate(self.objects["Pod", key])
        return effects + self._done(effect, DONE)

    def _terminate(self, pod: Pod) -> list[Effect]:
        """Mark the pod; it goes at the end of its grace period, between two cycles."""
        deletion = format_time((_EPOCH + self.now + self.grace) // SECOND * SECOND)
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=deletion)
        end = -(-(self.now + self.grace) // self.cycle) * self.cycle
        heapq.heappush(self.deletions, (end, len(self.events) + len(self.deletions), pod.key))
        return self._store("Pod", msgspec.structs.replace(pod, metadata=metadata))

    def _done(self, effect: Effect, outcome: Outcome) -> list[Effect]:
        return self.scheduler.receive(EffectDone(effect.id, outcome), self.now)

    def _note(self, kind: str, pod: Pod, **fields: Any) -> None:
        self.events.append({"t": round(self.now / SECOND, 4), "type": kind, "pod": pod.key, **fields})

    # ---- the API server ----------------------------------------------------------------------

    def _apply(self, step: Mapping[str, Any]) -> None:
        kind, raw = step["kind"], step["object"]
        if kind not in KINDS:
            raise Unsupported(f"steps with objects of kind {kind}")
        if step["op"] == "create":
            self._create(kind, raw)
            return
        item = decode(KINDS[kind], raw)
        key = key_of(item.metadata)
        if (kind, key) not in self.objects:
            return
        if step["op"] == "delete":
            self._delete(kind, key)
        else:
            self._update(kind, key, item)

    def _create(self, kind: str, raw: Mapping[str, Any]) -> None:
        item = decode(KINDS[kind], raw)
        if isinstance(item, PriorityClass):
            self.classes.append(item)
        if isinstance(item, Pod):
            item = admit(item, self.classes)
            if item.is_terminal:
                return
        key = key_of(item.metadata)
        if (kind, key) in self.objects:
            raise ScenarioError(f'creating {kind} {item.metadata.name}: {kind.lower()}s "{key}" already exists')
        if not item.metadata.uid:
            count = self.uses[kind, key] = self.uses.get((kind, key), 0) + 1
            item = with_uid(item, key if count == 1 else f"{key}~{count}")
        self._settle(self._store(kind, item))

    def _update(self, kind: str, key: str, item: Any) -> None:
        old = self.objects[kind, key]
        metadata = msgspec.structs.replace(
            item.metadata, uid=old.metadata.uid, creation_timestamp=old.metadata.creation_timestamp
        )
        item = msgspec.structs.replace(item, metadata=metadata)
        if isinstance(item, Pod):
            item = admit(item, self.classes)
            phase = item.status.phase
            status = old.status
            if phase not in {"", "Pending"}:
                status = msgspec.structs.replace(status, phase=phase)
            metadata = msgspec.structs.replace(item.metadata, deletion_timestamp=old.metadata.deletion_timestamp)
            spec = msgspec.structs.replace(item.spec, node_name=old.spec.node_name)
            item = msgspec.structs.replace(item, metadata=metadata, spec=spec, status=status)
            if item.is_terminal:
                self._delete(kind, key)
                return
        self._settle(self._store(kind, item))

    def _delete(self, kind: str, key: str) -> None:
        if (kind, key) in self.objects:
            self._settle(self._remove(kind, key))

    def _store(self, kind: str, item: Any) -> list[Effect]:
        self.version += 1
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self.version))
        item = msgspec.structs.replace(item, metadata=metadata)
        key = (kind, key_of(item.metadata))
        event = ObjectUpdated(item) if key in self.objects else ObjectAdded(item)
        self.objects[key] = item
        return self.scheduler.receive(event, self.now)

    def _remove(self, kind: str, key: str) -> list[Effect]:
        return self.scheduler.receive(ObjectDeleted(self.objects.pop((kind, key))), self.now)


def _through_json(pod: Pod) -> Pod:
    """What a patch does to an object: Go's JSON has whole seconds only, and leaves out empty lists."""
    start = pod.status.start_time
    if start:
        status = msgspec.structs.replace(pod.status, start_time=format_time(parse_time(start) // SECOND * SECOND))
        pod = msgspec.structs.replace(pod, status=status)
    return msgspec.convert(_without_empty_lists(msgspec.to_builtins(pod)), Pod)


def _without_empty_lists(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _without_empty_lists(value) for name, value in part.items() if value != ()}
    return [_without_empty_lists(item) for item in part] if isinstance(part, tuple) else part
