package apiserver

import (
	"reflect"
	"strconv"
	"testing/synctest"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	ktesting "k8s.io/client-go/testing"
)

// watcher is one open watch. Events wait in queue until the pump sends them.
type watcher struct {
	s      *Store
	gvr    schema.GroupVersionResource
	ns     string
	sel    fields.Selector
	queue  []queued
	ch     chan watch.Event
	closed bool
	done   chan struct{}
}

type queued struct {
	rv int64
	ev watch.Event
}

func (w *watcher) ResultChan() <-chan watch.Event { return w.ch }

func (w *watcher) Stop() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.done)
	}
}

func (s *Store) watch(a ktesting.WatchActionImpl) watch.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{s: s, gvr: a.Resource, ns: a.Namespace, sel: a.WatchRestrictions.Fields,
		ch: make(chan watch.Event), done: make(chan struct{})}
	s.watchers = append(s.watchers, w)
	// Catch up with writes made between the list and this watch.
	since, _ := strconv.ParseInt(a.ListOptions.ResourceVersion, 10, 64)
	for _, o := range s.sorted(a.Resource, a.Namespace) {
		if rv, _ := strconv.ParseInt(accessor(o).GetResourceVersion(), 10, 64); rv > since && selected(o, w.sel) {
			w.queue = append(w.queue, queued{rv, watch.Event{Type: watch.Added, Object: o.DeepCopyObject()}})
		}
	}
	s.signal()
	return w
}

func (s *Store) notify(gvr schema.GroupVersionResource, t watch.EventType, old, obj runtime.Object) {
	rv, _ := strconv.ParseInt(accessor(obj).GetResourceVersion(), 10, 64)
	for _, w := range s.watchers {
		if w.closed || w.gvr != gvr || (w.ns != "" && w.ns != accessor(obj).GetNamespace()) {
			continue
		}
		// Field selectors turn "starts/stops matching" into Added/Deleted.
		was := old != nil && selected(old, w.sel)
		is := t != watch.Deleted && selected(obj, w.sel)
		kind := t
		switch {
		case !was && !is:
			continue
		case was && !is:
			kind = watch.Deleted
		case !was && is:
			kind = watch.Added
		}
		// Informers never change objects, so all watchers share the stored one.
		w.queue = append(w.queue, queued{rv, watch.Event{Type: kind, Object: obj}})
	}
	s.signal()
}

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// deliver sends the oldest undelivered event to one watcher. False: nothing waits.
func (s *Store) deliver() bool {
	s.mu.Lock()
	var best *watcher
	for _, w := range s.watchers {
		if !w.closed && len(w.queue) > 0 && (best == nil || w.queue[0].rv < best.queue[0].rv) {
			best = w
		}
	}
	if best == nil {
		s.mu.Unlock()
		return false
	}
	ev := best.queue[0].ev
	best.queue = best.queue[1:]
	s.mu.Unlock()
	select {
	case best.ch <- ev:
	case <-best.done:
	}
	return true
}

// Run lets virtual time pass until deadline() (asked again after every wake-up).
// Watch events are delivered one at a time, in resourceVersion order, and only while
// every other goroutine is blocked; so the outcome does not depend on goroutine
// scheduling.
func (s *Store) Run(deadline func() time.Time) {
	for {
		synctest.Wait()
		if s.nextTurn() {
			continue
		}
		if s.deliver() {
			if s.Step > 0 {
				time.Sleep(s.Step)
			}
			continue
		}
		d := time.Until(deadline())
		if d <= 0 {
			return
		}
		timer := time.NewTimer(d)
		select {
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// ---- turns: requests that a controller sends in parallel are served in a fixed order -------------

type turn struct {
	key string
	run chan struct{}
}

// Turn blocks until everything else is idle and no other waiting request has a lower key.
// No virtual time passes.
func (s *Store) Turn(key string) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	t := turn{key, make(chan struct{})}
	s.turns = append(s.turns, t)
	s.signal()
	s.mu.Unlock()
	<-t.run
}

// nextTurn lets the waiting request with the lowest key go on. False: nothing waits.
func (s *Store) nextTurn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		return false
	}
	best := 0
	for i, t := range s.turns {
		if t.key < s.turns[best].key {
			best = i
		}
	}
	close(s.turns[best].run)
	s.turns = append(s.turns[:best], s.turns[best+1:]...)
	return true
}

// EndTurns lets all requests go on, now and later: for the end of a run.
func (s *Store) EndTurns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, t := range s.turns {
		close(t.run)
	}
	s.turns = nil
}

// Settle delivers everything that can happen at the current instant.
func (s *Store) Settle() {
	now := time.Now()
	s.Run(func() time.Time { return now })
}

// Signal makes Run ask for its deadline again.
func (s *Store) Signal() { s.signal() }

// ---- small reflection helpers: objects have Spec and Status fields -------------------

func newLike(obj runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}

// merge builds the object that a PUT of in stores over old.
func merge(old, in runtime.Object, sub string) runtime.Object {
	field := func(o runtime.Object) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }
	if sub == "status" {
		next := old.DeepCopyObject()
		if f := field(next); f.IsValid() {
			f.Set(field(in))
		}
		return next
	}
	next := in.DeepCopyObject()
	if f := field(next); f.IsValid() {
		f.Set(field(old.DeepCopyObject()))
	}
	nm, om := accessor(next), accessor(old)
	nm.SetUID(om.GetUID())
	nm.SetCreationTimestamp(om.GetCreationTimestamp())
	return next
}

func specChanged(a, b runtime.Object) bool {
	fa, fb := reflect.ValueOf(a).Elem().FieldByName("Spec"), reflect.ValueOf(b).Elem().FieldByName("Spec")
	return fa.IsValid() && !apiequality.Semantic.DeepEqual(fa.Interface(), fb.Interface())
}
