package hpasim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // defaults and validation
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	hpastrategy "k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"

	"stowplan.io/oracle/controllers/internal/apiserver"
	"stowplan.io/oracle/controllers/internal/bubble"
)

// Result is one output line.
type Result struct {
	ID       string   `json:"id"`
	Invalid  string   `json:"invalid,omitempty"` // the API server would refuse the HPA
	Timeline []*Entry `json:"timeline,omitempty"`
}

// Entry describes one reconcile: what the controller saw, decided and wrote.
type Entry struct {
	T        float64           `json:"t"`
	Spec     int32             `json:"spec"`               // scale.spec.replicas before
	Proposal *int32            `json:"proposal,omitempty"` // metric proposal before normalisation
	Metric   string            `json:"metric,omitempty"`   // its metric
	ScaleTo  *int32            `json:"scaleTo,omitempty"`
	Reason   string            `json:"reason,omitempty"` // rescale reason
	Current  int32             `json:"currentReplicas"`  // status after
	Desired  int32             `json:"desiredReplicas"`
	Cond     map[string][3]any `json:"conditions"` // type: status, reason, since
	Metrics  []map[string]any  `json:"currentMetrics,omitempty"`
	Events   []string          `json:"events,omitempty"` // other event reasons
	Err      string            `json:"error,omitempty"`
}

// now is the scenario time, in tenths of a second: conflict retries add jittered
// milliseconds that must not show.
func now() float64 {
	return float64(time.Since(bubble.Epoch).Round(100*time.Millisecond).Milliseconds()/100) / 10
}

var hpaGVR = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")

// Admit applies the API server's defaults and validation for a new HPA.
func Admit(in *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	obj := in.DeepCopy()
	obj.Namespace = namespace
	legacyscheme.Scheme.Default(obj)
	internal := &autoscaling.HorizontalPodAutoscaler{}
	if err := legacyscheme.Scheme.Convert(obj, internal, nil); err != nil {
		return nil, err
	}
	ctx := genericapirequest.WithNamespace(context.Background(), namespace)
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{APIGroup: "autoscaling", APIVersion: "v2"})
	rest.FillObjectMetaSystemFields(internal)
	if err := rest.BeforeCreate(hpastrategy.Strategy, ctx, internal); err != nil {
		return nil, err
	}
	out := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := legacyscheme.Scheme.Convert(internal, out, nil); err != nil {
		return nil, err
	}
	out.UID, out.CreationTimestamp = "", metav1.Time{}
	return out, nil
}

// Run executes one scenario; call it inside a bubble.
func Run(sc *Scenario) *Result {
	res := &Result{ID: sc.ID}
	if sc.HPA.Name == "" {
		sc.HPA.Name = "hpa"
	}
	hpa, err := Admit(&sc.HPA)
	if err != nil {
		res.Invalid = err.Error()
		return res
	}
	rand.Seed(1) // conflict back-off jitter
	store := apiserver.New()
	w := newWorld(sc, store)
	rec := &recorder{store: store, name: hpa.Name, rivals: sc.Rivals}
	// The default error handler sleeps (rate limit) and keeps state between bubbles.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{rec.error}

	for _, r := range sc.Rivals {
		other := hpa.DeepCopy()
		other.Name = r
		other.Spec.ScaleTargetRef.Name = r
		mustCreate(store, other)
	}
	mustCreate(store, hpa)
	for i := range sc.HPAScript {
		st := sc.HPAScript[i]
		tmp := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: hpa.ObjectMeta, Spec: st.Spec}
		next, err := Admit(tmp)
		if err != nil {
			res.Invalid = fmt.Sprintf("hpaScript[%d]: %v", i, err)
			return res
		}
		w.at(st.T, 1, func(float64) {
			store.Mutate(hpaGVR, namespace, hpa.Name, func(o runtime.Object) {
				o.(*autoscalingv2.HorizontalPodAutoscaler).Spec = next.Spec
				o.(*autoscalingv2.HorizontalPodAutoscaler).Generation++
			})
		})
		for j := range w.todo { // spec changes act at t sharp, see eps
			if w.todo[j].seq == w.seq {
				w.todo[j].late = true
			}
		}
	}

	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.New(rec)))
	defer cancel()
	cs := store.Clientset()
	factory := informers.NewSharedInformerFactory(cs, 12*time.Hour)
	c := sc.Config
	ctrl := podautoscaler.NewHorizontalController(ctx, cs.CoreV1(), scales{w, rec}, cs.AutoscalingV2(), restMapper(),
		metrics.NewRESTMetricsClient(podMetrics{w}, customMetrics{w}, externalMetrics{w}),
		factory.Autoscaling().V2().HorizontalPodAutoscalers(), factory.Core().V1().Pods(),
		or(c.SyncPeriod, 15), or(c.Downscale, 300), orFloat(c.Tolerance, 0.1), or(c.CPUInit, 300), or(c.InitialReadiness, 30))
	factory.Start(ctx.Done())
	store.Settle() // caches are filled before the workers start
	go ctrl.Run(ctx, 1)

	w.run(sc.Until)
	time.Sleep(200 * time.Millisecond) // virtual: conflict retries of the last sync
	rec.finish()
	cancel()
	factory.Shutdown()
	res.Timeline = rec.entries
	return res
}

func or(sec, def float64) time.Duration { return bubble.Duration(orFloat(sec, def)) }

func orFloat(v, def float64) float64 {
	if v == 0 {
		return def
	}
	return v
}

func mustCreate(store *apiserver.Store, hpa *autoscalingv2.HorizontalPodAutoscaler) {
	if _, err := store.Create(hpaGVR, hpa); err != nil {
		panic(err)
	}
}

func restMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
	for _, k := range []string{"Deployment", "StatefulSet", "ReplicaSet"} {
		m.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: k}, meta.RESTScopeNamespace)
	}
	return m
}

// ---- recorder: collects entries from the scale calls and from the controller's log -------

type recorder struct {
	mu      sync.Mutex
	store   *apiserver.Store
	name    string
	rivals  []string
	entries []*Entry
	open    *Entry
	rival   bool // a rival is being reconciled
}

func (r *recorder) syncs(rival bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rival = rival
}

func (r *recorder) begin(spec int32) {
	if r.open != nil && r.open.T == now() && r.open.ScaleTo == nil && r.open.Err == "" {
		return // re-read of the scale after a conflict
	}
	r.finish()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = &Entry{T: now(), Spec: spec}
}

func (r *recorder) scaleTo(n int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open.ScaleTo = &n
}

// finish closes the current entry with the status the controller left behind.
func (r *recorder) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.open
	if e == nil {
		return
	}
	r.open = nil
	r.entries = append(r.entries, e)
	st := r.store.Get(hpaGVR, namespace, r.name).(*autoscalingv2.HorizontalPodAutoscaler).Status
	e.Current, e.Desired = st.CurrentReplicas, st.DesiredReplicas
	e.Cond = map[string][3]any{}
	for _, c := range st.Conditions {
		e.Cond[string(c.Type)] = [3]any{c.Status, c.Reason, int64(c.LastTransitionTime.Sub(bubble.Epoch).Round(time.Millisecond).Seconds())}
	}
	for _, m := range st.CurrentMetrics {
		e.Metrics = append(e.Metrics, brief(m))
	}
}

// brief is a metric status with milli-unit integers; null for a metric that failed.
func brief(m autoscalingv2.MetricStatus) map[string]any {
	out := map[string]any{"type": m.Type}
	put := func(name string, v autoscalingv2.MetricValueStatus) {
		out["name"] = name
		set := func(k string, q *resource.Quantity) {
			if q != nil {
				out[k] = q.MilliValue()
			}
		}
		set("value", v.Value)
		set("averageValue", v.AverageValue)
		if v.AverageUtilization != nil {
			out["averageUtilization"] = *v.AverageUtilization
		}
	}
	switch {
	case m.Resource != nil:
		put(string(m.Resource.Name), m.Resource.Current)
	case m.ContainerResource != nil:
		put(string(m.ContainerResource.Name), m.ContainerResource.Current)
		out["container"] = m.ContainerResource.Container
	case m.Pods != nil:
		put(m.Pods.Metric.Name, m.Pods.Current)
	case m.Object != nil:
		put(m.Object.Metric.Name, m.Object.Current)
	case m.External != nil:
		put(m.External.Metric.Name, m.External.Current)
	default:
		return nil
	}
	return out
}

// Errors name a random pod, or list HPAs in random order (map iteration): hide that.
var (
	podName = regexp.MustCompile(`\b([Pp]od) \S+$`)
	hpaList = regexp.MustCompile(`\(e\.g\. \[.*\]\)`)
)

func (r *recorder) error(_ context.Context, err error, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil || err == nil {
		return
	}
	text := podName.ReplaceAllString(err.Error(), "$1 *")
	for _, rival := range r.rivals {
		if strings.Contains(text, "/"+namespace+"/"+rival+":") {
			return
		}
	}
	e := r.open
	if r.rival && e.T == now() {
		// Rivals are due at the same instant, in either order. Their errors that name no target
		// belong to the entry before, as if they always came first.
		if len(r.entries) == 0 {
			return
		}
		e = r.entries[len(r.entries)-1]
	}
	e.Err = hpaList.ReplaceAllString(text, "(e.g. [*])")
}

// logr.LogSink: the controller logs its proposal and all its events.

func (r *recorder) Init(logr.RuntimeInfo)                  {}
func (r *recorder) Enabled(level int) bool                 { return level <= 4 }
func (r *recorder) WithValues(...any) logr.LogSink         { return r }
func (r *recorder) WithName(string) logr.LogSink           { return r }
func (r *recorder) Error(err error, msg string, kv ...any) {}

var newSize = regexp.MustCompile(`^New size: \d+; reason: (.*)$`)

func (r *recorder) Info(_ int, msg string, kv ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		return
	}
	get := func(k string) any {
		for i := 0; i+1 < len(kv); i += 2 {
			if kv[i] == k {
				return kv[i+1]
			}
		}
		return nil
	}
	switch msg {
	case "Proposing desired replicas", "Proposing desired replicas from zero":
		if ref, _ := get("scaleTarget").(string); !strings.HasSuffix(ref, "/"+r.target()) {
			return
		}
		n := get("desiredReplicas").(int32)
		r.open.Proposal, r.open.Metric = &n, get("metric").(string)
	case "Event occurred":
		b, _ := json.Marshal(get("object"))
		var ref struct{ Name string }
		_ = json.Unmarshal(b, &ref)
		if ref.Name != r.name {
			return
		}
		text, _ := get("message").(string)
		reason, _ := get("reason").(string)
		if m := newSize.FindStringSubmatch(text); m != nil && reason == "SuccessfulRescale" {
			r.open.Reason = m[1]
			return
		}
		r.open.Events = append(r.open.Events, reason)
	}
}

func (r *recorder) target() string {
	return r.store.Get(hpaGVR, namespace, r.name).(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef.Name
}
