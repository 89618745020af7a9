package clustersim

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/go-logr/logr"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // defaults
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	_ "k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	externalapi "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsapi "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/external_metrics"

	"stowplan.io/oracle/controllers/internal/apiserver"
	"stowplan.io/oracle/controllers/internal/bubble"
	"stowplan.io/oracle/controllers/internal/hpasim"
	"stowplan.io/oracle/controllers/internal/load"
)

// preemptionOffset is where the search for preemption candidates begins: upstream takes
// a random node, the oracle the first one.
//
//go:linkname preemptionOffset k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption.getOffsetRand
var preemptionOffset func(int32) int32

// Run executes one scenario; call it inside a bubble.
func Run(sc *Scenario) *Result {
	rand.Seed(1)
	preemptionOffset = func(int32) int32 { return 0 }
	utilruntime.ErrorHandlers = nil // the default ones sleep
	store := apiserver.New()
	w := newWorld(sc, store)
	var hpas []*autoscalingv2.HorizontalPodAutoscaler
	for _, in := range sc.Objects.HPAs {
		hpa, err := hpasim.Admit(in)
		if err != nil {
			return &Result{ID: sc.ID, Invalid: err.Error()}
		}
		hpas = append(hpas, hpa)
	}
	if err := checkWorkloads(sc); err != nil {
		return &Result{ID: sc.ID, Invalid: err.Error()}
	}
	cfg, err := schedulerConfig(sc.Scheduler)
	if err != nil {
		return &Result{ID: sc.ID, Invalid: err.Error()}
	}

	w.load()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.New(logSink{w})))
	cs := store.Clientset()
	shared := informers.NewSharedInformerFactory(cs, 12*time.Hour)
	core, apps := shared.Core().V1(), shared.Apps().V1()
	dc, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), cs)
	must(err)
	rsc := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), cs, replicaset.BurstReplicas)
	// Upstream's quarantine is 40 s = two check periods: whether the second check comes just
	// before or after its end is a race. In a real cluster the check comes after it.
	gc := podgc.NewPodGCInternal(ctx, cs, oldestFirst{core.Pods()}, core.Nodes(), 12500, 20*time.Second, 40*time.Second-time.Millisecond)
	hc := podautoscaler.NewHorizontalController(ctx, cs.CoreV1(), scales{w}, cs.AutoscalingV2(), restMapper(),
		metrics.NewRESTMetricsClient(podMetrics{w}, nil, externalMetrics{w}),
		shared.Autoscaling().V2().HorizontalPodAutoscalers(), core.Pods(),
		15*time.Second, 300*time.Second, 0.1, 300*time.Second, 30*time.Second)
	var pdb *disruption.DisruptionController
	if len(sc.Objects.PDBs) > 0 {
		pdb = disruption.NewDisruptionController(ctx, core.Pods(), shared.Policy().V1().PodDisruptionBudgets(),
			core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), cs, restMapper(), scales{w}, cs.Discovery())
	}
	others := append(w.controllers(ctx, cs, shared), w.nodeControllers(ctx, cs, shared)...)
	own := scheduler.NewInformerFactory(cs, 0, nil)
	sched, err := scheduler.New(ctx, cs, own, nil, func(string) events.EventRecorderLogger { return recorder{w} },
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithParallelism(1))
	must(err)
	w.hook(ctx, sched)
	shared.Start(ctx.Done())
	own.Start(ctx.Done())
	store.Settle()

	go sched.Run(ctx)
	go gc.Run(ctx)
	go rsc.Run(ctx, 1)
	go dc.Run(ctx, 1)
	go hc.Run(ctx, 1)
	if pdb != nil {
		go pdb.Run(ctx, 1)
	}
	for _, run := range others {
		go run(ctx)
	}
	for i, hpa := range hpas {
		w.locked(func() {
			w.at(bubble.At(sc.HPAStart+float64(i)), func() {
				_, err := store.Create(hpasGVR, hpa)
				must(err)
			})
		})
	}
	w.plan()
	w.run(bubble.At(sc.Until).Add(eps), cs.ClearActions)
	w.jobEnds()
	store.EndTurns()
	cancel()
	shared.Shutdown()
	own.Shutdown()
	time.Sleep(time.Minute) // virtual: sleeping goroutines notice the end
	return w.out
}

// oldestFirst makes pod GC delete pods in the order of their creation, not in map order.
type oldestFirst struct{ coreinformers.PodInformer }

func (o oldestFirst) Lister() corelisters.PodLister { return oldestFirstLister{o.PodInformer.Lister()} }

type oldestFirstLister struct{ corelisters.PodLister }

func (o oldestFirstLister) List(sel labels.Selector) ([]*v1.Pod, error) {
	pods, err := o.PodLister.List(sel)
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods, err
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// load creates the initial objects, in list order.
func (w *world) load() {
	o := &w.sc.Objects
	add := func(gvr schema.GroupVersionResource, obj runtime.Object, ns string) {
		m, err := meta.Accessor(obj)
		must(err)
		m.SetNamespace(ns)
		_, err = w.store.Create(gvr, obj)
		must(err)
	}
	add(namespacesGVR, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, "")
	for _, c := range o.PriorityClasses {
		add(classesGVR, c, "")
	}
	for _, n := range o.Nodes {
		add(nodesGVR, n, "")
	}
	for _, p := range o.PDBs {
		add(pdbsGVR, p, namespace)
	}
	for _, d := range o.Deployments {
		add(deploymentsGVR, d, namespace)
	}
	for _, s := range o.StatefulSets {
		add(statefulSetsGVR, s, namespace)
	}
	for _, d := range o.DaemonSets {
		add(daemonSetsGVR, d, namespace)
	}
	for _, j := range o.Jobs {
		add(jobsGVR, j, namespace)
	}
	for _, c := range o.CronJobs {
		add(cronJobsGVR, c, namespace)
	}
}

func schedulerConfig(raw []byte) (*config.KubeSchedulerConfiguration, error) {
	cfg, err := latest.Default()
	if err != nil || len(raw) == 0 || string(raw) == "null" {
		return cfg, err
	}
	obj, gvk, err := configscheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg = obj.(*config.KubeSchedulerConfiguration)
	cfg.TypeMeta.APIVersion = gvk.GroupVersion().String()
	return cfg, nil
}

func restMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
	for _, k := range []string{"Deployment", "ReplicaSet"} {
		m.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: k}, meta.RESTScopeNamespace)
	}
	return m
}

// ---- scheduler ----------------------------------------------------------------------------

// hook makes every scheduling attempt take cycle seconds, and records failures.
func (w *world) hook(ctx context.Context, sched *scheduler.Scheduler) {
	cycle := bubble.Duration(w.sc.Cycle)
	pop := sched.NextEntity
	sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		e, err := pop(logger)
		if e != nil && cycle > 0 {
			time.Sleep(cycle)
		}
		return e, err
	}
	fail := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, f framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		w.locked(func() {
			p := w.pods[info.Pod.Name]
			if p == nil {
				return
			}
			p.Attempts++
			e := Event{Type: "unschedulable", Pod: p.Name, Message: status.Message()}
			var fit *framework.FitError
			if errors.As(status.AsError(), &fit) {
				e.Message = fit.Error()
				e.Plugins = fit.Diagnosis.UnschedulablePlugins.UnsortedList()
				slices.Sort(e.Plugins)
			}
			w.event(e)
			if nominating.Mode() == fwk.ModeOverride && nominating.NominatedNodeName != "" {
				w.event(Event{Type: "nominated", Pod: p.Name, Node: nominating.NominatedNodeName})
			}
		})
		fail(ctx, f, info, status, nominating, start)
	}
}

// recorder receives the scheduler's API events.
type recorder struct{ w *world }

func (r recorder) Eventf(regarding, related runtime.Object, _, reason, _, _ string, _ ...any) {
	victim, ok := regarding.(*v1.Pod)
	by, ok2 := related.(metav1.Object)
	if reason != "Preempted" || !ok || !ok2 {
		return
	}
	r.w.locked(func() {
		v, p := r.w.pods[victim.Name], r.w.pods[by.GetName()]
		if v != nil && p != nil {
			r.w.event(Event{Type: "preempted", Pod: v.Name, Node: v.node, By: p.Name})
		}
	})
}

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// ---- HPA ------------------------------------------------------------------------------------

// scales is the scale subresource of deployments; it also logs the HPA's reconciles.
type scales struct{ w *world }

func (s scales) Scales(string) scale.ScaleInterface { return s }

func (s scales) read(name string) (*autoscalingv1.Scale, error) {
	spec, status, selector, err := s.w.store.Scale(namespace, name)
	if err != nil {
		return nil, err
	}
	return &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:   autoscalingv1.ScaleSpec{Replicas: spec},
		Status: autoscalingv1.ScaleStatus{Replicas: status, Selector: selector}}, nil
}

func (s scales) Get(_ context.Context, _ schema.GroupResource, name string, _ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	sc, err := s.read(name)
	s.w.locked(func() {
		y := &Sync{T: now(), HPA: name}
		if sc != nil {
			y.Spec, y.Status = sc.Spec.Replicas, sc.Status.Replicas
		}
		s.w.out.HPA = append(s.w.out.HPA, y)
		s.w.after(0, func() { s.w.conditions(y) }) // runs once this instant has settled
	})
	return sc, err
}

func (w *world) lastSync(target string) *Sync {
	for i := len(w.out.HPA) - 1; i >= 0; i-- {
		if w.out.HPA[i].HPA == target {
			return w.out.HPA[i]
		}
	}
	return &Sync{}
}

func (w *world) conditions(y *Sync) {
	for _, o := range w.store.List(hpasGVR) {
		h := o.(*autoscalingv2.HorizontalPodAutoscaler)
		if h.Spec.ScaleTargetRef.Name != y.HPA {
			continue
		}
		for _, c := range h.Status.Conditions {
			switch c.Type {
			case autoscalingv2.AbleToScale:
				y.Able = c.Reason
			case autoscalingv2.ScalingActive:
				y.Active = c.Reason
			case autoscalingv2.ScalingLimited:
				y.Limited = c.Reason
			}
		}
	}
}

func (s scales) Update(_ context.Context, _ schema.GroupResource, sc *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	n := sc.Spec.Replicas
	if err := s.w.store.SetScale(namespace, sc.Name, n); err != nil {
		return nil, err
	}
	s.w.locked(func() { s.w.lastSync(sc.Name).ScaleTo = &n })
	return s.read(sc.Name)
}

func (s scales) Patch(context.Context, schema.GroupVersionResource, string, types.PatchType, []byte, metav1.PatchOptions) (*autoscalingv1.Scale, error) {
	panic("not used")
}

type podMetrics struct{ w *world }

func (m podMetrics) PodMetricses(string) resourceclient.PodMetricsInterface {
	return podMetricsIf{w: m.w}
}

type podMetricsIf struct {
	resourceclient.PodMetricsInterface // only List is used
	w                                  *world
}

func (m podMetricsIf) List(_ context.Context, opts metav1.ListOptions) (*metricsapi.PodMetricsList, error) {
	sel, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, err
	}
	out := &metricsapi.PodMetricsList{}
	m.w.locked(func() {
		for _, name := range sortedPods(m.w.usage) {
			p := m.w.pods[name]
			if p == nil || !sel.Matches(labels.Set(p.labels)) {
				continue
			}
			u := m.w.usage[name]
			out.Items = append(out.Items, metricsapi.PodMetrics{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Timestamp:  metav1.NewTime(u.at.Truncate(time.Second)),
				Window:     metav1.Duration{Duration: bubble.Duration(m.w.sc.Metrics.Window)},
				Containers: []metricsapi.ContainerMetrics{{Name: "app", Usage: v1.ResourceList{
					v1.ResourceCPU:    *resource.NewMilliQuantity(u.cpu, resource.DecimalSI),
					v1.ResourceMemory: *resource.NewMilliQuantity(u.mem, resource.BinarySI),
				}}},
			})
		}
	})
	return out, nil
}

type externalMetrics struct{ w *world }

func (e externalMetrics) NamespacedMetrics(string) external_metrics.MetricsInterface { return e }

func (e externalMetrics) List(name string, _ labels.Selector) (*externalapi.ExternalMetricValueList, error) {
	series := e.w.sc.External[name]
	if series == nil {
		return nil, apierrors.NewServiceUnavailable("no such metric")
	}
	out := &externalapi.ExternalMetricValueList{}
	for _, v := range load.At(series, false, now()) {
		out.Items = append(out.Items, externalapi.ExternalMetricValue{MetricName: name,
			Timestamp: metav1.Now(), Value: *resource.NewMilliQuantity(v, resource.DecimalSI)})
	}
	return out, nil
}

// logSink picks the HPA's proposals out of the controllers' log.
type logSink struct{ w *world }

func (l logSink) Init(logr.RuntimeInfo)                 {}
func (l logSink) Enabled(level int) bool                { return level <= 4 }
func (l logSink) WithValues(...any) logr.LogSink        { return l }
func (l logSink) WithName(string) logr.LogSink          { return l }
func (l logSink) Error(err error, msg string, _ ...any) {}

func (l logSink) Info(_ int, msg string, kv ...any) {
	if msg != "Proposing desired replicas" && msg != "Proposing desired replicas from zero" {
		return
	}
	var n int32
	var target string
	for i := 0; i+1 < len(kv); i += 2 {
		switch kv[i] {
		case "desiredReplicas":
			n = kv[i+1].(int32)
		case "scaleTarget":
			target = fmt.Sprint(kv[i+1])
		}
	}
	const prefix = "Deployment/" + namespace + "/"
	l.w.locked(func() { l.w.lastSync(target[len(prefix):]).Proposal = &n })
}
