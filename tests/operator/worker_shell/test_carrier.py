"""Requests of the machine on their way to the API server, with a client that answers from a list."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from stowplan_operator.api.call import Call, Reply
from stowplan_operator.api.events import EventRecord
from stowplan_operator.worker.carrier import Carrier
from stowplan_operator.worker.metrics import WorkerMetrics
from stowplan_operator.worker.requests import (
    NOT_SENT,
    UNKNOWN,
    Answer,
    BindPod,
    DeletePod,
    EmitEvent,
    ObjectReference,
    PatchPod,
    ReadPod,
    Request,
)
from stowplan_scheduler.objects import PodCondition

BIND = BindPod(id=7, key="shop/cart", uid="u1", node="n1", epoch=3)
WALL = 1_796_034_607_250_000_000


class Client:
    """Answers each call with the next reply; None breaks it."""

    def __init__(self, *replies: Reply | None) -> None:
        self.connection = SimpleNamespace(server="https://api.example:6443")
        self.replies = list(replies)
        self.calls: list[Call] = []

    async def call(self, call: Call) -> Reply:
        self.calls.append(call)
        reply = self.replies.pop(0)
        if reply is None:
            raise RuntimeError("broken")
        return reply


class Events:
    def __init__(self) -> None:
        self.records: list[EventRecord] = []

    def emit(self, record: EventRecord) -> None:
        self.records.append(record)


class Road:
    """A carrier with all that it needs."""

    def __init__(self, *replies: Reply | None, may_write: bool = True) -> None:
        self.client, self.events, self.metrics = Client(*replies), Events(), WorkerMetrics()
        self.answers: list[Answer] = []
        self.may_write = may_write
        client: Any = self.client
        events: Any = self.events
        self.carrier = Carrier(
            client,
            events,
            self.answers.append,
            may_write=lambda: self.may_write,
            metrics=self.metrics,
            wall=lambda: WALL,
        )

    def carry(self, *requests: Request) -> list[Answer]:
        """Send them and wait until all are answered, or broken."""

        async def run() -> None:
            for request in requests:
                self.carrier.send(request)
            for _ in range(5):
                await asyncio.sleep(0)

        asyncio.run(run())
        return self.answers

    def body(self) -> Any:
        sent = self.client.calls[0].body
        assert sent is not None
        return json.loads(sent)

    def lines(self) -> list[str]:
        return self.metrics.exposition().decode().splitlines()


def test_a_binding_names_the_pods_uid_and_is_counted_by_its_answer() -> None:
    road = Road(Reply(status=201, body=b"created"))
    assert road.carry(BIND) == [Answer(id=7, status=201)]
    assert road.client.calls[0].path == "/api/v1/namespaces/shop/pods/cart/binding"
    assert road.body()["metadata"] == {"namespace": "shop", "name": "cart", "uid": "u1"}
    lines = road.lines()
    assert 'stowplan_binds_total{code="201"} 1' in lines
    assert 'scheduler_async_api_call_execution_total{call_type="pod_binding",result="success"} 1' in lines
    assert 'rest_client_requests_total{code="201",host="api.example:6443",method="POST"} 1' in lines
    sent = road.client.calls[0].body
    assert sent is not None
    assert f'rest_client_request_size_bytes_sum{{host="api.example:6443",verb="POST"}} {len(sent)}' in lines
    assert 'rest_client_response_size_bytes_sum{host="api.example:6443",verb="POST"} 7' in lines


def test_an_answer_keeps_status_text_and_wait() -> None:
    road = Road(Reply(status=429, message="slow down", retry_after=3.0))
    assert road.carry(BIND) == [Answer(id=7, status=429, message="slow down", retry_after=3)]


def test_no_answer_is_an_unknown_outcome() -> None:
    road = Road(Reply(status=0, message="ClientOSError"))
    assert road.carry(BIND) == [Answer(id=7, status=UNKNOWN, message="ClientOSError")]
    assert 'rest_client_requests_total{code="<error>",host="api.example:6443",method="POST"} 1' in road.lines()


@pytest.mark.parametrize(
    "request_",
    [
        BIND,
        DeletePod(id=7, key="shop/cart", uid="u1"),
        PatchPod(id=7, key="shop/cart", uid="u1", condition=None, nominated_node_name=""),
    ],
)
def test_no_write_leaves_behind_the_fence(request_: Request) -> None:
    road = Road(may_write=False)
    assert [answer.status for answer in road.carry(request_)] == [NOT_SENT]
    assert road.client.calls == []


def test_a_read_leaves_even_behind_the_fence() -> None:
    pod = {"metadata": {"name": "cart", "namespace": "shop", "uid": "u1"}, "spec": {"nodeName": "n1", "containers": []}}
    road = Road(Reply(status=200, body=json.dumps(pod).encode()), may_write=False)
    (answer,) = road.carry(ReadPod(id=8, key="shop/cart"))
    assert answer.pod is not None
    assert (answer.status, answer.pod.spec.node_name) == (200, "n1")


def test_a_pod_that_cannot_be_read_is_as_good_as_no_answer() -> None:
    road = Road(Reply(status=200, body=b'{"metadata": 7}'))
    (answer,) = road.carry(ReadPod(id=8, key="shop/cart"))
    assert (answer.status, answer.pod) == (UNKNOWN, None)
    assert answer.message.startswith("pod shop/cart cannot be read")


def test_a_condition_that_flips_gets_the_time_of_now() -> None:
    """In whole seconds, as the API keeps it; one that stays keeps its time."""
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
    kept = PodCondition(type="PodScheduled", status="False", last_transition_time="2026-01-01T00:00:00Z")
    for given, time in ((condition, "2026-11-30T10:30:07Z"), (kept, "2026-01-01T00:00:00Z")):
        road = Road(Reply(status=200))
        road.carry(PatchPod(id=9, key="shop/cart", uid="u1", condition=given, nominated_node_name=None))
        assert road.body()["status"]["conditions"][0]["lastTransitionTime"] == time


def test_an_event_is_handed_on_with_its_profile_as_the_reporter() -> None:
    road = Road()
    event = EmitEvent(
        id=1,
        regarding=ObjectReference("shop", "cart", "u1"),
        related=None,
        scheduler_name="dense",
        type="Normal",
        reason="Scheduled",
        action="Binding",
        note="Successfully assigned shop/cart to n1",
    )
    assert road.carry(event) == []
    (record,) = road.events.records
    assert (record.controller, record.regarding.kind, record.regarding.uid) == ("dense", "Pod", "u1")


def test_what_breaks_a_request_is_kept_for_the_loop_to_see() -> None:
    road = Road(None)
    assert road.carry(BIND) == []
    assert str(road.carrier.failure) == "broken"
    assert road.carrier.pending["pod_binding"] == 0
