"""Job and CronJob (batch/v1, staging/src/k8s.io/api/batch/v1/types.go of Kubernetes v1.37.2), and their defaults.

The defaults of a Job depend on one another, so the API server completes it when it is created: `complete_job` and
`complete_cron_job` are for `ApiServer`'s `admit`. Controllers read completed objects.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stowplan_scheduler.objects import Job as SchedulerJob
from stowplan_scheduler.objects import JobSpec as SchedulerJobSpec
from stowplan_scheduler.objects import LabelSelector, ObjectMeta
from stowplan_scheduler.objects.meta import ApiStruct

from .apps import Condition

INDEXED: Final = "Indexed"
NON_INDEXED: Final = "NonIndexed"

REPLACE_FAILED: Final = "Failed"
REPLACE_TERMINATING: Final = "TerminatingOrFailed"

ALLOW: Final = "Allow"
FORBID: Final = "Forbid"
REPLACE: Final = "Replace"

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
FAILURE_TARGET: Final = "FailureTarget"
SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
SUSPENDED: Final = "Suspended"

DEFAULT_BACKOFF_LIMIT: Final = 6
NO_BACKOFF_LIMIT: Final = 2**31 - 1

TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod of an indexed Job."""
INDEX_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
SCHEDULED_TIMESTAMP: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"

_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_SELECTING_LABEL: Final = "batch.kubernetes.io/controller-uid"


# ---- Job -------------------------------------------------------------------------------------------------------------


class OnExitCodes(ApiStruct, frozen=True, kw_only=True):
    """onExitCodes of a pod failure rule: exit codes other than 0, of one container or of any."""

    operator: str = "In"
    values: tuple[int, ...] = ()
    container_name: str | None = None


class OnPodCondition(ApiStruct, frozen=True, kw_only=True):
    """One pattern of onPodConditions."""

    type: str
    status: str = "True"


class PodFailureRule(ApiStruct, frozen=True, kw_only=True):
    """What a failure means: Ignore, Count, FailIndex or FailJob."""

    action: str
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(ApiStruct, frozen=True, kw_only=True):
    """spec.podFailurePolicy: the first rule that matches decides."""

    rules: tuple[PodFailureRule, ...] = ()


class SuccessRule(ApiStruct, frozen=True, kw_only=True):
    """Indexes that must have succeeded, or how many of them (or of all)."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(ApiStruct, frozen=True, kw_only=True):
    """spec.successPolicy: one rule is enough."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(SchedulerJobSpec, frozen=True, kw_only=True):
    """spec of a job."""

    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    pod_replacement_policy: str | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    managed_by: str | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether each pod has a number of its own to do."""
        return self.completion_mode == INDEXED

    @property
    def is_suspended(self) -> bool:
        """Whether it must have no pods."""
        return bool(self.suspend)

    @property
    def replaces_failed_only(self) -> bool:
        """Whether a pod that is being deleted is replaced only when it has ended."""
        return self.pod_replacement_policy == REPLACE_FAILED


class JobStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a job. Times are nanoseconds. `uncounted_*`: uids of ended pods that are not in the counters yet."""

    conditions: tuple[Condition, ...] = ()
    start_time: int | None = None
    completion_time: int | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_succeeded: tuple[str, ...] = ()
    uncounted_failed: tuple[str, ...] = ()
    ready: int | None = None


class Job(SchedulerJob, frozen=True, kw_only=True):
    """A job. `created`: nanoseconds since 1970."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
    version: int = 0
    created: int = 0


def is_true(status: JobStatus, kind: str) -> bool:
    """Whether the condition is there and True."""
    return any(condition.type == kind and condition.status == "True" for condition in status.conditions)


def finished_condition(job: Job) -> Condition | None:
    """Complete or Failed, if it is one of them."""
    for condition in job.status.conditions:
        if condition.type in {COMPLETE, FAILED} and condition.status == "True":
            return condition
    return None


def complete_job(job: Job) -> Job:
    """The job with the API server's defaults, its selector and the labels of its pods.

    Follows SetDefaults_Job (pkg/apis/batch/v1/defaults.go) and generateSelector (pkg/registry/batch/job/strategy.go).
    The uid must be set.
    """
    meta, spec = job.metadata, complete_job_spec(job.spec)
    template = spec.template
    labels = meta.labels or template.metadata.labels
    if not spec.manual_selector and spec.selector is None:
        made = dict.fromkeys(_NAME_LABELS, meta.name) | dict.fromkeys(_UID_LABELS, meta.uid)
        template = replace(template, metadata=replace(template.metadata, labels=made | template.metadata.labels))
        spec = replace(spec, template=template, selector=LabelSelector(match_labels={_SELECTING_LABEL: meta.uid}))
    return replace(job, metadata=replace(meta, labels=labels), spec=spec)


def complete_job_spec(spec: JobSpec) -> JobSpec:
    """The spec with the API server's defaults."""
    completions, parallelism = spec.completions, spec.parallelism
    if completions is None and parallelism is None:
        completions = 1
    limit = DEFAULT_BACKOFF_LIMIT if spec.backoff_limit_per_index is None else NO_BACKOFF_LIMIT
    policy = REPLACE_TERMINATING if spec.pod_failure_policy is None else REPLACE_FAILED
    return replace(
        spec,
        completions=completions,
        parallelism=1 if parallelism is None else parallelism,
        backoff_limit=limit if spec.backoff_limit is None else spec.backoff_limit,
        completion_mode=spec.completion_mode or NON_INDEXED,
        suspend=bool(spec.suspend),
        pod_replacement_policy=spec.pod_replacement_policy or policy,
    )


# ---- CronJob ---------------------------------------------------------------------------------------------------------


class JobTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The job that a cron job makes copies of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(ApiStruct, frozen=True, kw_only=True):
    """spec of a cron job; the defaults are the API server's."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ALLOW
    suspend: bool = False
    job_template: JobTemplateSpec = JobTemplateSpec()
    successful_jobs_history_limit: int | None = 3
    failed_jobs_history_limit: int | None = 1


class ActiveJob(ApiStruct, frozen=True, kw_only=True):
    """status.active[]: a job that runs."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CronJobStatus(ApiStruct, frozen=True, kw_only=True):
    """status of a cron job. Times are nanoseconds."""

    active: tuple[ActiveJob, ...] = ()
    last_schedule_time: int | None = None
    last_successful_time: int | None = None


class CronJob(ApiStruct, frozen=True, kw_only=True):
    """A cron job. `created`: nanoseconds since 1970."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
    version: int = 0
    created: int = 0
