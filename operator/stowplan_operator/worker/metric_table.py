"""The metrics of a worker: names, labels, buckets and what they mean. `metrics.py` feeds them.

The first table is kube-scheduler's own (pkg/scheduler/metrics/metrics.go of Kubernetes v1.37.2), as far as it means
something here, so that dashboards and alerts made for it work. What is missing from it stands in docs/metrics.md with
the reason; tests/operator/worker_shell/test_metric_names.py holds both to the list of upstream's. The second is
Stowplan's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]
Stability = Literal["", "ALPHA", "BETA", "STABLE"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `buckets`: the upper bounds of a histogram, without the infinite one. `stability`: "" for our own."""

    name: str
    kind: Kind
    stability: Stability
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def help_text(self) -> str:
        """The help as it is exposed: Kubernetes puts the stability in front."""
        return f"[{self.stability}] {self.help}" if self.stability else self.help


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """The bounds of prometheus.ExponentialBuckets, digit for digit: each is the one before, times `factor`."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)


_REST_BYTES: Final = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
_REST_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

KUBE_SCHEDULER: Final[tuple[Metric, ...]] = (
    Metric(
        "scheduler_schedule_attempts_total",
        "counter",
        "STABLE",
        "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while "
        "'error' means an internal scheduler problem.",
        ("result", "profile"),
    ),
    Metric(
        "scheduler_scheduling_attempt_duration_seconds",
        "histogram",
        "STABLE",
        "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
        ("result", "profile"),
        exponential(0.001, 2, 15),
    ),
    Metric(
        "scheduler_scheduling_algorithm_duration_seconds",
        "histogram",
        "BETA",
        "Scheduling algorithm latency in seconds",
        (),
        exponential(0.001, 2, 15),
    ),
    Metric(
        "scheduler_event_handling_duration_seconds",
        "histogram",
        "ALPHA",
        "Event handling latency in seconds.",
        ("event",),
        exponential(0.0001, 2, 12),
    ),
    Metric(
        "scheduler_preemption_victims",
        "histogram",
        "STABLE",
        "Number of selected preemption victims for preemption initiated by a single pod",
        (),
        exponential(1, 2, 7),
    ),
    Metric(
        "scheduler_preemption_attempts_total", "counter", "STABLE", "Total preemption attempts in the cluster till now"
    ),
    Metric(
        "scheduler_preemption_goroutines_execution_total",
        "counter",
        "ALPHA",
        "Number of preemption goroutines executed.",
        ("result",),
    ),
    Metric(
        "scheduler_pending_pods",
        "gauge",
        "STABLE",
        "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number "
        "of pods in backoffQ; 'unschedulable' means number of pods in unschedulableEntities that the scheduler "
        "attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never "
        "attempted to schedule because they are gated; 'incomplete' means number of pods in incompletePodGroupPods; "
        "'pending' means number of pods in pendingPodGroupPods.",
        ("queue",),
    ),
    Metric(
        "scheduler_queued_entities",
        "gauge",
        "ALPHA",
        "Number of queued scheduling entities ('pod' or 'podgroup'; 'pod' stands for individual pods that are not "
        "members of any podgroup) by the queue type. 'active' means number of entities in activeQ; 'backoff' means "
        "number of entities in backoffQ; 'unschedulable' means number of entities in unschedulableEntities that the "
        "scheduler attempted to schedule and failed; 'gated' is the number of unschedulable entities that the "
        "scheduler never attempted to schedule because they are gated.",
        ("queue", "type"),
    ),
    Metric(
        "scheduler_inflight_events",
        "gauge",
        "ALPHA",
        "Number of events currently tracked in the scheduling queue.",
        ("event",),
    ),
    Metric(
        "scheduler_goroutines",
        "gauge",
        "BETA",
        "Number of running goroutines split by the work they do such as binding.",
        ("operation",),
    ),
    Metric(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "histogram",
        "BETA",
        "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve "
        "multiple scheduling attempts.",
        ("attempts",),
        exponential(0.01, 2, 20),
    ),
    Metric(
        "scheduler_pod_scheduling_attempts",
        "histogram",
        "STABLE",
        "Number of attempts to successfully schedule a pod.",
        (),
        exponential(1, 2, 5),
    ),
    Metric(
        "scheduler_pod_scheduled_after_flush_total",
        "counter",
        "ALPHA",
        "Number of pods that were successfully scheduled after being flushed from unschedulableEntities due to "
        "timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
    ),
    Metric(
        "scheduler_framework_extension_point_duration_seconds",
        "histogram",
        "STABLE",
        "Latency for running all plugins of a specific extension point.",
        ("extension_point", "status", "profile"),
        exponential(0.0001, 2, 12),
    ),
    Metric(
        "scheduler_plugin_execution_duration_seconds",
        "histogram",
        "BETA",
        "Duration for running a plugin at a specific extension point.",
        ("plugin", "extension_point", "status"),
        exponential(0.00001, 1.5, 20),
    ),
    Metric(
        "scheduler_plugin_evaluation_total",
        "counter",
        "BETA",
        "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, "
        "Filter, PreScore, and Score).",
        ("plugin", "extension_point", "profile"),
    ),
    Metric(
        "scheduler_queueing_hint_execution_duration_seconds",
        "histogram",
        "ALPHA",
        "Duration for running a queueing hint function of a plugin.",
        ("plugin", "event", "hint"),
        exponential(0.00001, 1.5, 20),
    ),
    Metric(
        "scheduler_permit_wait_duration_seconds",
        "histogram",
        "BETA",
        "Duration of waiting on permit.",
        ("result",),
        exponential(0.001, 2, 15),
    ),
    Metric(
        "scheduler_queue_incoming_pods_total",
        "counter",
        "STABLE",
        "Number of pods added to scheduling queues by event and queue type.",
        ("queue", "event"),
    ),
    Metric(
        "scheduler_queue_incoming_entities_total",
        "counter",
        "ALPHA",
        "Number of scheduling entities added to scheduling queues by event, queue type, and entity type. Entity types "
        "are either 'pod' (for individual pods that are not members of any podgroup) or 'podgroup'.",
        ("queue", "event", "type"),
    ),
    Metric(
        "scheduler_cache_size",
        "gauge",
        "ALPHA",
        "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
        ("type",),
    ),
    Metric(
        "scheduler_unschedulable_pods",
        "gauge",
        "BETA",
        "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins "
        "that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
        ("plugin", "profile"),
    ),
    Metric(
        "scheduler_async_api_call_execution_total",
        "counter",
        "ALPHA",
        "Total number of API calls executed by the async dispatcher.",
        ("call_type", "result"),
    ),
    Metric(
        "scheduler_async_api_call_execution_duration_seconds",
        "histogram",
        "ALPHA",
        "Duration in seconds for executing API call in the async dispatcher.",
        ("call_type", "result"),
        exponential(0.001, 2, 15),
    ),
    Metric(
        "scheduler_pending_async_api_calls",
        "gauge",
        "ALPHA",
        "Number of API calls currently pending in the async queue.",
        ("call_type",),
    ),
    Metric(
        "rest_client_requests_total",
        "counter",
        "ALPHA",
        "Number of HTTP requests, partitioned by status code, method, and host.",
        ("code", "method", "host"),
    ),
    Metric(
        "rest_client_request_duration_seconds",
        "histogram",
        "ALPHA",
        "Request latency in seconds. Broken down by verb, and host.",
        ("verb", "host"),
        _REST_SECONDS,
    ),
    Metric(
        "rest_client_request_size_bytes",
        "histogram",
        "ALPHA",
        "Request size in bytes. Broken down by verb and host.",
        ("verb", "host"),
        _REST_BYTES,
    ),
    Metric(
        "rest_client_response_size_bytes",
        "histogram",
        "ALPHA",
        "Response size in bytes. Broken down by verb and host.",
        ("verb", "host"),
        _REST_BYTES,
    ),
    Metric(
        "leader_election_master_status",
        "gauge",
        "ALPHA",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
        "'name' is the string used to identify the lease. Please make sure to group by name.",
        ("name",),
    ),
)
"""Names, labels, help, stability and buckets are upstream's; tests/integration/test_worker_metrics.py compares them."""

_POD_LABELS: Final = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")

RESOURCES: Final[tuple[Metric, ...]] = (
    Metric(
        "kube_pod_resource_request",
        "gauge",
        "STABLE",
        "Resources requested by workloads on the cluster, broken down by pod. This shows the resource usage the "
        "scheduler and kubelet expect per pod for resources along with the unit for the resource if any.",
        _POD_LABELS,
    ),
    Metric(
        "kube_pod_resource_limit",
        "gauge",
        "STABLE",
        "Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage the scheduler "
        "and kubelet expect per pod for resources along with the unit for the resource if any.",
        _POD_LABELS,
    ),
)
"""Those of /metrics/resources (pkg/scheduler/metrics/resources/resources.go)."""

OWN: Final[tuple[Metric, ...]] = (
    Metric(
        "stowplan_binds_total",
        "counter",
        "",
        "Binding requests by the status code of the answer; 0 is no answer at all.",
        ("code",),
    ),
    Metric(
        "stowplan_queueing_hint_errors_total",
        "counter",
        "",
        "Queueing hints that failed; the pod is tried again, as if the hint had said so.",
        ("plugin", "event", "error"),
    ),
    Metric(
        "stowplan_cycle_errors_total",
        "counter",
        "",
        "Attempts that a plugin ended by breaking its contract; the pod is tried again later.",
        ("error",),
    ),
    Metric(
        "stowplan_watch_age_seconds",
        "gauge",
        "",
        "Seconds since the API server last sent anything, bookmarks included, about a kind.",
        ("kind",),
    ),
    Metric("stowplan_informers_synced", "gauge", "", "1 once the kind was listed in full.", ("kind",)),
    Metric("stowplan_lease_age_seconds", "gauge", "", "Seconds since the Lease was last renewed by this worker."),
    Metric("stowplan_lease_epoch", "gauge", "", "leaseTransitions of the Lease as this worker last saw it."),
    Metric(
        "stowplan_events_dropped_total", "counter", "", "Kubernetes events that were not written: the queue was full."
    ),
    Metric(
        "stowplan_heartbeat_age_seconds",
        "gauge",
        "",
        "Seconds since the worker's loop last came round; it ends its lease if this grows.",
    ),
    Metric(
        "stowplan_configuration_reloads_total",
        "counter",
        "",
        "Reads of a changed configuration file, by result: applied, refused.",
        ("result",),
    ),
    Metric(
        "stowplan_profile_info",
        "gauge",
        "",
        "1 for each profile that runs: its generation, hash and mode.",
        ("profile", "generation", "hash", "mode"),
    ),
    Metric("stowplan_build_info", "gauge", "", "1, with the version of Stowplan.", ("version",)),
)
