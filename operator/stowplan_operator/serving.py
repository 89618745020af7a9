"""What operator and workers serve over HTTP: /healthz, /livez, /readyz, /metrics, /configz and /status; the operator
also /workers/GROUP/metrics, for the workers that are its child processes.

Checks answer as kube-scheduler's do: "ok" with 200, or 500 and a line for each check, with ?verbose also where all is
well. The server lives in the program's own loop: a loop that is stuck answers nothing at all, which a probe takes for a
failure; a loop that runs while the program's work stands still is what the checks of /livez are for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

Check = Callable[[], str]
"""Why something is not well; "" if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Where the answers come from; each is asked anew for every request.

    `live` and `ready`: checks by name. `configz` and `status` are documents. `resources`: the page /metrics/resources,
    None without one. `worker_metrics`: a page of metrics, by its path, of the worker of a group; None if there is none
    here.
    """

    live: Mapping[str, Check]
    ready: Mapping[str, Check]
    metrics: Callable[[], bytes]
    resources: Callable[[], Awaitable[bytes]] | None = None
    configz: Callable[[], Mapping[str, Any]]
    status: Callable[[], Mapping[str, Any]]
    worker_metrics: Callable[[str, str], Awaitable[bytes | None]] | None = None


class PageServer:
    """Listens on one address from `start` to `stop`."""

    def __init__(self, pages: Pages, host: str, port: int) -> None:
        """`port` 0 takes a free one."""
        self._pages = pages
        self._host = host
        self._wanted = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen; returns the port. Raises OSError."""
        application = web.Application()
        pages = self._pages
        application.router.add_get("/healthz", _checks("healthz", pages.live))
        application.router.add_get("/livez", _checks("livez", pages.live))
        application.router.add_get("/readyz", _checks("readyz", {**pages.live, **pages.ready}))
        application.router.add_get("/metrics", self._metrics)
        if pages.resources is not None:
            application.router.add_get("/metrics/resources", _text(pages.resources))
        if pages.worker_metrics is not None:
            for path in ("/metrics", "/metrics/resources"):
                application.router.add_get(f"/workers/{{group}}{path}", _of_workers(pages.worker_metrics, path))
        application.router.add_get("/configz", _document(pages.configz))
        application.router.add_get("/status", _document(pages.status))
        # Scrapes are many and say nothing: no access log.
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._wanted).start()
        except BaseException:
            await self._runner.cleanup()
            raise
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Listen no more; requests that are being answered get a second."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._pages.metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})


_PLAIN: Final = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}


def _checks(name: str, checks: Mapping[str, Check]) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.Response:
        found = {each: check() for each, check in checks.items()}
        failed = any(found.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok", headers=_PLAIN)
        lines = [f"[-]{each} failed: {why}" if why else f"[+]{each} ok" for each, why in found.items()]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n", headers=_PLAIN)

    return answer


def _text(source: Callable[[], Awaitable[bytes]]) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await source(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer


def _of_workers(source: Callable[[str, str], Awaitable[bytes | None]], path: str) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.Response:
        group = request.match_info["group"]
        body = await source(group, path)
        if body is None:
            text = "no worker of that group runs beside this operator, or it does not answer\n"
            return web.Response(status=404, text=text, headers=_PLAIN)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer


def _document(source: Callable[[], Mapping[str, Any]]) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(source()), content_type="application/json")

    return answer
