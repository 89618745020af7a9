package clustersim

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/tainteviction"

	"stowplan.io/oracle/controllers/internal/apiserver"
)

var leasesGVR = coordinationv1.SchemeGroupVersion.WithResource("leases")

const (
	leaseNamespace = "kube-node-lease"
	leaseFirst     = 1.7 // seconds after the node's creation; never at the instant of a check
	leasePeriod    = 10
)

// nodeControllers makes the node lifecycle and taint eviction controllers, if asked for.
func (w *world) nodeControllers(ctx context.Context, cs clientset.Interface, shared informers.SharedInformerFactory) (run []func(context.Context)) {
	core := shared.Core().V1()
	if w.sc.NodeLifecycle {
		// Upstream's period is 5 s. Sharp, every check would come at the instant of a taint pass
		// (every 0.1 s), in either order, and the one 50 s after a sign of life would not be late
		// enough. In a real cluster checks drift; so they do here, by a microsecond each.
		c, err := nodelifecycle.NewNodeLifecycleController(ctx, shared.Coordination().V1().Leases(), core.Pods(), nodesByName{core.Nodes()},
			shared.Apps().V1().DaemonSets(), eventless{cs}, 5*time.Second+time.Microsecond, 60*time.Second, 50*time.Second, 0.1, 0.01, 50, 0.55)
		must(err)
		run = append(run, c.Run)
	}
	if w.evicts() {
		must(controller.AddPodNodeNameIndexer(core.Pods().Informer()))
		c, err := tainteviction.New(ctx, orderly{cs, w, rankTaintEviction}, core.Pods(), core.Nodes(), "taint-eviction-controller")
		must(err)
		run = append(run, c.Run)
	}
	return run
}

func (w *world) evicts() bool { return w.sc.NodeLifecycle || w.sc.TaintEviction }

// eventless is a client for a controller that sends its events by a REST client.
type eventless struct{ clientset.Interface }

func (c eventless) CoreV1() coreclient.CoreV1Interface { return eventlessCore{c.Interface.CoreV1()} }

type eventlessCore struct{ coreclient.CoreV1Interface }

func (eventlessCore) RESTClient() rest.Interface {
	return &restfake.RESTClient{
		GroupVersion:         v1.SchemeGroupVersion,
		NegotiatedSerializer: scheme.Codecs,
		Client: restfake.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": []string{runtime.ContentTypeJSON}},
				Body: io.NopCloser(strings.NewReader(`{"kind":"Event","apiVersion":"v1","metadata":{"name":"e"}}`))}, nil
		}),
	}
}

// ---- API server duties -----------------------------------------------------------------------------

// tolerate adds what the DefaultTolerationSeconds plugin adds to new pods.
func (w *world) tolerate(p *v1.Pod) {
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(p.Spec.Tolerations, func(t v1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == v1.TaintEffectNoExecute || t.Effect == "")
		}) {
			seconds := int64(300)
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: key, Operator: v1.TolerationOpExists,
				Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
}

// ---- kubelets ----------------------------------------------------------------------------------------

// report is what the kubelet says about its node.
func report(n *v1.Node, ready bool) {
	at := apiserver.Seconds(time.Now())
	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse, LastHeartbeatTime: at, LastTransitionTime: at}
	if ready {
		c.Status = v1.ConditionTrue
	}
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(o v1.NodeCondition) bool {
		return o.Type == v1.NodeReady || ready && o.Status == v1.ConditionUnknown
	})
	n.Status.Conditions = append(n.Status.Conditions, c)
}

// startLease begins the heartbeats of a node; it runs under mu.
func (w *world) startLease(name string, n *node) {
	if !w.sc.NodeLifecycle {
		return
	}
	var renew func()
	renew = func() {
		alive, silent := false, false
		w.locked(func() {
			if alive, silent = w.nodes[name] == n, n.silent; alive {
				w.after(leasePeriod, renew)
			}
		})
		if alive && !silent {
			w.renewLease(name)
		}
	}
	w.after(leaseFirst, renew)
}

func (w *world) renewLease(name string) {
	at := metav1.NowMicro()
	if !w.store.Mutate(leasesGVR, leaseNamespace, name, func(o runtime.Object) { o.(*coordinationv1.Lease).Spec.RenewTime = &at }) {
		_, err := w.store.Create(leasesGVR, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &at}})
		must(err)
	}
}

// whenHeard runs f now, or, if the pod's node is silent, when that is over. What a kubelet
// does shows only then.
func (w *world) whenHeard(p *pod, f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodes[p.node]; n != nil && n.silent {
		n.waiting = append(n.waiting, f)
		return false
	}
	return true
}

// setSilent begins or ends the silence of a node's kubelet.
func (w *world) setSilent(name string, on bool) {
	var waiting []func()
	w.locked(func() {
		if n := w.nodes[name]; n != nil {
			n.silent = on
			if !on {
				waiting, n.waiting = n.waiting, nil
			}
		}
	})
	if on {
		return
	}
	w.renewLease(name)
	w.setReady(name, true)
	for _, f := range waiting {
		f()
	}
}

// setReady lets the kubelet report its node, and with a ready one the readiness of its pods,
// oldest first.
func (w *world) setReady(name string, ready bool) {
	w.store.Mutate(nodesGVR, "", name, func(o runtime.Object) { report(o.(*v1.Node), ready) })
	if !ready {
		return
	}
	type found struct {
		name string
		n    int
	}
	var pods []found
	w.locked(func() {
		for api, p := range w.pods {
			if p.node == name && p.ready {
				pods = append(pods, found{api, p.serial})
			}
		}
	})
	slices.SortFunc(pods, func(a, b found) int { return cmp.Compare(a.n, b.n) })
	for _, p := range pods {
		w.store.Mutate(podsGVR, namespace, p.name, func(o runtime.Object) {
			for _, c := range o.(*v1.Pod).Status.Conditions {
				if c.Type == v1.PodReady && c.Status != v1.ConditionTrue {
					apiserver.SetPodCondition(o.(*v1.Pod), v1.PodReady, v1.ConditionTrue, w.store.Unique(time.Now()))
				}
			}
		})
	}
}

// taintsChanged logs the taints of a node; it runs under mu.
func (w *world) taintsChanged(old, obj *v1.Node) {
	text := func(n *v1.Node) string {
		var all []string
		for _, t := range n.Spec.Taints {
			all = append(all, t.Key+":"+string(t.Effect))
		}
		slices.Sort(all)
		return strings.Join(all, ",")
	}
	if w.evicts() && text(old) != text(obj) {
		w.event(Event{Type: "taints", Node: obj.Name, Message: text(obj)})
	}
}
