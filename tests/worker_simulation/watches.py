"""The watch of one kind as one worker sees it: late, broken, silent, expired; with the real store behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stowplan_operator.api.decode import WatchEvent
from stowplan_operator.api.old_lists import OldLists
from stowplan_operator.api.store import Change, ObjectStore

from .kernel import Kernel
from .network import Network
from .plan import MILLISECOND, SECOND, Fault, Plan
from .world import Happened, World

STALL = 70 * SECOND
BOOKMARK = 60 * SECOND

Sink = Callable[[str, Sequence[Change], int], None]
"""(kind, changes in order, version up to which that is everything)"""


class Watch:
    """List and watch of one kind, over the ObjectStore that workers use.

    What a Reflector does, as far as the machine can tell: it lists, watches from there on, goes on after a break where
    it was, lists again where the history is gone, and gives a silent watch up.
    """

    def __init__(self, kind: str, world: World, kernel: Kernel, network: Network, plan: Plan, sink: Sink) -> None:
        """Nothing is known; `open` begins."""
        self.kind = kind
        self.store = ObjectStore()
        self.closed = False
        self._world = world
        self._kernel = kernel
        self._network = network
        self._plan = plan
        self._sink = sink
        self._cursor = 0
        self._attempt = 0
        """What belongs to an attempt that was given up must not be heard."""
        self._is_open = False
        self._is_due = False
        self._free_at = 0
        self._failures = 0
        self._old_lists = OldLists()

    @property
    def is_caught_up(self) -> bool:
        """Whether it has shown everything."""
        if not self._is_open or self._is_due:
            return False
        return not any(True for _ in self._world.since(self.kind, self._cursor))

    # ---- list --------------------------------------------------------------------------------

    def relist(self) -> None:
        """List anew, from the state of now or later."""
        self._attempt += 1
        self._is_open = self._is_due = False
        attempt = self._attempt
        self._kernel.after(self._delay(), lambda: self._arrives(attempt))

    def _arrives(self, attempt: int) -> None:
        if attempt != self._attempt or self.closed:
            return
        if self._refuses():
            self._retry(self.relist)
            return
        objects, version = self._asked_for_a_list()
        self._kernel.after(self._delay(), lambda: self._replaced(attempt, objects, version))

    def _asked_for_a_list(self) -> tuple[list[object], int]:
        if self._plan.rolls(Fault.OLD_LIST, 0.3):
            back = self._plan.stream("old lists").randint(1, 300)
            version = max(self._world.revision - back, 0)
            return self._world.listed_once(self.kind, version), version
        return self._world.listed(self.kind), self._world.revision

    def _replaced(self, attempt: int, objects: list[object], version: int) -> None:
        if attempt != self._attempt or self.closed:
            return
        if self._old_lists.refuses(version, self.store.version, self._kernel.now / SECOND):
            self._plan.fired["a list from the past was refused"] += 1
            self._retry(self.relist)
            return
        self._cursor, self._failures = version, 0
        changes = self.store.replace(objects, str(version))
        deletions = sum(1 for change in changes if change.type == "DELETED")
        self._plan.fired["a list showed a deletion"] += deletions
        self._open()
        self._sink(self.kind, changes, version)

    def _refuses(self) -> bool:
        return self._network.is_down or self._kernel.now < self._network.forbids_until

    def _retry(self, action: Callable[[], None]) -> None:
        self._failures += 1
        attempt, wait = self._attempt, min(0.8 * 2 ** (self._failures - 1), 5.0)
        jitter = 1 + self._plan.stream("reconnect").random()
        self._kernel.after(int(wait * jitter * SECOND), lambda: action() if attempt == self._attempt else None)

    # ---- watch -------------------------------------------------------------------------------

    def _open(self) -> None:
        self._is_open = True
        self._bookmark(self._attempt)
        self.poke()

    def reopen(self) -> None:
        """Watch again from where it was, or list if that is forgotten."""
        if self.closed:
            return
        if self._refuses():
            self._retry(self.reopen)
        elif self._cursor < self._world.compacted:
            self._plan.fired["410"] += 1
            self.relist()
        else:
            self._failures = 0
            if self._plan.rolls(Fault.WATCH_BEHIND, 0.4):
                # It says nothing of what is known already, nor a bookmark, until it has seen it itself.
                self._free_at = self._kernel.now + self._plan.stream("behind").randint(1, 50) * SECOND
            elif self._plan.rolls(Fault.WATCH_PAST, 0.4):
                back = self._plan.stream("past").randint(1, 300)
                self._cursor = max(self._cursor - back, 0)
            self._open()

    def end(self) -> None:
        """The connection breaks."""
        if self._is_open:
            self._attempt += 1
            self._is_open = self._is_due = False
            self._retry(self.reopen)

    def freeze(self) -> None:
        """The connection stays open and says nothing more; it is given up after a while."""
        if self._is_open:
            self._attempt += 1
            self._is_open = self._is_due = False
            attempt = self._attempt
            self._kernel.after(STALL, lambda: self.reopen() if attempt == self._attempt else None)

    def poke(self) -> None:
        """Something happened, or may have."""
        if self.closed or not self._is_open or self._is_due or self._world.revision <= self._cursor:
            return
        self._is_due = True
        delay = self._delay()
        if self._plan.rolls(Fault.WATCH_LAG, 0.02):
            delay += self._plan.stream("lag").randint(0, 30) * SECOND
        self._free_at = max(self._free_at, self._kernel.now + delay)
        attempt = self._attempt
        self._kernel.at(self._free_at, lambda: self._deliver(attempt))

    def _deliver(self, attempt: int) -> None:
        if attempt != self._attempt or self.closed:
            return
        self._is_due = False
        if self._plan.rolls(Fault.WATCH_BREAK, 0.03):
            self.end()
            return
        waiting = list(self._world.since(self.kind, self._cursor))
        count = self._plan.stream("batches").randint(1, 4)
        for happened in waiting[:count]:
            self._tell(happened)
            if self._plan.rolls(Fault.DUPLICATE, 0.05):
                self._tell(happened)
        if len(waiting) > count:
            self.poke()

    def _tell(self, happened: Happened) -> None:
        if self.closed:
            return
        self._cursor = max(self._cursor, happened.revision)
        kind = "DELETED" if happened.type == "DELETED" else happened.type
        changes = self.store.apply(WatchEvent(kind, happened.object))
        if changes:
            self._sink(self.kind, changes, happened.revision)

    def _bookmark(self, attempt: int) -> None:
        """About once a minute a watch says up to where it has told everything."""

        def comes() -> None:
            if attempt != self._attempt or self.closed:
                return
            if not self._is_due:
                self._cursor = self._world.revision
                self.store.advance(str(self._cursor))
                self._sink(self.kind, (), self._cursor)
            self._bookmark(attempt)

        self._kernel.after(BOOKMARK, comes)

    def _delay(self) -> int:
        return MILLISECOND + int(self._plan.watch_delay * self._plan.stream("watch").random())
