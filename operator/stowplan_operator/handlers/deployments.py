"""Workers as Deployments of their own: the operator writes them, the cluster runs them, their pods say how they are.

Each group has three objects in the operator's namespace, written by server-side apply: a ConfigMap with the
configuration, a Deployment that mounts it, and, with more than one replica, a PodDisruptionBudget. A change of profiles
changes the ConfigMap alone, so no pod is started anew for it; the kubelet brings it into the pods within a minute or
so. Objects of groups that are gone are deleted; their pods get the time they need to give back what they hold.

The pods go on when the operator leaves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import aiohttp

from stowplan_operator.api.apply import apply_object
from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import ApiError, NotFoundError
from stowplan_operator.api.kinds import Resource
from stowplan_scheduler.config.defaults import DEFAULT_SCHEDULER_NAME

from .groups import GroupPlan
from .listing import CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS, OWN_PODS, list_all
from .names import GROUP_LABEL, MANAGED_BY, OPERATOR_MANAGER, worker_name
from .observed import Health, WorkerReport, entries, heard, mapping, text

log = logging.getLogger("stowplan.operator.deployments")

PORT: Final = 8080
POLL_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 3.0
APPLY_AGAIN_SECONDS: Final = 300.0
"""What somebody else changed in our objects is put right after so long."""

POD_SECONDS: Final = 5.0
"""So long a group may be without a pod before that counts as wrong, ..."""

START_SECONDS: Final = 30.0
"""... so long a pod may take to answer for the first time, ..."""

SILENT_SECONDS: Final = 10.0
"""... and so long it may be silent later on; unless its status says that it cannot answer, or that it is to end."""

CONFIG_KEY: Final = "worker.json"
MOUNT: Final = "/etc/stowplan"
STOP_SECONDS: Final = 30
"""A worker needs up to 25 s to end (`children.STOP_SECONDS`)."""

_MANAGER: Final = "stowplan"
_SELECTOR: Final = f"{MANAGED_BY}={_MANAGER},{GROUP_LABEL}"
_APPLIED: Final = (CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS)
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_BEING_MADE: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of a container to wait that are none to worry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSettings:
    """`image`: of the workers; "" if none was named, then nothing can be deployed.

    `scheduler_name`: who places the workers' own pods. It must be a scheduler that does not depend on them.
    """

    namespace: str
    image: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    service_account: str = "stowplan-worker"


class DeployedWorkers:
    """The Deployments of all groups. `changed`: told when a report is another one. `clock`: monotonic seconds."""

    def __init__(
        self,
        client: ApiClient,
        settings: DeploymentSettings,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make it in the loop that it is used in."""
        self._clock = clock
        self._client = client
        self._settings = settings
        self._changed = changed
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS), cookie_jar=aiohttp.DummyCookieJar()
        )
        self._plans: dict[str, GroupPlan] = {}
        self._applied: dict[str, tuple[GroupPlan, float]] = {}
        self._reports: dict[str, WorkerReport] = {}
        self._quiet_since: dict[str, float] = {}
        self._was_pruned = False
        self._polling: asyncio.Task[None] | None = None

    async def apply(self, plans: Mapping[str, GroupPlan]) -> None:
        """Write what differs from what was written last, and delete the objects of groups that are gone."""
        gone = not plans.keys() >= self._plans.keys()
        self._plans = dict(plans)
        if plans and not self._settings.image:
            self._take({f"{name}/": _without_image(name) for name in plans})
            return
        now = self._clock()
        for name, plan in plans.items():
            known = self._applied.get(name)
            if known is None or known[0] != plan or now - known[1] > APPLY_AGAIN_SECONDS:
                await self._write(plan)
                self._applied[name] = plan, now
        if gone or not self._was_pruned:
            await self._prune()
        if plans and self._polling is None:
            self._polling = asyncio.create_task(self._poll(), name="pods of workers")

    def reports(self) -> Sequence[WorkerReport]:
        """Of all pods, and one of each group without any."""
        return [*self._reports.values()]

    async def metrics(self, group: str, path: str) -> bytes | None:
        """None: Prometheus reaches their pods by itself."""
        return None

    async def close(self) -> None:
        """Stop looking; the Deployments stay."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        await self._http.close()

    # ---- objects -----------------------------------------------------------------------------

    async def _write(self, plan: GroupPlan) -> None:
        wanted = objects_of(plan, self._settings)
        for resource in _APPLIED:
            if resource.kind in wanted:
                await apply_object(
                    self._client,
                    resource,
                    worker_name(plan.name),
                    OPERATOR_MANAGER,
                    wanted[resource.kind],
                    namespace=self._settings.namespace,
                    force=True,
                )
            else:
                await self._delete(resource, worker_name(plan.name))

    async def _prune(self) -> None:
        """Delete what belongs to groups that are not there."""
        for resource in reversed(_APPLIED):
            found, _ = await list_all(self._client, resource, self._settings.namespace, labels=_SELECTOR)
            for each in found:
                meta = mapping(each.get("metadata"))
                group = text(mapping(meta.get("labels")).get(GROUP_LABEL))
                if group not in self._plans:
                    await self._delete(resource, text(meta.get("name")))
                    self._applied.pop(group, None)
        self._was_pruned = True

    async def _delete(self, resource: Resource, name: str) -> None:
        path = resource.path(name, self._settings.namespace)
        call = Call("DELETE", path, (("propagationPolicy", "Background"),))
        reply = await self._client.call(call)
        if not reply.is_success and not isinstance(reply.error(), NotFoundError):
            raise reply.error()
        if reply.is_success:
            log.info("deleted", extra={"kind": resource.kind, "object": name})

    # ---- reports -----------------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(POLL_SECONDS)

    async def _look(self) -> None:
        try:
            pods, _ = await list_all(self._client, OWN_PODS, self._settings.namespace, labels=_SELECTOR)
        except ApiError as error:
            detail = f"its pods cannot be listed: {error}"
            self._take({key: _quiet(report, Health.SILENT, detail) for key, report in self._reports.items()})
            return
        # A pod that has ended may lie about for long, and its address may be another's already.
        living = [pod for pod in pods if text(mapping(pod.get("status")).get("phase")) not in _ENDED]
        reports = await asyncio.gather(*(self._report(pod) for pod in living))
        found = {f"{report.group}/{report.name}": report for report in reports}
        for name in self._plans:
            if not any(report.group == name for report in reports):
                found[f"{name}/"] = self._without_pod(name)
        self._quiet_since = {key: since for key, since in self._quiet_since.items() if key in found}
        self._take(found)

    async def _report(self, pod: Mapping[str, Any]) -> WorkerReport:
        meta, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
        group, name = text(mapping(meta.get("labels")).get(GROUP_LABEL)), text(meta.get("name"))
        key = f"{group}/{name}"
        before = self._reports.get(key, WorkerReport(group=group, name=name, health=Health.STARTING, detail="is new"))
        address = text(status.get("podIP"))
        answer = await self._ask(address, group) if address else None
        if answer is not None:
            self._quiet_since[key] = self._clock()
            return heard(before, answer)
        trouble = trouble_of(pod) or ("is to end" if meta.get("deletionTimestamp") is not None else "")
        if before.health is Health.STARTING and not trouble and self._has_time(key, START_SECONDS):
            return _quiet(before, Health.STARTING, "starts")
        if before.health is Health.ANSWERS and not trouble and self._has_time(key, SILENT_SECONDS):
            return before
        if trouble or not address:
            return _quiet(before, Health.SILENT, trouble or f"its phase is {text(status.get('phase')) or 'unknown'}")
        return _quiet(before, Health.SILENT, "does not answer")

    async def _ask(self, address: str, group: str) -> Mapping[str, Any] | None:
        """What a worker of this group says at this address; None if none answers."""
        host = f"[{address}]" if ":" in address else address
        try:
            async with self._http.get(f"http://{host}:{PORT}/status") as response:
                response.raise_for_status()
                found = mapping(await response.json())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None
        # The address of a pod that is gone may be that of another one, sooner than we are told.
        return found if found.get("name") == group else None

    def _without_pod(self, group: str) -> WorkerReport:
        health = Health.STARTING if self._has_time(f"{group}/", POD_SECONDS) else Health.SILENT
        return WorkerReport(group=group, name=worker_name(group), health=health, detail="it has no pod yet")

    def _has_time(self, key: str, seconds: float) -> bool:
        """Whether it was seen for the first time, or heard last, less than so long ago."""
        now = self._clock()
        return now - self._quiet_since.setdefault(key, now) < seconds

    def _take(self, reports: dict[str, WorkerReport]) -> None:
        if reports != self._reports:
            self._reports = reports
            self._changed()


def _quiet(report: WorkerReport, health: Health, detail: str) -> WorkerReport:
    """A report without an answer: its last word, but for leading."""
    return replace(report, health=health, detail=detail, is_leading=False)


def _without_image(group: str) -> WorkerReport:
    detail = "runtime Deployment needs an image: start the operator with --worker-image"
    return WorkerReport(group=group, name=worker_name(group), health=Health.SILENT, detail=detail)


def trouble_of(pod: Mapping[str, Any]) -> str:
    """What keeps a pod from answering, in the words of its status; "" if that says nothing, or that all goes well."""
    status = mapping(pod.get("status"))
    for container in entries(status.get("containerStatuses")):
        state, last = mapping(container.get("state")), mapping(container.get("lastState"))
        waiting = mapping(state.get("waiting"))
        if text(waiting.get("reason")) not in {"", *_BEING_MADE}:
            return ": ".join(filter(None, (text(waiting.get("reason")), text(waiting.get("message")))))
        ended = mapping(state.get("terminated")) or mapping(last.get("terminated"))
        if ended:
            return f"its container ended: {text(ended.get('reason')) or 'Error'}, exit code {ended.get('exitCode')}"
    for condition in entries(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"waits: {text(condition.get('message'))}"
    return ""


# ---- what the objects say --------------------------------------------------------------------------------------------


def objects_of(plan: GroupPlan, settings: DeploymentSettings) -> dict[str, dict[str, Any]]:
    """The objects of a group by kind, as `apply_object` takes them."""
    selector = {"app.kubernetes.io/name": "stowplan-worker", GROUP_LABEL: plan.name}
    labels = {**selector, "app.kubernetes.io/part-of": "stowplan", MANAGED_BY: _MANAGER}
    metadata = {"labels": labels}
    found: dict[str, dict[str, Any]] = {
        CONFIG_MAPS.kind: {"metadata": metadata, "data": {CONFIG_KEY: plan.text}},
        DEPLOYMENTS.kind: {
            "metadata": metadata,
            "spec": {
                "replicas": plan.replicas,
                "revisionHistoryLimit": 3,
                "selector": {"matchLabels": selector},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": {"labels": labels}, "spec": _pod(plan, settings, selector)},
            },
        },
    }
    if plan.replicas > 1:
        found[DISRUPTION_BUDGETS.kind] = {
            "metadata": metadata,
            # A pod that does not work may go whatever the others do: it must not keep its node from being drained.
            "spec": {
                "maxUnavailable": 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": selector},
            },
        }
    return found


def _pod(plan: GroupPlan, settings: DeploymentSettings, selector: Mapping[str, str]) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/livez", "port": "http"}, "periodSeconds": 10, "failureThreshold": 6}
    return {
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        # Its own pods must not wait for it, and pods that wait for it must not push it out.
        "schedulerName": settings.scheduler_name,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(selector)},
            }
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "worker",
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["worker", f"--config={MOUNT}/{CONFIG_KEY}", f"--bind=0.0.0.0:{PORT}"],
                "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
                "startupProbe": {**probe, "periodSeconds": 2, "failureThreshold": 60},
                "livenessProbe": {**probe, "timeoutSeconds": 5},
                "readinessProbe": {
                    "httpGet": {"path": "/readyz", "port": "http"},
                    "periodSeconds": 5,
                    "timeoutSeconds": 5,
                },
                # No limit of cpu: a scheduler that is throttled loses its Lease.
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "config", "mountPath": MOUNT, "readOnly": True}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": worker_name(plan.name)}}],
    }
