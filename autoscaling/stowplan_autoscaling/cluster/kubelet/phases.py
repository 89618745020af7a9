"""Phase and readiness of a pod from what is seen of its containers, and what is to be started next.

Follows getPhase (pkg/kubelet/kubelet_pods.go), GeneratePodReadyCondition (pkg/kubelet/status/generate.go),
computePodActions and computeInitContainerActions (pkg/kubelet/kuberuntime) of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stowplan_autoscaling.cluster.pods import FAILED, PENDING, RUNNING, SUCCEEDED

from .application import NEVER
from .containers import ContainerState

Containers = Sequence[ContainerState]


class Actions(NamedTuple):
    """What one sync of a pod does."""

    start: list[ContainerState]
    """To be started in this order; those that still run are killed first."""
    kill: list[ContainerState]
    """To be killed for good."""
    is_over: bool
    """Nothing is left to run: the pod ends."""


def phase_of(init: Containers, main: Containers) -> str:
    """The phase of a pod that still runs or has ended by itself. `init`: init containers and sidecars, in order."""
    has_initialized = bool(init) and any(each.seen_starts for each in main)
    pending, running = False, False
    for each in init:
        if each.is_sidecar:
            running = running or each.seen_running
            pending = pending or (not has_initialized and not each.has_started and not each.seen_exited)
        elif each.seen_failed:
            if not each.restarts_on_exit:
                return FAILED
        elif not each.seen_exited:
            pending = True
    if pending:
        return PENDING
    for each in main:
        if not each.seen_starts:
            return PENDING
        running = running or each.seen_running or each.restarts_on_exit
    return RUNNING if running else ended_phase(main)


def ended_phase(main: Containers) -> str:
    """The phase once every container has ended for good."""
    return SUCCEEDED if all(each.starts and not each.is_running and each.exit_code == 0 for each in main) else FAILED


def is_ready(init: Containers, main: Containers) -> bool:
    """Whether every container and every sidecar is ready."""
    for each in main:
        if not each.is_ready:
            return False
    return not init or all(each.is_ready for each in init if each.is_sidecar)


def actions_of(init: Containers, main: Containers) -> Actions:
    """What to do, on what is seen."""
    start: list[ContainerState] = []
    if init and any(each.seen_starts for each in main):
        start.extend(each for each in init if each.is_sidecar and (each.seen_exited or each.is_condemned))
    elif init:
        is_over = _initialize(init, start)
        if is_over or start or not _has_initialized(init[-1]):
            return Actions(start, [], is_over)
    kill: list[ContainerState] = []
    is_over = True
    for each in main:
        if each.is_condemned:
            if each.policy == NEVER:
                kill.append(each)
            else:
                start.append(each)
                is_over = False
        elif each.seen_running:
            is_over = False
        elif each.seen_starts == 0 or each.restarts_on_exit:
            start.append(each)
            is_over = False
    if is_over:
        return Actions([], kill, is_over=True)
    return Actions(start, kill, is_over=False)


def _initialize(init: Containers, start: list[ContainerState]) -> bool:
    """Collect the next init container, and sidecars that are down; returns whether it has failed for good."""
    for i, each in enumerate(init):
        has_followers = i + 1 < len(init) and init[i + 1].seen_starts > 0
        if each.is_sidecar:
            if each.seen_starts == 0 or each.seen_exited or each.is_condemned:
                start.append(each)
            if not each.has_started and not has_followers:
                return False
        elif each.seen_starts == 0:
            start.append(each)
            return False
        elif each.seen_failed:
            if not each.restarts_on_exit:
                start.clear()
                return True
            start.append(each)
            return False
        elif each.seen_running:
            return False
    return False


def _has_initialized(last: ContainerState) -> bool:
    return last.has_started if last.is_sidecar else last.seen_exited and not last.seen_failed
