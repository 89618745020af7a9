"""Which events are written, and what becomes of those that repeat one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stowplan_operator.api.event_series import MINUTE, EventRecord, EventSeries, EventWrite, ObjectReference

NOW = 1_700_000_000 * 1_000_000_000


def series(**settings: Any) -> EventSeries:
    return EventSeries("dense", "dense-host", **settings)


def record(name: str = "web-0", **changes: Any) -> EventRecord:
    regarding = ObjectReference(api_version="v1", kind="Pod", name=name, namespace="shop", uid=f"uid-{name}")
    fields = {"type": "Warning", "reason": "FailedScheduling", "action": "Scheduling", "note": "0/1 nodes"}
    return EventRecord(**{"regarding": regarding, **fields, **changes})


def counts(writes: list[EventWrite]) -> list[int]:
    return [1 if write.patch is None else write.patch["series"]["count"] for write in writes]


def test_the_first_is_written_whole() -> None:
    """With everything that events.k8s.io/v1 requires."""
    (write,) = series().record(record(), NOW)
    assert write.patch is None
    assert write.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web-0.17979cfe362a0000", "namespace": "shop"},
        "eventTime": "2023-11-14T22:13:20.000000Z",
        "reportingController": "dense",
        "reportingInstance": "dense-host",
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "0/1 nodes",
        "regarding": record().regarding,
    }


def test_the_second_makes_a_series_and_the_others_are_only_counted() -> None:
    """The patch says how many there were and when the last was; should the event be gone, it is made whole."""
    events = series()
    (first,) = events.record(record(), NOW)
    (second,) = events.record(record(note="0/2 nodes"), NOW + 1_500_000)
    assert second.name == first.name
    assert second.patch == {"series": {"count": 2, "lastObservedTime": "2023-11-14T22:13:20.001500Z"}}
    assert second.body == {**first.body, **second.patch}
    assert [events.record(record(), NOW + 2_000_000) for _ in range(5)] == [[]] * 5


def test_the_count_is_written_every_half_hour_and_when_the_series_has_ended() -> None:
    """It has ended six minutes after its last event; what was alone is forgotten without another word."""
    events = series()
    events.tick(NOW)
    for _ in range(2):
        events.record(record("twice"), NOW)
    for minute in range(31):
        events.record(record("busy"), NOW + minute * MINUTE)
    events.record(record("once"), NOW + 20 * MINUTE)
    assert events.tick(NOW + 5 * MINUTE) == []
    # Of what came twice, two were written already.
    assert counts(events.tick(NOW + 30 * MINUTE)) == [31]
    events.record(record("busy"), NOW + 32 * MINUTE)
    assert events.tick(NOW + 37 * MINUTE) == []
    assert len(events) == 1
    assert counts(events.tick(NOW + 44 * MINUTE)) == [32]
    assert len(events) == 0
    assert counts(events.record(record("busy"), NOW + 45 * MINUTE)) == [1]


def test_other_reasons_objects_and_versions_of_an_object_are_other_events() -> None:
    """The note does not count, as upstream; the reporter does."""
    events = series()
    others = [
        record(),
        record(reason="Preempted"),
        record("web-1"),
        record(related=ObjectReference(api_version="v1", kind="Node", name="n1")),
        record(controller="sparse"),
        record(regarding=ObjectReference(api_version="v1", kind="Pod", name="web-0", resource_version="7")),
    ]
    writes = [write for each in others for write in events.record(each, NOW)]
    assert counts(writes) == [1] * 6
    assert len({write.name for write in writes}) == 6
    assert [write.body["reportingController"] for write in writes] == ["dense"] * 4 + ["sparse", "dense"]
    assert writes[3].body["related"].name == "n1"


def test_an_object_without_namespace_has_its_events_in_default() -> None:
    """`regarding` says no namespace, or kubectl describe would not find them."""
    reference = ObjectReference(api_version="stowplan.io/v1alpha1", kind="SchedulerProfile", name="dense", uid="u")
    (write,) = series().record(record(regarding=reference), NOW)
    assert (write.namespace, write.body["metadata"]["namespace"]) == ("default", "default")
    assert write.body["regarding"].namespace == ""


def test_long_names_and_notes_are_cut_and_names_stay_different() -> None:
    """A name has 253 characters and a note 1024 bytes at most, cut between characters."""
    events = series()
    (first,) = events.record(record("x" * 250 + "-a", note="\N{EURO SIGN}" * 400), NOW)
    (second,) = events.record(record("x" * 250 + "-b"), NOW)
    assert len(first.name) == len(second.name) == 253
    assert first.name != second.name
    assert first.body["note"] == "\N{EURO SIGN}" * 341


def test_no_more_is_remembered_than_asked_for() -> None:
    """The oldest goes first, and its count is written."""
    events = series(remembered=2)
    for _ in range(3):
        events.record(record("a"), NOW)
    events.record(record("b"), NOW)
    writes = events.record(record("c"), NOW)
    assert [(write.body["regarding"].name, count) for write, count in zip(writes, counts(writes), strict=True)] == [
        ("c", 1),
        ("a", 3),
    ]
    assert len(events) == 2


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 10)), max_size=60))
def test_in_the_end_every_event_is_counted_once(steps: list[tuple[str, int]]) -> None:
    """Over all the events that were made, the last count written of each adds up to what was told."""
    events, now, last = series(remembered=1), NOW, dict[str, int]()
    writes = events.tick(now)
    for name, minutes in steps:
        now += minutes * MINUTE
        writes += events.tick(now) + events.record(record(name), now)
    for write in writes + events.close():
        last[write.name] = counts([write])[0]
    assert sum(last.values()) == len(steps)
