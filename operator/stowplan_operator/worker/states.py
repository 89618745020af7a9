"""What a worker is doing, for those who ask: /status, /configz, checks of health, and gauges of lease and heartbeat."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stowplan_operator.api.events import EventWriter
from stowplan_operator.api.lease_runner import LeaseRunner

from .informers import Informers
from .machine import WorkerMachine
from .metrics import Sample
from .reload import ConfigurationFile
from .self_check import SelfCheck


class WorkerStates:
    """Reads the parts of one worker. Times are nanoseconds of the monotonic clock."""

    def __init__(
        self,
        *,
        name: str,
        lease_name: str,
        identity: str,
        machine: WorkerMachine,
        informers: Informers,
        events: EventWriter,
        file: ConfigurationFile,
        check: SelfCheck,
    ) -> None:
        self._name = name
        self._lease_name = lease_name
        self._identity = identity
        self._machine = machine
        self._informers = informers
        self._events = events
        self._file = file
        self._check = check
        self._beat = time.monotonic_ns()
        self.lease: LeaseRunner | None = None
        """None: no election."""

    def beat(self, now: int) -> None:
        """The loop came round."""
        self._beat = now

    # ---- checks ----------------------------------------------------------------------------------

    def stuck(self, now: int, limit: float) -> str:
        """Why the worker counts as stuck: no heartbeat for more than `limit` seconds. "" if it does not."""
        age = (now - self._beat) / 1e9
        return f"the loop did not come round for {age:.0f} s" if age > limit else ""

    def cannot_work(self) -> str:
        """Which rights are missing, or whether there is no cluster; "" if all is well, as far as is known."""
        return self._check.problem

    def not_synced(self) -> str:
        """Which kinds were not listed yet, and why; "" if all were."""
        if self._informers.synced:
            return ""
        problems = self._informers.problems()
        waiting = (f"{kind} ({problems[kind]})" if kind in problems else kind for kind in self._informers.waiting_for)
        return f"not listed yet: {', '.join(waiting)}"

    # ---- documents -------------------------------------------------------------------------------

    def status(self) -> Mapping[str, Any]:
        """/status: what the operator and people want to know."""
        machine = self._machine
        pending_of = machine.pending_of()
        return {
            "name": self._name,
            "identity": self._identity,
            "leading": machine.leading,
            "epoch": machine.epoch,
            "holder": self._identity if self.lease is None else self.lease.holder,
            "synced": self._informers.synced,
            "fresh": machine.fresh,
            "error": self._file.error,
            "problem": self._check.problem,
            "profiles": [
                {
                    "profile": profile.profile,
                    "schedulerName": profile.scheduler_name,
                    "uid": profile.uid,
                    "generation": profile.generation,
                    "hash": profile.hash,
                    "mode": profile.mode,
                    "pending": pending_of.get(profile.scheduler_name, 0),
                }
                for profile in self._file.current.profiles
            ],
            "pending": machine.pending(),
            "nodes": machine.node_count,
            "utilization": machine.utilization(),
            "shadow": {name: msgspec.to_builtins(report) for name, report in machine.shadow_reports().items()},
            "watches": dict(self._informers.problems()),
        }

    def configz(self) -> Mapping[str, Any]:
        """/configz: the configuration in force, as kube-scheduler shows its own."""
        loaded = self._file.current
        return {
            "kubescheduler.config.k8s.io": loaded.scheduler.model_dump(mode="json", by_alias=True),
            "stowplan.io": {
                "name": loaded.name,
                "profiles": [profile.model_dump(mode="json", by_alias=True) for profile in loaded.profiles],
                "maxBindsInFlight": loaded.max_binds_in_flight,
            },
        }

    # ---- metrics ---------------------------------------------------------------------------------

    def samples(self) -> Iterable[tuple[str, Sequence[Sample]]]:
        """Lease, heartbeat and events."""
        now = time.monotonic_ns()
        leading = self._machine.leading
        yield "leader_election_master_status", [((self._lease_name,), leading)]
        if self.lease is not None:
            yield "stowplan_lease_epoch", [((), max(self.lease.epoch, 0))]
            if leading:
                # The fence is as long as the renew deadline when a renewal has just begun.
                left = (self.lease.valid_until - now) / 1e9
                yield "stowplan_lease_age_seconds", [((), self._file.current.lease.renew_deadline - left)]
        yield "stowplan_heartbeat_age_seconds", [((), (now - self._beat) / 1e9)]
        yield "stowplan_events_dropped_total", [((), self._events.dropped)]
