package clustersim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/batch"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	daemonsetstrategy "k8s.io/kubernetes/pkg/registry/apps/daemonset"
	statefulsetstrategy "k8s.io/kubernetes/pkg/registry/apps/statefulset"
	cronjobstrategy "k8s.io/kubernetes/pkg/registry/batch/cronjob"

	"stowplan.io/oracle/controllers/internal/apiserver"
	"stowplan.io/oracle/controllers/internal/bubble"
)

var (
	jobsGVR         = batchv1.SchemeGroupVersion.WithResource("jobs")
	cronJobsGVR     = batchv1.SchemeGroupVersion.WithResource("cronjobs")
	statefulSetsGVR = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	daemonSetsGVR   = appsv1.SchemeGroupVersion.WithResource("daemonsets")
)

// kinds are the workloads of this file by the name that steps use.
var kinds = map[string]struct {
	gvr  schema.GroupVersionResource
	make func() runtime.Object
}{
	"job":         {jobsGVR, func() runtime.Object { return &batchv1.Job{} }},
	"cronJob":     {cronJobsGVR, func() runtime.Object { return &batchv1.CronJob{} }},
	"statefulSet": {statefulSetsGVR, func() runtime.Object { return &appsv1.StatefulSet{} }},
	"daemonSet":   {daemonSetsGVR, func() runtime.Object { return &appsv1.DaemonSet{} }},
}

// ---- controllers ---------------------------------------------------------------------------------

// uses tells whether a scenario has a kind of workload, from the start or by a step.
func (w *world) uses(kind string, initial int) bool {
	return initial > 0 || slices.ContainsFunc(w.sc.Script, func(s Step) bool { return s.Kind == kind })
}

// workers per controller: more than a scenario has objects of a kind. So all objects that are
// due at one instant are worked on at once, and the turns of orderly decide, not a queue.
const workers = 16

// controllers makes the controllers that the scenario needs, so that others are as fast as before.
func (w *world) controllers(ctx context.Context, cs clientset.Interface, shared informers.SharedInformerFactory) (run []func(context.Context)) {
	o := &w.sc.Objects
	core, apps, batch := shared.Core().V1(), shared.Apps().V1(), shared.Batch().V1()
	if w.uses("statefulSet", len(o.StatefulSets)) {
		c := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), orderly{cs, w, rankStatefulSet})
		run = append(run, func(ctx context.Context) { c.Run(ctx, workers) })
	}
	if w.uses("daemonSet", len(o.DaemonSets)) {
		c, err := newDaemonSets(ctx, daemonSetsByName{apps.DaemonSets()}, apps.ControllerRevisions(), core.Pods(),
			nodesByName{core.Nodes()}, orderly{cs, w, rankDaemonSet}, flowcontrol.NewBackOff(time.Second, 15*time.Minute))
		must(err)
		run = append(run, func(ctx context.Context) { c.Run(ctx, workers) })
	}
	crons := w.uses("cronJob", len(o.CronJobs))
	if crons || w.uses("job", len(o.Jobs)) {
		c, err := job.NewController(ctx, orderly{cs, w, rankJob}, core.Pods(), batch.Jobs(), nil, nil)
		must(err)
		ttl := ttlafterfinished.New(ctx, batch.Jobs(), orderly{cs, w, rankTTL})
		run = append(run, func(ctx context.Context) { c.Run(ctx, workers) }, func(ctx context.Context) { ttl.Run(ctx, workers) })
	}
	if crons {
		c, err := cronjob.NewControllerV2(ctx, batch.Jobs(), batch.CronJobs(), orderly{cs, w, rankCronJob})
		must(err)
		run = append(run, func(ctx context.Context) { c.Run(ctx, workers) })
	}
	return run
}

// daemonSetsByName and nodesByName list by name, not in map order.
type daemonSetsByName struct {
	appsinformers.DaemonSetInformer
}

func (d daemonSetsByName) Lister() appslisters.DaemonSetLister {
	return daemonSetLister{d.DaemonSetInformer.Lister()}
}

type daemonSetLister struct{ appslisters.DaemonSetLister }

func (l daemonSetLister) List(sel labels.Selector) ([]*appsv1.DaemonSet, error) {
	sets, err := l.DaemonSetLister.List(sel)
	return slices.SortedFunc(slices.Values(sets), func(a, b *appsv1.DaemonSet) int { return cmp.Compare(a.Name, b.Name) }), err
}

type nodesByName struct{ coreinformers.NodeInformer }

func (n nodesByName) Lister() corelisters.NodeLister { return nodeLister{n.NodeInformer.Lister()} }

type nodeLister struct{ corelisters.NodeLister }

func (l nodeLister) List(sel labels.Selector) ([]*v1.Node, error) {
	nodes, err := l.NodeLister.List(sel)
	return slices.SortedFunc(slices.Values(nodes), func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) }), err
}

// ordinal is a pod's place in its stateful set, or its completion index.
func ordinal(pod *v1.Pod) *int {
	for _, text := range []string{pod.Labels[appsv1.PodIndexLabel], pod.Annotations[batchv1.JobCompletionIndexAnnotation]} {
		if n, err := strconv.Atoi(text); err == nil {
			return &n
		}
	}
	return nil
}

// target is the node that a daemon set makes a pod for.
func target(pod *v1.Pod) string {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range t.MatchFields {
				return f.Values[0]
			}
		}
	}
	return ""
}

// ---- API server duties -----------------------------------------------------------------------------

// admitWorkload does what the API server does to a new object of the kinds above: fill in
// (a job's selector, for instance) and validate.
func (w *world) admitWorkload(obj runtime.Object) error {
	var err error
	switch o := obj.(type) {
	case *batchv1.Job:
		err = prepareJob(o)
	case *batchv1.CronJob:
		err = prepare(o, &batch.CronJob{}, cronjobstrategy.Strategy, "batch")
	case *appsv1.StatefulSet:
		err = prepare(o, &apps.StatefulSet{}, statefulsetstrategy.Strategy, "apps")
	case *appsv1.DaemonSet:
		err = prepare(o, &apps.DaemonSet{}, daemonsetstrategy.Strategy, "apps")
	}
	return err
}

type object interface {
	runtime.Object
	metav1.Object
}

func prepare(obj, internal object, strategy rest.RESTCreateStrategy, group string) error {
	if err := legacyscheme.Scheme.Convert(obj, internal, nil); err != nil {
		return err
	}
	ctx := genericapirequest.WithNamespace(context.Background(), namespace)
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{APIGroup: group, APIVersion: "v1"})
	internal.SetCreationTimestamp(apiserver.Seconds(time.Now()))
	if err := rest.BeforeCreate(strategy, ctx, internal); err != nil {
		return err
	}
	return legacyscheme.Scheme.Convert(internal, obj, nil)
}

// prepareJob is prepare for jobs, whose upstream strategy needs half an API server to compile.
func prepareJob(j *batchv1.Job) error {
	j.Status = batchv1.JobStatus{}
	j.CreationTimestamp = apiserver.Seconds(time.Now())
	if j.Spec.ManualSelector == nil || !*j.Spec.ManualSelector {
		t := &j.Spec.Template
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		for _, prefix := range []string{"", "batch.kubernetes.io/"} {
			t.Labels[prefix+"job-name"], t.Labels[prefix+"controller-uid"] = j.Name, string(j.UID)
		}
		if j.Spec.Selector == nil {
			j.Spec.Selector = &metav1.LabelSelector{}
		}
		metav1.AddLabelToSelector(j.Spec.Selector, batchv1.ControllerUidLabel, string(j.UID))
	}
	internal := &batch.Job{}
	if err := legacyscheme.Scheme.Convert(j, internal, nil); err != nil {
		return err
	}
	return batchvalidation.ValidateJobCreate(internal, batchvalidation.JobValidationOptions{RequirePrefixedLabels: true}).ToAggregate()
}

// checkWorkloads tells what the API server would refuse.
func checkWorkloads(sc *Scenario) error {
	var all []object
	for _, o := range sc.Objects.StatefulSets {
		all = append(all, o.DeepCopy())
	}
	for _, o := range sc.Objects.DaemonSets {
		all = append(all, o.DeepCopy())
	}
	for _, o := range sc.Objects.Jobs {
		all = append(all, o.DeepCopy())
	}
	for _, o := range sc.Objects.CronJobs {
		all = append(all, o.DeepCopy())
	}
	for _, s := range sc.Script {
		if s.Op == "create" {
			all = append(all, decode(s).(object))
		}
	}
	for _, o := range all {
		o.SetNamespace(namespace)
		o.SetUID("uid")
		legacyscheme.Scheme.Default(o)
		if err := (&world{}).admitWorkload(o); err != nil {
			return err
		}
	}
	return nil
}

func decode(s Step) runtime.Object {
	obj := kinds[s.Kind].make()
	must(json.Unmarshal(s.Object, obj))
	return obj
}

// collect is the garbage collector: the dependents of a removed object are deleted at once,
// oldest first. It runs under the store's lock and mu.
func (w *world) collect(gvr schema.GroupVersionResource, old runtime.Object) {
	if gvr != jobsGVR && gvr != cronJobsGVR && gvr != statefulSetsGVR && gvr != daemonSetsGVR {
		return
	}
	uid := old.(metav1.Object).GetUID()
	w.after(0, func() {
		dependents := podsGVR
		if gvr == cronJobsGVR {
			dependents = jobsGVR
		}
		var found []metav1.Object
		for _, o := range w.store.List(dependents) {
			m := o.(metav1.Object)
			if c := metav1.GetControllerOf(m); c != nil && c.UID == uid {
				found = append(found, m)
			}
		}
		slices.SortStableFunc(found, func(a, b metav1.Object) int {
			return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
		})
		for _, m := range found {
			_ = w.store.Delete(dependents, namespace, m.GetName(), metav1.DeleteOptions{})
		}
	})
}

// ---- pods --------------------------------------------------------------------------------------------

// owner is the name under which a pod is logged, the kind of its controller and its revision.
func (w *world) owner(obj *v1.Pod) (name, kind string, revision int) {
	o := obj.OwnerReferences[0]
	switch o.Kind {
	case "ReplicaSet":
		return rsSuffix.ReplaceAllString(o.Name, ""), o.Kind, w.revs[o.Name]
	case "Job":
		return o.Name, o.Kind, 0
	}
	id := o.Kind + "/" + o.Name
	hash := id + "/" + obj.Labels[appsv1.ControllerRevisionHashLabelKey]
	if w.hash[hash] == 0 {
		w.heads[id]++
		w.hash[hash] = w.heads[id]
	}
	return o.Name, o.Kind, w.hash[hash]
}

// cronJobOf names the cron job of a job; it runs under the store's lock.
func (w *world) cronJobOf(job string) string { return w.jobOwners[job] }

func (w *world) workload(p *pod) *Workload {
	if wl := w.sc.Workloads[p.deployment]; wl != nil {
		return wl
	}
	if p.cronJob != "" {
		return w.sc.Workloads[p.cronJob]
	}
	return nil
}

// leave takes a pod off its node; it runs under mu.
func (w *world) leave(p *pod) {
	if n := w.nodes[p.node]; n != nil && p.kind != "DaemonSet" {
		n.pods--
		w.watchEmpty(p.node)
	}
}

// ended notes that a pod succeeded or failed; it runs under mu.
func (w *world) ended(p *pod, phase v1.PodPhase) {
	p.finished, p.isRunning, p.ready, p.unschedulable = true, false, false, false
	p.Finished, p.Phase = ref(now()), string(phase)
	w.leave(p)
}

// fails tells whether a pod that runs to its end fails.
func (wl *Workload) fails(p *pod) bool {
	return slices.Contains(wl.Fail, p.index) || wl.FailEvery > 0 && p.index%wl.FailEvery == 0 ||
		p.Ordinal != nil && slices.Contains(wl.FailIndexes, *p.Ordinal)
}

// finishPod: the containers of a pod end by themselves.
func (w *world) finishPod(name string, p *pod) {
	if !w.whenHeard(p, func() { w.finishPod(name, p) }) {
		return
	}
	phase, ok := v1.PodSucceeded, false
	w.locked(func() {
		ok = w.pods[name] == p && !p.deleting && !p.finished && w.nodes[p.node] != nil
		if ok {
			if w.workload(p).fails(p) {
				phase = v1.PodFailed
			}
			w.ended(p, phase)
		}
	})
	if ok {
		w.setPhase(name, phase)
	}
}

func (w *world) setPhase(name string, phase v1.PodPhase) {
	w.store.Mutate(podsGVR, namespace, name, func(o runtime.Object) {
		pod, at := o.(*v1.Pod), apiserver.Seconds(time.Now())
		exit := int32(0)
		if phase == v1.PodFailed {
			exit = 1
		}
		pod.Status.Phase = phase
		apiserver.SetPodCondition(pod, v1.PodReady, v1.ConditionFalse, at)
		pod.Status.ContainerStatuses = nil
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{Name: c.Name,
				State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: exit, FinishedAt: at}}})
		}
	})
}

// removePod: the kubelet is done with a deleted pod.
func (w *world) removePod(name string, p *pod) {
	if !w.whenHeard(p, func() { w.removePod(name, p) }) {
		return
	}
	ok := false
	w.locked(func() { ok = w.pods[name] == p })
	if ok {
		w.store.Remove(podsGVR, namespace, name)
	}
}

// stopPod: the same for a pod with finalizers. Its containers were killed, so it failed.
func (w *world) stopPod(name string, p *pod) {
	if !w.whenHeard(p, func() { w.stopPod(name, p) }) {
		return
	}
	ok, finished := false, false
	w.locked(func() {
		ok, finished = w.pods[name] == p && w.nodes[p.node] != nil, p.finished
		if ok && !finished {
			w.ended(p, v1.PodFailed)
		}
	})
	if !ok {
		return
	}
	if !finished {
		w.setPhase(name, v1.PodFailed)
	}
	_ = w.store.Delete(podsGVR, namespace, name, *metav1.NewDeleteOptions(0))
}

// ---- jobs ----------------------------------------------------------------------------------------------

// observeJob logs the life of jobs; it runs under the store's lock and mu.
func (w *world) observeJob(old, obj runtime.Object) {
	before, _ := old.(*batchv1.Job)
	after, _ := obj.(*batchv1.Job)
	switch {
	case before == nil:
		if c := metav1.GetControllerOf(after); c != nil {
			w.jobOwners[after.Name] = c.Name
		}
		w.event(Event{Type: "jobCreated", Job: after.Name})
	case after == nil:
		w.event(Event{Type: "jobRemoved", Job: before.Name})
	default:
		if reason := finishReason(after); reason != "" && finishReason(before) == "" {
			w.event(Event{Type: "jobFinished", Job: after.Name, Message: reason})
		}
	}
}

func conditionReason(j *batchv1.Job, types ...batchv1.JobConditionType) string {
	for _, c := range j.Status.Conditions {
		if slices.Contains(types, c.Type) && c.Status == v1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}

func finishReason(j *batchv1.Job) string {
	return conditionReason(j, batchv1.JobComplete, batchv1.JobFailed)
}

func (w *world) jobEnds() {
	for _, o := range w.store.List(jobsGVR) {
		j := o.(*batchv1.Job)
		st := &j.Status
		e := &JobEnd{Name: j.Name, Active: st.Active, Succeeded: st.Succeeded, Failed: st.Failed,
			Started: seconds(st.StartTime), Completed: seconds(st.CompletionTime), CompletedIndexes: st.CompletedIndexes}
		if st.Ready != nil {
			e.Ready = *st.Ready
		}
		if st.Terminating != nil {
			e.Terminating = *st.Terminating
		}
		if st.FailedIndexes != nil {
			e.FailedIndexes = *st.FailedIndexes
		}
		for _, c := range st.Conditions {
			e.Conditions = append(e.Conditions, [4]any{c.Type, c.Status, c.Reason, *seconds(&c.LastTransitionTime)})
		}
		w.out.Jobs = append(w.out.Jobs, e)
	}
}

func seconds(t *metav1.Time) *float64 {
	if t == nil {
		return nil
	}
	return ref(bubble.Seconds(t.Time))
}

// ---- steps and samples -----------------------------------------------------------------------------------

// workloadStep does the steps on the workloads of this file, and new ones on nodes.
func (w *world) workloadStep(s Step) bool {
	if k, ok := kinds[s.Kind]; ok {
		switch s.Op {
		case "create":
			obj := decode(s)
			obj.(metav1.Object).SetNamespace(namespace)
			_, err := w.store.Create(k.gvr, obj)
			must(err)
		case "delete":
			w.store.Remove(k.gvr, namespace, s.Name)
		default:
			w.store.Mutate(k.gvr, namespace, s.Name, func(o runtime.Object) { change(o, s) })
		}
		return true
	}
	switch s.Op {
	case "taint":
		w.store.Mutate(nodesGVR, "", s.Name, func(o runtime.Object) {
			n := o.(*v1.Node)
			n.Spec.Taints = append(n.Spec.Taints, *s.Taint)
		})
	case "untaint":
		w.store.Mutate(nodesGVR, "", s.Name, func(o runtime.Object) {
			n := o.(*v1.Node)
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == s.Taint.Key })
		})
	case "nodeSilent":
		w.setSilent(s.Name, s.On)
	case "nodeReady":
		w.setReady(s.Name, s.On)
	case "label":
		w.store.Mutate(nodesGVR, "", s.Name, func(o runtime.Object) {
			n := o.(*v1.Node)
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			for k, v := range s.Labels {
				if n.Labels[k] = v; v == "" {
					delete(n.Labels, k)
				}
			}
		})
	default:
		return false
	}
	return true
}

// change edits the spec of a workload as a user would.
func change(obj runtime.Object, s Step) {
	obj.(metav1.Object).SetGeneration(obj.(metav1.Object).GetGeneration() + 1)
	rollout := func(t *v1.PodTemplateSpec) {
		if t.Annotations == nil {
			t.Annotations = map[string]string{}
		}
		t.Annotations["rollout"] = fmt.Sprint(s.T)
	}
	switch o := obj.(type) {
	case *batchv1.Job:
		switch s.Op {
		case "scale":
			o.Spec.Parallelism = &s.N
			return
		case "suspend":
			o.Spec.Suspend = &s.On
			return
		}
	case *batchv1.CronJob:
		if s.Op == "suspend" {
			o.Spec.Suspend = &s.On
			return
		}
	case *appsv1.StatefulSet:
		switch s.Op {
		case "scale":
			o.Spec.Replicas = &s.N
			return
		case "rollout":
			rollout(&o.Spec.Template)
			return
		case "partition":
			if o.Spec.UpdateStrategy.RollingUpdate == nil {
				o.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
			}
			o.Spec.UpdateStrategy.RollingUpdate.Partition = &s.N
			return
		}
	case *appsv1.DaemonSet:
		if s.Op == "rollout" {
			rollout(&o.Spec.Template)
			n, _ := strconv.Atoi(o.Annotations[appsv1.DeprecatedTemplateGeneration])
			o.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.Itoa(n + 1)
			return
		}
	}
	panic("unknown op " + s.Op + " on " + s.Kind)
}

func (w *world) sampleWorkloads(s *Sample) {
	for _, o := range w.store.List(jobsGVR) {
		j := o.(*batchv1.Job)
		ready := int32(0)
		if j.Status.Ready != nil {
			ready = *j.Status.Ready
		}
		put(&s.Jobs, j.Name, [5]any{j.Status.Active, ready, j.Status.Succeeded, j.Status.Failed,
			conditionReason(j, batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuspended)})
	}
	for _, o := range w.store.List(cronJobsGVR) {
		c := o.(*batchv1.CronJob)
		when := func(t *metav1.Time) int64 {
			if t == nil {
				return -1
			}
			return int64(t.Sub(bubble.Epoch).Seconds())
		}
		put(&s.CronJobs, c.Name, [3]int64{int64(len(c.Status.Active)), when(c.Status.LastScheduleTime), when(c.Status.LastSuccessfulTime)})
	}
	for _, o := range w.store.List(statefulSetsGVR) {
		st := o.(*appsv1.StatefulSet).Status
		put(&s.StatefulSets, o.(metav1.Object).GetName(), [5]int32{st.Replicas, st.ReadyReplicas, st.CurrentReplicas, st.UpdatedReplicas, st.AvailableReplicas})
	}
	for _, o := range w.store.List(daemonSetsGVR) {
		st := o.(*appsv1.DaemonSet).Status
		put(&s.DaemonSets, o.(metav1.Object).GetName(), [5]int32{st.DesiredNumberScheduled, st.CurrentNumberScheduled, st.NumberReady, st.UpdatedNumberScheduled, st.NumberUnavailable})
	}
}

func put[V any](m *map[string]V, name string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = v
}
