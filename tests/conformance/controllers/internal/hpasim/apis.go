package hpasim

import (
	"context"
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/scale"
	customapi "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalapi "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsapi "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"

	"stowplan.io/oracle/controllers/internal/bubble"
	"stowplan.io/oracle/controllers/internal/load"
)

// The types below answer the controller's requests from the world's state.

func milli(v int64) resource.Quantity { return *resource.NewMilliQuantity(v, resource.DecimalSI) }

// ---- scale subresource ----------------------------------------------------------------

type scales struct {
	w   *world
	rec *recorder
}

func (s scales) Scales(string) scale.ScaleInterface { return s }

func (s scales) Get(_ context.Context, gr schema.GroupResource, name string, _ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	s.rec.syncs(name != w.sc.Target.Name)
	if name != w.sc.Target.Name { // a rival's target: one replica, same selector
		return &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: autoscalingv1.ScaleSpec{Replicas: 1}, Status: autoscalingv1.ScaleStatus{Replicas: 1, Selector: w.selector}}, nil
	}
	s.rec.begin(w.spec)
	if active(w.sc.ScaleFaults, "get", now()) != nil {
		return nil, apierrors.NewNotFound(gr, name)
	}
	return w.scale(), nil
}

func (w *world) scale() *autoscalingv1.Scale {
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.sc.Target.Name},
		Spec:       autoscalingv1.ScaleSpec{Replicas: w.spec},
		Status:     autoscalingv1.ScaleStatus{Replicas: w.status, Selector: w.selector},
	}
}

func (s scales) Update(_ context.Context, gr schema.GroupResource, sc *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if sc.Name != w.sc.Target.Name {
		return sc, nil
	}
	t := now()
	if active(w.sc.ScaleFaults, "update", t) != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("scripted"))
	}
	if f := active(w.sc.ScaleFaults, "conflict", t); f != nil && w.conflict[f] < f.Count {
		w.conflict[f]++
		return nil, apierrors.NewConflict(gr, sc.Name, fmt.Errorf("scripted"))
	}
	w.spec = sc.Spec.Replicas
	s.rec.scaleTo(w.spec)
	w.reconcile(t)
	return w.scale(), nil
}

func (s scales) Patch(context.Context, schema.GroupVersionResource, string, types.PatchType, []byte, metav1.PatchOptions) (*autoscalingv1.Scale, error) {
	panic("the HPA controller does not patch")
}

// ---- metrics.k8s.io ---------------------------------------------------------------------

type podMetrics struct{ w *world }

func (m podMetrics) PodMetricses(string) resourceclient.PodMetricsInterface {
	return podMetricsIf{w: m.w}
}

type podMetricsIf struct {
	resourceclient.PodMetricsInterface // only List is used
	w                                  *world
}

func (m podMetricsIf) List(_ context.Context, opts metav1.ListOptions) (*metricsapi.PodMetricsList, error) {
	w := m.w
	w.mu.Lock()
	defer w.mu.Unlock()
	t, api := now(), w.sc.Metric.Resource
	sel, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, err
	}
	if api == nil || active(api.Faults, "error", t) != nil {
		return nil, apierrors.NewServiceUnavailable("scripted")
	}
	out := &metricsapi.PodMetricsList{}
	if active(api.Faults, "empty", t) != nil || !sel.Matches(labels.Set(w.sc.Target.Labels)) {
		return out, nil
	}
	got := w.resource
	if api.Interval == 0 {
		got = w.scrape(api.Usage, api.Sampling, t)
	}
	for _, name := range sortedKeys(got.pods) {
		if w.pods[name] == nil || dropped(api.Faults, name, t) {
			continue
		}
		pm := metricsapi.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Timestamp:  stamp(got.at), Window: metav1.Duration{Duration: bubble.Duration(api.Window)},
		}
		pm.Containers = split(api, got.pods[name], t)
		out.Items = append(out.Items, pm)
	}
	ghosts(api.Faults, t, func(pod string, value int64) {
		usage := map[string]int64{}
		for r := range api.Usage {
			usage[r] = value
		}
		out.Items = append(out.Items, metricsapi.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
			Timestamp:  stamp(t), Window: metav1.Duration{Duration: bubble.Duration(api.Window)}, Containers: split(api, usage, t),
		})
	})
	return out, nil
}

// split divides a pod's usage over the containers and applies container faults.
func split(api *ResourceAPI, usage map[string]int64, t float64) []metricsapi.ContainerMetrics {
	var sum int64
	for _, s := range api.Split {
		sum += s.Weight
	}
	var out []metricsapi.ContainerMetrics
	rest := map[string]int64{}
	for r, v := range usage {
		rest[r] = v
	}
	for i, s := range api.Split {
		cm := metricsapi.ContainerMetrics{Name: s.Container, Usage: v1.ResourceList{}}
		for _, r := range sortedKeys(usage) {
			v := load.FloorDiv(usage[r]*s.Weight, sum)
			if i == len(api.Split)-1 {
				v = rest[r]
			}
			rest[r] -= v
			if f := active(api.Faults, "resource", t); f != nil && f.Container == s.Container && f.Resource == r {
				continue
			}
			cm.Usage[v1.ResourceName(r)] = milli(v)
		}
		if f := active(api.Faults, "container", t); f != nil && f.Container == s.Container {
			continue
		}
		out = append(out, cm)
	}
	return out
}

func dropped(faults []Fault, pod string, t float64) bool {
	for _, f := range faults {
		if f.Kind == "pods" && f.From <= t && t < f.To && slices.Contains(f.Pods, pod) {
			return true
		}
	}
	return false
}

// ---- custom.metrics.k8s.io -----------------------------------------------------------------

type customMetrics struct{ w *world }

func (c customMetrics) RootScopedMetrics() custom_metrics.MetricsInterface { return c }
func (c customMetrics) NamespacedMetrics(string) custom_metrics.MetricsInterface {
	return c
}

func (c customMetrics) GetForObjects(_ schema.GroupKind, _ labels.Selector, name string, _ labels.Selector) (*customapi.MetricValueList, error) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	t, api := now(), w.sc.Metric.Pods[name]
	if api == nil || active(api.Faults, "error", t) != nil {
		return nil, apierrors.NewServiceUnavailable("scripted")
	}
	out := &customapi.MetricValueList{}
	if active(api.Faults, "empty", t) != nil {
		return out, nil
	}
	got := w.custom[name]
	if api.Interval == 0 {
		got = w.scrape(map[string]*load.Usage{"": &api.Usage}, api.Sampling, t)
	}
	for _, pod := range sortedKeys(got.pods) {
		if w.pods[pod] == nil || dropped(api.Faults, pod, t) {
			continue
		}
		out.Items = append(out.Items, customapi.MetricValue{
			DescribedObject: v1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod},
			Metric:          customapi.MetricIdentifier{Name: name},
			Timestamp:       stamp(got.at), WindowSeconds: api.Window, Value: milli(got.pods[pod][""]),
		})
	}
	ghosts(api.Faults, t, func(pod string, value int64) {
		out.Items = append(out.Items, customapi.MetricValue{
			DescribedObject: v1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod},
			Metric:          customapi.MetricIdentifier{Name: name}, Timestamp: stamp(t), WindowSeconds: api.Window, Value: milli(value),
		})
	})
	return out, nil
}

func (c customMetrics) GetForObject(_ schema.GroupKind, object, name string, _ labels.Selector) (*customapi.MetricValue, error) {
	vals, err := c.w.values(c.w.sc.Metric.Object[name])
	if err == nil && len(vals) == 0 {
		err = apierrors.NewNotFound(schema.GroupResource{Group: "custom.metrics.k8s.io", Resource: "metrics"}, name)
	}
	if err != nil {
		return nil, err
	}
	return &customapi.MetricValue{Metric: customapi.MetricIdentifier{Name: name}, Timestamp: stamp(now()), Value: milli(vals[0])}, nil
}

// ---- external.metrics.k8s.io -----------------------------------------------------------------

type externalMetrics struct{ w *world }

func (e externalMetrics) NamespacedMetrics(string) external_metrics.MetricsInterface { return e }

func (e externalMetrics) List(name string, _ labels.Selector) (*externalapi.ExternalMetricValueList, error) {
	vals, err := e.w.values(e.w.sc.Metric.External[name])
	if err != nil {
		return nil, err
	}
	out := &externalapi.ExternalMetricValueList{}
	for _, v := range vals {
		out.Items = append(out.Items, externalapi.ExternalMetricValue{MetricName: name, Timestamp: stamp(now()), Value: milli(v)})
	}
	return out, nil
}

func (w *world) values(api *ValueAPI) ([]int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := now()
	switch {
	case api == nil || active(api.Faults, "error", t) != nil:
		return nil, apierrors.NewServiceUnavailable("scripted")
	case active(api.Faults, "empty", t) != nil:
		return nil, nil
	case api.Queue != nil:
		return []int64{w.queues[api]}, nil
	}
	return load.At(api.Series, api.Linear, t), nil
}
