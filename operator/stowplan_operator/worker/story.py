"""What happened to a pod, as records: the machine makes them, the shell logs them, `stowplan story POD` prints them.

One record is one moment of one pod. Together, in order, they are its story: seen, queued, tried, asked for, answered,
bound or gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from stowplan_scheduler.objects import Pod

from .requests import Answer, BindPod, PatchPod, ReadPod, Request
from .settings import ProfileSettings


class Moment(StrEnum):
    """What a record is about."""

    SEEN = "seen"
    """The machine heard of the pod; `place` is where it waits."""
    HELD = "held"
    """The pod waits outside the queue: its profile is not active (`message` says why)."""
    REFUSED = "refused"
    """The object cannot be read (an amount that no API server lets pass)."""
    ATTEMPT = "attempt"
    """An attempt failed; `message` is the verdict, `place` where the pod waits now."""
    ASSUMED = "assumed"
    """An attempt chose `node`; the bind is to come."""
    ASKED = "asked"
    """A request left: `message` says which."""
    ANSWERED = "answered"
    """Its answer came: `status` and `message`."""
    BOUND = "bound"
    """The bind is confirmed: `node`."""
    UNBOUND = "unbound"
    """The bind was given up: `message` says why; the pod goes back to the queue."""
    SEEN_BOUND = "seen-bound"
    """The watch shows the pod on `node`."""
    DROPPED = "dropped"
    """A request was not sent: this worker does not lead."""
    GONE = "gone"
    """The pod is deleted, or has ended."""


class StoryRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One moment. `now` is the machine's clock in nanoseconds; `seq` orders records of one machine."""

    seq: int
    now: int
    moment: Moment
    pod: str
    uid: str
    profile: str = ""
    """The pod's schedulerName."""
    generation: int = 0
    """The profile's generation at that moment."""
    epoch: int = 0
    """The lease's epoch; 0 while not leading."""
    attempt: int = 0
    node: str = ""
    place: str = ""
    request: int = 0
    """Id of the request that was asked or answered."""
    status: int | None = None
    message: str = ""


StorySink = Callable[[StoryRecord], None]


class Teller:
    """Makes the records of one machine. Without a sink every call costs one comparison."""

    def __init__(self, sink: StorySink | None, profiles: Iterable[ProfileSettings]) -> None:
        """`profiles`: whose generations stand in the records."""
        self._sink = sink
        self._seq = 0
        self._asked: dict[int, tuple[Pod, str]] = {}
        self._generations: dict[str, int] = {}
        self.profiles(profiles)

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return self._sink is not None

    def knows(self, pod: Pod) -> bool:
        """Whether anybody listens, and the pod names one of the profiles."""
        return self._sink is not None and pod.spec.scheduler_name in self._generations

    def profiles(self, profiles: Iterable[ProfileSettings]) -> None:
        """Other profiles run from now on."""
        self._generations = {profile.scheduler_name: profile.generation for profile in profiles}

    def tell(
        self,
        moment: Moment,
        pod: Pod,
        now: int,
        epoch: int,
        *,
        attempt: int = 0,
        node: str = "",
        place: str = "",
        request: int = 0,
        status: int | None = None,
        message: str = "",
    ) -> None:
        """One moment of one pod."""
        if self._sink is None:
            return
        self._seq += 1
        name = pod.spec.scheduler_name
        self._sink(
            StoryRecord(
                seq=self._seq,
                now=now,
                moment=moment,
                pod=pod.key,
                uid=pod.metadata.uid,
                profile=name,
                generation=self._generations.get(name, 0),
                epoch=epoch,
                attempt=attempt,
                node=node,
                place=place,
                request=request,
                status=status,
                message=message,
            )
        )

    def asked(self, request: Request, pod: Pod, now: int, epoch: int) -> None:
        """A request about a pod leaves."""
        if self._sink is None:
            return
        match request:
            case BindPod():
                what, node = "bind", request.node
            case ReadPod():
                what, node = "read back", ""
            case PatchPod():
                what, node = _patch_text(request), request.nominated_node_name or ""
            case _:
                what, node = "delete", ""
        self._asked[request.id] = (pod, what)
        self.tell(Moment.ASKED, pod, now, epoch, node=node, request=request.id, message=what)

    def answered(self, answer: Answer, now: int, epoch: int) -> None:
        """Its answer came."""
        if self._sink is None:
            return
        pod, what = self._asked.pop(answer.id, (None, ""))
        if pod is not None:
            message = f"{what}: {answer.message}" if answer.message else what
            self.tell(Moment.ANSWERED, pod, now, epoch, request=answer.id, status=answer.status, message=message)


def _patch_text(request: PatchPod) -> str:
    wanted = []
    if request.condition is not None:
        wanted.append(f"{request.condition.type}={request.condition.status} ({request.condition.reason})")
    if request.nominated_node_name is not None:
        wanted.append(f"nominatedNodeName={request.nominated_node_name or 'none'}")
    return f"patch {', '.join(wanted)}"
