"""The kubelets of all nodes of a virtual cluster, as one watcher of its pods and nodes.

    kubelets = Kubelets(kernel, server, streams, catalog=ImageCatalog(sizes={"shop:1": 400_000_000}), application=of)
    kubelets.start(feed)
    kernel.run(until)
    kubelets.ended          # timelines of pods that are gone; kubelets.timelines: of those that are there

Nothing is polled: a pod costs a few planned actions over its life, whatever its number of probes. What happens to pods
from outside comes in through `kill`, `evict`, `set_speed`, `set_answering`, `stop_node` and `start_node`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from stowplan_autoscaling.cluster.errors import ConflictError, NotFoundError
from stowplan_autoscaling.cluster.feed import Change, ChangeType
from stowplan_autoscaling.cluster.pods import FAILED, RUNNING, SUCCEEDED, ClusterPod
from stowplan_autoscaling.kernel import SECOND, nanoseconds

from .admission import RequestCache
from .application import ApplicationModel
from .config import ImageCatalog, KubeletConfig
from .node import NodeState
from .pod_worker import PodWorker
from .takeover import adopt, resume
from .timeline import PodTimeline

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.client import Recorder
    from stowplan_autoscaling.cluster.feed import ChangeFeed
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.streams import Streams

EVICTED: Final = "Evicted"
OOM_KILLED: Final = "OOMKilled"

EVICTION_GRACE: Final = 1 * SECOND
"""Grace period of a pod that is evicted over a hard threshold (eviction_manager.go)."""

LOW_ON_MEMORY: Final = "The node was low on resource: memory."

_WATCHED: Final = frozenset({"Pod", "Node"})
_DEFAULT_APPLICATION: Final = ApplicationModel()


class ContainerListener(Protocol):
    """Told when containers begin and end, at the moment itself: for contention, load and usage."""

    def container_started(self, pod: str, container: str, now: int) -> None:
        """A container runs from now on. `pod` is the pod's key."""

    def container_ended(self, pod: str, container: str, now: int, exit_code: int) -> None:
        """It has ended. Not told for pods of nodes that stop, nor for pods whose object is removed under them."""


def _default_application(_: ClusterPod) -> ApplicationModel:
    return _DEFAULT_APPLICATION


class Kubelets:
    """One kubelet per node.

    `application(pod)` says what the pod's containers do; it is asked once per owner. `config_of(node)` may give nodes
    settings of their own. `record` is told of events, as a client's recorder. `on_end` is told of each pod that is
    gone; without it the timelines gather in `ended`.
    """

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        streams: Streams,
        *,
        config: KubeletConfig | None = None,
        catalog: ImageCatalog | None = None,
        application: Callable[[ClusterPod], ApplicationModel] = _default_application,
        config_of: Callable[[Node], KubeletConfig] | None = None,
        listener: ContainerListener | None = None,
        record: Recorder | None = None,
        on_end: Callable[[PodTimeline], None] | None = None,
    ) -> None:
        self.kernel = kernel
        self.server = server
        self.streams = streams
        self.requests = RequestCache()
        self.pods: dict[str, ClusterPod] = server.all("Pod")
        self.listener = listener
        self._config = config or KubeletConfig()
        self._catalog = catalog or ImageCatalog()
        self._application = application
        self._config_of = config_of
        self._record = record
        self.gives_address: Callable[[str], bool] = lambda _: True
        """Whether the network has an address for a pod's sandbox, by key; it takes it if so."""
        self.ended: list[PodTimeline] = []
        self._on_end = on_end or self.ended.append
        self.timelines: dict[str, PodTimeline] = {}
        """Of pods that were bound and are there, by key."""
        self._applications: dict[str, ApplicationModel] = {}
        self._nodes: dict[str, NodeState] = {}
        self._stopped: dict[str, NodeState] = {}
        self._workers: dict[str, PodWorker] = {}
        self._bound: dict[str, dict[str, None]] = {}
        """Keys of the pods of each node, in order of arrival."""

    def start(self, feed: ChangeFeed) -> None:
        """Take what is there, running pods as running, and watch from now on."""
        for node in self.server.all("Node").values():
            self._add_node(node)
        for key, pod in self.server.all("Pod").items():
            if pod.spec.node_name:
                self._pod_is_there(key, pod)
        feed.watch("kubelets", _WATCHED, self._changed, nanoseconds(self._config.watch_latency))

    def event(self, pod: str, reason: str, message: str, *, warning: bool = True) -> None:
        """Record an event about a pod."""
        if self._record is not None:
            self._record("Pod", pod, "Warning" if warning else "Normal", reason, message)

    # ---- asking ------------------------------------------------------------------------------

    def node_of(self, pod: str) -> str | None:
        """The node whose kubelet looks after the pod; None if none does."""
        worker = self._workers.get(pod)
        return None if worker is None else worker.node.name

    def running(self, pod: str) -> dict[str, int]:
        """Containers of the pod that run, sidecars and init containers too, with the time of their start."""
        worker = self._workers.get(pod)
        if worker is None:
            return {}
        return {each.name: each.started for each in (*worker.init, *worker.main) if each.is_running}

    def pods_on(self, node: str) -> list[str]:
        """Keys of the pods that a node's kubelet looks after, in order of arrival."""
        state = self._nodes.get(node)
        return [] if state is None else list(state.workers)

    # ---- from outside ------------------------------------------------------------------------

    def kill(self, pod: str, reason: str = OOM_KILLED, *, container: str | None = None) -> bool:
        """Kill a container, the first running one if none is named, as the kernel does for want of memory.

        It ends with exit code 137 and restarts by its policy. Returns whether one was running.
        """
        worker = self._workers.get(pod)
        return worker is not None and worker.kill(container, reason)

    def evict(
        self, pod: str, reason: str = EVICTED, *, grace: int = EVICTION_GRACE, message: str = LOW_ON_MEMORY
    ) -> bool:
        """Have the node give a pod up: it is stopped (`grace` nanoseconds, at least 2 s) and ends as Failed.

        Returns False for a pod that has ended, or that no kubelet looks after.
        """
        worker = self._workers.get(pod)
        if worker is None or worker.has_ended:
            return False
        worker.evict(reason, message, grace)
        return True

    def set_speed(self, pod: str, speed: float) -> None:
        """Let the pod's work pass at `speed` times the usual speed from now on; 0: not at all. Raises ValueError."""
        if not 0 <= speed < float("inf"):
            raise ValueError(f"speed: {speed!r}: must be a number of at least 0")
        worker = self._workers.get(pod)
        if worker is not None and not worker.has_ended:
            worker.set_speed(speed)

    def set_answering(self, pod: str, *, is_answering: bool) -> None:
        """Say whether the pod, as far as its load goes, answers probes in time from now on; a new container does."""
        worker = self._workers.get(pod)
        if worker is not None and not worker.has_ended:
            worker.probing.set_answering(is_answering=is_answering)

    def stop_node(self, node: str) -> None:
        """The machine stops: nothing more happens to its pods, and nobody is told."""
        state = self._nodes.pop(node, None)
        if state is not None:
            self._forget_workers(state)
            self._stopped[node] = state

    def start_node(self, node: str) -> None:
        """A machine that was stopped starts again, with its images; what ran on it is dead."""
        old = self._stopped.pop(node, None)
        found: Node | None = self.server.find("Node", node)
        if old is None or found is None:
            return
        state = self._add_node(found)
        for image in old.images.held.values():
            state.images.hold(image.name, image.size)
        self._resume(state)

    def _resume(self, state: NodeState) -> None:
        """Take up the pods of a node that was away."""
        for key in self._bound.get(state.name, {}):
            pod: ClusterPod | None = self.server.find("Pod", key)
            if pod is not None and pod.status.phase not in {SUCCEEDED, FAILED}:
                resume(self._worker(key, state), pod, self._application_of(pod))

    def _forget_workers(self, state: NodeState) -> None:
        for key in state.workers:
            del self._workers[key]
        state.stop()

    # ---- what they see -----------------------------------------------------------------------

    def _changed(self, change: Change) -> None:
        new = change.new
        if change.kind == "Node":
            self._node_changed(change.type, new)
            return
        node = new.spec.node_name
        if not node:
            return
        key = new.key
        if change.type is ChangeType.DELETED:
            self._pod_is_gone(key, new)
            return
        worker = self._workers.get(key)
        if worker is None:
            self._pod_is_there(key, new)
            return
        if new.deleted is not None:
            if not worker.has_ended:
                worker.delete(new)
            elif new.status.phase in {SUCCEEDED, FAILED}:
                # The kubelet sees its own last status, and deletes the object without grace.
                # It may be gone already, or another pod may have its name.
                with suppress(NotFoundError, ConflictError):
                    self.server.delete("Pod", key, uid=new.metadata.uid, grace=0)

    def _pod_is_there(self, key: str, pod: ClusterPod) -> None:
        """A pod on a node that no worker looks after."""
        node = pod.spec.node_name
        is_new = key not in self.timelines
        if is_new:
            self._bound.setdefault(node, {})[key] = None
            bound = pod.created if pod.scheduled is None else pod.scheduled
            self.timelines[key] = PodTimeline(key, pod.metadata.uid, pod.owner_uid, node, pod.created, bound)
        state = self._nodes.get(node)
        if state is None or not is_new or pod.status.phase in {SUCCEEDED, FAILED}:
            return
        worker = self._worker(key, state)
        if pod.status.phase == RUNNING:
            adopt(worker, pod, self._application_of(pod))
        else:
            worker.begin(pod, self._application_of(pod))

    def _worker(self, key: str, state: NodeState) -> PodWorker:
        worker = self._workers[key] = state.workers[key] = PodWorker(self, state, self.timelines[key])
        return worker

    def _pod_is_gone(self, key: str, pod: ClusterPod) -> None:
        held = self._bound.get(pod.spec.node_name)
        if held is not None:
            held.pop(key, None)
        worker = self._workers.pop(key, None)
        if worker is not None:
            worker.node.workers.pop(key, None)
            worker.abandon()
        timeline = self.timelines.pop(key, None)
        if timeline is not None:
            timeline.gone = self.kernel.now
            if timeline.deleted is None:
                timeline.deleted = timeline.gone
            self._on_end(timeline)

    def _application_of(self, pod: ClusterPod) -> ApplicationModel:
        """Pods of one owner behave alike."""
        owner = pod.owner_uid
        if not owner:
            return self._application(pod)
        found = self._applications.get(owner)
        if found is None:
            found = self._applications[owner] = self._application(pod)
        return found

    # ---- nodes -------------------------------------------------------------------------------

    def _node_changed(self, change: ChangeType, node: Node) -> None:
        name = node.metadata.name
        if change is ChangeType.DELETED:
            self._stopped.pop(name, None)
            state = self._nodes.pop(name, None)
            if state is not None:
                self._forget_workers(state)
        elif name in self._nodes:
            self._nodes[name].update(node)
        elif name not in self._stopped:
            self._resume(self._add_node(node))

    def _add_node(self, node: Node) -> NodeState:
        config = self._config if self._config_of is None else self._config_of(node)
        state = NodeState(self.kernel, self.server, self.streams, config, self._catalog, node)
        self._nodes[node.metadata.name] = state
        return state
