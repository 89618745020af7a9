"""Carries the machine's requests to the API server and its answers back.

The fence is looked at directly before a write leaves: one that may not leave any more is answered NOT_SENT. Nothing is
sent twice here; what an answer means, and what comes next, is the machine's to decide.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from stowplan_operator.api import pods
from stowplan_operator.api.call import Call, Caller, Reply
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.events import EventRecord, EventWriter, ObjectReference
from stowplan_scheduler.objects import PodCondition
from stowplan_scheduler.timestamps import NANOSECONDS, format_time

from . import requests
from .metrics import WorkerMetrics
from .requests import NOT_SENT, UNKNOWN, Answer, BindPod, DeletePod, EmitEvent, PatchPod, ReadPod, Request

Answered = Callable[[Answer], None]

_CALL_TYPES: Final = {
    BindPod: "pod_binding",
    PatchPod: "pod_status_patch",
    DeletePod: "pod_deletion",
    ReadPod: "pod_read",
}
"""Values of the label call_type; the first two are upstream's."""

_METHODS: Final = {BindPod: "POST", PatchPod: "PATCH", DeletePod: "DELETE", ReadPod: "GET"}


class Carrier:
    """Requests under way to one API server.

    `may_write`: the fence. `answered` is told in the event loop, once for each request. `clock`: monotonic nanoseconds;
    `wall`: nanoseconds since 1970, for what is written into objects.
    """

    def __init__(
        self,
        client: ApiClient,
        events: EventWriter,
        answered: Answered,
        *,
        may_write: Callable[[], bool],
        metrics: WorkerMetrics,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._client = client
        self._events = events
        self._answered = answered
        self._may_write = may_write
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._host = client.connection.server.partition("://")[2].partition("/")[0]
        self._tasks: set[asyncio.Task[None]] = set()
        self.pending = dict.fromkeys(_CALL_TYPES.values(), 0)
        """Requests that are not answered, by call type."""
        self.failure: BaseException | None = None
        """What broke a task; the worker must end then."""

    def send(self, request: Request) -> None:
        """Begin to carry out a request; an event is only handed on."""
        if isinstance(request, EmitEvent):
            self._events.emit(event_record(request))
            return
        task = asyncio.get_running_loop().create_task(self._carry(request))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def cancel(self) -> None:
        """Give up what is under way; it is not answered any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()

    async def _carry(self, request: Request) -> None:
        if not isinstance(request, ReadPod) and not self._may_write():
            self._answered(Answer(id=request.id, status=NOT_SENT, message="this worker does not lead any more"))
            return
        kind = type(request)
        call_type = _CALL_TYPES[kind]
        self.pending[call_type] += 1
        began = self._clock()
        try:
            weighed = _Weighed(self._client)
            reply = await self._call(weighed, request)
        finally:
            self.pending[call_type] -= 1
        self._measure(request, reply, call_type, (self._clock() - began) / NANOSECONDS)
        self._metrics.time("rest_client_request_size_bytes", weighed.sent, _METHODS[kind], self._host)
        self._answered(_answer(request, reply))

    async def _call(self, client: Caller, request: Request) -> Reply:
        match request:
            case BindPod():
                return await pods.bind(client, request.key, request.uid, request.node)
            case ReadPod():
                return await pods.read(client, request.key)
            case PatchPod():
                return await pods.patch_status(
                    client,
                    request.key,
                    request.uid,
                    condition=self._stamped(request.condition),
                    nominated_node_name=request.nominated_node_name,
                )
            case DeletePod():
                return await pods.delete(client, request.key, request.uid)
            case _:
                raise TypeError(f"nobody carries out a {type(request).__name__}")

    def _stamped(self, condition: PodCondition | None) -> PodCondition | None:
        """With the time of now where the condition's status changes. The API keeps whole seconds."""
        if condition is None or condition.last_transition_time is not None:
            return condition
        now = format_time(self._wall() // NANOSECONDS * NANOSECONDS)
        return msgspec.structs.replace(condition, last_transition_time=now)

    def _measure(self, request: Request, reply: Reply, call_type: str, seconds: float) -> None:
        metrics = self._metrics
        method = _METHODS[type(request)]
        result = "success" if reply.is_success else "error"
        code = "<error>" if reply.is_unknown else str(reply.status)
        metrics.count("rest_client_requests_total", code, method, self._host)
        metrics.time("rest_client_request_duration_seconds", seconds, method, self._host)
        if not reply.is_unknown:
            metrics.time("rest_client_response_size_bytes", len(reply.body), method, self._host)
        metrics.count("scheduler_async_api_call_execution_total", call_type, result)
        metrics.time("scheduler_async_api_call_execution_duration_seconds", seconds, call_type, result)
        if isinstance(request, BindPod):
            metrics.count("stowplan_binds_total", str(reply.status))


class _Weighed:
    """The client for one request; notes how many bytes its body has."""

    def __init__(self, client: Caller) -> None:
        self._client = client
        self.sent = 0

    async def call(self, call: Call) -> Reply:
        self.sent = len(call.body or b"")
        return await self._client.call(call)


def _answer(request: Request, reply: Reply) -> Answer:
    pod = None
    if isinstance(request, ReadPod) and reply.is_success:
        try:
            pod = pods.pod_in(reply)
        except msgspec.MsgspecError as error:
            # As good as no answer: what the pod is like is still not known.
            return Answer(id=request.id, status=UNKNOWN, message=f"pod {request.key} cannot be read: {error}")
    retry_after = int(reply.retry_after or 0)
    return Answer(id=request.id, status=reply.status, message=reply.message, pod=pod, retry_after=retry_after)


def event_record(request: EmitEvent) -> EventRecord:
    """What the writer of events is handed."""
    return EventRecord(
        regarding=_reference(request.regarding),
        related=None if request.related is None else _reference(request.related),
        type=request.type,
        reason=request.reason,
        action=request.action,
        note=request.note,
        controller=request.scheduler_name,
    )


def _reference(pod: requests.ObjectReference) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
