"""SimKube traces: the recorded ones, and broken ones made here."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan_autoscaling.demand.simkube import ObjectKey, read_trace
from stowplan_autoscaling.inputs.errors import InputError

WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"}}
WEB_KEY = ObjectKey("apps/v1.Deployment", "shop", "web")


def event(ts: object, applied: object = (), deleted: object = ()) -> dict[str, object]:
    return {"ts": ts, "applied_objs": applied, "deleted_objs": deleted}


def trace(**changes: object) -> dict[str, object]:
    document: dict[str, object] = {
        "version": 2,
        "config": {"trackedObjects": {"apps/v1.Deployment": {}}},
        "events": [
            event(1000),
            event(1000, [{**WEB, "spec": {"replicas": 3}}]),
            event(1060, [{**WEB, "spec": {}}]),
            event(1090, [], [WEB]),
        ],
        "index": {},
        "pod_lifecycles": {},
    }
    return {**document, **changes}


def write(folder: Path, document: object) -> str:
    path = folder / "a.sktrace"
    path.write_bytes(msgspec.msgpack.encode(document))
    return str(path)


def test_replicas_follow_what_was_applied_and_deleted(tmp_path: Path) -> None:
    """Three, then the default of one, then none."""
    read = read_trace(write(tmp_path, trace()))
    replicas = read.replicas(WEB_KEY)
    assert [replicas.at(t) for t in (0, 59, 60, 90)] == [3, 3, 1, 0]
    assert read.duration == 90
    assert read.began == 1000 * 10**9
    assert read.events[3].deleted == (WEB_KEY,)


def test_lifecycles_have_keys_that_are_lists(tmp_path: Path) -> None:
    """MessagePack allows what JSON does not; written here by hand: a map whose key is an array."""
    runs = msgspec.msgpack.encode({7: [{"Finished": [1010, 1040]}, {"Running": 1050}]})
    key = msgspec.msgpack.encode(["batch/v1.Job", "shop/resize"])
    body = msgspec.msgpack.encode(trace(pod_lifecycles=None))
    path = tmp_path / "a.sktrace"
    path.write_bytes(gzip.compress(body.replace(b"pod_lifecycles\xc0", b"pod_lifecycles\x81" + key + runs)))
    read = read_trace(str(path))
    owner = ObjectKey("batch/v1.Job", "shop", "resize")
    assert read.durations(owner) == (30,)
    assert [run.duration for run in read.lifecycles[owner][7]] == [30, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 1}, "version: 1: must be 2"),
        ({"events": []}, "events: must have at least one event"),
        ({"events": {}}, "events: a mapping: must be a list"),
        (
            {"events": [event(1000), event(940)]},
            "events[1].ts: 940 is 60 s before the event before it: must ascend",
        ),
        ({"events": [event(1.5)]}, "events[0].ts: 1.5: must be a time in whole seconds since 1970"),
        ({"events": [event(-1)]}, "events[0].ts: -1: must be a time in whole seconds since 1970"),
        ({"events": [event(1, ["web"])]}, 'events[0].applied_objs[0]: "web": must be a mapping'),
        ({"events": [event(1, [{"kind": "Pod"}])]}, "events[0].applied_objs[0].apiVersion: null: must be a text"),
        (
            {"events": [event(1, [], [{**WEB, "metadata": {}}])]},
            "events[0].deleted_objs[0].metadata.name: null: must be a text",
        ),
        ({"pod_lifecycles": {"x": {}}}, 'pod_lifecycles["x"]: must be a kind and a namespace/name'),
    ],
)
def test_a_broken_trace_gives_one_error_with_the_place(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """A clock that jumps back among them."""
    path = write(tmp_path, trace(**changes))
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x1f\x8bxx", b"timestamp,value\n"])
def test_what_is_no_trace_is_told_apart(tmp_path: Path, data: bytes) -> None:
    """Empty, not MessagePack, not gzip, a CSV file."""
    path = tmp_path / "a.sktrace"
    path.write_bytes(data)
    with pytest.raises(
        InputError, match=r"the file is empty|is not a SimKube trace|is not valid gzip|must be a mapping"
    ):
        read_trace(str(path))


def test_a_trace_that_is_not_there() -> None:
    """Like any other file."""
    with pytest.raises(InputError, match=r"absent\.sktrace: no such file or folder"):
        read_trace("absent.sktrace")


@pytest.mark.shared
def test_the_social_network_scales_as_recorded(shared_data: Callable[[str], Path]) -> None:
    """acrlabs/simkube, dsb-scaling (MIT): 27 Deployments; replicas over time as documented."""
    read = read_trace(str(shared_data("traces/simkube_dsb-scaling.sktrace")))
    assert len(read.events) == 19
    assert read.duration == 1134
    keys = sorted({key for e in read.events for key in map(_key, e.applied)})
    assert len(keys) == 27
    series = [read.replicas(key) for key in keys]
    totals = {t: sum(one.at(t) for one in series) for t in (0, 423, 548, 583, 768, 827, 953, 988, 1134)}
    assert totals == {0: 27, 423: 29, 548: 34, 583: 42, 768: 40, 827: 52, 953: 51, 988: 46, 1134: 42}


@pytest.mark.shared
def test_the_cron_job_has_three_runs_of_half_a_minute(shared_data: Callable[[str], Path]) -> None:
    """acrlabs/simkube, cronjob (MIT): applied at once, deleted after 205 s."""
    read = read_trace(str(shared_data("traces/simkube_cronjob.sktrace")))
    key = ObjectKey("batch/v1.CronJob", "default", "hello-simkube")
    assert read.durations(key) == (30, 30, 30)
    assert [(e.at, len(e.applied), e.deleted) for e in read.events] == [(0, 0, ()), (0, 1, ()), (205, 0, (key,))]
    assert "batch/v1.CronJob" in read.tracked


def _key(document: Any) -> ObjectKey:
    meta = document["metadata"]
    return ObjectKey(f"{document['apiVersion']}.{document['kind']}", meta["namespace"], meta["name"])
