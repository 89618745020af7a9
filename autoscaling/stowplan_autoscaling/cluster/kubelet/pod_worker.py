"""The worker of one pod: from its admission to its removal.

A worker does one pass at a time: it reports what is seen, then starts what is to be started, one container after the
other, images included. What comes up meanwhile, a deletion too, waits until the pass is over. Ends of containers are
seen at the next look of the node at its containers; starts as soon as the pass that made them is over, for then the
kubelet asks for a look at this pod.

Follows pod_workers.go, kubelet.go (SyncPod, SyncTerminatingPod), kuberuntime and status_manager.go in pkg/kubelet of
Kubernetes v1.37.2. A pod reports Succeeded or Failed only when all its containers have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, RUNNING, SUCCEEDED, TRUE, ClusterPod
from stowplan_autoscaling.kernel import SECOND, nanoseconds

from .application import NEVER
from .backoff import BACK_OFF, JITTER, BackOff
from .containers import KILLED, ContainerState, containers_of
from .phases import actions_of, ended_phase, is_ready, phase_of
from .probes import LIVENESS, READINESS
from .probing import Probing
from .pulling import Pulling
from .status_report import StatusReport
from .termination import Termination, grace_period
from .timeline import PodTimeline

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Timer
    from stowplan_scheduler.resources import Resource

    from .application import ApplicationModel
    from .delays import Delay
    from .kubelets import Kubelets
    from .node import NodeState

ERROR_WAIT: Final = 10 * SECOND
"""Until a pod whose pass failed is tried again, if no back-off says otherwise (kubelet.go, backOffPeriod)."""


class PodWorker:
    """One pod on one node."""

    __slots__ = (
        "_busy",
        "_draws",
        "_failed",
        "_grace",
        "_look_planned",
        "_pending",
        "_retry",
        "_pulling",
        "_retry_at",
        "_termination",
        "_todo",
        "env",
        "has_ended",
        "init",
        "is_frozen",
        "is_stopping",
        "key",
        "main",
        "node",
        "probing",
        "request",
        "speed",
        "status",
        "timeline",
    )

    def __init__(self, env: Kubelets, node: NodeState, timeline: PodTimeline) -> None:
        self.env = env
        self.node = node
        self.key = timeline.key
        self.timeline = timeline
        self.init: tuple[ContainerState, ...] = ()
        self.main: tuple[ContainerState, ...] = ()
        self.has_ended = False
        """All containers have ended for good, and this is reported."""
        self.status = StatusReport(env, timeline)
        self.probing = Probing(self)
        self._pulling = Pulling(self)
        self._termination = Termination(self)
        self.request: Resource | None = None
        self._todo: list[ContainerState] = []
        self._busy = False
        self._pending = False
        self._failed = False
        self._retry_at: int | None = None
        self._retry: Timer | None = None
        self._look_planned = False
        self._grace: int | None = None
        self.is_stopping = False
        self.is_frozen = False
        self.speed = 1.0
        self._draws = 0

    # ---- from binding to the sandbox ---------------------------------------------------------

    def begin(self, pod: ClusterPod, application: ApplicationModel) -> None:
        """The kubelet has just seen the pod: admit it or not."""
        env = self.env
        now = env.kernel.now
        self.timeline.admitted = now
        self.status.started = env.server.stamp(now)
        if pod.deleted is not None:
            self.take_deletion(pod)
            self._ended(FAILED)
            return
        request = env.requests.request(pod)
        rejection = self.node.budget.admit(pod, request)
        if rejection is not None:
            env.event(self.key, rejection.reason, rejection.message)
            self.timeline.reason = rejection.reason
            self._ended(FAILED)
            return
        self.request = request
        self.make_containers(pod, application)
        self.status.write(PENDING, FALSE, 0)
        self.make_sandbox()

    def make_sandbox(self) -> None:
        """Start with a sandbox; containers follow."""
        self._busy = True
        delay = self.draw("sandbox", self.node.config.sandbox)
        self.env.kernel.later(self.env.kernel.now + delay, self._sandbox_is_there)

    def make_containers(self, pod: ClusterPod, application: ApplicationModel) -> None:
        """Know the pod's containers; none of them runs yet."""
        self.init, self.main = containers_of(pod.spec, application, self.env.kernel.now)

    def _sandbox_is_there(self) -> None:
        if self.is_frozen:
            return
        if not self.env.gives_address(self.key):
            self._wait_for_address()
            return
        if self.timeline.started is None:
            self.timeline.sandbox = self.env.kernel.now
        # A deletion that came meanwhile waits: sandbox and containers are made in one go.
        self.act()

    def _wait_for_address(self) -> None:
        """The network plug-in fails, and so does the pass: it is tried again after the usual wait."""
        if self._grace is not None:
            self._busy = False
            self.sync()
            return
        message = "Failed to create pod sandbox: failed to setup network for sandbox: no IP addresses available"
        self.env.event(self.key, "FailedCreatePodSandBox", message)
        wait = ERROR_WAIT + round(ERROR_WAIT * JITTER * self.next_uniform("retry"))
        self.env.kernel.later(self.node.next_sync_tick(self.env.kernel.now + wait), self._sandbox_is_there)

    # ---- one pass ----------------------------------------------------------------------------

    def sync(self) -> None:
        """Report what is seen, and begin what follows from it."""
        if self.is_frozen or self.has_ended or self.is_stopping:
            return
        if self._busy:
            self._pending = True
            return
        self._pending = False
        if self._grace is not None:
            self._stop_all()
            return
        self.report()
        self.act()

    def act_if_idle(self) -> None:
        """The same as `act`, but after the present pass if there is one."""
        if self.is_stopping or self._busy:
            self._pending = True
        else:
            self.act()

    def act(self) -> None:
        """Start and kill what is to be started and killed."""
        actions = actions_of(self.init, self.main)
        if actions.kill or actions.start:
            self._busy = True
            self._failed = False
            self._retry_at = None
            self._todo.extend(actions.kill)
            self._todo.extend(actions.start)
            self.go_on()
        elif actions.is_over:
            self._stop_all()

    def go_on(self) -> None:
        """The next container of the pass, until one takes time or none is left."""
        while self._todo:
            if not self._begin_container(self._todo.pop(0)):
                return
        self._busy = False
        if self._failed:
            self._plan_retry()
            # What came up meanwhile waits for a look that is newer than this pass (podCache.GetNewerThan).
            if self._pending or any(each.starts > each.seen_starts for each in (*self.init, *self.main)):
                self._plan_look()
            return
        self.see()
        self.sync()

    def _begin_container(self, each: ContainerState) -> bool:
        """Start a container; returns whether the pass can go on at once."""
        if each.is_running:
            self._kill_condemned(each)
            return False
        now = self.env.kernel.now
        if each.last_exit_seen is not None and not self._may_restart(each, now):
            return True
        return self._pulling.get(each)

    def _may_restart(self, each: ContainerState, now: int) -> bool:
        """Ask the crash loop's back-off, counted from the end of the last instance that is known (doBackOff)."""
        last = each.last_exit_seen
        if last is None:
            return True
        if each.back_off is None:
            config = self.node.config
            each.back_off = BackOff(nanoseconds(config.crash_loop_initial), nanoseconds(config.crash_loop_max))
        until = each.back_off.ends_after(last)
        if now < until:
            self.env.event(self.key, BACK_OFF, f"Back-off restarting failed container {each.name} in pod {self.key}")
            self.fail(each, until)
            return False
        each.back_off.next(last, now)
        return True

    def fail(self, each: ContainerState, until: int | None = None) -> None:
        """The container cannot be started now: an init container ends the pass, others let it go on."""
        self._failed = True
        if until is not None and (self._retry_at is None or until < self._retry_at):
            self._retry_at = until
        if each.is_init:
            self._todo.clear()

    def _plan_retry(self) -> None:
        """Sync again after the back-off, or the usual wait, and a random share of half of it, at a tick."""
        now = self.env.kernel.now
        wait = ERROR_WAIT
        if self._retry_at is not None:
            wait = min(max(self._retry_at - now, 0), self.node.sync_period)
        wait += round(wait * JITTER * self.next_uniform("retry"))
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self.env.kernel.later(self.node.next_sync_tick(now + wait), self.sync)

    # ---- starts ------------------------------------------------------------------------------

    def image_is_there(self, each: ContainerState) -> bool:
        """Start the container; returns whether the pass can go on at once."""
        now = self.env.kernel.now
        if self.timeline.started is None:
            self.timeline.pulled = now
        each.image_back_off = None
        delay = self.draw("container-start", self.node.config.container_start, each)
        if delay:
            self.env.kernel.later(now + delay, lambda: self._start_and_go_on(each))
            return False
        self._start(each)
        return True

    def _start_and_go_on(self, each: ContainerState) -> None:
        if not self.is_frozen:
            self._start(each)
            self.go_on()

    def _start(self, each: ContainerState) -> None:
        env, now = self.env, self.env.kernel.now
        if each.starts == 0:
            self.node.images.use(each.image)
        self.launch(each, now)
        if self.timeline.started is None and all(other.starts for other in self.main):
            self.timeline.started = now
        if env.listener is not None:
            env.listener.container_started(self.key, each.name, now)

    def launch(self, each: ContainerState, now: int) -> None:
        """A new instance of a container runs."""
        model = each.model
        run = model.run
        each.begin(
            now,
            self.draw("start", model.start, each),
            None if run is None else self.draw("run", run, each),
        )
        self._plan_end(each)
        if each.probes:
            answers_from = each.answers_from(self.speed)
            for probe in each.probes:
                probe.unplan()
                probe.new_container(now, answers_from)

    def _plan_end(self, each: ContainerState) -> None:
        if each.run_work is None:
            return
        if each.end_timer is not None:
            each.end_timer.cancel()
            each.end_timer = None
        ends = each.ends(self.speed)
        if ends is not None:
            now = self.env.kernel.now
            each.end_timer = self.env.kernel.later(max(ends, now), lambda: self._run_is_over(each))

    def _run_is_over(self, each: ContainerState) -> None:
        if self.is_frozen or not each.is_running:
            return
        code = each.model.exit_code
        if each.model.failure_share and self._uniform("failure", each) < each.model.failure_share:
            code = 1
        self.container_ended(each, code)

    def set_speed(self, speed: float) -> None:
        """Work passes at another speed from now on."""
        if speed == self.speed:
            return
        now = self.env.kernel.now
        for each in (*self.init, *self.main):
            if not each.is_running:
                continue
            each.settle(now, self.speed)
            for probe in each.probes:
                probe.settle(now)
        self.speed = speed
        for each in (*self.init, *self.main):
            if each.is_running:
                self._plan_end(each)
                if each.work < each.start_work:
                    for probe in each.probes:
                        probe.answers_from = each.answers_from(speed)
                        self.probing.plan(each, probe)

    # ---- ends --------------------------------------------------------------------------------

    def container_ended(self, each: ContainerState, exit_code: int) -> None:
        """A container has ended; the kubelet sees it when it looks."""
        now = self.env.kernel.now
        each.end(now, exit_code)
        for probe in each.probes:
            probe.settle(now)
            probe.stop()
            probe.unplan()
        if self.env.listener is not None:
            self.env.listener.container_ended(self.key, each.name, now, exit_code)
        if not self.is_stopping:
            self._plan_look()

    def _plan_look(self) -> None:
        if not self._look_planned:
            self._look_planned = True
            self.env.kernel.later(self.node.next_relist(self.env.kernel.now), self._look)

    def _look(self) -> None:
        self._look_planned = False
        if self.is_frozen or self.has_ended:
            return
        self.see()
        self.sync()

    def see(self) -> None:
        """Look at the containers."""
        for each in self.init:
            each.see()
        for each in self.main:
            each.see()

    def kill(self, name: str | None, reason: str) -> bool:
        """A container is killed from outside, as by the kernel for want of memory; returns whether one was running."""
        for each in (*self.main, *self.init):
            if each.is_running and name in {None, each.name}:
                self.timeline.reason = reason
                self.container_ended(each, KILLED)
                return True
        return False

    def _kill_condemned(self, each: ContainerState) -> None:
        """A probe has failed for good: the container gets SIGTERM and its grace period; the worker waits."""
        failed = next(probe for probe in each.probes if probe.kind != READINESS and probe.result is False)
        word = "liveness" if failed.kind == LIVENESS else "startup"
        self.env.event(
            self.key, "Killing", f"Container {each.name} failed {word} probe, will be restarted", warning=False
        )
        stop, code = self._termination.stopping(each, self._termination.grace_of_probe(failed.probe))
        self._busy = True
        self.env.kernel.later(self.env.kernel.now + stop, lambda: self._condemned_is_dead(each, code))

    def _condemned_is_dead(self, each: ContainerState, code: int) -> None:
        if self.is_frozen:
            return
        if each.is_running:
            self.container_ended(each, code)
        if each.policy != NEVER:
            # The restart does not wait until the end is seen, and its back-off counts from the end before.
            self._todo.insert(0, each)
        self.go_on()

    # ---- the end of the pod ------------------------------------------------------------------

    def delete(self, pod: ClusterPod) -> None:
        """The pod is to be stopped."""
        if self.timeline.deleted is not None:
            return
        self.take_deletion(pod)
        self.sync()

    def take_deletion(self, pod: ClusterPod) -> None:
        """Know that the pod is to be stopped, and its grace period."""
        if self.timeline.deleted is None:
            self.timeline.deleted = self.env.kernel.now
        if self._grace is None:
            self._grace = grace_period(pod.metadata.deletion_grace_period_seconds)

    def evict(self, reason: str, message: str, grace: int) -> None:
        """The node gives the pod up: it ends as Failed and stays until somebody deletes it."""
        if self._grace is None:
            self._grace = grace
        self.status.evicted = self.timeline.reason = reason
        self.env.event(self.key, reason, message)
        self.sync()

    def _stop_all(self) -> None:
        """Stop what runs: the main containers, then the sidecars one by one, the last one first."""
        self.is_stopping = True
        self._todo.clear()
        if self.status.evicted:
            self.status.write(self.status.phase, FALSE, self._restarts())
        self._termination.begin(self._grace)

    def containers_have_ended(self) -> None:
        """The last one is gone: report the end of the pod."""
        self._ended(FAILED if self.status.evicted else ended_phase(self.main))

    def _ended(self, phase: str) -> None:
        """Report the end, and give back what the pod held."""
        env = self.env
        self.has_ended = True
        self.timeline.finished = env.kernel.now
        if self.request is not None:
            self.node.budget.release(self.request)
            self.request = None
        for each in (*self.init, *self.main):
            if each.starts:
                self.node.images.release(each.image)
            each.see()
        if self._retry is not None:
            self._retry.cancel()
        self.probing.stop()
        self.status.write(phase, FALSE, self._restarts())

    def freeze(self) -> None:
        """Nothing happens any more: the node is gone."""
        self.is_frozen = True
        for each in (*self.init, *self.main):
            if each.end_timer is not None:
                each.end_timer.cancel()

    def abandon(self) -> None:
        """The object is gone before its containers have ended: they are forgotten."""
        self.freeze()
        if self.request is not None:
            self.node.budget.release(self.request)
        if not self.has_ended:
            for each in (*self.init, *self.main):
                if each.starts:
                    self.node.images.release(each.image)

    # ---- reports -----------------------------------------------------------------------------

    def report(self) -> None:
        """Write the status if what is seen differs from what was written."""
        init, main = self.init, self.main
        for each in main:
            if each.probes and each.seen_running:
                self.probing.enable(each)
        for each in init:
            if each.probes and each.seen_running and each.is_sidecar:
                self.probing.enable(each)
        phase = self.status.phase if self.is_stopping else phase_of(init, main)
        ready = TRUE if phase == RUNNING and is_ready(init, main) else FALSE
        if phase in {SUCCEEDED, FAILED}:
            # Reported once everything has been stopped.
            phase = self.status.phase
        restarts = self._restarts()
        if phase != self.status.phase or ready != self.status.ready or restarts != self.timeline.restarts:
            self.status.write(phase, ready, restarts)

    def _restarts(self) -> int:
        total = 0
        for each in self.main:
            if each.seen_starts > 1:
                total += each.seen_starts - 1
        for each in self.init:
            if each.seen_starts > 1:
                total += each.seen_starts - 1
        return total

    # ---- draws -------------------------------------------------------------------------------

    def draw(self, purpose: str, delay: Delay, each: ContainerState | None = None) -> int:
        """A delay of the pod, or of the present start of one of its containers, in nanoseconds."""
        constant = delay.constant
        return delay.of(self._uniform(purpose, each)) if constant is None else constant

    def _uniform(self, purpose: str, each: ContainerState | None = None) -> float:
        """One number that belongs to the pod, or to one start of one of its containers."""
        key = self.key if each is None else f"{self.key}/{each.name}/{each.starts}"
        return self.env.streams.uniform(f"kubelet/{purpose}", key)

    def next_uniform(self, purpose: str) -> float:
        """The pod's next number, for waits that come again and again."""
        self._draws += 1
        return self.env.streams.uniform(f"kubelet/{purpose}", f"{self.key}/{self._draws}")
