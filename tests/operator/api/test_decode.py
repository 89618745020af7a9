"""From the bytes of a list or a watch to typed objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stowplan_operator.api.decode import (
    Bookmark,
    ObjectDecoder,
    UndecodableError,
    WatchError,
    WatchEvent,
)
from stowplan_operator.api.kinds import EVENTS, PODS, WATCHED
from stowplan_scheduler.objects import Node, Pod

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": None,
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": "n1"},
    "status": {"phase": "Pending"},
}


def line(type: str, object: Any) -> bytes:
    return json.dumps({"type": type, "object": object}, separators=(",", ":")).encode()


def test_an_event_becomes_a_typed_object() -> None:
    event = ObjectDecoder(PODS).event(line("ADDED", POD))
    assert isinstance(event, WatchEvent)
    assert (event.type, event.object.key, event.object.spec.node_name) == ("ADDED", "shop/web", "n1")
    assert isinstance(event.object, Pod)


def test_the_order_of_an_events_fields_does_not_matter() -> None:
    """The server writes the type first, and nothing promises that."""
    decoder = ObjectDecoder(PODS)
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "9"}, "spec": {"containers": None}}
    data = json.dumps({"object": bookmark, "type": "BOOKMARK"}).encode()
    assert decoder.event(data) == Bookmark("9")
    data = json.dumps({"object": {"code": 410, "reason": "Expired", "message": "too old"}, "type": "ERROR"}).encode()
    event = decoder.event(data)
    assert isinstance(event, WatchError)
    assert event.reply.status == 410


def test_a_bookmark_is_no_object() -> None:
    """Its containers are null; the annotation ends a streamed list."""
    body = {"kind": "Pod", "metadata": {"resourceVersion": "9"}, "spec": {"containers": None}, "status": {}}
    assert ObjectDecoder(PODS).event(line("BOOKMARK", body)) == Bookmark("9")
    body["metadata"] = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    assert ObjectDecoder(PODS).event(line("BOOKMARK", body)) == Bookmark("9", ends_list=True)


def test_an_error_brings_the_servers_status() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    event = ObjectDecoder(PODS).event(line("ERROR", status))
    assert isinstance(event, WatchError)
    assert (event.reply.status, event.reply.reason, event.reply.message) == (
        410,
        "Expired",
        "too old resource version",
    )
    nothing = ObjectDecoder(PODS).event(line("ERROR", {}))
    assert isinstance(nothing, WatchError)
    assert nothing.reply.status == 500


def test_null_stands_for_absent() -> None:
    """Go writes null for a list, a map or a pointer that is not there."""
    pod = {**POD, "spec": {"containers": None, "nodeSelector": None, "tolerations": [{"key": None}]}}
    event = ObjectDecoder(PODS).event(line("MODIFIED", pod))
    assert isinstance(event, WatchEvent)
    assert event.object.spec.containers == ()
    assert event.object.spec.tolerations[0].key == ""


def test_what_is_not_what_its_kind_says_is_named() -> None:
    """Kind, namespace, name, and where the trouble is."""
    decoder = ObjectDecoder(PODS)
    with pytest.raises(UndecodableError, match=r"Pod shop/web: Expected `str`, got `int` - at `\$.spec.nodeName`"):
        decoder.event(line("ADDED", {**POD, "spec": {"nodeName": 5}}))
    with pytest.raises(UndecodableError, match=r"Pod \(no name\): "):
        decoder.object(b'{"metadata": 3}')
    with pytest.raises(UndecodableError, match="a watch event that is none"):
        decoder.event(b'{"type":"ADD')
    with pytest.raises(UndecodableError, match="unknown type 'GONE'"):
        decoder.event(line("GONE", POD))
    with pytest.raises(UndecodableError, match="a bookmark without resourceVersion"):
        decoder.event(line("BOOKMARK", {"metadata": {}}))


def test_a_page_leaves_out_what_it_cannot_read_and_says_so() -> None:
    """One bad object must not hide the others."""
    skipped: list[str] = []
    bad = {"metadata": {"name": "bad"}, "spec": {"nodeName": 5}}
    data = json.dumps({"metadata": {"resourceVersion": "12", "continue": "more"}, "items": [POD, bad]}).encode()
    page = ObjectDecoder(PODS).page(data, lambda error: skipped.append(str(error)))
    assert [pod.metadata.name for pod in page.objects] == ["web"]
    assert (page.version, page.next_page) == ("12", "more")
    assert skipped == ["Pod bad: Expected `str`, got `int` - at `$.spec.nodeName`"]
    empty = ObjectDecoder(PODS).page(b'{"metadata":{"resourceVersion":"3"},"items":null}', _never)
    assert (empty.objects, empty.version, empty.next_page) == ([], "3", "")
    with pytest.raises(UndecodableError, match="pods: a list that is none"):
        ObjectDecoder(PODS).page(b"<html>", _never)
    with pytest.raises(UndecodableError, match="pods: a list without resourceVersion"):
        ObjectDecoder(PODS).page(b"{}", _never)


def _never(error: UndecodableError) -> None:
    raise AssertionError(error)


def test_kinds_without_a_type_stay_dicts() -> None:
    event = ObjectDecoder(EVENTS).event(line("ADDED", {"metadata": {"name": "e"}}))
    assert isinstance(event, WatchEvent)
    assert event.object == {"metadata": {"name": "e"}}


def test_paths_are_those_of_the_api() -> None:
    """Core and named groups, with and without namespace, quoted."""
    paths = {resource.kind: resource.path() for resource in WATCHED}
    assert paths["Pod"] == "/api/v1/pods"
    assert paths["ResourceSlice"] == "/apis/resource.k8s.io/v1/resourceslices"
    assert PODS.path("a", "shop", "binding") == "/api/v1/namespaces/shop/pods/a/binding"
    assert PODS.path("../b?c", "x/y") == "/api/v1/namespaces/x%2Fy/pods/..%2Fb%3Fc"
    nodes = next(resource for resource in WATCHED if resource.kind == "Node")
    assert (nodes.path("n1", "ignored"), nodes.type) == ("/api/v1/nodes/n1", Node)
