"""What an API server would refuse of a workload: nobody could have applied it, and controllers rely on it.

Selectors that do not select their own pods, percentages that are none, schedules that do not parse, names of
strategies and policies. Follows pkg/apis/{apps,batch,policy,core}/validation of Kubernetes v1.37.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from stowplan_autoscaling.cluster.controllers.cron_job.errors import ScheduleError
from stowplan_autoscaling.cluster.controllers.cron_job.schedule import load_zone, parse_schedule
from stowplan_autoscaling.cluster.objects.apps import Deployment, ReplicaSet
from stowplan_autoscaling.cluster.objects.batch import CronJob, Job, JobSpec
from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
from stowplan_autoscaling.cluster.objects.policy import PodDisruptionBudget
from stowplan_autoscaling.cluster.objects.quota import LimitRange, ResourceQuota
from stowplan_autoscaling.cluster.objects.stateful_set import StatefulSet
from stowplan_autoscaling.inputs.checks import check_labels, check_manifest_spec, check_pod_spec, check_quantities
from stowplan_autoscaling.inputs.decode import field_path
from stowplan_autoscaling.inputs.errors import FieldError, shown
from stowplan_autoscaling.inputs.workloads import check_template
from stowplan_scheduler.objects import PodSpec

from .findings import near

_PERCENT: Final = re.compile(r"[0-9]{1,9}%")
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
_TIMES: Final = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")


_POD_MAKER: Final = ("selector", "template", "minReadySeconds", "revisionHistoryLimit")
_SCALED: Final = (
    "scaleTargetRef",
    "minReplicas",
    "maxReplicas",
    "metrics",
    "behavior",
    "targetCPUUtilizationPercentage",
)
_SPECS: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": (*_POD_MAKER, "replicas", "strategy", "paused", "progressDeadlineSeconds"),
    "ReplicaSet": ("replicas", "minReadySeconds", "selector", "template"),
    "StatefulSet": (
        *_POD_MAKER, "replicas", "volumeClaimTemplates", "serviceName", "podManagementPolicy", "updateStrategy",
        "persistentVolumeClaimRetentionPolicy", "ordinals",
    ),
    "DaemonSet": (*_POD_MAKER, "updateStrategy"),
    "Job": (
        "parallelism", "completions", "activeDeadlineSeconds", "podFailurePolicy", "successPolicy", "backoffLimit",
        "backoffLimitPerIndex", "maxFailedIndexes", "selector", "manualSelector", "template",
        "ttlSecondsAfterFinished", "completionMode", "suspend", "podReplacementPolicy", "managedBy", "scheduling",
    ),
    "CronJob": (
        "schedule", "timeZone", "startingDeadlineSeconds", "concurrencyPolicy", "suspend", "jobTemplate",
        "successfulJobsHistoryLimit", "failedJobsHistoryLimit",
    ),
    "HorizontalPodAutoscaler": _SCALED,
    "PodDisruptionBudget": ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy"),
    "ResourceQuota": ("hard", "scopes", "scopeSelector"),
    "LimitRange": ("limits",),
}  # fmt: skip
"""The fields of spec (k8s.io/api v0.37.2), whether they mean something here or not."""


def check_fields(kind: str, value: Mapping[str, Any]) -> None:
    """Raises FieldError for a field of spec that the API does not have: `kubectl apply` refuses it, too."""
    known, spec = _SPECS.get(kind), value.get("spec")
    if known is None or not isinstance(spec, dict):
        return
    for name in spec:
        if name not in known:
            raise FieldError(field_path("spec", name), f"unknown field{near(str(name), known)}")


def check_object(found: Any) -> None:
    """Raises FieldError. Kinds that are not listed have nothing to check here."""
    for kind, look in _CHECKS.items():
        if isinstance(found, kind):
            look(found)
            return


def check_probes(value: Mapping[str, Any], field: str) -> None:
    """The probes of a pod's specification as it stands in YAML. Raises FieldError."""
    for name in ("containers", "initContainers"):
        containers = value.get(name)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            for probe in _PROBES:
                path = f"{field}.{name}[{index}].{probe}"
                _check_probe(container.get(probe) if isinstance(container, dict) else None, path)


def _check_probe(probe: Any, field: str) -> None:
    if probe is None:
        return
    if not isinstance(probe, dict):
        raise FieldError(field, f"must be a mapping, got {shown(probe)}")
    for name in _TIMES:
        amount = probe.get(name, 0)
        if type(amount) is not int:
            raise FieldError(f"{field}.{name}", f"must be an integer, got {shown(amount)}")
        _at_least(f"{field}.{name}", amount)


# ---- small rules ---------------------------------------------------------------------------------------------------


def _at_least(field: str, number: int | None, least: int = 0) -> None:
    if number is not None and number < least:
        raise FieldError(field, f"{number}: must be at least {least}")


def _one_of(field: str, text: str | None, allowed: Sequence[str]) -> None:
    """An absent text is the default."""
    if text and text not in allowed:
        raise FieldError(field, f"{shown(text)}: must be one of {', '.join(allowed)}")


def _amount(field: str, value: int | str | None) -> bool:
    """A number or a percentage; whether it is zero."""
    if isinstance(value, str) and not _PERCENT.fullmatch(value):
        raise FieldError(field, f"{shown(value)}: must be an integer or a percentage such as 25%")
    number = int(value.rstrip("%")) if isinstance(value, str) else value
    _at_least(field, number)
    return number == 0


def _not_both_zero(field: str, surge: int | str, unavailable: int | str) -> None:
    if _amount(f"{field}.maxSurge", surge) & _amount(f"{field}.maxUnavailable", unavailable):
        raise FieldError(f"{field}.maxUnavailable", "must not be 0 where maxSurge is 0: nothing could be replaced")


def _always(field: str, spec: PodSpec) -> None:
    _one_of(f"{field}.restartPolicy", spec.restart_policy, ("Always",))


# ---- kinds ---------------------------------------------------------------------------------------------------------


def _check_deployment(found: Deployment) -> None:
    spec = found.spec
    _check_selecting(found)
    _one_of("spec.strategy.type", spec.strategy.type, ("RollingUpdate", "Recreate"))
    rolling = spec.strategy.rolling_update
    _not_both_zero("spec.strategy.rollingUpdate", rolling.max_surge, rolling.max_unavailable)
    deadline = spec.progress_deadline_seconds
    if deadline is not None and deadline <= spec.min_ready_seconds:
        raise FieldError("spec.progressDeadlineSeconds", f"{deadline}: must be greater than minReadySeconds")


def _check_selecting(found: Any) -> None:
    """What Deployments, ReplicaSets, StatefulSets and DaemonSets have in common."""
    check_template(found.spec)
    _always("spec.template.spec", found.spec.template.spec)
    _at_least("spec.minReadySeconds", found.spec.min_ready_seconds)


def _check_stateful_set(found: StatefulSet) -> None:
    spec = found.spec
    _check_selecting(found)
    _one_of("spec.podManagementPolicy", spec.pod_management_policy, ("OrderedReady", "Parallel"))
    _one_of("spec.updateStrategy.type", spec.update_strategy.type, ("RollingUpdate", "OnDelete"))
    rolling = spec.update_strategy.rolling_update
    if rolling is not None:
        _at_least("spec.updateStrategy.rollingUpdate.partition", rolling.partition)
        if _amount("spec.updateStrategy.rollingUpdate.maxUnavailable", rolling.max_unavailable):
            raise FieldError("spec.updateStrategy.rollingUpdate.maxUnavailable", "must not be 0")
    if spec.ordinals is not None:
        _at_least("spec.ordinals.start", spec.ordinals.start)


def _check_daemon_set(found: DaemonSet) -> None:
    _check_selecting(found)
    strategy = found.spec.update_strategy
    _one_of("spec.updateStrategy.type", strategy.type, ("RollingUpdate", "OnDelete"))
    rolling = strategy.rolling_update
    _not_both_zero("spec.updateStrategy.rollingUpdate", rolling.max_surge, rolling.max_unavailable)


def _check_job(found: Job) -> None:
    _check_job_spec(found.spec, "spec")


def _check_job_spec(spec: JobSpec, field: str) -> None:
    _one_of(f"{field}.completionMode", spec.completion_mode, ("NonIndexed", "Indexed"))
    _one_of(f"{field}.podReplacementPolicy", spec.pod_replacement_policy, ("TerminatingOrFailed", "Failed"))
    for name, number in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("backoffLimit", spec.backoff_limit),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
    ):
        _at_least(f"{field}.{name}", number)
    if spec.is_indexed and spec.completions is None:
        raise FieldError(f"{field}.completions", "must be set with completionMode Indexed")
    policy = spec.template.spec.restart_policy
    if policy not in {"OnFailure", "Never"}:
        found = f"{shown(policy)}: " if policy else ""
        raise FieldError(f"{field}.template.spec.restartPolicy", f"{found}must be OnFailure or Never for a Job")


def _check_cron_job(found: CronJob) -> None:
    spec = found.spec
    template = spec.job_template.spec.template
    field = "spec.jobTemplate.spec.template"
    check_labels(f"{field}.metadata.labels", template.metadata.labels)
    check_pod_spec(template.spec, f"{field}.spec")
    check_manifest_spec(template.spec, f"{field}.spec")
    _one_of("spec.concurrencyPolicy", spec.concurrency_policy, ("Allow", "Forbid", "Replace"))
    _at_least("spec.startingDeadlineSeconds", spec.starting_deadline_seconds)
    _check_schedule(spec.schedule, spec.time_zone)
    _check_job_spec(spec.job_template.spec, "spec.jobTemplate.spec")


def _check_schedule(schedule: str, zone: str | None) -> None:
    if not schedule:
        raise FieldError("spec.schedule", "must be set")
    if "TZ" in schedule:
        raise FieldError("spec.schedule", f"{shown(schedule)}: cannot hold TZ or CRON_TZ: use timeZone")
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        raise FieldError("spec.schedule", f"{shown(schedule)}: {error}") from None
    if zone is None:
        return
    try:
        load_zone(zone)
    except ScheduleError:
        raise FieldError("spec.timeZone", f"{shown(zone)}: must be a time zone such as Europe/Berlin") from None


def _check_budget(found: PodDisruptionBudget) -> None:
    spec = found.spec
    _amount("spec.minAvailable", spec.min_available)
    _amount("spec.maxUnavailable", spec.max_unavailable)
    if spec.min_available is not None and spec.max_unavailable is not None:
        raise FieldError("spec", "minAvailable and maxUnavailable exclude each other")


def _check_quota(found: ResourceQuota) -> None:
    check_quantities("spec.hard", found.spec.hard)


def _check_limit_range(found: LimitRange) -> None:
    for index, item in enumerate(found.spec.limits):
        for name, theirs in (
            ("max", "max"),
            ("min", "min"),
            ("default", "default"),
            ("default_request", "defaultRequest"),
        ):
            check_quantities(f"spec.limits[{index}].{theirs}", getattr(item, name))


_CHECKS: Final[Mapping[type[Any], Callable[[Any], None]]] = {
    Deployment: _check_deployment,
    ReplicaSet: _check_selecting,
    StatefulSet: _check_stateful_set,
    DaemonSet: _check_daemon_set,
    Job: _check_job,
    CronJob: _check_cron_job,
    PodDisruptionBudget: _check_budget,
    ResourceQuota: _check_quota,
    LimitRange: _check_limit_range,
}
