"""Which pods a query means."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.metrics import PodIndex
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.selectors import EVERYTHING, NOTHING, LabelQuery
from support.builders import pod, selector


def labelled(name: str, **labels: str) -> Pod:
    return pod(name).labels(**labels).build()


def test_pods_come_in_the_order_of_their_names() -> None:
    """The metrics APIs answer sorted by name, and the first item gives the time of the answer."""
    index = PodIndex()
    for name in ("b", "c", "a"):
        index.add(labelled(name, app="web"))
    assert index.members("default", LabelQuery.of_map({"app": "web"})).names == ("a", "b", "c")


def test_an_answer_follows_what_comes_and_goes() -> None:
    """A remembered answer is not given when the set has changed."""
    index = PodIndex()
    query = LabelQuery.of_map({"app": "web"})
    assert index.members("default", query).names == ()
    index.add(labelled("a", app="web"))
    assert index.members("default", query).names == ("a",)
    index.add(labelled("a", app="other"))
    assert index.members("default", query).names == ()
    index.add(labelled("a", app="web"))
    index.remove("default/a")
    assert index.members("default", query).names == ()


def test_namespaces_are_apart() -> None:
    """A query is about one namespace."""
    index = PodIndex()
    index.add(pod("a").namespace("one").labels(app="web").build())
    assert index.members("two", EVERYTHING).names == ()
    assert index.members("one", EVERYTHING).names == ("a",)
    assert index.members("one", NOTHING).names == ()


POD = st.tuples(st.sampled_from("abcdef"), st.sampled_from(["web", "db"]), st.sampled_from(["x", "y", ""]))
QUERIES = [
    EVERYTHING,
    NOTHING,
    LabelQuery.of_map({"app": "web"}),
    LabelQuery.of_map({"app": "db", "track": "x"}),
    LabelQuery.of(selector(("track", "Exists", ()))),
    LabelQuery.of(selector(("app", "NotIn", ("web",)))),
]


@given(acts=st.lists(st.tuples(st.booleans(), POD, st.sampled_from(QUERIES)), max_size=25))
def test_the_index_finds_what_a_scan_finds(acts: list[tuple[bool, tuple[str, str, str], LabelQuery]]) -> None:
    """Pods come, change labels and go, with a question after each step."""
    index, known = PodIndex(), dict[str, Pod]()
    for adds, (name, app, track), query in acts:
        if adds:
            known[name] = labelled(name, app=app, **({"track": track} if track else {}))
            index.add(known[name])
        else:
            known.pop(name, None)
            index.remove(f"default/{name}")
        expected = sorted(name for name, one in known.items() if query.matches(one.metadata.labels))
        assert list(index.members("default", query).names) == expected
