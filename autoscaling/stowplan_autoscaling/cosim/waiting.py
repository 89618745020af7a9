"""Where the time went until a pod was ready: parts that follow each other without a gap, so that they sum to the whole.

    demand    sample    scale     pod      tries ...                      bound     images      started     ready
    changed   shows it  written   made
      | metric  | autoscaler | controller | queue + supply + node + backoff | image + start | readiness |

A pod that nobody scaled for (a replacement, a rollout, a Job) begins where it is made: its first three parts are 0.
Time after failed attempts is divided by the node that the pod got in the end: up to when that was asked for, up to when
it took pods, and the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.results import Waiting

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.kubelet import PodTimeline

    from .pods import PodLife


class Change(NamedTuple):
    """Why replicas were added; nanoseconds of the virtual clock.

    `since`: the demand was more than the replicas are meant for. `shown`: the sample was taken that the first sync
    rests on which asked for more. `decided`: spec.replicas was written.
    """

    since: int
    shown: int
    decided: int


class Grown(NamedTuple):
    """An increase of replicas of which `left` pods have not been made yet."""

    change: Change
    left: int


def waiting_of(life: PodLife, timeline: PodTimeline | None, now: int) -> Waiting:
    """The split up to the first readiness; up to `now` for a pod that has not been ready."""
    end = now if life.ready is None else life.ready
    change = life.cause or Change(life.created, life.created, life.created)
    bound = end if life.bound is None else life.bound
    failed = list(life.failures)
    if life.bound is None and life.failed is not None:
        failed.append((life.failed, end))
    asked, came = life.node_asked, life.node_came
    supply = _overlap(failed, life.created, asked)
    node = _overlap(failed, asked, came)
    backoff = sum(after - before for before, after in failed) - supply - node
    started = None if timeline is None else timeline.started
    up = end if started is None else min(started, end)
    image = _image(timeline, bound, up, is_up=started is not None)
    parts = (
        change.shown - change.since,
        change.decided - change.shown,
        life.created - change.decided,
        bound - life.created - supply - node - backoff,
        supply,
        node,
        backoff,
        image,
        up - bound - image,
        end - up,
    )
    return Waiting(*(part / SECOND for part in parts))


def _overlap(spans: list[tuple[int, int]], begin: int, end: int) -> int:
    """Time of the spans within [begin, end]."""
    return sum(max(min(after, end) - max(before, begin), 0) for before, after in spans)


def _image(timeline: PodTimeline | None, bound: int, up: int, *, is_up: bool) -> int:
    """Waiting for images up to the start; what has not ended yet is taken as pulling once the sandbox is there."""
    if timeline is None:
        return 0
    wait = timeline.image_wait
    if not is_up and timeline.sandbox is not None and timeline.pulled is None:
        wait = up - timeline.sandbox
    return min(wait, up - bound)
