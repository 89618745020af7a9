package clustersim

import (
	"cmp"
	"container/heap"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"stowplan.io/oracle/controllers/internal/apiserver"
	"stowplan.io/oracle/controllers/internal/bubble"
)

const namespace = "default"

var (
	podsGVR        = v1.SchemeGroupVersion.WithResource("pods")
	nodesGVR       = v1.SchemeGroupVersion.WithResource("nodes")
	namespacesGVR  = v1.SchemeGroupVersion.WithResource("namespaces")
	deploymentsGVR = appsv1.SchemeGroupVersion.WithResource("deployments")
	replicaSetsGVR = appsv1.SchemeGroupVersion.WithResource("replicasets")
	hpasGVR        = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")
	pdbsGVR        = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	classesGVR     = schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")
)

// world holds the stubs' state. Lock order: the store's lock, then mu. Agenda items run
// in the main goroutine with no lock held.
type world struct {
	sc    *Scenario
	store *apiserver.Store
	out   *Result

	mu        sync.Mutex
	todo      agenda
	seq       int
	pods      map[string]*pod // by API name
	count     map[string]int  // pods created, by deployment
	revs      map[string]int  // replica sets seen: name -> number
	rsNum     map[string]int  // replica sets by deployment
	nodes     map[string]*node
	usage     map[string]sample // published by the metrics server
	jobOwners map[string]string // cron job of a job
	heads     map[string]int    // controller revisions by owner, see revisionOf
	hash      map[string]int    // controller revision hash of an owner -> number
	order     bool              // a supply order (or its retry pause) is running
	added     int               // supplied nodes so far, for names
}

type pod struct {
	*PodLog
	deployment    string // name of the owner: deployment, job, stateful set, daemon set
	kind          string // ReplicaSet (of a deployment), Job, StatefulSet, DaemonSet
	cronJob       string // the job's owner
	finished      bool
	serial        int // among all pods
	index         int
	labels        map[string]string
	cpu, mem      int64 // requests, milli-units
	running       time.Time
	isRunning     bool
	ready         bool
	deleting      bool
	node          string
	unschedulable bool
}

type node struct {
	supplied bool
	pods     int
	empty    int // changes whenever the node becomes empty or used
	silent   bool
	waiting  []func() // what the silent kubelet did
}

type sample struct {
	at       time.Time
	cpu, mem int64
}

func newWorld(sc *Scenario, store *apiserver.Store) *world {
	w := &world{sc: sc, store: store, out: &Result{ID: sc.ID}, pods: map[string]*pod{}, count: map[string]int{},
		revs: map[string]int{}, rsNum: map[string]int{}, nodes: map[string]*node{}, usage: map[string]sample{}, jobOwners: map[string]string{}, heads: map[string]int{}, hash: map[string]int{}}
	store.Step = time.Nanosecond
	store.PodGrace = 30
	store.Admit = w.admit
	store.OnWrite = w.observe
	store.Rounds = map[schema.GroupVersionResource]bool{jobsGVR: true, cronJobsGVR: true, statefulSetsGVR: true, daemonSetsGVR: true}
	return w
}

// ---- agenda -----------------------------------------------------------------------------

type item struct {
	when time.Time
	seq  int
	run  func()
}

type agenda []item

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if c := a[i].when.Compare(a[j].when); c != 0 {
		return c < 0
	}
	return a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(item)) }
func (a *agenda) Pop() any     { o := *a; x := o[len(o)-1]; *a = o[:len(o)-1]; return x }

// at plans run; call it with mu held.
func (w *world) at(when time.Time, run func()) {
	w.seq++
	heap.Push(&w.todo, item{when, w.seq, run})
	w.store.Signal()
}

// after is at, seconds from now.
func (w *world) after(sec float64, run func()) { w.at(time.Now().Add(bubble.Duration(sec)), run) }

func (w *world) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// run is the main loop of the bubble.
func (w *world) run(end time.Time, idle func()) {
	next := func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.todo) > 0 && w.todo[0].when.Before(end) {
			return w.todo[0].when
		}
		return end
	}
	for {
		w.store.Run(next)
		w.mu.Lock()
		if len(w.todo) == 0 || !w.todo[0].when.Before(end) {
			w.mu.Unlock()
			return
		}
		it := heap.Pop(&w.todo).(item)
		w.mu.Unlock()
		it.run()
		idle()
	}
}

// now is the virtual time in seconds, cut to milliseconds: the nanosecond steps between
// events of one instant do not show.
func now() float64 { return float64(time.Since(bubble.Epoch).Milliseconds()) / 1000 }

func ref(f float64) *float64 { return &f }

// ---- API server duties ----------------------------------------------------------------------

// admit applies defaults and resolves priority classes.
func (w *world) admit(_ schema.GroupVersionResource, obj runtime.Object) {
	legacyscheme.Scheme.Default(obj)
	must(w.admitWorkload(obj))
	if n, ok := obj.(*v1.Node); ok && w.sc.NodeLifecycle {
		report(n, true)
	}
	p, ok := obj.(*v1.Pod)
	// Like the real server. Pods of replica sets keep the empty phase that the recorded cluster answers have.
	if ok && p.Status.Phase == "" && len(p.OwnerReferences) > 0 && p.OwnerReferences[0].Kind != "ReplicaSet" {
		p.Status.Phase = v1.PodPending
	}
	if ok && w.evicts() {
		w.tolerate(p)
	}
	if !ok || p.Spec.Priority != nil {
		return
	}
	p.Spec.Priority = new(int32)
	for _, c := range w.sc.Objects.PriorityClasses {
		if c.Name == p.Spec.PriorityClassName || (p.Spec.PriorityClassName == "" && c.GlobalDefault) {
			p.Spec.PriorityClassName, *p.Spec.Priority = c.Name, c.Value
			if p.Spec.PreemptionPolicy == nil {
				p.Spec.PreemptionPolicy = c.PreemptionPolicy
			}
		}
	}
}

func (w *world) event(e Event) {
	e.T = now()
	w.out.Events = append(w.out.Events, e)
}

// observe sees every write, under the store's lock.
func (w *world) observe(gvr schema.GroupVersionResource, old, obj runtime.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch gvr {
	case podsGVR:
		before, _ := old.(*v1.Pod)
		after, _ := obj.(*v1.Pod)
		w.observePod(before, after)
	case nodesGVR:
		switch {
		case old == nil:
			n := obj.(*v1.Node)
			w.nodes[n.Name] = &node{supplied: n.Labels[suppliedLabel] != ""}
			w.startLease(n.Name, w.nodes[n.Name])
			w.event(Event{Type: "nodeAdded", Node: n.Name})
			w.watchEmpty(n.Name)
		case obj == nil:
			name := old.(*v1.Node).Name
			delete(w.nodes, name)
			w.event(Event{Type: "nodeRemoved", Node: name})
		default:
			w.taintsChanged(old.(*v1.Node), obj.(*v1.Node))
		}
	case replicaSetsGVR:
		if rs, ok := obj.(*appsv1.ReplicaSet); ok && w.revs[rs.Name] == 0 {
			d := rs.OwnerReferences[0].Name
			w.rsNum[d]++
			w.revs[rs.Name] = w.rsNum[d]
		}
	case jobsGVR:
		w.observeJob(old, obj)
	}
	if obj == nil {
		w.collect(gvr, old)
	}
}

var rsSuffix = regexp.MustCompile(`-[a-z0-9]+$`)

func (w *world) observePod(old, obj *v1.Pod) {
	if old == nil {
		d, kind, revision := w.owner(obj)
		w.count[d]++
		p := &pod{deployment: d, kind: kind, index: w.count[d], labels: obj.Labels,
			PodLog: &PodLog{Name: fmt.Sprintf("%s-%d", d, w.count[d]), Revision: revision, Ordinal: ordinal(obj), Created: now()}}
		p.serial = len(w.out.Pods)
		if kind == "Job" {
			p.cronJob = w.cronJobOf(d)
		}
		for _, c := range obj.Spec.Containers {
			p.cpu += c.Resources.Requests.Cpu().MilliValue()
			p.mem += c.Resources.Requests.Memory().MilliValue()
		}
		w.pods[obj.Name] = p
		w.out.Pods = append(w.out.Pods, p.PodLog)
		return
	}
	p := w.pods[old.Name]
	if obj == nil {
		p.Gone = ref(now())
		if p.Deleted == nil {
			p.Deleted = p.Gone
		}
		delete(w.pods, old.Name)
		if !p.finished {
			w.leave(p)
		}
		return
	}
	if obj.Spec.NodeName != "" && p.node == "" {
		p.node, p.Node, p.Sched, p.unschedulable = obj.Spec.NodeName, obj.Spec.NodeName, ref(now()), false
		w.event(Event{Type: "scheduled", Pod: p.Name, Node: p.node})
		if n := w.nodes[p.node]; n != nil && p.kind != "DaemonSet" {
			n.pods++
			n.empty++
		}
		name, bound := obj.Name, time.Now()
		w.after(w.kubelet(p).Startup, func() { w.startPod(name, p, bound) })
	}
	if (obj.Status.Phase == v1.PodSucceeded || obj.Status.Phase == v1.PodFailed) && !p.finished && len(obj.Finalizers) > 0 {
		w.ended(p, obj.Status.Phase)
	}
	if obj.DeletionTimestamp != nil && !p.deleting {
		p.deleting, p.ready, p.Deleted = true, false, ref(now())
		name, grace := obj.Name, float64(*obj.DeletionGracePeriodSeconds)
		if len(obj.Finalizers) == 0 {
			w.after(min(w.kubelet(p).Terminate, grace), func() { w.removePod(name, p) })
		} else if grace > 0 {
			w.after(min(w.kubelet(p).Terminate, grace), func() { w.stopPod(name, p) })
		}
	}
	for _, c := range obj.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable && !p.unschedulable {
			if p.kind == "DaemonSet" {
				return // the supply is not for them
			}
			p.unschedulable = true
			w.startOrder()
		}
	}
}

// ---- kubelet ------------------------------------------------------------------------------------

func (w *world) kubelet(p *pod) *Kubelet {
	if wl := w.workload(p); wl != nil && wl.Kubelet != nil {
		return wl.Kubelet
	}
	return &w.sc.Kubelet
}

func (w *world) startPod(name string, p *pod, bound time.Time) {
	if !w.whenHeard(p, func() { w.startPod(name, p, bound) }) {
		return
	}
	w.locked(func() {
		if w.pods[name] != p || p.deleting || p.finished || w.nodes[p.node] == nil {
			p = nil
		}
		if p != nil {
			p.isRunning, p.running, p.Running = true, time.Now(), ref(now())
			w.after(w.kubelet(p).Ready, func() { w.readyPod(name, p) })
			if wl := w.workload(p); wl != nil && wl.Run > 0 {
				w.after(wl.Run, func() { w.finishPod(name, p) })
			}
		}
	})
	if p == nil {
		return
	}
	w.store.Mutate(podsGVR, namespace, name, func(o runtime.Object) {
		st := &o.(*v1.Pod).Status
		began := w.store.Unique(bound)
		st.Phase, st.StartTime = v1.PodRunning, &began
		apiserver.SetPodCondition(o.(*v1.Pod), v1.PodReady, v1.ConditionFalse, began)
	})
}

func (w *world) readyPod(name string, p *pod) {
	if !w.whenHeard(p, func() { w.readyPod(name, p) }) {
		return
	}
	ok := false
	w.locked(func() {
		ok = w.pods[name] == p && !p.deleting && !p.finished && w.nodes[p.node] != nil
		if ok {
			p.ready, p.Ready = true, ref(now())
		}
	})
	if ok {
		w.store.Mutate(podsGVR, namespace, name, func(o runtime.Object) {
			apiserver.SetPodCondition(o.(*v1.Pod), v1.PodReady, v1.ConditionTrue, w.store.Unique(time.Now()))
		})
	}
}

// ---- metrics server --------------------------------------------------------------------------------

func (w *world) scrape() {
	m := w.sc.Metrics
	w.locked(func() {
		t := now() + 0.001 // scrapes run just before their nominal time
		ready := map[string]int64{}
		for _, p := range w.pods {
			if p.ready {
				ready[p.deployment]++
			}
		}
		got := map[string]sample{}
		for name, p := range w.pods {
			if !p.isRunning || w.nodes[p.node] == nil || w.nodes[p.node].silent || time.Since(p.running) < bubble.Duration(m.Warmup) {
				continue
			}
			s := sample{at: time.Now().Add(eps)}
			if wl := w.workload(p); wl != nil {
				if wl.CPU != nil {
					s.cpu = wl.CPU.Of(p.Name, p.index, p.ready, ready[p.deployment], t)
				}
				if wl.Memory != nil {
					s.mem = wl.Memory.Of(p.Name, p.index, p.ready, ready[p.deployment], t)
				}
			}
			got[name] = s
		}
		w.after(m.Delay, func() { w.locked(func() { w.usage = got }) })
		w.after(m.Interval, w.scrape)
	})
}

// ---- node supply -------------------------------------------------------------------------------------

const suppliedLabel = "oracle/supplied"

// startOrder runs under mu.
func (w *world) startOrder() {
	s := w.sc.Supply
	if s == nil || w.order {
		return
	}
	w.order = true
	w.after(s.Batch, w.placeOrder)
}

func (w *world) placeOrder() {
	s := w.sc.Supply
	w.mu.Lock()
	defer w.mu.Unlock()
	var cpu, mem, pods, supplied int64
	for _, p := range w.pods {
		if p.unschedulable && !p.deleting {
			cpu, mem, pods = cpu+p.cpu, mem+p.mem, pods+1
		}
	}
	for _, n := range w.nodes {
		if n.supplied {
			supplied++
		}
	}
	up := func(a, b int64) int64 { return (a + b - 1) / b }
	alloc := s.Template.Status.Allocatable
	n := max(1, up(cpu, alloc.Cpu().MilliValue()), up(mem, alloc.Memory().MilliValue()))
	n = min(n, int64(s.Max)-supplied)
	if pods == 0 || n <= 0 {
		w.order = false
		if pods > 0 { // at the maximum: look again later
			w.order = true
			w.after(max(s.Retry, 1), w.placeOrder)
		}
		return
	}
	w.event(Event{Type: "order", N: int(n)})
	w.after(s.Delay, func() {
		for range n {
			w.added++
			obj := s.Template.DeepCopy()
			obj.Name = fmt.Sprintf("%s%03d", s.Template.Name, w.added)
			if obj.Labels == nil {
				obj.Labels = map[string]string{}
			}
			obj.Labels[suppliedLabel] = "true"
			obj.Labels[v1.LabelHostname] = obj.Name
			if _, err := w.store.Create(nodesGVR, obj); err != nil {
				panic(err)
			}
		}
		w.locked(func() { w.after(s.Retry, w.reorder) })
	})
}

func (w *world) reorder() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order = false
	for _, p := range w.pods {
		if p.unschedulable && !p.deleting {
			w.startOrder()
			return
		}
	}
}

// watchEmpty removes a supplied node that stays empty; it runs under mu.
func (w *world) watchEmpty(name string) {
	s, n := w.sc.Supply, w.nodes[name]
	if s == nil || s.Idle == 0 || n == nil || !n.supplied || n.pods > 0 {
		return
	}
	n.empty++
	mark := n.empty
	w.after(s.Idle, func() {
		idle := false
		w.locked(func() { idle = w.nodes[name] == n && n.pods == 0 && n.empty == mark })
		if idle {
			w.store.Remove(nodesGVR, "", name)
		}
	})
}

// ---- script and timeline -------------------------------------------------------------------------------

// eps: scripted steps and scrapes of time t act this much earlier, so that an HPA sync at
// t sees them.
const eps = 500 * time.Microsecond

func (w *world) plan() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sc.Script {
		w.at(bubble.At(s.T).Add(-eps), func() { w.step(s) })
	}
	if w.sc.Metrics.Interval > 0 {
		w.at(bubble.At(w.sc.Metrics.Phase).Add(-eps), w.scrape)
	}
	var tick func()
	tick = func() {
		w.sample()
		w.locked(func() { w.after(w.sc.Sample, tick) })
	}
	if w.sc.Sample > 0 {
		w.at(bubble.Epoch.Add(bubble.Duration(w.sc.Sample)), tick)
	}
}

func (w *world) step(s Step) {
	if w.workloadStep(s) {
		return
	}
	switch s.Op {
	case "scale":
		_ = w.store.SetScale(namespace, s.Name, s.N)
	case "rollout":
		w.store.Mutate(deploymentsGVR, namespace, s.Name, func(o runtime.Object) {
			d := o.(*appsv1.Deployment)
			if d.Spec.Template.Annotations == nil {
				d.Spec.Template.Annotations = map[string]string{}
			}
			d.Spec.Template.Annotations["rollout"] = fmt.Sprint(s.T)
			d.Generation++
		})
	case "addNode":
		if _, err := w.store.Create(nodesGVR, s.Node); err != nil {
			panic(err)
		}
	case "deleteNode":
		w.store.Remove(nodesGVR, "", s.Name)
	case "cordon", "uncordon":
		w.store.Mutate(nodesGVR, "", s.Name, func(o runtime.Object) { o.(*v1.Node).Spec.Unschedulable = s.Op == "cordon" })
	default:
		panic("unknown op " + s.Op)
	}
}

func (w *world) sample() {
	s := Sample{T: now(), Deployments: map[string][4]int32{}}
	for _, o := range w.store.List(deploymentsGVR) {
		d := o.(*appsv1.Deployment)
		s.Deployments[d.Name] = [4]int32{*d.Spec.Replicas, d.Status.Replicas, d.Status.ReadyReplicas, d.Status.UpdatedReplicas}
	}
	w.sampleWorkloads(&s)
	w.locked(func() {
		s.Nodes = len(w.nodes)
		for _, p := range w.pods {
			if p.node == "" {
				s.Pending++
			}
		}
	})
	w.out.Timeline = append(w.out.Timeline, s)
}

func sortedPods(m map[string]sample) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	return names
}
