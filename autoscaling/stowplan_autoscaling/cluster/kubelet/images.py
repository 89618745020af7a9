"""The images of one node: what is there, the queue of pulls, the limit on pulls, and the removal of unused ones.

Follows pkg/kubelet/images (image_manager.go, puller.go, helpers.go, image_gc_manager.go) of Kubernetes v1.37.2. Whether
an image is there is asked before its pull joins the queue: pods that start together each queue a pull, and all but the
first find that nothing is left to load. Pulls that run at the same time do not slow each other down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.kernel import MINUTE, SECOND, nanoseconds

from .application import ALWAYS, IF_NOT_PRESENT, NEVER

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_autoscaling.streams import Streams

    from .config import ImageCatalog, KubeletConfig

GC_PERIOD: Final = 5 * MINUTE
"""Time between two looks at the disk (kubelet.go, ImageGCPeriod)."""

REPORTED: Final = 50
"""Images that a node's status lists at most, the largest first (nodeStatusMaxImages)."""

Done = Callable[[bool], None]
"""Told whether the image is there now."""


@lru_cache(maxsize=4096)
def with_tag(name: str) -> str:
    """The name with the tag that it stands for (applyDefaultImageTag)."""
    last = name.rsplit("/", 1)[-1]
    return name if not name or ":" in last or "@" in last else f"{name}:latest"


@lru_cache(maxsize=4096)
def default_policy(name: str) -> str:
    """imagePullPolicy where it is not set (pkg/apis/core/v1/defaults.go, SetDefaults_Container)."""
    return ALWAYS if name and with_tag(name).endswith(":latest") else IF_NOT_PRESENT


class PullLimit:
    """At most `rate` pulls per second, `burst` saved up: a token or none, nobody waits (flowcontrol's TryAccept)."""

    __slots__ = ("_burst", "_last", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._last = 0

    def accepts(self, now: int) -> bool:
        """Take a token if there is one."""
        if not self._rate:
            return True
        self._tokens = min(float(self._burst), self._tokens + (now - self._last) / SECOND * self._rate)
        self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Image:
    """An image on the node; `users`: containers of it, running or not."""

    __slots__ = ("last_used", "name", "since", "size", "users")

    def __init__(self, name: str, size: int, since: int) -> None:
        self.name = name
        self.size = size
        self.since = since
        self.last_used = since
        self.users = 0


class NodeImages:
    """One node's images. `disk`: bytes for them; None: any number. `changed` is called when one came or went."""

    __slots__ = (
        "_catalog",
        "_changed",
        "_config",
        "_disk",
        "_gc_planned",
        "_kernel",
        "_limit",
        "_loading",
        "_node",
        "_pulls",
        "_running",
        "_streams",
        "_waiting",
        "held",
        "is_stopped",
        "used",
    )

    def __init__(
        self,
        kernel: Kernel,
        streams: Streams,
        node: str,
        config: KubeletConfig,
        catalog: ImageCatalog,
        disk: int | None,
        changed: Callable[[], None],
    ) -> None:
        self._kernel = kernel
        self._streams = streams
        self._node = node
        self._config = config
        self._catalog = catalog
        self._disk = config.image_disk or disk
        self._changed = changed
        self._limit = PullLimit(config.registry_pull_qps, config.registry_burst)
        self._waiting: deque[tuple[str, Done]] = deque()
        self._running = 0
        self._loading: dict[str, list[Done]] = {}
        """Images that are being loaded, with those who wait for the same."""
        self._pulls = 0
        self._gc_planned = False
        self.held: dict[str, Image] = {}
        """By name with tag."""
        self.used = 0
        """Bytes of all of them."""
        self.is_stopped = False

    # ---- asking ------------------------------------------------------------------------------

    def hold(self, name: str, size: int) -> None:
        """The node has the image from the beginning."""
        self._add(with_tag(name), size)

    def adopt(self, name: str) -> None:
        """A container that ran from the beginning proves that its image is there."""
        name = with_tag(name)
        if name and name not in self.held:
            self._add(name, self._catalog_size(name))

    def has(self, name: str) -> bool:
        """Whether the image, named with its tag, is on the node."""
        return name in self.held or (not self._catalog_size(name) and not self.is_failing(name))

    def is_failing(self, name: str) -> bool:
        """Whether the image cannot be pulled."""
        failing = self._catalog.failing
        return bool(failing) and (name in failing or name.removesuffix(":latest") in failing)

    def ensure(self, name: str, policy: str, done: Done) -> bool | None:
        """Have the image on the node. Returns at once if that is settled; else None, and `done` is called later."""
        if not name:
            return True
        name = with_tag(name)
        if policy != ALWAYS:
            if self.has(name):
                return True
            if policy == NEVER:
                return False
        if not self._config.pulls_at_once or self._running < self._config.pulls_at_once:
            self._running += 1
            self._pull(name, done)
        else:
            self._waiting.append((name, done))
        return None

    def _catalog_size(self, name: str) -> int:
        catalog = self._catalog
        found = catalog.sizes.get(name)
        return catalog.size(name.removesuffix(":latest")) if found is None else found

    # ---- pulling -----------------------------------------------------------------------------

    def _pull(self, name: str, done: Done) -> None:
        """Begin a pull; a slot has been taken for it."""
        now = self._kernel.now
        if not self._limit.accepts(now):
            # "pull QPS exceeded": the pull fails right away, and its pod backs off.
            self._kernel.later(now, lambda: self._end(done, ok=False))
            return
        self._pulls += 1
        request = self._config.registry_request.of(
            self._streams.uniform("kubelet/registry", f"{self._node}/{self._pulls}")
        )
        if self.is_failing(name):
            self._kernel.later(now + request, lambda: self._end(done, ok=False))
        elif self.has(name):
            self._kernel.later(now + request, lambda: self._end(done, ok=True))
        elif name in self._loading:
            self._loading[name].append(done)
        else:
            self._loading[name] = [done]
            self._kernel.later(now + request + self._loading_time(name), lambda: self._loaded(name))

    def _loading_time(self, name: str) -> int:
        spread = self._config.pull_spread
        u = 0.5 if spread.constant is not None else self._streams.uniform("kubelet/pull", f"{self._node}/{name}")
        return nanoseconds(self._catalog_size(name) / self._config.pull_rate * spread.seconds(u))

    def _loaded(self, name: str) -> None:
        if self.is_stopped:
            return
        self._add(name, self._catalog_size(name))
        self._changed()
        for done in self._loading.pop(name):
            self._end(done, ok=True)

    def _end(self, done: Done, *, ok: bool) -> None:
        if self.is_stopped:
            return
        self._running -= 1
        # Those who wait come before what this pod may ask for next.
        slots = self._config.pulls_at_once
        while self._waiting and self._running < slots:
            self._running += 1
            self._pull(*self._waiting.popleft())
        done(ok)

    def _add(self, name: str, size: int) -> None:
        if name not in self.held:
            self.held[name] = Image(name, size, self._kernel.now)
            self.used += size
        self._plan_gc()

    # ---- use and removal ---------------------------------------------------------------------

    def use(self, name: str) -> None:
        """A container of the image was made."""
        image = self.held.get(with_tag(name))
        if image is not None:
            image.users += 1

    def release(self, name: str) -> None:
        """A container of the image is no more."""
        image = self.held.get(with_tag(name))
        if image is not None:
            image.users = max(image.users - 1, 0)
            image.last_used = self._kernel.now

    def _plan_gc(self) -> None:
        """Look at the disk at the next regular time, if it is too full."""
        if self._gc_planned or self._disk is None or self.used < self._config.image_gc_high * self._disk:
            return
        self._gc_planned = True
        phase = round(self._streams.uniform("kubelet/image-gc", self._node) * GC_PERIOD)
        now = self._kernel.now
        self._kernel.later(now + (phase - now) % GC_PERIOD, self._collect)

    def _collect(self) -> None:
        """Remove what was not used for longest, down to the low mark."""
        self._gc_planned = False
        if self.is_stopped or self._disk is None:
            return
        now, low = self._kernel.now, self._config.image_gc_low * self._disk
        if self.used < self._config.image_gc_high * self._disk:
            return
        youngest = now - nanoseconds(self._config.image_gc_min_age)
        removed = False
        for image in sorted(self.held.values(), key=lambda image: (image.last_used, image.since, image.name)):
            if self.used <= low:
                break
            if not image.users and image.since <= youngest:
                del self.held[image.name]
                self.used -= image.size
                removed = True
        if removed:
            self._changed()
        if self.used >= self._config.image_gc_high * self._disk:
            self._gc_planned = True
            self._kernel.later(now + GC_PERIOD, self._collect)

    def reported(self) -> list[Image]:
        """What the node's status lists."""
        return sorted(self.held.values(), key=lambda image: (-image.size, image.name))[:REPORTED]
