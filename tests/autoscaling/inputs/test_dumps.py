"""Dumps of kubectl are taken as they are, at once or as a stream: both ways must give the same cluster."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from stowplan_autoscaling.inputs import InputError, json_reader, load_cluster


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2025-01-01T00:00:00Z", **more}


def node(name: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi"}, "capacity": {"cpu": "4", "memory": "9Gi"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta(name), "spec": {}, "status": status}


def pod(name: str, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}]
    note = {"kubectl.kubernetes.io/last-applied-configuration": '{"a":["{\\"[[["]}\\\\'}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, namespace="shop", ownerReferences=owner, annotations=note),
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}], "priority": 3, **spec},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "lastProbeTime": None, "status": "True"}]},
    }


def deployment(kind: str = "Deployment", name: str = "web", **more: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta(name, namespace="shop", **more), "spec": spec}


def dump(*items: dict[str, Any], kind: str = "List", **more: Any) -> bytes:
    # As kubectl prints it: sorted keys, four spaces, kind behind the items.
    return json.dumps(
        {"apiVersion": "v1", "items": list(items), "kind": kind, **more}, indent=4, sort_keys=True
    ).encode()


ITEMS = (
    node("n1"),
    pod("web-1-a", nodeName="n1"),
    pod("web-1-b", "Pending"),
    pod("done", "Succeeded", nodeName="n1"),
    deployment(),
    deployment("ReplicaSet", "web-1"),
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("x"), "data": {"a": "é"}},
)


@pytest.fixture(params=["at once", "as a stream"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reading JSON; the stream otherwise begins at 128 MB."""
    if request.param == "as a stream":
        monkeypatch.setattr(json_reader, "WHOLE_BYTES", 30)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_a_dump_is_taken_as_it_is(tmp_path: Path) -> None:
    """Bound pods stay bound, nothing is defaulted, workloads make no second set of pods, finished pods are gone."""
    path = tmp_path / "dump.json"
    path.write_bytes(dump(*ITEMS))
    cluster = load_cluster([str(path)])
    assert [(p.key, p.spec.node_name) for p in cluster.pods] == [("shop/web-1-a", "n1"), ("shop/web-1-b", "")]
    assert cluster.pods[0].metadata.uid == "uid-web-1-a"
    assert cluster.pods[0].spec.containers[0].resources.requests is None
    assert cluster.pods[0].spec.tolerations == ()
    assert cluster.pods[0].spec.priority == 3
    assert [r.metadata.name for r in cluster.replica_sets] == ["web-1"]
    assert cluster.nodes[0].status.allocatable["memory"] == "8Gi"
    assert cluster.origin["Pod", "shop/web-1-b"] == f"{path}: item 3"
    assert cluster.warnings == (
        "1 objects of other kinds ignored: ConfigMap (1)",
        "1 finished pods (Succeeded, Failed) left out",
    )


@pytest.mark.usefixtures("way")
def test_a_dump_comes_from_standard_input_too_and_compressed() -> None:
    """`kubectl get ... -o json | gzip | stowplan simulate -`."""
    for data in (dump(*ITEMS), gzip.compress(dump(*ITEMS))):
        assert len(load_cluster(["-"], stdin=io.BytesIO(data)).pods) == 2


@pytest.mark.usefixtures("way")
def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    """Windows PowerShell puts one in front of what kubectl prints; a pipe and a compressed file may have it, too."""
    plain = dump(node("n1"), pod("a", nodeName="n1"))
    for data in (b"\xef\xbb\xbf" + plain, gzip.compress(b"\xef\xbb\xbf" + plain)):
        cluster = load_cluster(["-"], stdin=io.BytesIO(data))
        assert ([n.metadata.name for n in cluster.nodes], [p.key for p in cluster.pods]) == (["n1"], ["shop/a"])


def test_a_typed_list_implies_the_kind_of_its_items() -> None:
    """The API server itself prints `kind: NodeList` first and leaves the kind of the items away."""
    bare = {key: value for key, value in node("n1").items() if key not in {"kind", "apiVersion"}}
    data = json.dumps(
        {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [bare, bare | {"metadata": meta("n2")}]}
    )
    cluster = load_cluster(["-"], stdin=io.BytesIO(data.encode()))
    assert [n.metadata.name for n in cluster.nodes] == ["n1", "n2"]
    assert cluster.warnings == ()


@pytest.mark.usefixtures("way")
def test_an_array_of_objects_is_read() -> None:
    """What `jq .items` leaves."""
    assert len(load_cluster(["-"], stdin=io.BytesIO(json.dumps(ITEMS).encode())).pods) == 2


def test_one_object_is_read(tmp_path: Path) -> None:
    """`kubectl get node n1 -o json`."""
    path = tmp_path / "n1.json"
    path.write_text(json.dumps(node("n1")), encoding="utf-8")
    cluster = load_cluster([str(path)])
    assert cluster.origin["Node", "n1"] == str(path)


@pytest.mark.parametrize(
    "more", [b"", b"---\nkind: Namespace\nmetadata: {name: shop}\n"], ids=["JSON alone", "with YAML"]
)
def test_json_in_a_file_named_yaml_is_read(more: bytes, tmp_path: Path) -> None:
    """YAML contains JSON, and documents of both may stand in one file."""
    path = tmp_path / "dump.yaml"
    path.write_bytes(dump(*ITEMS) + b"\n" + more)
    cluster = load_cluster([str(path)])
    assert len(cluster.pods) == 2
    assert cluster.origin["Node", "n1"] == f"{path}: document 1, item 1"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (dump(node("n1"), pod("a"))[:-80], "not valid JSON"),
        (dump(node("n1")).replace(b'"kind": "Node",', b'"kind": "Node"'), "not valid JSON"),
        (dump(node("n1") | {"spec": {"taints": "none"}}), 'item 1: Node n1: spec.taints: must be a list, got "none"'),
        (dump(node("n1"), pod("a", containers=[])), "item 2: Pod shop/a: spec.containers: must have at least one"),
        (dump(node("n1"), node("n1")), "item 2: Node n1: metadata.name: occurs twice, first in standard input: item 1"),
        (b'{"kind": "List", "items": [' + b'{"a":' * 5000, "nested too deeply: at most 500 levels are allowed"),
        (b'{"kind": "List", "items": ' + b"[" * 5000, ""),
        (b'{"kind": "List", "items": [{"kind": "\xff"}]}', "UTF-8"),
        (b'{"kind": "List", "items": [7]}', "item 1: must be a"),
    ],
)
def test_a_bad_dump_is_one_line(data: bytes, expected: str) -> None:
    """However it is read, the message names item, object and field."""
    with pytest.raises(InputError) as caught:
        load_cluster(["-"], stdin=io.BytesIO(data))
    assert str(caught.value).startswith("standard input: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_stream_counts_brackets_across_chunks_and_not_in_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every chunk boundary, also between a backslash and the quote that it escapes, must leave the count right."""
    monkeypatch.setattr(json_reader, "WHOLE_BYTES", 10)
    text = b'{"\\\\[[\\"[[": ["[{\\\\", {"a\\"{{": "\\\\\\""}]}'
    json.loads(text)
    for size in range(1, len(text) + 1):
        monkeypatch.setattr(json_reader, "_CHUNK", size)
        guard = json_reader._DepthGuard(text[:7], io.BytesIO(text[7:]), "x")
        depths = []
        while guard.read(1):
            depths.append(guard._depth)
        assert depths[-1] == 0
        assert max(depths) <= 3
        assert size > 1 or max(depths) == 3


def test_progress_rises_to_the_size_of_the_files(tmp_path: Path) -> None:
    """A bar that ends early or runs backwards is worse than none."""
    paths = [tmp_path / name for name in ("a.json", "b.yaml", "c.yaml")]
    paths[0].write_bytes(dump(*ITEMS))
    paths[1].write_text("\n---\n".join(json.dumps(deployment(name=f"d{i}")) for i in range(50)), encoding="utf-8")
    paths[2].write_text("# nothing", encoding="utf-8")
    total = sum(path.stat().st_size for path in paths)
    seen: list[tuple[int, int]] = []
    load_cluster([str(path) for path in paths], progress=lambda done, of: seen.append((done, of)))
    done = [count for count, _ in seen]
    assert done == sorted(set(done))
    assert done[-1] == total
    assert {of for _, of in seen} == {total}
    assert len(done) > 10


def test_standard_input_that_is_absent_is_an_error() -> None:
    """A library caller may have none to give."""
    with pytest.raises(InputError, match="standard input: is not available here"):
        load_cluster(["-"])
