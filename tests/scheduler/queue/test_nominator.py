"""Who is promised room where, through adds, updates and overrides."""

from __future__ import annotations

import pytest

from scheduler.queue.queue_support import info_of, make_info, make_pod
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.queue.nominator import NominatingMode, Nominator

OVERRIDE = NominatingMode.OVERRIDE


def lister_of(*pods: Pod) -> Nominator:
    return Nominator({pod.metadata.uid: pod for pod in pods}.get)


def names(nominator: Nominator, node: str) -> list[str]:
    return [info.pod.metadata.name for info in nominator.pods_for(node)]


def test_a_pod_is_nominated_by_its_own_status() -> None:
    """Mode noop: the object says where."""
    nominator = lister_of(make_pod("a"))
    assert not nominator
    nominator.add(make_info("a", nominated="n1"))
    assert names(nominator, "n1") == ["a"]
    assert nominator.node_of("uid-a") == "n1"
    assert nominator


def test_an_override_replaces_the_status_and_an_empty_one_removes() -> None:
    """The failure handler sets or clears before the API server knows."""
    nominator = lister_of(make_pod("a"))
    info = make_info("a", nominated="n1")
    nominator.add(info, "n2", OVERRIDE)
    assert (names(nominator, "n1"), names(nominator, "n2")) == ([], ["a"])
    nominator.add(info, "", OVERRIDE)
    assert not nominator
    assert nominator.problems() == []


def test_without_any_name_an_earlier_nomination_goes() -> None:
    """Upstream deletes first and then finds no node in the status."""
    nominator = lister_of(make_pod("a"))
    nominator.add(make_info("a"), "n1", OVERRIDE)
    nominator.add(make_info("a"))
    assert not nominator


def test_a_pod_that_is_gone_or_placed_is_not_nominated() -> None:
    """It would hold room on a node for ever."""
    nominator = lister_of(make_pod("placed", node="n9"))
    nominator.add(make_info("placed"), "n1", OVERRIDE)
    nominator.add(make_info("gone"), "n1", OVERRIDE)
    assert not nominator


def test_pods_are_listed_in_order_of_nomination() -> None:
    """The two passes of the filters add them in this order. A new nomination goes to the end."""
    nominator = lister_of(make_pod("a"), make_pod("b"))
    a, b = make_info("a", nominated="n"), make_info("b", nominated="n")
    nominator.add(a)
    nominator.add(b)
    assert names(nominator, "n") == ["a", "b"]
    nominator.add(a)
    assert names(nominator, "n") == ["b", "a"]
    nominator.delete("uid-b")
    nominator.delete("uid-b")
    assert names(nominator, "n") == ["a"]


@pytest.mark.parametrize(
    ("old", "new", "node"),
    [("", "", "n1"), ("n1", "", ""), ("", "n2", "n2"), ("n1", "n2", "n2"), ("n1", "n1", "n1")],
)
def test_an_update_that_knows_of_no_nomination_keeps_the_one_in_memory(old: str, new: str, node: str) -> None:
    """Nominated to n1 in memory. An update without any name was on its way before; one that removes a name is meant."""
    nominator = lister_of(make_pod("a"))
    nominator.add(make_info("a"), "n1", OVERRIDE)
    updated = info_of(make_pod("a", nominated=new, labels={"v": "2"}))
    nominator.update(make_pod("a", nominated=old), updated)
    assert nominator.node_of("uid-a") == node
    assert nominator.pods_for(node) == ((updated,) if node else ())
    assert nominator.problems() == []


def test_an_update_without_an_old_version_keeps_the_one_in_memory() -> None:
    """The version before is unknown, so nothing says that the nomination was taken away."""
    nominator = lister_of(make_pod("a"))
    nominator.add(make_info("a"), "n1", OVERRIDE)
    nominator.update(None, make_info("a"))
    assert names(nominator, "n1") == ["a"]
