"""What is passed on, and in which order; the reflectors' calls are made by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from stowplan_operator.api.call import Call, Reply
from stowplan_operator.api.kinds import WATCHED
from stowplan_operator.api.store import Change
from stowplan_operator.worker.informers import Informers
from stowplan_scheduler.objects import Namespace, Node, ObjectMeta, Pod


class Sink:
    def __init__(self) -> None:
        self.heard: list[tuple[str, list[tuple[str, str]], int]] = []

    def take(self, kind: str, changes: Sequence[Change], version: int) -> None:
        told = [(str(each.type), (each.new if each.new is not None else each.old).metadata.name) for each in changes]
        self.heard.append((kind, told, version))


def meta(name: str, version: int, **fields: Any) -> ObjectMeta:
    return ObjectMeta(name=name, uid=f"uid-of-{name}", resource_version=str(version), **fields)


def pod(name: str, version: int) -> Pod:
    return Pod(metadata=meta(name, version, namespace="shop"))


def informers(sink: Sink) -> Informers:
    client: Any = None
    return Informers(client, sink)


def listed(made: Informers, *kinds: str) -> None:
    for kind in kinds:
        made.replaced(kind, [], "10")


OTHERS = tuple(resource.kind for resource in WATCHED if resource.kind not in {"Namespace", "Node", "Pod"})


def test_nothing_is_told_before_everything_is_listed_and_pods_come_last() -> None:
    sink = Sink()
    made = informers(sink)
    made.replaced("Pod", [pod("a", 8)], "10")
    made.changed("Pod", "ADDED", pod("b", 11), "11")
    made.replaced("Node", [Node(metadata=meta("n1", 5))], "12")
    listed(made, *OTHERS)
    assert sink.heard == []
    assert made.waiting_for == ("Namespace",)
    made.replaced("Namespace", [Namespace(metadata=meta("shop", 3))], "9")
    assert made.synced
    assert [kind for kind, _, _ in sink.heard] == [resource.kind for resource in WATCHED]
    assert sink.heard[0] == ("Namespace", [("ADDED", "shop")], 9)
    assert sink.heard[-2:] == [
        ("Node", [("ADDED", "n1")], 12),
        # With what came between the list and now.
        ("Pod", [("ADDED", "a"), ("ADDED", "b")], 11),
    ]


def told(sink: Sink) -> Informers:
    made = informers(sink)
    listed(made, *(resource.kind for resource in WATCHED))
    sink.heard.clear()
    return made


def test_then_each_change_is_told_as_it_comes() -> None:
    sink = Sink()
    made = told(sink)
    made.changed("Pod", "ADDED", pod("a", 11), "11")
    made.changed("Pod", "MODIFIED", pod("a", 12), "12")
    made.changed("Pod", "DELETED", pod("a", 13), "13")
    made.advanced("Pod", "20")
    assert sink.heard == [
        ("Pod", [("ADDED", "a")], 11),
        ("Pod", [("MODIFIED", "a")], 12),
        ("Pod", [("DELETED", "a")], 13),
        ("Pod", [], 20),
    ]


def test_an_old_event_is_not_told() -> None:
    sink = Sink()
    made = told(sink)
    made.changed("Pod", "ADDED", pod("a", 9), "9")
    assert sink.heard == []


def test_a_new_list_is_told_as_what_is_different() -> None:
    sink = Sink()
    made = told(sink)
    made.replaced("Pod", [pod("a", 11), pod("b", 12)], "12")
    made.replaced("Pod", [pod("b", 12), pod("c", 14)], "15")
    assert sink.heard[1] == ("Pod", [("DELETED", "a"), ("ADDED", "c")], 15)


class OldCluster:
    """An API server without the group resource.k8s.io, which is not up at first; it answers nothing else."""

    def __init__(self) -> None:
        self.replies = [Reply(status=404), Reply(status=503), Reply(status=0)]

    async def call(self, call: Call) -> Reply:
        assert call.path == "/apis/resource.k8s.io/v1"
        return self.replies.pop()

    def stream(self, call: Call) -> None:
        raise RuntimeError("stop here")


def test_kinds_of_a_group_that_is_not_served_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan_operator.worker.informers._PAUSE", 0)
    sink = Sink()
    client: Any = OldCluster()
    made = Informers(client, sink)

    async def run() -> None:
        try:
            await made.run()
        except* RuntimeError:
            pass

    asyncio.run(run())
    assert not {"DeviceClass", "ResourceSlice"} & set(made.waiting_for)
    assert set(made.ages()) == {resource.kind for resource in WATCHED} - {"DeviceClass", "ResourceSlice"}


class Reflected:
    """Stands for a reflector that is at a version."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.refreshed = 0

    def refresh(self) -> None:
        self.refreshed += 1


def test_a_new_leader_reads_anew_only_what_is_older_than_its_lease() -> None:
    """A list that was begun before the Lease was won counts as older: it has no version yet."""
    made = informers(Sink())
    nodes, pods = Reflected("120"), Reflected("")
    reflectors: Any = made._reflectors
    reflectors["Node"], reflectors["Pod"] = nodes, pods
    made.refresh(100)
    assert (nodes.refreshed, pods.refreshed) == (0, 1)
