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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import aiohttp

from stowplan_operator.api.apply import apply_object
from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import ApiError, NotFoundError
from stowplan_operator.api.kinds import Resource

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

CONFIG_KEY: Final = "worker.json"
MOUNT: Final = "/etc/stowplan"
STOP_SECONDS: Final = 30
"""A worker needs up to 25 s to end (`children.STOP_SECONDS`)."""

_MANAGER: Final = "stowplan"
_SELECTOR: Final = f"{MANAGED_BY}={_MANAGER},{GROUP_LABEL}"
_APPLIED: Final = (CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSettings:
    """`image`: of the workers; "" if none was named, then nothing can be deployed."""

    namespace: str
    image: str = ""
    service_account: str = "stowplan-worker"


class DeployedWorkers:
    """The Deployments of all groups. `changed`: told when a report is another one."""

    def __init__(self, client: ApiClient, settings: DeploymentSettings, changed: Callable[[], None]) -> None:
        """Make it in the loop that it is used in."""
        self._client = client
        self._settings = settings
        self._changed = changed
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS), cookie_jar=aiohttp.DummyCookieJar()
        )
        self._plans: dict[str, GroupPlan] = {}
        self._applied: dict[str, tuple[GroupPlan, float]] = {}
        self._reports: dict[str, WorkerReport] = {}
        self._was_pruned = False
        self._polling: asyncio.Task[None] | None = None

    async def apply(self, plans: Mapping[str, GroupPlan]) -> None:
        """Write what differs from what was written last, and delete the objects of groups that are gone."""
        gone = not plans.keys() >= self._plans.keys()
        self._plans = dict(plans)
        if plans and not self._settings.image:
            self._take({f"{name}/": _without_image(name) for name in plans})
            return
        now = asyncio.get_running_loop().time()
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

    async def metrics(self, group: str) -> bytes | None:
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
            self._take({key: _silent(report, detail) for key, report in self._reports.items()})
            return
        reports = await asyncio.gather(*(self._report(pod) for pod in pods))
        found = {f"{report.group}/{report.name}": report for report in reports}
        for name in self._plans:
            if not any(report.group == name for report in reports):
                found[f"{name}/"] = WorkerReport(
                    group=name, name=worker_name(name), health=Health.SILENT, detail="it has no pod yet"
                )
        self._take(found)

    async def _report(self, pod: Mapping[str, Any]) -> WorkerReport:
        meta, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
        group, name = text(mapping(meta.get("labels")).get(GROUP_LABEL)), text(meta.get("name"))
        before = self._reports.get(
            f"{group}/{name}", WorkerReport(group=group, name=name, health=Health.SILENT, detail="is new")
        )
        address = text(status.get("podIP"))
        if not address:
            return _silent(before, f"waits: {_waits(status)}")
        host = f"[{address}]" if ":" in address else address
        try:
            async with self._http.get(f"http://{host}:{PORT}/status") as response:
                response.raise_for_status()
                return heard(before, await response.json())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return _silent(before, "does not answer")

    def _take(self, reports: dict[str, WorkerReport]) -> None:
        if reports != self._reports:
            self._reports = reports
            self._changed()


def _silent(report: WorkerReport, detail: str) -> WorkerReport:
    return replace(report, health=Health.SILENT, detail=detail, is_leading=False)


def _without_image(group: str) -> WorkerReport:
    detail = "runtime Deployment needs an image: start the operator with --worker-image"
    return WorkerReport(group=group, name=worker_name(group), health=Health.SILENT, detail=detail)


def _waits(status: Mapping[str, Any]) -> str:
    """Why a pod has no address, as well as its status says."""
    for entry in entries(status.get("conditions")):
        if entry.get("status") == "False" and text(entry.get("message")):
            return text(entry.get("message"))
    return f"its phase is {text(status.get('phase')) or 'unknown'}"


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
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector}},
        }
    return found


def _pod(plan: GroupPlan, settings: DeploymentSettings, selector: Mapping[str, str]) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/livez", "port": "http"}, "periodSeconds": 10, "failureThreshold": 6}
    return {
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        # Its own pods must not wait for it, and pods that wait for it must not push it out.
        "schedulerName": "default-scheduler",
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
