package clustersim

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// orderly is the client of one of the controllers in workloads.go. They write in parallel:
// several pods of one object, several objects that are due at one instant, two controllers
// that react to one event. Each write waits for its turn, see Store.Turn. Turns go by
// controller (rank), name of the object that is worked on, verb (create, update, delete,
// patch), then ordinal, completion index or node of a new pod, or number of an old one.
type orderly struct {
	clientset.Interface
	w    *world
	rank int
}

const (
	rankJob = 1 + iota
	rankCronJob
	rankTTL
	rankStatefulSet
	rankDaemonSet
	rankTaintEviction
)

const (
	opCreate = iota
	opUpdate
	opDelete
	opPatch
)

func (c orderly) turn(object string, op, n int, last string) {
	c.w.store.Turn(fmt.Sprintf("%d/%s/%d/%08d/%s", c.rank, object, op, n, last))
}

// controlled names the controller of an object.
func controlled(m metav1.Object) string {
	if c := metav1.GetControllerOf(m); c != nil {
		return c.Name
	}
	return ""
}

func (c orderly) CoreV1() coreclient.CoreV1Interface { return orderlyCore{c.Interface.CoreV1(), c} }
func (c orderly) AppsV1() appsclient.AppsV1Interface { return orderlyApps{c.Interface.AppsV1(), c} }
func (c orderly) BatchV1() batchclient.BatchV1Interface {
	return orderlyBatch{c.Interface.BatchV1(), c}
}

type orderlyCore struct {
	coreclient.CoreV1Interface
	c orderly
}

type orderlyApps struct {
	appsclient.AppsV1Interface
	c orderly
}

type orderlyBatch struct {
	batchclient.BatchV1Interface
	c orderly
}

// ---- pods --------------------------------------------------------------------------------------

type orderlyPods struct {
	coreclient.PodInterface
	c orderly
}

func (o orderlyCore) Pods(ns string) coreclient.PodInterface {
	return orderlyPods{o.CoreV1Interface.Pods(ns), o.c}
}

func (o orderlyPods) turn(op int, name string) {
	var owner string
	var n int
	o.c.w.locked(func() {
		if p := o.c.w.pods[name]; p != nil {
			owner, n = p.deployment, p.index
		}
	})
	o.c.turn(owner, op, n, name)
}

func (o orderlyPods) Create(ctx context.Context, pod *v1.Pod, opts metav1.CreateOptions) (*v1.Pod, error) {
	n := 0
	if at := ordinal(pod); at != nil {
		n = *at
	}
	o.c.turn(controlled(pod), opCreate, n, target(pod))
	return o.PodInterface.Create(ctx, pod, opts)
}

func (o orderlyPods) Update(ctx context.Context, pod *v1.Pod, opts metav1.UpdateOptions) (*v1.Pod, error) {
	o.turn(opUpdate, pod.Name)
	return o.PodInterface.Update(ctx, pod, opts)
}

func (o orderlyPods) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	o.turn(opDelete, name)
	return o.PodInterface.Delete(ctx, name, opts)
}

func (o orderlyPods) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (*v1.Pod, error) {
	o.turn(opPatch, name)
	return o.PodInterface.Patch(ctx, name, pt, data, opts, sub...)
}

// ---- jobs, cron jobs -------------------------------------------------------------------------------

type orderlyJobs struct {
	batchclient.JobInterface
	c orderly
}

func (o orderlyBatch) Jobs(ns string) batchclient.JobInterface {
	return orderlyJobs{o.BatchV1Interface.Jobs(ns), o.c}
}

func (o orderlyJobs) Create(ctx context.Context, j *batchv1.Job, opts metav1.CreateOptions) (*batchv1.Job, error) {
	o.c.turn(controlled(j), opCreate, 0, j.Name)
	return o.JobInterface.Create(ctx, j, opts)
}

func (o orderlyJobs) UpdateStatus(ctx context.Context, j *batchv1.Job, opts metav1.UpdateOptions) (*batchv1.Job, error) {
	o.c.turn(j.Name, opUpdate, 0, "")
	return o.JobInterface.UpdateStatus(ctx, j, opts)
}

func (o orderlyJobs) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	object := name
	if o.c.rank == rankCronJob {
		o.c.w.locked(func() { object = o.c.w.jobOwners[name] })
	}
	o.c.turn(object, opDelete, 0, name)
	return o.JobInterface.Delete(ctx, name, opts)
}

type orderlyCronJobs struct {
	batchclient.CronJobInterface
	c orderly
}

func (o orderlyBatch) CronJobs(ns string) batchclient.CronJobInterface {
	return orderlyCronJobs{o.BatchV1Interface.CronJobs(ns), o.c}
}

func (o orderlyCronJobs) UpdateStatus(ctx context.Context, j *batchv1.CronJob, opts metav1.UpdateOptions) (*batchv1.CronJob, error) {
	o.c.turn(j.Name, opUpdate, 0, "")
	return o.CronJobInterface.UpdateStatus(ctx, j, opts)
}

// ---- stateful sets, daemon sets, their revisions ------------------------------------------------------

type orderlyStatefulSets struct {
	appsclient.StatefulSetInterface
	c orderly
}

func (o orderlyApps) StatefulSets(ns string) appsclient.StatefulSetInterface {
	return orderlyStatefulSets{o.AppsV1Interface.StatefulSets(ns), o.c}
}

func (o orderlyStatefulSets) UpdateStatus(ctx context.Context, s *appsv1.StatefulSet, opts metav1.UpdateOptions) (*appsv1.StatefulSet, error) {
	o.c.turn(s.Name, opUpdate, 0, "")
	return o.StatefulSetInterface.UpdateStatus(ctx, s, opts)
}

type orderlyDaemonSets struct {
	appsclient.DaemonSetInterface
	c orderly
}

func (o orderlyApps) DaemonSets(ns string) appsclient.DaemonSetInterface {
	return orderlyDaemonSets{o.AppsV1Interface.DaemonSets(ns), o.c}
}

func (o orderlyDaemonSets) UpdateStatus(ctx context.Context, d *appsv1.DaemonSet, opts metav1.UpdateOptions) (*appsv1.DaemonSet, error) {
	o.c.turn(d.Name, opUpdate, 0, "")
	return o.DaemonSetInterface.UpdateStatus(ctx, d, opts)
}

type orderlyRevisions struct {
	appsclient.ControllerRevisionInterface
	c orderly
}

func (o orderlyApps) ControllerRevisions(ns string) appsclient.ControllerRevisionInterface {
	return orderlyRevisions{o.AppsV1Interface.ControllerRevisions(ns), o.c}
}

func (o orderlyRevisions) Create(ctx context.Context, r *appsv1.ControllerRevision, opts metav1.CreateOptions) (*appsv1.ControllerRevision, error) {
	o.c.turn(controlled(r), opCreate, 0, r.Name)
	return o.ControllerRevisionInterface.Create(ctx, r, opts)
}

func (o orderlyRevisions) Update(ctx context.Context, r *appsv1.ControllerRevision, opts metav1.UpdateOptions) (*appsv1.ControllerRevision, error) {
	o.c.turn(controlled(r), opUpdate, 0, r.Name)
	return o.ControllerRevisionInterface.Update(ctx, r, opts)
}
