// Package apiserver is a very small, deterministic in-memory API server that sits
// behind client-go's fake clientset. Compared with the stock object tracker it adds
// what real controllers rely on: resourceVersion and generation, generateName, the
// status and binding subresources, graceful pod deletion, sorted lists, and watch
// queues that never overflow and are delivered one event at a time in version order.
package apiserver

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"sync"
	"time"

	"gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	ktesting "k8s.io/client-go/testing"
)

// Store holds all objects. Every write gets the next resourceVersion.
type Store struct {
	mu       sync.Mutex
	rv       int64
	names    map[string]int // generateName prefix -> last suffix
	objs     map[schema.GroupVersionResource]map[string]runtime.Object
	used     map[string]int // resource/namespace/name -> objects that had this name
	watchers []*watcher
	wake     chan struct{}
	turns    []turn // requests that wait for their turn
	stopped  bool   // turns are over

	// Admit, if set, may complete an object before it is created (under the lock).
	Admit func(gvr schema.GroupVersionResource, obj runtime.Object)
	// Step is the virtual time that passes after each watch event (see Run).
	Step time.Duration
	// OnWrite, if set, is called under the lock after each write.
	// old is nil for creations, obj is nil for deletions.
	OnWrite func(gvr schema.GroupVersionResource, old, obj runtime.Object)
	// PodGrace is how long a deleted, bound pod keeps its deletionTimestamp.
	// The kubelet stub removes it with Remove. Unbound pods vanish at once.
	PodGrace int64
	// Rounds names the resources whose writes lose fractions of seconds, as in JSON.
	Rounds map[schema.GroupVersionResource]bool
}

// New returns an empty store; call it inside the bubble.
func New() *Store {
	return &Store{
		names: map[string]int{},
		used:  map[string]int{},
		objs:  map[schema.GroupVersionResource]map[string]runtime.Object{},
		wake:  make(chan struct{}, 1),
	}
}

// Clientset returns a fake clientset whose requests go to the store.
func (s *Store) Clientset() *fake.Clientset {
	cs := &fake.Clientset{}
	cs.AddReactor("*", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
		obj, err := s.react(a)
		return true, obj, err
	})
	cs.AddWatchReactor("*", func(a ktesting.Action) (bool, watch.Interface, error) {
		return true, s.watch(a.(ktesting.WatchActionImpl)), nil
	})
	return cs
}

func key(ns, name string) string { return ns + "/" + name }

func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return m
}

// ---- reads and writes used by the stubs ---------------------------------------

// Get returns the stored object itself; callers must not change it.
func (s *Store) Get(gvr schema.GroupVersionResource, ns, name string) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objs[gvr][key(ns, name)]
}

// List returns the stored objects of one resource, sorted by namespace/name.
func (s *Store) List(gvr schema.GroupVersionResource) []runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted(gvr, "")
}

// Count returns the number of objects of one resource.
func (s *Store) Count(gvr schema.GroupVersionResource) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objs[gvr])
}

// Create adds an object (a deep copy of it).
func (s *Store) Create(gvr schema.GroupVersionResource, obj runtime.Object) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.create(gvr, obj.DeepCopyObject())
}

// Mutate changes an object in place (spec, status, anything) if it exists. f runs under
// the lock and may only call Unique.
func (s *Store) Mutate(gvr schema.GroupVersionResource, ns, name string, f func(runtime.Object)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objs[gvr][key(ns, name)]
	if old == nil {
		return false
	}
	obj := old.DeepCopyObject()
	f(obj)
	s.put(gvr, old, obj, watch.Modified)
	return true
}

// Seconds is a time as the API shows it.
func Seconds(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// Unique is a time as the API shows it, but 10 ms earlier and resourceVersion nanoseconds
// later: equal seconds become different times in the order of the writes. Upstream breaks
// some ties of equal times by map order (victims of scale-downs and preemptions); with
// unique times the result is fixed. Earlier, not later, because the HPA controller then
// still treats "exactly N seconds after" like it treats whole seconds.
func (s *Store) Unique(t time.Time) metav1.Time {
	return metav1.NewTime(t.Truncate(time.Second).Add(time.Duration(s.rv) - 10*time.Millisecond))
}

// Remove deletes an object at once, without grace.
func (s *Store) Remove(gvr schema.GroupVersionResource, ns, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(gvr, ns, name)
}

// ---- internals -------------------------------------------------------------------

func (s *Store) sorted(gvr schema.GroupVersionResource, ns string) []runtime.Object {
	m := s.objs[gvr]
	keys := make([]string, 0, len(m))
	for k, o := range m {
		if ns == "" || accessor(o).GetNamespace() == ns {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	out := make([]runtime.Object, len(keys))
	for i, k := range keys {
		out[i] = m[k]
	}
	return out
}

func (s *Store) create(gvr schema.GroupVersionResource, obj runtime.Object) (runtime.Object, error) {
	m := accessor(obj)
	if m.GetName() == "" {
		s.names[m.GetGenerateName()]++
		m.SetName(fmt.Sprintf("%s%05d", m.GetGenerateName(), s.names[m.GetGenerateName()]))
	}
	if s.objs[gvr][key(m.GetNamespace(), m.GetName())] != nil {
		return nil, apierrors.NewAlreadyExists(gvr.GroupResource(), m.GetName())
	}
	if m.GetUID() == "" {
		uid := fmt.Sprintf("uid-%s-%s", gvr.Resource, m.GetName())
		id := gvr.Resource + "/" + key(m.GetNamespace(), m.GetName())
		if s.used[id]++; s.used[id] > 1 { // a name used again is another object
			uid += fmt.Sprintf("-%05d", s.used[id])
		}
		m.SetUID(types.UID(uid))
	}
	if s.Admit != nil {
		s.Admit(gvr, obj)
	}
	if t := m.GetCreationTimestamp(); t.IsZero() {
		m.SetCreationTimestamp(s.Unique(time.Now()))
	}
	m.SetGeneration(1)
	s.round(gvr, obj)
	if s.objs[gvr] == nil {
		s.objs[gvr] = map[string]runtime.Object{}
	}
	s.put(gvr, nil, obj, watch.Added)
	return obj.DeepCopyObject(), nil
}

func (s *Store) put(gvr schema.GroupVersionResource, old, obj runtime.Object, ev watch.EventType) {
	m := accessor(obj)
	s.rv++
	m.SetResourceVersion(strconv.FormatInt(s.rv, 10))
	s.objs[gvr][key(m.GetNamespace(), m.GetName())] = obj
	s.notify(gvr, ev, old, obj)
	if s.OnWrite != nil {
		s.OnWrite(gvr, old, obj)
	}
}

func (s *Store) remove(gvr schema.GroupVersionResource, ns, name string) bool {
	old := s.objs[gvr][key(ns, name)]
	if old == nil {
		return false
	}
	delete(s.objs[gvr], key(ns, name))
	s.rv++
	last := old.DeepCopyObject()
	accessor(last).SetResourceVersion(strconv.FormatInt(s.rv, 10))
	s.notify(gvr, watch.Deleted, last, last)
	if s.OnWrite != nil {
		s.OnWrite(gvr, old, nil)
	}
	return true
}

// round cuts the times inside an object to seconds if its resource is one of Rounds.
func (s *Store) round(gvr schema.GroupVersionResource, obj runtime.Object) {
	if !s.Rounds[gvr] {
		return
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	v := reflect.ValueOf(obj).Elem()
	v.SetZero()
	if err := json.Unmarshal(raw, obj); err != nil {
		panic(err)
	}
}

// graceOver tells whether nothing but finalizers keeps a deleted object.
func graceOver(obj runtime.Object) bool {
	pod, ok := obj.(*v1.Pod)
	return !ok || pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0
}

// Delete deletes an object the way a client does: pods get their grace, finalizers count.
func (s *Store) Delete(gvr schema.GroupVersionResource, ns, name string, opts metav1.DeleteOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delete(gvr, ns, name, opts)
}

// update applies a PUT. sub is "" or "status": each leaves the other half alone.
func (s *Store) update(gvr schema.GroupVersionResource, sub string, obj runtime.Object) (runtime.Object, error) {
	m := accessor(obj)
	old := s.objs[gvr][key(m.GetNamespace(), m.GetName())]
	if old == nil {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), m.GetName())
	}
	om := accessor(old)
	if rv := m.GetResourceVersion(); rv != "" && rv != om.GetResourceVersion() {
		return nil, apierrors.NewConflict(gvr.GroupResource(), m.GetName(),
			fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	next := merge(old, obj, sub)
	nm := accessor(next)
	nm.SetGeneration(om.GetGeneration())
	if sub == "" && specChanged(old, next) {
		nm.SetGeneration(om.GetGeneration() + 1)
	}
	nm.SetResourceVersion(om.GetResourceVersion())
	s.round(gvr, next)
	if nm.GetDeletionTimestamp() != nil && len(nm.GetFinalizers()) == 0 && len(om.GetFinalizers()) > 0 && graceOver(next) {
		s.remove(gvr, m.GetNamespace(), m.GetName())
		return next, nil
	}
	if apiequality.Semantic.DeepEqual(old, next) {
		return next, nil // like the real server: a no-op write makes no new version
	}
	s.put(gvr, old, next, watch.Modified)
	return next.DeepCopyObject(), nil
}

func (s *Store) delete(gvr schema.GroupVersionResource, ns, name string, opts metav1.DeleteOptions) error {
	old := s.objs[gvr][key(ns, name)]
	if old == nil {
		return apierrors.NewNotFound(gvr.GroupResource(), name)
	}
	if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != accessor(old).GetUID() {
		return apierrors.NewConflict(gvr.GroupResource(), name, fmt.Errorf("uid precondition failed"))
	}
	pod, isPod := old.(*v1.Pod)
	grace := s.PodGrace
	if opts.GracePeriodSeconds != nil {
		grace = *opts.GracePeriodSeconds
	}
	if !isPod || pod.Spec.NodeName == "" || grace == 0 ||
		pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		if len(accessor(old).GetFinalizers()) == 0 {
			s.remove(gvr, ns, name)
			return nil
		}
		grace = 0 // gone once the finalizers are
	}
	if accessor(old).GetDeletionTimestamp() != nil && (!isPod || graceOver(old) || grace > 0) {
		return nil
	}
	if !isPod {
		next := old.DeepCopyObject()
		at := Seconds(time.Now())
		accessor(next).SetDeletionTimestamp(&at)
		s.put(gvr, old, next, watch.Modified)
		return nil
	}
	next := pod.DeepCopy()
	at := Seconds(time.Now().Add(time.Duration(grace) * time.Second))
	next.DeletionTimestamp = &at
	next.DeletionGracePeriodSeconds = &grace
	s.put(gvr, old, next, watch.Modified)
	return nil
}

// ---- fake clientset reactor --------------------------------------------------------

func (s *Store) react(a ktesting.Action) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gvr, ns := a.GetResource(), a.GetNamespace()
	if gvr.Resource == "events" {
		return &v1.Event{}, nil // events are read from the log, not stored
	}
	switch act := a.(type) {
	case ktesting.GetActionImpl:
		obj := s.objs[gvr][key(ns, act.Name)]
		if obj == nil {
			return nil, apierrors.NewNotFound(gvr.GroupResource(), act.Name)
		}
		return obj.DeepCopyObject(), nil
	case ktesting.ListActionImpl:
		return s.list(gvr, act)
	case ktesting.CreateActionImpl:
		if act.Subresource == "binding" {
			return s.bind(ns, act.Object.(*v1.Binding))
		}
		obj := act.Object
		if accessor(obj).GetNamespace() == "" && ns != "" {
			accessor(obj).SetNamespace(ns)
		}
		return s.create(gvr, obj)
	case ktesting.UpdateActionImpl:
		return s.update(gvr, act.Subresource, act.Object)
	case ktesting.PatchActionImpl:
		return s.patch(gvr, ns, act)
	case ktesting.DeleteActionImpl:
		return nil, s.delete(gvr, ns, act.Name, act.DeleteOptions)
	}
	return nil, fmt.Errorf("oracle api server: unsupported action %s %s", a.GetVerb(), gvr)
}

func (s *Store) list(gvr schema.GroupVersionResource, act ktesting.ListActionImpl) (runtime.Object, error) {
	gvk := act.Kind
	gvk.Kind += "List"
	list, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	var items []runtime.Object
	for _, o := range s.sorted(gvr, act.Namespace) {
		if act.ListRestrictions.Labels != nil && !act.ListRestrictions.Labels.Matches(labels.Set(accessor(o).GetLabels())) {
			continue
		}
		if selected(o, act.ListRestrictions.Fields) {
			items = append(items, o.DeepCopyObject())
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	lm, _ := meta.ListAccessor(list)
	lm.SetResourceVersion(strconv.FormatInt(s.rv, 10))
	return list, nil
}

func (s *Store) bind(ns string, b *v1.Binding) (runtime.Object, error) {
	gvr := v1.SchemeGroupVersion.WithResource("pods")
	old, _ := s.objs[gvr][key(ns, b.Name)].(*v1.Pod)
	if old == nil {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), b.Name)
	}
	if b.UID != "" && b.UID != old.UID { // another pod of that name, in the words of the real server
		return nil, apierrors.NewConflict(gvr.GroupResource(), b.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: /registry/pods/%s, "+
			"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s", key(ns, b.Name), b.UID, old.UID))
	}
	if old.Spec.NodeName != "" {
		return nil, apierrors.NewConflict(gvr.GroupResource(), b.Name, fmt.Errorf("pod %s is already assigned to node %q", b.Name, old.Spec.NodeName))
	}
	pod := old.DeepCopy()
	pod.Spec.NodeName = b.Target.Name
	pod.Status.NominatedNodeName = ""
	SetPodCondition(pod, v1.PodScheduled, v1.ConditionTrue, Seconds(time.Now()))
	s.put(gvr, old, pod, watch.Modified)
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}

// SetPodCondition sets one condition of a pod.
func SetPodCondition(pod *v1.Pod, t v1.PodConditionType, status v1.ConditionStatus, at metav1.Time) {
	c := v1.PodCondition{Type: t, Status: status, LastTransitionTime: at}
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			pod.Status.Conditions[i] = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

func (s *Store) patch(gvr schema.GroupVersionResource, ns string, act ktesting.PatchActionImpl) (runtime.Object, error) {
	old := s.objs[gvr][key(ns, act.Name)]
	if old == nil {
		return nil, apierrors.NewNotFound(gvr.GroupResource(), act.Name)
	}
	raw, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	switch act.PatchType {
	case types.StrategicMergePatchType:
		raw, err = strategicpatch.StrategicMergePatch(raw, act.Patch, old)
	case types.MergePatchType:
		raw, err = jsonpatch.MergePatch(raw, act.Patch)
	default:
		err = fmt.Errorf("oracle api server: patch type %s", act.PatchType)
	}
	if err != nil {
		return nil, err
	}
	obj := newLike(old)
	if err := json.Unmarshal(raw, obj); err != nil {
		return nil, err
	}
	return s.update(gvr, act.Subresource, obj)
}

func selected(obj runtime.Object, sel fields.Selector) bool {
	if sel == nil || sel.Empty() {
		return true
	}
	set := fields.Set{"metadata.name": accessor(obj).GetName(), "metadata.namespace": accessor(obj).GetNamespace()}
	if pod, ok := obj.(*v1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
		set["status.phase"] = string(pod.Status.Phase)
		set["spec.schedulerName"] = pod.Spec.SchedulerName
	}
	return sel.Matches(set)
}

// ---- deployments, replica sets: scale subresource -----------------------------------

// Scale reads a deployment's scale.
func (s *Store) Scale(ns, name string) (spec, status int32, selector string, err error) {
	d, _ := s.Get(appsv1.SchemeGroupVersion.WithResource("deployments"), ns, name).(*appsv1.Deployment)
	if d == nil {
		return 0, 0, "", apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, name)
	}
	sel, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return 0, 0, "", err
	}
	spec = 1
	if d.Spec.Replicas != nil {
		spec = *d.Spec.Replicas
	}
	return spec, d.Status.Replicas, sel.String(), nil
}

// SetScale writes a deployment's spec.replicas.
func (s *Store) SetScale(ns, name string, n int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	gvr := appsv1.SchemeGroupVersion.WithResource("deployments")
	old, _ := s.objs[gvr][key(ns, name)].(*appsv1.Deployment)
	if old == nil {
		return apierrors.NewNotFound(gvr.GroupResource(), name)
	}
	d := old.DeepCopy()
	d.Spec.Replicas = &n
	_, err := s.update(gvr, "", d)
	return err
}
