"""One container of a pod: what it does, and what the kubelet has seen of it.

The two differ: the kubelet learns what containers do when it looks (pkg/kubelet/pleg), and decides on what it has seen.
Work passes at the pod's speed, so that the time at which a task ends or an application answers moves with contention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .application import ALWAYS
from .images import default_policy
from .probes import LIVENESS, READINESS, STARTUP, ProbeWorker

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Timer
    from stowplan_scheduler.objects import Container, PodSpec

    from .application import ApplicationModel, ContainerModel
    from .backoff import BackOff

KILLED = 137
"""Exit code after SIGKILL."""

ON_FAILURE = "OnFailure"


class ContainerState:
    """One container over all its restarts. Times in nanoseconds."""

    __slots__ = (
        "back_off",
        "end_timer",
        "exit_code",
        "exited",
        "image",
        "image_back_off",
        "is_init",
        "is_running",
        "is_sidecar",
        "last_exit_seen",
        "model",
        "name",
        "policy",
        "probes",
        "pull_policy",
        "run_work",
        "seen_running",
        "seen_starts",
        "start_work",
        "started",
        "starts",
        "work",
        "work_since",
    )

    def __init__(self, spec: Container, model: ContainerModel, *, is_init: bool, pod_policy: str, anchor: int) -> None:
        self.name = spec.name
        self.image = spec.image
        self.model = model
        self.is_sidecar = is_init and spec.restart_policy == ALWAYS
        self.is_init = is_init and not self.is_sidecar
        self.policy = spec.restart_policy or pod_policy or ALWAYS
        self.pull_policy = model.pull_policy or default_policy(spec.image)
        self.probes = _probes(model, anchor)
        self.starts = 0
        """How often it was started."""
        self.is_running = False
        self.started = 0
        self.exited = 0
        """When it ended last."""
        self.exit_code = 0
        self.seen_starts = 0
        self.seen_running = False
        self.last_exit_seen: int | None = None
        """End of the last instance that the kubelet knows to have ended."""
        self.back_off: BackOff | None = None
        self.image_back_off: BackOff | None = None
        self.end_timer: Timer | None = None
        self.work = 0
        """Nanoseconds of work done by this instance, as of `work_since`."""
        self.work_since = 0
        self.start_work = 0
        self.run_work: int | None = None

    # ---- what it does ------------------------------------------------------------------------

    def begin(self, now: int, start_work: int, run_work: int | None) -> None:
        """A new instance runs. `start_work`: work until it answers, `run_work`: until it ends."""
        self.starts += 1
        self.is_running = True
        self.started = self.work_since = now
        self.work = 0
        self.start_work = start_work
        self.run_work = run_work

    def end(self, now: int, exit_code: int) -> None:
        """The instance has ended."""
        self.is_running = False
        self.exited = now
        self.exit_code = exit_code
        if self.end_timer is not None:
            self.end_timer.cancel()
            self.end_timer = None

    def settle(self, now: int, speed: float) -> None:
        """Count the work since the last time, done at that speed."""
        if self.is_running:
            self.work += round((now - self.work_since) * speed)
            self.work_since = now

    def answers_from(self, speed: float) -> int | None:
        """When it answers, or has begun to; as of `work_since`. None: not in sight."""
        if self.work >= self.start_work:
            return self.work_since
        return self.work_since + round((self.start_work - self.work) / speed) if speed > 0 else None

    def ends(self, speed: float) -> int | None:
        """When it ends by itself, as of `work_since`; None: never."""
        if self.run_work is None:
            return None
        if self.work >= self.run_work:
            return self.work_since
        return self.work_since + round((self.run_work - self.work) / speed) if speed > 0 else None

    # ---- what is seen of it ------------------------------------------------------------------

    def see(self) -> None:
        """The kubelet looks."""
        self.seen_starts = self.starts
        self.seen_running = self.is_running
        if self.starts and not self.is_running:
            self.last_exit_seen = self.exited

    @property
    def seen_exited(self) -> bool:
        """Whether it is seen to have ended."""
        return self.seen_starts > 0 and not self.seen_running

    @property
    def seen_failed(self) -> bool:
        """Whether it is seen to have ended badly."""
        return self.seen_starts > 0 and not self.seen_running and self.exit_code != 0

    @property
    def restarts_on_exit(self) -> bool:
        """Whether it is started again after the end that was seen (ContainerShouldRestart)."""
        if self.policy == ALWAYS:
            return True
        return self.policy == ON_FAILURE and self.exit_code != 0

    @property
    def has_started(self) -> bool:
        """Whether it is seen to run and its startup probe has succeeded."""
        if not self.seen_running:
            return False
        for probe in self.probes:  # noqa: SIM110 - runs several times per pod, where a generator costs most of it
            if probe.kind == STARTUP and probe.result is not True:
                return False
        return True

    @property
    def is_ready(self) -> bool:
        """Whether it is seen to run, has started, and its readiness probe has succeeded."""
        if not self.seen_running:
            return False
        for probe in self.probes:  # noqa: SIM110 - as above
            if probe.kind != LIVENESS and probe.result is not True:
                return False
        return True

    @property
    def is_condemned(self) -> bool:
        """Whether a probe says that it must be killed."""
        if self.is_running:
            for probe in self.probes:
                if probe.kind != READINESS and probe.result is False:
                    return True
        return False


def _probes(model: ContainerModel, anchor: int) -> tuple[ProbeWorker, ...]:
    if model.is_unprobed:
        return ()
    named = ((STARTUP, model.startup_probe), (READINESS, model.readiness_probe), (LIVENESS, model.liveness_probe))
    return tuple(ProbeWorker(kind, probe, anchor) for kind, probe in named if probe is not None)


def containers_of(
    spec: PodSpec, application: ApplicationModel, now: int
) -> tuple[tuple[ContainerState, ...], tuple[ContainerState, ...]]:
    """The init containers and sidecars of a pod, and its main containers; none of them runs yet."""

    def made(each: Container, *, is_init: bool) -> ContainerState:
        model = application.of(each.name, is_init=is_init and each.restart_policy != ALWAYS)
        return ContainerState(each, model, is_init=is_init, pod_policy=spec.restart_policy, anchor=now)

    init = tuple([made(each, is_init=True) for each in spec.init_containers])
    return init, tuple([made(each, is_init=False) for each in spec.containers])
