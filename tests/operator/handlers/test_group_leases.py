"""Leases of groups of workers that are gone: which are deleted, and when."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from stowplan_operator.api.call import Call, Reply, encode
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.errors import ApiError
from stowplan_operator.handlers.group_leases import ABANDONED_SECONDS, AGAIN_SECONDS, GroupLeases


class Server(ApiClient):
    """Leases by name: holder, version, duration. `refusing`: the status with which deletions are answered."""

    def __init__(self, **leases: tuple[str, int]) -> None:
        self.leases = {name.replace("_", "-"): lease for name, lease in leases.items()}
        self.duration = 15
        self.lists = 0
        self.refusing = 0
        self.deleted: list[str] = []

    async def call(self, call: Call) -> Reply:
        if call.method == "GET":
            self.lists += 1
            items = [self._lease(name) for name in self.leases]
            return Reply(status=200, body=encode({"metadata": {"resourceVersion": "9"}, "items": items}))
        assert (call.method, call.body is not None) == ("DELETE", True)
        name = call.path.rpartition("/")[2]
        wanted = json.loads(call.body or b"")["preconditions"]
        assert wanted == {"uid": f"uid-{name}", "resourceVersion": str(self.leases[name][1])}
        if self.refusing:
            return Reply(status=self.refusing, reason="Conflict", message="changed")
        self.deleted.append(name)
        del self.leases[name]
        return Reply(status=200)

    def _lease(self, name: str) -> dict[str, Any]:
        holder, version = self.leases[name]
        return {
            "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": self.duration},
        }


class Desk:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.now = 1000.0
        self._leases = GroupLeases(server, "system", lambda: self.now)

    def prune(self, *groups: str) -> float:
        return asyncio.run(self._leases.prune(set(groups)))


def test_a_lease_that_was_given_back_goes_with_its_group_and_no_other_one() -> None:
    desk = Desk(Server(stowplan_worker_a=("", 1), stowplan_worker_b=("", 2), stowplan_operator=("", 3), other=("", 4)))
    assert desk.prune("b") == 0
    assert desk.server.deleted == ["stowplan-worker-a"]


def test_nothing_is_asked_for_while_groups_stay_the_same() -> None:
    desk = Desk(Server())
    for groups in (("a",), ("a",), ("a", "b"), ("b", "a"), ("a",)):
        desk.prune(*groups)
    assert desk.server.lists == 3


def test_a_lease_with_a_holder_goes_when_nobody_has_renewed_it_for_long() -> None:
    """As after a crash. The server's clock is not asked: what counts is how long it was seen unchanged."""
    desk = Desk(Server(stowplan_worker_a=("dead", 1)))
    assert desk.prune() == ABANDONED_SECONDS
    desk.now += 50
    assert desk.prune() == pytest.approx(10)
    assert desk.server.lists == 1
    # It was not dead.
    desk.server.leases["stowplan-worker-a"] = ("dead", 2)
    desk.now += 10
    assert desk.prune() == ABANDONED_SECONDS
    desk.now += 60
    assert desk.prune() == 0
    assert desk.server.deleted == ["stowplan-worker-a"]


def test_a_long_lease_is_waited_for_longer() -> None:
    desk = Desk(Server(stowplan_worker_a=("dead", 1)))
    desk.server.duration = 100
    assert desk.prune() == 400


def test_a_group_that_comes_back_keeps_its_lease() -> None:
    desk = Desk(Server(stowplan_worker_a=("somebody", 1)))
    desk.prune()
    assert desk.prune("a") == 0
    desk.now += 1000
    assert desk.prune("a") == 0
    assert desk.server.deleted == []


def test_a_lease_that_somebody_takes_at_that_moment_is_looked_at_again() -> None:
    desk = Desk(Server(stowplan_worker_a=("", 1)))
    desk.server.refusing = 409
    assert desk.prune() == AGAIN_SECONDS
    desk.server.refusing = 404
    desk.now += AGAIN_SECONDS
    assert desk.prune() == 0


def test_a_refusal_is_an_error_and_is_tried_again() -> None:
    desk = Desk(Server(stowplan_worker_a=("", 1)))
    desk.server.refusing = 403
    with pytest.raises(ApiError):
        desk.prune()
    desk.server.refusing = 0
    assert desk.prune() == 0
    assert desk.server.deleted == ["stowplan-worker-a"]
