"""Leases on a real API server: who wins, who takes over and when, what a write that comes too late gets."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from integration.api_support import account, kubeconfig, new_namespace, run, until
from integration.control_plane import API_SERVER, ControlPlane
from integration.kube_api import sure
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.connection import load_connection
from stowplan_operator.api.election import SECOND, ElectionSettings, Elector, LeaseCreate, LeaseUpdate
from stowplan_operator.api.lease_runner import Leadership, LeaseRunner, new_identity

pytestmark = pytest.mark.rig

FAST = {"lease_duration_seconds": 3, "renew_deadline_seconds": 2.0, "retry_period_seconds": 0.3}
"""Kept short, so that tests need not wait for long."""


class Contender:
    """A runner with an owner that beats, until it hangs."""

    def __init__(self, client: ApiClient, namespace: str, name: str, **durations: Any) -> None:
        settings = ElectionSettings(namespace=namespace, name="worker", identity=name, **{**FAST, **durations})
        self.terms: list[Leadership] = []
        self.runner = LeaseRunner(client, settings, self.terms.append, rng=random.Random(name))
        self._task = asyncio.create_task(self.runner.run())
        self._owner = asyncio.create_task(self._keep_beating())

    async def _keep_beating(self) -> None:
        while True:
            self.runner.beat()
            await asyncio.sleep(0.05)

    def hang(self) -> None:
        """The owner shows no sign of life any more; the runner still runs."""
        self._owner.cancel()

    async def crash(self) -> None:
        """Both end, without a word to the server."""
        self._owner.cancel()
        self._task.cancel()
        await asyncio.gather(self._owner, self._task, return_exceptions=True)

    @property
    def has_ended(self) -> bool:
        return self._task.done()


@asynccontextmanager
async def contenders(client: ApiClient, namespace: str, *names: str) -> AsyncIterator[list[Contender]]:
    made = [Contender(client, namespace, name) for name in names]
    try:
        yield made
    finally:
        for each in made:
            await each.crash()


def lease_in(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "worker", "namespace": namespace},
    }
    with closing(plane.api) as api:
        return sure(api.read(lease))


def test_of_several_that_begin_together_one_leads_and_goes_on_leading(control_plane: ControlPlane) -> None:
    """The race is for the creation of the lease; the others see who holds it."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        async with contenders(client, namespace, "a", "b", "c", "d") as four:
            await until(lambda: any(each.runner.leading for each in four))
            (leader,) = [each for each in four if each.runner.leading]
            holder = lease_in(control_plane, namespace)["spec"]["holderIdentity"]
            await until(lambda: all(each.runner.holder == holder for each in four))
            renewed = lease_in(control_plane, namespace)["spec"]["renewTime"]
            await until(lambda: lease_in(control_plane, namespace)["spec"]["renewTime"] > renewed)
            assert [each.runner.leading for each in four] == [each is leader for each in four]
            assert [len(each.terms) for each in four] == [int(each is leader) for each in four]
            assert leader.terms[0].leading
            assert (leader.terms[0].epoch, leader.runner.epoch) == (0, 0)
            assert int(leader.terms[0].version) > 0

    run(control_plane, test)


def test_after_a_crash_another_leads_within_the_lease_duration_and_a_retry(control_plane: ControlPlane) -> None:
    """And not before the dead one's own fence has ended. The epoch grows, and the version of the win with it."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        async with contenders(client, namespace, "a") as (first,):
            await until(lambda: first.runner.leading)
            async with contenders(client, namespace, "b") as (second,):
                await until(lambda: second.runner.holder == "a")
                await first.crash()
                began = time.monotonic()
                await until(lambda: second.runner.leading)
                took = time.monotonic() - began
                assert not first.runner.leading
                assert took > FAST["lease_duration_seconds"] - FAST["retry_period_seconds"] * 1.2 - 0.1
                assert (first.runner.epoch, second.runner.epoch) == (0, 1)
                assert int(second.terms[0].version) > int(first.terms[0].version)
                assert lease_in(control_plane, namespace)["spec"]["leaseTransitions"] == 1

    run(control_plane, test)


def test_a_release_lets_another_lead_at_once(control_plane: ControlPlane) -> None:
    """At its next attempt, long before the lease would have run out; the first one's runner returns."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        async with contenders(client, namespace, "a") as (first,):
            await until(lambda: first.runner.leading)
            second = Contender(client, namespace, "b", lease_duration_seconds=60, renew_deadline_seconds=50)
            await until(lambda: second.runner.holder == "a")
            await first.runner.release()
            assert not first.runner.leading
            assert [term.leading for term in first.terms] == [True, False]
            await until(lambda: second.runner.leading)
            await until(lambda: first.has_ended)
            assert second.runner.epoch == 1
            await second.runner.release()
            spec = lease_in(control_plane, namespace)["spec"]
            assert (spec.get("holderIdentity", ""), spec["leaseDurationSeconds"]) == ("", 1)
            await second.crash()

    run(control_plane, test)


def test_an_owner_that_hangs_loses_its_lease_to_another(control_plane: ControlPlane) -> None:
    """Its runner is alive and could renew, but does not; when the owner comes back it waits for its turn."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        async with contenders(client, namespace, "a") as (first,):
            await until(lambda: first.runner.leading)
            async with contenders(client, namespace, "b") as (second,):
                await until(lambda: second.runner.holder == "a")
                first.hang()
                await until(lambda: second.runner.leading)
                assert not first.runner.leading
                assert [term.leading for term in first.terms] == [True, False]
                first.runner.beat()
                assert not first.runner.leading
                await until(lambda: _has_seen(first, "b"))
                assert not first.runner.leading

    run(control_plane, test)


def _has_seen(contender: Contender, holder: str) -> bool:
    contender.runner.beat()
    return contender.runner.holder == holder


def test_a_frozen_server_ends_leading_in_time_and_after_the_thaw_it_goes_on(rig: Path, tmp_path: Path) -> None:
    """The fence ends by the clock, while the request still hangs. Nobody else wrote, so it is the same epoch."""
    with ControlPlane(rig, tmp_path, components=()) as plane:
        namespace = new_namespace(plane)

        async def test(client: ApiClient) -> None:
            async with contenders(client, namespace, "a") as (only,):
                await until(lambda: only.runner.leading)
                plane.freeze(API_SERVER)
                began = time.monotonic()
                await until(lambda: len(only.terms) == 2)
                assert not only.runner.leading
                assert time.monotonic() - began < FAST["renew_deadline_seconds"] + 1.5
                plane.thaw(API_SERVER)
                await until(lambda: only.runner.leading)
                assert only.runner.epoch == 0
                plane.restart(API_SERVER)
                await until(lambda: only.runner.leading)

        run(plane, test)


def test_a_write_that_comes_too_late_is_refused(control_plane: ControlPlane) -> None:
    """A renewal that was on its way while another took over: 409, and its sender stops."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        electors = [Elector(_settings(namespace, name), random.Random(1)) for name in "ab"]
        runners = [LeaseRunner(client, _settings(namespace, name), _ignore) for name in "ab"]
        (slow, quick), (send, _) = electors, runners

        async def work(elector: Elector, now: int) -> list[str]:
            sent = []
            while (request := elector.step(now, time.time_ns())) is not None:
                sent.append(type(request).__name__)
                elector.answered(await send._send(request), now)
            return sent

        assert await work(slow, 0) == ["LeaseRead", "LeaseCreate"]
        assert await work(quick, 0) == ["LeaseRead"]
        late = slow.step(SECOND, time.time_ns())
        assert isinstance(late, LeaseUpdate)
        assert await work(quick, 4 * SECOND) == ["LeaseUpdate"]
        assert quick.leading(4 * SECOND)
        reply = await send._send(late)
        assert (reply.status, reply.reason) == (409, "Conflict")
        slow.answered(reply, 4 * SECOND)
        assert not slow.leading(SECOND)
        # The same for whoever wants to create what has been created.
        create = LeaseCreate(late.body | {"metadata": {"name": "worker", "namespace": namespace}})
        assert (await send._send(create)).reason == "AlreadyExists"

    run(control_plane, test)


def _settings(namespace: str, name: str) -> ElectionSettings:
    return ElectionSettings(namespace=namespace, name="worker", identity=name, **FAST)


def _ignore(leadership: Leadership) -> None:
    """Nobody asks."""


def test_a_lease_that_somebody_deletes_is_made_anew_with_a_higher_epoch(control_plane: ControlPlane) -> None:
    """Its holder stops at the next renewal, and contends like everybody."""
    namespace = new_namespace(control_plane)

    async def test(client: ApiClient) -> None:
        async with contenders(client, namespace, "a") as (only,):
            await until(lambda: only.runner.leading)
            with closing(control_plane.api) as api:
                sure(api.delete(lease_in(control_plane, namespace)))
            await until(lambda: len(only.terms) == 3)
            assert [term.leading for term in only.terms] == [True, False, True]
            assert only.runner.epoch == 1

    run(control_plane, test)


def test_three_rights_are_enough(control_plane: ControlPlane, tmp_path: Path) -> None:
    """get, create and update on leases, with the shipped durations."""
    namespace = new_namespace(control_plane)
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]
    token = account(control_plane, namespace, "leader", rules)
    path = kubeconfig(control_plane, tmp_path / "config", {"token": token})

    async def test() -> None:
        async with ApiClient(load_connection(path)) as client:
            settings = ElectionSettings(namespace=namespace, name="worker", identity=new_identity())
            runner = LeaseRunner(client, settings, _ignore)
            task = asyncio.create_task(runner.run())
            await until(lambda: runner.leading)
            assert lease_in(control_plane, namespace)["spec"]["leaseDurationSeconds"] == 15
            await runner.release()
            await asyncio.wait_for(task, 60)

    asyncio.run(test())
