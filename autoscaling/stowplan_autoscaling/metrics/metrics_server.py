"""metrics-server: reads every kubelet once per resolution and answers with what two readings say.

A round begins at its tick. Each node is read after a delay of its own (8 ms per node of the cluster, 4 s at most), and
the round is published when the last node has answered. A node that is lost keeps the round waiting until the kubelet
request times out; its pods are then without metrics until two rounds have read them again. Nothing is polled: a round
is computed when it is published, for all nodes at once, from what the usage source says of the moments in the past.

    server = MetricsServer(usage=usage, index=index, streams=streams, start=now)
    server.node_added("n1")
    server.pod_started(pod, now)
    kernel.later(server.next_event(), lambda: server.advance(kernel.now))   # again after each
    server.resource("cpu", "default", query, None, now)

Follows cmd/metrics-server, pkg/server/server.go (tick), pkg/scraper/scraper.go and pkg/storage of v0.9.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.hpa.metrics import MetricsError, PodMetric
from stowplan_autoscaling.kernel import MILLISECOND, SECOND
from stowplan_autoscaling.streams import Stem, Streams
from stowplan_scheduler.selectors import LabelQuery

from .containers import NO_SLOT, ContainerTable, RunningPod
from .faults import NO_FAULTS, Outage, ScrapeFaults, lacking, outage_at
from .housekeeping import DEFAULT_HOUSEKEEPING, NEVER, Housekeeping
from .pod_index import PodIndex
from .points import cpu_milli, window_of
from .usage import CPU, MEMORY, Ints, Shares, UsageBatch, shares_by_request

API: Final = "resource"

_DELAY_PER_NODE: Final = 8  # ms, delayPerSourceMs
_LONGEST_DELAY: Final = 4000  # ms, maxDelayMs


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsServerConfig:
    """The flags of metrics-server, in nanoseconds."""

    resolution: int = 15 * SECOND
    """--metric-resolution of the official manifests and the chart; the flag's own default is 60 s."""
    request_timeout: int = 10 * SECOND
    """--kubelet-request-timeout."""
    phase: int | None = None
    """When the first round begins after the start; None: drawn from [0, resolution)."""
    housekeeping: Housekeeping = DEFAULT_HOUSEKEEPING
    faults: ScrapeFaults = NO_FAULTS
    """`missing`: of one node's reading. `late`: of a round's publication."""
    outages: tuple[Outage, ...] = ()

    def __post_init__(self) -> None:
        if self.resolution < 10 * SECOND:
            raise ValueError(f"resolution: must be at least 10 s, got {self.resolution / SECOND:g} s")
        if not 0 < self.request_timeout < self.resolution:
            raise ValueError(
                f"resolution: must be larger than the kubelet request timeout of {self.request_timeout / SECOND:g} s, "
                f"got {self.resolution / SECOND:g} s"
            )


class Shown(NamedTuple):
    """What the server shows of a resource, by pod: slot, time stamp and window (nanoseconds), milli units."""

    slots: Ints
    time: Ints
    window: Ints
    value: Ints


@dataclass(slots=True)
class _Round:
    """One round, by number of node: when it is read, and whether it answers; and when the result is published.

    One entry more than nodes stands for those that the round does not know.
    """

    read_at: Ints
    answers: npt.NDArray[np.bool_]
    publish: int


class MetricsServer:
    """The resource metrics API of a simulated cluster."""

    def __init__(
        self,
        config: MetricsServerConfig = MetricsServerConfig(),
        *,
        usage: UsageBatch,
        index: PodIndex,
        streams: Streams,
        start: int,
        shares: Shares = shares_by_request,
    ) -> None:
        self.config = config
        self._index = index
        self._streams = streams
        self._shares = shares
        self._table = ContainerTable(usage, streams, config.housekeeping)
        self._nodes: dict[str, int] = {}
        self._delays: dict[str, Stem] = {}
        """By node: the luck of its readings."""
        self._node_count = 0
        self._lost: set[str] = set()
        phase = config.phase
        if phase is None:
            phase = int(streams.uniform("metrics-server/phase") * config.resolution)
        self._first = start + phase
        self._tick = self._first
        self._rounds = 0
        self._round: _Round | None = None
        self._visible = np.zeros(0, np.bool_)
        self._time = np.zeros(0, np.int64)
        self._window = np.zeros(0, np.int64)
        self._value = {CPU: np.zeros(0, np.int64), MEMORY: np.zeros(0, np.int64)}
        self._row_value = {CPU: np.zeros(0, np.int64), MEMORY: np.zeros(0, np.int64)}

    @property
    def history(self) -> int:
        """How far back the usage source must be able to look, in nanoseconds."""
        config = self.config
        return 3 * config.resolution + config.housekeeping.longest + config.faults.late_by

    # ---- what happens in the cluster

    def node_added(self, name: str) -> None:
        """A node object appears, or a lost one answers again."""
        if name not in self._nodes:
            self._nodes[name] = self._node_count
            self._node_count += 1
        self._lost.discard(name)

    def node_lost(self, name: str) -> None:
        """The kubelet does not answer any more; the node object is still there."""
        if name in self._nodes:
            self._lost.add(name)

    def node_removed(self, name: str) -> None:
        """The node object is gone: nobody asks its kubelet."""
        self._nodes.pop(name, None)
        self._delays.pop(name, None)
        self._lost.discard(name)

    def pod_started(self, pod: ClusterPod, now: int) -> None:
        """The containers of a bound pod run."""
        node = pod.spec.node_name
        if node not in self._nodes:
            self.node_added(node)
        self._table.start(pod, self._nodes[node], self._shares(pod), now)

    def container_restarted(self, uid: str, container: str | None, now: int) -> None:
        """A container (None: all) started again: its counter begins at zero."""
        self._table.restart(uid, container, now)

    def pod_ended(self, uid: str) -> None:
        """The containers of a pod are gone."""
        running = self._table.running.get(uid)
        if running is not None and running.slot < len(self._visible):
            self._visible[running.slot] = False
        self._table.end(uid)

    # ---- rounds

    def next_event(self) -> int:
        """When something is to be done next."""
        return self._tick if self._round is None else self._round.publish

    def advance(self, now: int) -> bool:
        """Do everything that is due; returns whether there are new samples."""
        has_published = False
        while self.next_event() <= now:
            if self._round is None:
                self._round = self._begin()
            else:
                self._publish(self._round)
                self._end(self._round)
                has_published = True
        return has_published

    def _begin(self) -> _Round:
        """Plan a round: who is read when."""
        config, streams, number = self.config, self._streams, self._rounds
        spread = min(_DELAY_PER_NODE * len(self._nodes), _LONGEST_DELAY)
        read_at = np.full(self._node_count + 1, self._tick, np.int64)
        answers = np.zeros(self._node_count + 1, np.bool_)
        last = self._tick
        text, may_be_missing = str(number), config.faults.missing > 0
        for name, node in self._nodes.items():
            delay = self._delays.get(name)
            if delay is None:
                delay = self._delays[name] = streams.stem("metrics-server/delay", f"{name}#")
            read = self._tick + int(delay.uniform(text) * spread) * MILLISECOND
            if name in self._lost:
                last = max(last, read + config.request_timeout)
            elif not (may_be_missing and config.faults.is_missing(streams, "metrics-server", f"{name}#{text}")):
                read_at[node], answers[node] = read, True
                last = max(last, read)
        last = min(last, self._tick + config.resolution)
        return _Round(read_at, answers, last + config.faults.delay(streams, "metrics-server", str(number)))

    def _end(self, done: _Round) -> None:
        """The next round begins at its tick, or at once if that has passed; ticks in between are dropped."""
        self._round = None
        self._rounds += 1
        resolution = self.config.resolution
        following = self._tick + resolution - (self._tick - self._first) % resolution
        self._tick = max(following, done.publish)

    def _publish(self, done: _Round) -> None:
        table = self._table
        rows = np.flatnonzero(table.alive)
        node = np.minimum(table.node[rows], len(done.read_at) - 1)
        # cAdvisor goes on counting whether somebody reads the kubelet or not.
        rows, moment, cpu, memory = table.measure(rows, done.read_at[node])
        answered = done.answers[np.minimum(table.node[rows], len(done.answers) - 1)]
        rows = rows[answered]
        table.points.store(rows, table.slot, moment[answered], cpu[answered], memory[answered], self.config.resolution)
        self._summarise(rows)

    def _summarise(self, rows: Ints) -> None:
        """From containers to pods: sums, the earliest time stamp; a container without points hides its pod.

        Where containers share the earliest time stamp, the window is the first one's (upstream: any one's).
        """
        table, points = self._table, self._table.points
        whole = points.earlier_time[rows] != NEVER
        visible = np.zeros(table.slots, np.bool_)
        visible[table.slot[rows]] = True
        visible[table.slot[rows[~whole]]] = False
        rows = rows[whole]
        slot, time = table.slot[rows], points.time[rows]
        window = window_of(time, points.earlier_time[rows])
        cpu = cpu_milli(points.cpu[rows] - points.earlier_cpu[rows], window)
        row_value = {CPU: cpu, MEMORY: points.memory[rows] * 1000}
        earliest = np.full(table.slots, np.iinfo(np.int64).max)
        np.minimum.at(earliest, slot, time)
        windows = np.zeros(table.slots, np.int64)
        first = time == earliest[slot]
        windows[slot[first][::-1]] = window[first][::-1]
        for name, amounts in row_value.items():
            total = np.zeros(table.slots, np.int64)
            np.add.at(total, slot, amounts)
            by_row = np.zeros(len(table.alive), np.int64)
            by_row[rows] = amounts
            self._value[name], self._row_value[name] = total, by_row
        # Time stamps lose their fractions on the wire (metav1.Time), windows do not.
        self._visible, self._time, self._window = visible, earliest // SECOND * SECOND, windows

    # ---- by slots, for who knows them

    def slot(self, uid: str) -> int | None:
        """The slot of a running pod: a small number of its own."""
        running = self._table.running.get(uid)
        return None if running is None else running.slot

    def shown(self, resource: str) -> Shown:
        """The pods that have metrics."""
        slots = np.flatnonzero(self._visible)
        return Shown(slots, self._time[slots], self._window[slots], self._value[resource][slots])

    def sample(self, resource: str, slot: int) -> PodMetric | None:
        """What is shown of one pod."""
        if slot >= len(self._visible) or not self._visible[slot]:
            return None
        return PodMetric(int(self._time[slot]), int(self._window[slot]), int(self._value[resource][slot]))

    # ---- the API

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient.resource."""
        outages = self.config.outages
        failure = outage_at(outages, "error", now)
        if failure is not None:
            raise MetricsError.unavailable(API, f"{failure.reason} (get pods.metrics.k8s.io)")
        names, slots = self._shown(namespace, selector, lacking(outages, now))
        if not names or outage_at(outages, "empty", now) is not None:
            raise MetricsError.nothing(API)
        first = int(self._time[slots[0]])
        if resource not in self._value:
            return {}, first
        times, windows = self._time[slots].tolist(), self._window[slots].tolist()
        if container is None:
            values = self._value[resource][slots].tolist()
            return dict(zip(names, map(PodMetric, times, windows, values), strict=True)), first
        row_of = self._rows_of(namespace, selector, container)
        amounts = self._row_value[resource]
        return {
            name: PodMetric(time, window, int(amounts[row_of[name]]))
            for name, time, window in zip(names, times, windows, strict=True)
            if name in row_of
        }, first

    def _shown(self, namespace: str, selector: LabelQuery, without: frozenset[str]) -> tuple[list[str], Ints]:
        """Names and slots of the pods that exist and have metrics, in the order of their names."""
        members = self._index.members(namespace, selector)
        running = self._table.running
        slots = np.fromiter((_slot_of(running.get(uid)) for uid in members.uids), np.int64, len(members.uids))
        known = (slots != NO_SLOT) & (slots < len(self._visible))
        shown = known.copy()
        shown[known] = self._visible[slots[known]]
        if without:
            shown &= np.fromiter((name not in without for name in members.names), np.bool_, len(members.names))
        positions = np.flatnonzero(shown)
        return [members.names[i] for i in positions.tolist()], slots[positions]

    def _rows_of(self, namespace: str, selector: LabelQuery, container: str) -> dict[str, int]:
        """The row of the container by pod name, for the containers that have points."""
        members = self._index.members(namespace, selector)
        found: dict[str, int] = {}
        for name, uid in zip(members.names, members.uids, strict=True):
            running = self._table.running.get(uid)
            row = NO_SLOT if running is None else running.rows.get(container, NO_SLOT)
            if row != NO_SLOT and self._table.points.time[row] != NEVER:
                found[name] = row
        return found


def _slot_of(running: RunningPod | None) -> int:
    return NO_SLOT if running is None else running.slot
