"""Whether a worker can do its work at all: does the API server answer, is its Lease's namespace there, its rights.

Asked at the start, beside all else, and again until all is well. A worker does not end for what it finds, since others
may put that right; /readyz, /status and the log say what is missing, the log once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.reviews import is_missing, may_not, review
from stowplan_operator.api.rights import WORKER, Right, Scope

from .configuration import LeaseSettings

log = logging.getLogger("stowplan.worker")

PATIENCE: Final = 5
"""Looks, a second apart, before a problem is told: an API server that was just started denies everything at first."""

FIRST_SECONDS: Final = 1.0
THEN_SECONDS: Final = 10.0
"""Between two looks, until a problem is told and after that."""


class SelfCheck:
    """`problem` is why the worker cannot work, "" if it can, as far as is known. `run` finds out."""

    def __init__(
        self,
        client: ApiClient,
        lease: LeaseSettings,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._lease = lease
        self._sleep = sleep
        self.problem = ""

    async def run(self) -> None:
        """Look until all is well."""
        looks = 0
        while found := await self.look():
            looks += 1
            if looks >= PATIENCE and found != self.problem:
                self.problem = found
                log.error("this worker cannot work", extra={"error": found})
            await self._sleep(FIRST_SECONDS if looks < PATIENCE else THEN_SECONDS)
        if self.problem:
            self.problem = ""
            log.info("what this worker needs is there now")

    async def look(self) -> str:
        """What is wrong at this moment; "" if nothing is."""
        found = await review(self._client, self._lease.namespace, rights_with(self._lease))
        if found.failure is None:
            if self._lease.enabled and await is_missing(self._client, self._lease.namespace, self._lease.name):
                namespace = self._lease.namespace
                return f"there is no namespace {namespace} for its Lease: kubectl create namespace {namespace}"
            return may_not("the worker", found.denied) if found.denied else ""
        if found.failure.is_unknown or found.failure.status >= 500:
            return f"the API server {self._client.connection.server} does not answer: {found.failure.message}"
        if found.failure.status == 401:
            return f"the API server {self._client.connection.server} does not know this worker: {found.failure.message}"
        # Rights cannot be asked about here; what is missing shows when it is needed.
        log.warning("rights cannot be checked", extra={"error": found.failure.message})
        return ""


def rights_with(lease: LeaseSettings) -> tuple[Right, ...]:
    """The rights of a worker with such a Lease: those about Leases only if it needs one, and only about that one."""
    others = tuple(right for right in WORKER if right.scope is not Scope.OWN)
    if not lease.enabled:
        return others
    return others + tuple(
        # A right to create cannot be held for one name.
        right if right.verb == "create" else msgspec.structs.replace(right, name=lease.name)
        for right in WORKER
        if right.scope is Scope.OWN
    )
