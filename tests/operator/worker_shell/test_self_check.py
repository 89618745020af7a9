"""What a worker finds out about its cluster at the start, and how often it says so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from stowplan_operator.api.call import Call, Reply, encode
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.rights import WORKER, Scope
from stowplan_operator.worker.configuration import LeaseSettings
from stowplan_operator.worker.self_check import PATIENCE, SelfCheck, rights_with

LEASE = LeaseSettings(
    enabled=True, namespace="system", name="stowplan-worker-dense", duration=15, renew_deadline=10, retry_period=2
)
ROLES = "deploy/kustomize/base has the roles"
NO_ANSWER = Reply(status=0, message="ClientConnectorError: refused")


class Connection:
    server = "https://cluster.example:6443"


class Server(ApiClient):
    """Answers reviews. `denied`: (verb, resource) that we may not; `failure`: the answer to everything, if set."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str]] = set()
        self.failure: Reply | None = None
        self.has_namespace = True
        self.asked: list[dict[str, Any]] = []

    @property
    def connection(self) -> Any:
        return Connection

    async def call(self, call: Call) -> Reply:
        if self.failure is not None:
            return self.failure
        if call.path.endswith("/leases"):
            assert call.query == (("dryRun", "All"),)
            return Reply(status=201 if self.has_namespace else 404)
        asked = json.loads(call.body or b"")["spec"]["resourceAttributes"]
        self.asked.append(asked)
        allowed = (asked["verb"], asked["resource"]) not in self.denied
        return Reply(status=201, body=encode({"status": {"allowed": allowed}}))


def look(server: Server, lease: LeaseSettings = LEASE) -> str:
    return asyncio.run(SelfCheck(server, lease).look())


def test_where_all_is_well_every_right_of_a_worker_was_asked_for_once() -> None:
    server = Server()
    assert look(server) == ""
    assert server.asked == [right.attributes("system") for right in rights_with(LEASE)]
    assert len(server.asked) == len(WORKER)


def test_leases_are_asked_about_by_name_and_only_if_one_is_needed() -> None:
    """A role may name the one Lease that there is; to make it, no name can be held."""
    own = [right for right in rights_with(LEASE) if right.scope is Scope.OWN]
    assert [(right.verb, right.name) for right in own] == [
        ("get", "stowplan-worker-dense"),
        ("create", ""),
        ("update", "stowplan-worker-dense"),
    ]
    server = Server()
    server.has_namespace = False
    assert look(server, msgspec.structs.replace(LEASE, enabled=False)) == ""
    assert {asked["resource"] for asked in server.asked} & {"leases"} == set()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"denied": {("list", "nodes"), ("watch", "nodes"), ("create", "pods"), ("update", "leases")}},
            (
                "the worker may not: list/watch nodes, create pods/binding, update leases.coordination.k8s.io "
                f"stowplan-worker-dense in the own namespace; {ROLES}"
            ),
        ),
        ({"has_namespace": False}, "there is no namespace system for its Lease: kubectl create namespace system"),
        (
            {"failure": NO_ANSWER},
            "the API server https://cluster.example:6443 does not answer: ClientConnectorError: refused",
        ),
        (
            {"failure": Reply(status=503, message="not yet")},
            "the API server https://cluster.example:6443 does not answer: not yet",
        ),
        (
            {"failure": Reply(status=401, message="Unauthorized")},
            "the API server https://cluster.example:6443 does not know this worker: Unauthorized",
        ),
        # Whoever may not ask may still have every right.
        ({"failure": Reply(status=403, message="reviews are forbidden")}, ""),
    ],
)
def test_what_is_missing_is_said_in_one_line(change: dict[str, Any], expected: str) -> None:
    server = Server()
    for name, value in change.items():
        setattr(server, name, value)
    assert look(server) == expected


def test_where_nobody_answers_one_question_is_enough() -> None:
    server = Server()
    calls: list[Call] = []

    async def call(call: Call) -> Reply:
        calls.append(call)
        return NO_ANSWER

    server.call = call  # type: ignore[method-assign]
    assert "does not answer" in look(server)
    assert len(calls) == 1


def test_a_problem_is_told_when_it_lasts_once_and_again_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """An API server that was just started denies everything for a second."""
    caplog.set_level("INFO")
    server, problems = Server(), list[str]()
    server.denied = {("create", "pods")}

    async def sleep(seconds: float) -> None:
        problems.append(check.problem)
        if len(problems) == PATIENCE + 5:
            server.denied = {("delete", "pods")}
        if len(problems) == PATIENCE + 10:
            server.denied = set()

    check = SelfCheck(server, LEASE, sleep=sleep)
    asyncio.run(check.run())
    first, second = (f"the worker may not: {what}; {ROLES}" for what in ("create pods/binding", "delete pods"))
    assert problems == [""] * (PATIENCE - 1) + [first] * 6 + [second] * 5
    assert check.problem == ""
    assert [(record.levelname, record.__dict__.get("error")) for record in caplog.records] == [
        ("ERROR", first),
        ("ERROR", second),
        ("INFO", None),
    ]


def test_what_passes_soon_is_not_told_at_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    server = Server()
    server.failure = NO_ANSWER

    async def sleep(seconds: float) -> None:
        server.failure = None

    check = SelfCheck(server, LEASE, sleep=sleep)
    asyncio.run(check.run())
    assert caplog.records == []
    assert check.problem == ""
