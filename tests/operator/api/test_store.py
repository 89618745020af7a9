"""What is known of one kind: lists and events become changes, whatever was lost, repeated or came late."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from stowplan_operator.api.decode import ADDED, DELETED, MODIFIED, WatchEvent
from stowplan_operator.api.store import Change, ChangeType, ObjectStore, number_of
from stowplan_scheduler.objects import Namespace, ObjectMeta, key_of


def thing(name: str, version: int, uid: str = "") -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}", resource_version=str(version)))


def told(changes: Iterable[Change]) -> list[tuple[str, str, str]]:
    """Type, and the versions before and after."""
    return [
        (
            change.type.value,
            change.old.metadata.resource_version if change.old is not None else "",
            change.new.metadata.resource_version if change.new is not None else "",
        )
        for change in changes
    ]


def test_a_list_is_compared_with_what_was_known() -> None:
    """What is gone is deleted, what is new added, what is newer changed; of the rest nothing is said."""
    store = ObjectStore()
    same, old = thing("same", 3), thing("old", 4)
    assert told(store.replace([same, old, thing("gone", 5)], "5")) == [
        ("ADDED", "", "3"),
        ("ADDED", "", "4"),
        ("ADDED", "", "5"),
    ]
    changes = store.replace([thing("new", 7), thing("same", 3), thing("old", 8)], "9")
    assert told(changes) == [("DELETED", "5", ""), ("ADDED", "", "7"), ("MODIFIED", "4", "8")]
    assert store.objects["same"] is same
    assert changes[2].old is old
    assert (len(store), store.version) == (3, 9)


def test_another_object_of_the_same_name_is_a_deletion_and_an_addition() -> None:
    """In a list, and in an event after which the deletion in between was missed."""
    store = ObjectStore()
    store.replace([thing("a", 1, "first")], "1")
    assert told(store.replace([thing("a", 3, "second")], "3")) == [("DELETED", "1", ""), ("ADDED", "", "3")]
    changes = store.apply(WatchEvent(MODIFIED, thing("a", 6, "third")))
    assert told(changes) == [("DELETED", "3", ""), ("ADDED", "", "6")]
    assert store.objects["a"].metadata.uid == "third"


def test_an_event_says_what_happened_and_an_old_one_nothing() -> None:
    """Repeated events and those that a list already contains are no news; nor is the end of something unknown."""
    store = ObjectStore()
    store.replace([thing("a", 4)], "10")
    assert store.apply(WatchEvent(MODIFIED, thing("a", 9))) == []
    assert told(store.apply(WatchEvent(MODIFIED, thing("a", 11)))) == [("MODIFIED", "4", "11")]
    assert store.apply(WatchEvent(MODIFIED, thing("a", 11))) == []
    # A watch with a selector may say ADDED of what is known, and MODIFIED of what is not.
    assert told(store.apply(WatchEvent(ADDED, thing("a", 12)))) == [("MODIFIED", "11", "12")]
    assert told(store.apply(WatchEvent(MODIFIED, thing("b", 13)))) == [("ADDED", "", "13")]
    assert told(store.apply(WatchEvent(DELETED, thing("a", 14)))) == [("DELETED", "12", "")]
    assert store.apply(WatchEvent(DELETED, thing("a", 15))) == []
    assert store.apply(WatchEvent(ADDED, thing("a", 13))) == []
    assert sorted(store.objects) == ["b"]


def test_a_bookmark_moves_the_version_forward_only() -> None:
    """And events up to it are old."""
    store = ObjectStore()
    store.replace([], "10")
    store.advance("20")
    store.advance("15")
    assert store.version == 20
    assert store.apply(WatchEvent(ADDED, thing("a", 20))) == []


def test_after_a_list_the_version_is_that_of_the_list_even_if_it_is_lower() -> None:
    """A cluster that was restored from a backup counts from there."""
    store = ObjectStore()
    store.replace([thing("a", 90)], "100")
    assert told(store.replace([thing("a", 40)], "50")) == [("MODIFIED", "90", "40")]
    assert told(store.apply(WatchEvent(MODIFIED, thing("a", 51)))) == [("MODIFIED", "40", "51")]


def test_a_version_that_is_no_number_counts_as_none() -> None:
    assert [number_of(text) for text in ("", "0", "17", "x", "-3")] == [0, 0, 17, 0, 0]


# ---- any history, seen in any way ----------------------------------------------------------------

_OPERATIONS = st.lists(st.tuples(st.sampled_from("cud"), st.sampled_from("abc")), max_size=30)
_SIGHTS = st.lists(st.sampled_from(["event", "lost", "twice", "late", "list", "bookmark"]), min_size=30, max_size=30)


@given(_OPERATIONS, _SIGHTS)
def test_whatever_was_lost_repeated_or_late_the_end_is_what_a_list_says(
    operations: list[tuple[str, str]], sights: list[str]
) -> None:
    """Events of a random history are lost, repeated or delivered late, with lists in between.

    Whoever follows the changes alone, without looking at the store, ends with the same objects, never adds what is
    there and never touches what is not.
    """
    world: dict[str, Namespace] = {}
    store, follower, late = ObjectStore(), _Follower(), list[WatchEvent]()
    for version, ((operation, name), sight) in enumerate(zip(operations, sights, strict=False), start=1):
        event = _happen(world, operation, name, version)
        if sight == "list":
            follower.take(store.replace(world.values(), str(version)))
        elif event is not None and sight in {"event", "twice"}:
            follower.take(store.apply(event))
            if sight == "twice":
                assert store.apply(event) == []
            for each in late:
                assert store.apply(each) == []
        elif event is not None and sight == "late":
            late.append(event)
        elif sight == "bookmark" and not late:
            store.advance(str(version - 1))
    follower.take(store.replace(world.values(), str(len(operations) + 1)))
    assert dict(store.objects) == world == follower.objects


def _happen(world: dict[str, Namespace], operation: str, name: str, version: int) -> WatchEvent | None:
    old = world.get(name)
    if operation == "d":
        if old is None:
            return None
        del world[name]
        return WatchEvent(DELETED, thing(name, version, old.metadata.uid))
    if old is None or operation == "c":
        # Created, perhaps after a deletion that nobody saw.
        world[name] = thing(name, version, f"{name}-{version}")
        return WatchEvent(ADDED, world[name])
    world[name] = thing(name, version, old.metadata.uid)
    return WatchEvent(MODIFIED, world[name])


class _Follower:
    """Knows the objects from changes alone."""

    def __init__(self) -> None:
        self.objects: dict[str, Namespace] = {}

    def take(self, changes: list[Change]) -> None:
        for change in changes:
            if change.type is ChangeType.ADDED:
                assert change.old is None
                assert key_of(change.new.metadata) not in self.objects
                self.objects[key_of(change.new.metadata)] = change.new
            elif change.type is ChangeType.MODIFIED:
                key = key_of(change.new.metadata)
                assert self.objects[key] is change.old
                assert change.old.metadata.uid == change.new.metadata.uid
                self.objects[key] = change.new
            else:
                assert change.new is None
                assert self.objects.pop(key_of(change.old.metadata)) is change.old
