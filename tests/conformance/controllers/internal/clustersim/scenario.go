// Package clustersim runs the real Deployment, ReplicaSet, HPA, pod GC and disruption
// controllers and, where a scenario has such objects, the Job, CronJob, TTL, StatefulSet and
// DaemonSet controllers, and the real scheduler together in virtual time, around stubs for the
// kubelets, the metrics server and the node supply.
package clustersim

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"stowplan.io/oracle/controllers/internal/load"
)

// Scenario is one input line. Times are seconds, metric values milli-units.
type Scenario struct {
	ID      string   `json:"id"`
	Tags    []string `json:"tags,omitempty"`
	Objects struct {
		Nodes           []*v1.Node                               `json:"nodes"`
		PriorityClasses []*schedulingv1.PriorityClass            `json:"priorityClasses,omitempty"`
		Deployments     []*appsv1.Deployment                     `json:"deployments"`
		HPAs            []*autoscalingv2.HorizontalPodAutoscaler `json:"hpas,omitempty"`
		PDBs            []*policyv1.PodDisruptionBudget          `json:"pdbs,omitempty"`
		Jobs            []*batchv1.Job                           `json:"jobs,omitempty"`
		CronJobs        []*batchv1.CronJob                       `json:"cronJobs,omitempty"`
		StatefulSets    []*appsv1.StatefulSet                    `json:"statefulSets,omitempty"`
		DaemonSets      []*appsv1.DaemonSet                      `json:"daemonSets,omitempty"`
	} `json:"objects"`
	Workloads map[string]*Workload    `json:"workloads,omitempty"` // by name of the owner; for the jobs of a cron job also by its name
	External  map[string][]load.Point `json:"external,omitempty"`  // external metrics: step series
	Kubelet   Kubelet                 `json:"kubelet"`
	Metrics   Metrics                 `json:"metrics"`
	Supply    *Supply                 `json:"supply,omitempty"`
	Script    []Step                  `json:"script,omitempty"`
	// TaintEviction: the taint eviction controller runs. NodeLifecycle: it and the node lifecycle
	// controller run, kubelets report their nodes and renew leases. Both: new pods get the usual
	// tolerations of 300 s.
	TaintEviction bool `json:"taintEviction,omitempty"`
	NodeLifecycle bool `json:"nodeLifecycle,omitempty"`

	Scheduler json.RawMessage `json:"scheduler,omitempty"` // KubeSchedulerConfiguration
	Cycle     float64         `json:"cycle"`               // time per scheduling attempt, e.g. 0.001
	HPAStart  float64         `json:"hpaStart"`            // HPA i is created at hpaStart + i
	Sample    float64         `json:"sample"`              // period of the timeline
	Until     float64         `json:"until"`
}

// Workload is what an owner's pods use and how they end. With run, a pod ends run seconds
// after it became Running: Failed if its number (creation order, from 1) is in fail or a
// multiple of failEvery, or its completion index is in failIndexes; else Succeeded.
type Workload struct {
	CPU     *load.Usage `json:"cpu,omitempty"`
	Memory  *load.Usage `json:"memory,omitempty"`
	Kubelet *Kubelet    `json:"kubelet,omitempty"` // instead of the cluster-wide one

	Run         float64 `json:"run,omitempty"`
	Fail        []int   `json:"fail,omitempty"`
	FailEvery   int     `json:"failEvery,omitempty"`
	FailIndexes []int   `json:"failIndexes,omitempty"`
}

// Kubelet: a bound pod becomes Running after startup and Ready ready seconds later. A
// deleted bound pod vanishes after min(terminate, its grace period).
type Kubelet struct {
	Startup   float64 `json:"startup"`
	Ready     float64 `json:"ready"`
	Terminate float64 `json:"terminate"`
}

// Metrics is the metrics server: it measures all Running pods at k*interval + phase and
// publishes delay seconds later. Pods that run for less than warmup are left out.
type Metrics struct {
	Interval float64 `json:"interval"`
	Phase    float64 `json:"phase,omitempty"`
	Delay    float64 `json:"delay,omitempty"`
	Window   float64 `json:"window"`
	Warmup   float64 `json:"warmup,omitempty"`
}

// Supply adds and removes nodes. When a pod is marked unschedulable and no order runs, an
// order starts: batch seconds later its size is computed as
//
//	max(1, ceil(sum of cpu requests of all unschedulable pods / template cpu), same for memory)
//
// capped by max supplied nodes; delay seconds after that the nodes appear. Another order
// can start retry seconds later. A supplied node without pods for idle seconds is removed
// (idle 0: never).
type Supply struct {
	Template *v1.Node `json:"template"` // its name is a prefix
	Max      int      `json:"max"`
	Batch    float64  `json:"batch"`
	Delay    float64  `json:"delay"`
	Retry    float64  `json:"retry"`
	Idle     float64  `json:"idle"`
}

// Step is something a user does at time t. kind is "" (deployment), job, cronJob, statefulSet or
// daemonSet.
type Step struct {
	T    float64  `json:"t"`
	Op   string   `json:"op"` // see world.step
	Kind string   `json:"kind,omitempty"`
	Name string   `json:"name"` // deployment, other workload or node
	N    int32    `json:"n,omitempty"`
	Node *v1.Node `json:"node,omitempty"`

	Object json.RawMessage   `json:"object,omitempty"` // create: the new object
	On     bool              `json:"on,omitempty"`     // suspend: true suspends; nodeReady: true is ready; nodeSilent: true is silent
	Taint  *v1.Taint         `json:"taint,omitempty"`
	Labels map[string]string `json:"labels,omitempty"` // label: set on the node, "" removes
}

// Result is one output line.
type Result struct {
	ID       string    `json:"id"`
	Invalid  string    `json:"invalid,omitempty"`
	HPA      []*Sync   `json:"hpa"`
	Events   []Event   `json:"events"`
	Timeline []Sample  `json:"timeline"`
	Pods     []*PodLog `json:"pods"`
	Jobs     []*JobEnd `json:"jobs,omitempty"`
}

// JobEnd is a job that exists at the end of the run. Times are whole seconds.
type JobEnd struct {
	Name             string   `json:"name"`
	Active           int32    `json:"active"`
	Ready            int32    `json:"ready"`
	Terminating      int32    `json:"terminating"`
	Succeeded        int32    `json:"succeeded"`
	Failed           int32    `json:"failed"`
	Started          *float64 `json:"started,omitempty"`
	Completed        *float64 `json:"completed,omitempty"`
	CompletedIndexes string   `json:"completedIndexes,omitempty"`
	FailedIndexes    string   `json:"failedIndexes,omitempty"`
	Conditions       [][4]any `json:"conditions"` // type, status, reason, last transition
}

// Sync is one HPA reconcile. The reasons are those of the conditions afterwards.
type Sync struct {
	T        float64 `json:"t"`
	HPA      string  `json:"hpa"` // name of the target
	Spec     int32   `json:"spec"`
	Status   int32   `json:"status"`
	Proposal *int32  `json:"proposal,omitempty"`
	ScaleTo  *int32  `json:"scaleTo,omitempty"`
	Able     string  `json:"able"`
	Active   string  `json:"active"`
	Limited  string  `json:"limited,omitempty"`
}

// Event is anything else that happens; t has milliseconds.
type Event struct {
	T       float64  `json:"t"`
	Type    string   `json:"type"` // scheduled unschedulable nominated preempted nodeAdded nodeRemoved order jobCreated jobFinished jobRemoved taints
	Job     string   `json:"job,omitempty"`
	Pod     string   `json:"pod,omitempty"`
	Node    string   `json:"node,omitempty"`
	By      string   `json:"by,omitempty"`
	N       int      `json:"n,omitempty"`
	Message string   `json:"message,omitempty"`
	Plugins []string `json:"plugins,omitempty"`
}

// Sample is the state at k*sample, after everything of that instant has settled.
type Sample struct {
	T           float64             `json:"t"`
	Nodes       int                 `json:"nodes"`
	Pending     int                 `json:"pending"`     // pods without a node
	Deployments map[string][4]int32 `json:"deployments"` // spec, status.replicas, ready, updated

	Jobs         map[string][5]any   `json:"jobs,omitempty"`         // active, ready, succeeded, failed, reason of Complete, Failed or Suspended
	CronJobs     map[string][3]int64 `json:"cronJobs,omitempty"`     // active jobs, last schedule, last success (seconds, -1: never)
	StatefulSets map[string][5]int32 `json:"statefulSets,omitempty"` // status.replicas, ready, current, updated, available
	DaemonSets   map[string][5]int32 `json:"daemonSets,omitempty"`   // desired, current, ready, updated, unavailable
}

// PodLog is the life of one pod. Name is OWNER-NUMBER in creation order.
type PodLog struct {
	Name     string   `json:"name"`
	Revision int      `json:"revision"`          // number of its replica set or controller revision; 0 for jobs
	Ordinal  *int     `json:"ordinal,omitempty"` // in its stateful set, or its completion index
	Created  float64  `json:"created"`
	Sched    *float64 `json:"scheduled,omitempty"`
	Running  *float64 `json:"running,omitempty"`
	Ready    *float64 `json:"ready,omitempty"`
	Finished *float64 `json:"finished,omitempty"`
	Phase    string   `json:"phase,omitempty"` // Succeeded or Failed
	Deleted  *float64 `json:"deleted,omitempty"`
	Gone     *float64 `json:"gone,omitempty"`
	Node     string   `json:"node,omitempty"`
	Attempts int      `json:"failedAttempts,omitempty"`
}
